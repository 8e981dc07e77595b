#include "bindings.hpp"

namespace datacursor::bindings {

void bind_order(pybind11::module_& /*module*/) {}

}  // namespace datacursor::bindings
