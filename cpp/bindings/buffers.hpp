// NumPy arrays seen as spans, after one set of checks.
//
// Every function checks dtype, number of dimensions, C-contiguity and alignment,
// the writable_ ones writability too, and throws Error (argument) that names the
// argument. Nothing is copied or converted: the span is the array's own memory
// and lives as long as the array.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <variant>

#include "datacursor/error.hpp"

namespace datacursor::bindings {

[[noreturn]] inline void throw_argument(const std::string& message) {
    throw Error(ErrorKind::kArgument, message);
}

// "int64[4, 3]": dtype and shape, for messages.
inline std::string describe(const pybind11::array& array) {
    std::string text = pybind11::str(array.dtype()).cast<std::string>() + "[";
    for (pybind11::ssize_t axis = 0; axis < array.ndim(); ++axis) {
        text += axis > 0 ? ", " : "";
        text += std::to_string(array.shape(axis));
    }
    return text + "]";
}

template <typename T>
bool has_dtype(const pybind11::array& array) {
    return pybind11::isinstance<pybind11::array_t<T>>(array);
}

// The checks that all functions below share.
template <typename T>
void check_array(const pybind11::array& array, pybind11::ssize_t ndim, const std::string& name) {
    if (!has_dtype<T>(array) || array.ndim() != ndim) {
        const auto dtype = pybind11::str(pybind11::dtype::of<T>()).template cast<std::string>();
        throw_argument(name + " must be a " + std::to_string(ndim) + "-D array of " + dtype +
                       ", got " + describe(array));
    }
    if ((array.flags() & pybind11::array::c_style) == 0) {
        throw_argument(name + " must be C-contiguous, got a strided " + describe(array));
    }
    if (array.size() > 0 && reinterpret_cast<std::uintptr_t>(array.data()) % alignof(T) != 0) {
        throw_argument(name + " must be aligned to " + std::to_string(alignof(T)) +
                       " bytes, got an unaligned " + describe(array));
    }
}

template <typename T>
std::span<const T> readable(const pybind11::array& array, pybind11::ssize_t ndim,
                            const std::string& name) {
    check_array<T>(array, ndim, name);
    return {static_cast<const T*>(array.data()), static_cast<std::size_t>(array.size())};
}

template <typename T>
std::span<T> writable(pybind11::array& array, pybind11::ssize_t ndim, const std::string& name) {
    check_array<T>(array, ndim, name);
    if (!array.writeable()) {
        throw_argument(name + " must be writable, got a read-only " + describe(array));
    }
    return {static_cast<T*>(array.mutable_data()), static_cast<std::size_t>(array.size())};
}

// An array of shape (any,).
template <typename T>
std::span<const T> readable_1d(const pybind11::array& array, const std::string& name) {
    return readable<T>(array, 1, name);
}

template <typename T>
std::span<T> writable_1d(pybind11::array& array, const std::string& name) {
    return writable<T>(array, 1, name);
}

inline void check_columns(const pybind11::array& array, pybind11::ssize_t columns,
                          const std::string& name) {
    if (array.shape(1) != columns) {
        throw_argument(name + " must have " + std::to_string(columns) + " columns, got " +
                       describe(array));
    }
}

// All elements, row by row, of an array of shape (any, columns).
template <typename T>
std::span<const T> readable_2d(const pybind11::array& array, pybind11::ssize_t columns,
                               const std::string& name) {
    const std::span<const T> elements = readable<T>(array, 2, name);
    check_columns(array, columns, name);
    return elements;
}

template <typename T>
std::span<T> writable_2d(pybind11::array& array, pybind11::ssize_t columns,
                         const std::string& name) {
    const std::span<T> elements = writable<T>(array, 2, name);
    check_columns(array, columns, name);
    return elements;
}

// The memory of one argument, for the check below.
struct Memory {
    const char* name;
    std::span<const std::byte> bytes;
};

template <typename T>
Memory memory_of(const char* name, std::span<T> elements) {
    return {.name = name, .bytes = std::as_bytes(elements)};
}

// The same for a field of one of several types.
template <typename... Spans>
Memory memory_of(const char* name, const std::variant<Spans...>& field) {
    return std::visit([name](auto elements) { return memory_of(name, elements); }, field);
}

// Throw if an output shares memory with an input or with another output: what is
// read later would have been written over.
inline void check_apart(std::initializer_list<Memory> inputs,
                        std::initializer_list<Memory> outputs) {
    const auto check = [](const Memory& a, const Memory& b) {
        const std::less<const std::byte*> before;
        if (!a.bytes.empty() && !b.bytes.empty() &&
            before(a.bytes.data(), b.bytes.data() + b.bytes.size()) &&
            before(b.bytes.data(), a.bytes.data() + a.bytes.size())) {
            throw_argument(std::string(a.name) + " and " + b.name +
                           " share memory; pass arrays of their own");
        }
    };
    for (const Memory* output = outputs.begin(); output != outputs.end(); ++output) {
        for (const Memory& input : inputs) {
            check(*output, input);
        }
        for (const Memory* other = outputs.begin(); other != output; ++other) {
            check(*output, *other);
        }
    }
}

}  // namespace datacursor::bindings
