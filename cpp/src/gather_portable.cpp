// The copy loops of gather for any processor of the family the core is built for.
#include "gather_kernel.hpp"
#include "gather_loops.hpp"

namespace datacursor {
namespace {

struct Portable;

}  // namespace

constinit const GatherKernel kPortableGather = gather_loops<Portable>();

}  // namespace datacursor
