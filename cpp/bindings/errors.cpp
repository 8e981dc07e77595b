// One table from ErrorKind to the Python class that a caller catches.
#include "datacursor/error.hpp"

#include <exception>

#include "bindings.hpp"

namespace py = pybind11;

namespace datacursor::bindings {
namespace {

const char* class_name(ErrorKind kind) {
    switch (kind) {
        case ErrorKind::kArgument: return "ArgumentError";
        case ErrorKind::kFormat: return "CursorFormatError";
        case ErrorKind::kCorpus: return "CorpusError";
    }
    return "DataCursorError";
}

}  // namespace

void bind_errors(py::module_& /*module*/) {
    py::register_local_exception_translator([](std::exception_ptr pointer) {
        try {
            if (pointer) {
                std::rethrow_exception(pointer);
            }
        } catch (const Error& error) {
            const py::object type =
                py::module_::import("datacursor.errors").attr(class_name(error.kind()));
            py::set_error(type, error.what());
        }
    });
}

}  // namespace datacursor::bindings
