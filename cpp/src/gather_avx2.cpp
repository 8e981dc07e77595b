// The copy loops of gather for x86-64 with AVX2. Compiled with -mavx2; nothing else may be.
#include "gather_kernel.hpp"
#include "gather_loops.hpp"

namespace datacursor {
namespace {

struct Avx2;

}  // namespace

constinit const GatherKernel kAvx2Gather = gather_loops<Avx2>();

}  // namespace datacursor
