// NumPy arrays as spans, checked once, the argument named in every error.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace datacursor::bindings {

// Throw TypeError unless `array` has the element type T, `rank` dimensions and C order.
template <class T>
void require_array(const pybind11::array& array, pybind11::ssize_t rank, const char* name) {
    namespace py = pybind11;
    if (!py::dtype::of<T>().equal(array.dtype())) {
        throw py::type_error(std::string(name) + " must have dtype " +
                             std::string(py::str(py::dtype::of<T>())) + ", got dtype " +
                             std::string(py::str(array.dtype())));
    }
    if (array.ndim() != rank) {
        throw py::type_error(std::string(name) + " must have " + std::to_string(rank) +
                             " dimension(s), got " + std::to_string(array.ndim()));
    }
    if ((array.flags() & py::array::c_style) == 0) {
        throw py::type_error(std::string(name) + " must be C-contiguous");
    }
}

template <class T>
std::span<const T> readable(const pybind11::array& array, pybind11::ssize_t rank,
                            const char* name) {
    require_array<T>(array, rank, name);
    return {static_cast<const T*>(array.data()), static_cast<std::size_t>(array.size())};
}

template <class T>
std::span<T> writable(pybind11::array& array, pybind11::ssize_t rank, const char* name) {
    require_array<T>(array, rank, name);
    if (!array.writeable()) {
        throw pybind11::type_error(std::string(name) + " must be writable, got a read-only array");
    }
    return {static_cast<T*>(array.mutable_data()), static_cast<std::size_t>(array.size())};
}

}  // namespace datacursor::bindings
