// The extension module datacursor._core: registration only, no logic.
#include "bindings.hpp"

PYBIND11_MODULE(_core, module) {
    module.doc() = "The C++ core of datacursor.";
    module.attr("__version__") = DATACURSOR_VERSION;
    datacursor::bindings::bind_errors(module);
    datacursor::bindings::bind_kernel(module);
    datacursor::bindings::bind_order(module);
    datacursor::bindings::bind_orders(module);
    datacursor::bindings::bind_cursor(module);
    datacursor::bindings::bind_packing(module);
    datacursor::bindings::bind_gather(module);
    datacursor::bindings::bind_best_fit(module);
}
