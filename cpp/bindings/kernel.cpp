#include "datacursor/kernel.hpp"

#include <pybind11/stl.h>

#include "bindings.hpp"

namespace datacursor::bindings {

void bind_kernel(pybind11::module_& module) {
    module.def("kernel_name", &kernel_name);
    module.def("kernel_names", &kernel_names);
}

}  // namespace datacursor::bindings
