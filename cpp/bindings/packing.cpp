#include "bindings.hpp"

namespace datacursor::bindings {

void bind_packing(pybind11::module_& /*module*/) {}

}  // namespace datacursor::bindings
