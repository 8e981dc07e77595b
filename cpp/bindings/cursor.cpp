#include "bindings.hpp"

namespace datacursor::bindings {

void bind_cursor(pybind11::module_& /*module*/) {}

}  // namespace datacursor::bindings
