// What every binding file shares: the registration functions, one per noun.
#pragma once

#include <pybind11/pybind11.h>

namespace datacursor::bindings {

void bind_errors(pybind11::module_& module);
void bind_kernel(pybind11::module_& module);
void bind_order(pybind11::module_& module);
void bind_orders(pybind11::module_& module);
void bind_cursor(pybind11::module_& module);
void bind_best_fit(pybind11::module_& module);
void bind_packing(pybind11::module_& module);
void bind_gather(pybind11::module_& module);

}  // namespace datacursor::bindings
