// The cursor codec for Python: a dict of the record's fields to bytes and back.
#include "datacursor/cursor.hpp"

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "bindings.hpp"
#include "datacursor/bytes.hpp"
#include "datacursor/error.hpp"

namespace py = pybind11;

namespace datacursor::bindings {
namespace {

std::string type_name(py::handle value) { return Py_TYPE(value.ptr())->tp_name; }

// Short ASCII text of a rejected value. An int of thousands of digits has none, so that may fail.
std::string shown(py::handle value) {
    constexpr std::size_t kLongest = 80;
    const auto text = py::reinterpret_steal<py::object>(PyObject_ASCII(value.ptr()));
    if (!text) {
        PyErr_Clear();
        return "a huge " + type_name(value);
    }
    const auto ascii = text.cast<std::string>();
    return ascii.size() <= kLongest ? ascii : ascii.substr(0, kLongest) + "...";
}

[[noreturn]] void refuse_type(const char* name, const char* expected, py::handle value) {
    throw py::type_error(std::string(name) + " must be " + expected + ", got " + type_name(value) +
                         " " + shown(value));
}

[[noreturn]] void refuse_value(const std::string& message) {
    throw Error(ErrorKind::kArgument, message);
}

std::span<const std::byte> view_of(const py::bytes& value) {
    const auto text = static_cast<std::string_view>(value);
    return std::as_bytes(std::span(text));
}

// A bool is refused: True as a count is a mistake in the caller's code.
template <std::unsigned_integral T>
void load(const char* name, py::handle value, T& field) {
    if (!PyLong_Check(value.ptr()) || PyBool_Check(value.ptr())) {
        refuse_type(name, "an int", value);
    }
    const unsigned long long wide = PyLong_AsUnsignedLongLong(value.ptr());
    const bool has_failed = PyErr_Occurred() != nullptr;
    PyErr_Clear();
    if (has_failed || wide > std::numeric_limits<T>::max()) {
        refuse_value(std::string(name) + " must be an unsigned " + std::to_string(8 * sizeof(T)) +
                     "-bit integer, got " + name + "=" + shown(value));
    }
    field = static_cast<T>(wide);
}

void load(const char* name, py::handle value, Bytes16& field) {
    if (!PyBytes_Check(value.ptr())) {
        refuse_type(name, "bytes", value);
    }
    const std::span<const std::byte> bytes = view_of(py::reinterpret_borrow<py::bytes>(value));
    if (bytes.size() != field.size()) {
        refuse_value(std::string(name) + " must have " + std::to_string(field.size()) +
                     " bytes, got " + std::to_string(bytes.size()) + " bytes");
    }
    ByteReader(bytes).take(field);
}

void load(const char* name, py::handle value, Extensions& field) {
    constexpr const char* kExpected = "a tuple of (type, payload) tuples";
    if (!PyTuple_Check(value.ptr())) {
        refuse_type(name, kExpected, value);
    }
    for (const py::handle entry : py::reinterpret_borrow<py::tuple>(value)) {
        if (!PyTuple_Check(entry.ptr()) || PyTuple_GET_SIZE(entry.ptr()) != 2) {
            refuse_type(name, kExpected, value);
        }
        const py::handle payload = PyTuple_GET_ITEM(entry.ptr(), 1);
        if (!PyBytes_Check(payload.ptr())) {
            refuse_type("an extension's payload", "bytes", payload);
        }
        std::uint16_t type = 0;
        load("an extension's type", PyTuple_GET_ITEM(entry.ptr(), 0), type);
        field.append({type, view_of(py::reinterpret_borrow<py::bytes>(payload))});
    }
}

// Calls visit(name, field) for everything that the dict holds.
template <class CursorType, class Visit>
constexpr void for_each_entry(CursorType& cursor, Visit&& visit) {
    visit("minor", cursor.minor);
    for_each_field(cursor, visit);
    visit("extensions", cursor.extensions);
}

constexpr std::size_t kNumEntries = [] {
    std::size_t count = 0;
    const Cursor cursor{};
    for_each_entry(cursor, [&](const char* /*name*/, const auto& /*field*/) { ++count; });
    return count;
}();

// Sets the field of that name; returns whether there is one.
bool load_entry(std::string_view wanted, py::handle value, Cursor& cursor) {
    bool is_found = false;
    for_each_entry(cursor, [&](const char* name, auto& field) {
        if (!is_found && wanted == name) {
            is_found = true;
            field = {};
            load(name, value, field);
        }
    });
    return is_found;
}

void load_entries(const py::dict& fields, Cursor& cursor) {
    for (const auto& [key, value] : fields) {
        const char* name = PyUnicode_Check(key.ptr()) ? PyUnicode_AsUTF8(key.ptr()) : nullptr;
        PyErr_Clear();  // a lone surrogate has no UTF-8 form
        if (name == nullptr || !load_entry(name, value, cursor)) {
            refuse_value("a cursor has no field " + shown(key));
        }
    }
}

void require_all_entries(const py::dict& fields) {
    for_each_entry(static_cast<const Cursor&>(Cursor{}),
                   [&](const char* name, const auto& /*field*/) {
                       if (!fields.contains(name)) {
                           refuse_value(std::string("a cursor needs the field ") + name);
                       }
                   });
}

py::bytes record_of(const Cursor& cursor) {
    std::array<std::byte, kMaxRecordSize> record;
    const std::size_t size = encode(cursor, record);
    return {reinterpret_cast<const char*>(record.data()), size};
}

py::bytes encode_cursor(const py::dict& fields) {
    Cursor cursor;
    load_entries(fields, cursor);
    if (fields.size() != kNumEntries) {
        require_all_entries(fields);
    }
    return record_of(cursor);
}

template <std::unsigned_integral T>
py::object to_python(T field) {
    return py::int_(field);
}

py::object to_python(std::span<const std::byte> field) {
    return py::bytes(reinterpret_cast<const char*>(field.data()), field.size());
}

py::object to_python(const Extensions& field) {
    py::list entries;
    field.for_each([&](const Extension& extension) {
        entries.append(py::make_tuple(extension.type, to_python(extension.payload)));
    });
    return py::tuple(entries);
}

// The memory of any C-contiguous bytes-like object, held for as long as this object lives.
class BufferView {
public:
    explicit BufferView(py::handle object) {
        if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) {
            PyErr_Clear();
            throw py::type_error("buffer must be a C-contiguous bytes-like object, got " +
                                 type_name(object));
        }
    }
    BufferView(const BufferView&) = delete;
    BufferView& operator=(const BufferView&) = delete;
    ~BufferView() { PyBuffer_Release(&view_); }

    [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
        return {static_cast<const std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
    }

private:
    Py_buffer view_{};
};

py::dict decode_cursor(const py::object& buffer) {
    const Cursor cursor = decode(BufferView(buffer).bytes());
    py::dict fields;
    for_each_entry(cursor,
                   [&](const char* name, const auto& field) { fields[name] = to_python(field); });
    return fields;
}

py::bytes amend_cursor(const py::object& buffer, const py::dict& changes) {
    Cursor cursor = decode(BufferView(buffer).bytes());
    load_entries(changes, cursor);
    return record_of(cursor);
}

}  // namespace

void bind_cursor(py::module_& module) {
    module.def("encode_cursor", &encode_cursor, py::arg("fields"),
               "Return the byte form of the cursor with these fields.");
    module.def("decode_cursor", &decode_cursor, py::arg("buffer"),
               "Return the fields of the cursor whose whole byte form is in buffer.");
    module.def("amend_cursor", &amend_cursor, py::arg("buffer"), py::arg("changes"),
               "Return the byte form of the cursor in buffer with some fields changed.");
    module.def(
        "crc32c", [](const py::object& buffer) { return crc32c(BufferView(buffer).bytes()); },
        py::arg("buffer"), "Return the CRC-32C of a bytes-like object.");
}

}  // namespace datacursor::bindings
