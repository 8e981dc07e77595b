// Orders, philox and the identity digests.
#include "datacursor/order.hpp"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "bindings.hpp"
#include "buffers.hpp"
#include "datacursor/digest.hpp"
#include "datacursor/philox.hpp"

namespace py = pybind11;

namespace datacursor::bindings {
namespace {

// Below this many indices, releasing the GIL costs more than it frees.
constexpr std::size_t kReleaseFrom = 4096;

template <class Function>
void without_gil_if_long(std::size_t count, Function function) {
    if (count < kReleaseFrom) {
        function();
    } else {
        const py::gil_scoped_release release;
        function();
    }
}

py::bytes to_bytes(const Digest& digest) {
    const auto bytes = digest.bytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void bind_order(py::module_& module) {
    module.def(
        "philox",
        [](const PhiloxCounter& counter, const PhiloxKey& key) {
            const PhiloxBlock words = philox(counter, key);
            return py::make_tuple(words[0], words[1], words[2], words[3]);
        },
        py::arg("counter"), py::arg("key"));

    module.def(
        "digest_samples",
        [](std::uint64_t epoch, const py::array& indices) {
            const auto values = readable_1d<std::int64_t>(indices, "indices");
            Digest digest;
            without_gil_if_long(values.size(), [&] { digest.add_samples(epoch, values); });
            return to_bytes(digest);
        },
        py::arg("epoch"), py::arg("indices"));
    module.def(
        "digest_spans",
        [](std::uint64_t epoch, const py::array& spans) {
            const auto values = readable_2d<std::int64_t>(spans, 3, "spans");
            Digest digest;
            without_gil_if_long(values.size(), [&] { digest.add_spans(epoch, values); });
            return to_bytes(digest);
        },
        py::arg("epoch"), py::arg("spans"));

    py::class_<Order, std::shared_ptr<Order>>(module, "Order")
        .def_property_readonly("num_samples", &Order::num_samples)
        .def_property_readonly("num_positions", &Order::num_positions)
        .def("index_at", &Order::index_at, py::arg("epoch"), py::arg("position"))
        .def("position_of", &Order::position_of, py::arg("epoch"), py::arg("index"))
        .def(
            "fill",
            [](const Order& order, std::uint64_t epoch, std::uint64_t first, py::array out,
               std::size_t num_threads) {
                const auto values = writable_1d<std::int64_t>(out, "out");
                without_gil_if_long(values.size(),
                                    [&] { order.fill(epoch, first, values, num_threads); });
            },
            py::arg("epoch"), py::arg("first"), py::arg("out"), py::arg("num_threads") = 1)
        .def(
            "fill_blocks",
            [](const Order& order, std::uint64_t epoch, std::uint64_t first, std::uint64_t block,
               std::uint64_t stride, py::array out) {
                const auto values = writable_1d<std::int64_t>(out, "out");
                without_gil_if_long(
                    values.size(), [&] { order.fill_blocks(epoch, first, block, stride, values); });
            },
            py::arg("epoch"), py::arg("first"), py::arg("block"), py::arg("stride"),
            py::arg("out"));
    py::class_<Shuffle, Order, std::shared_ptr<Shuffle>>(module, "Shuffle")
        .def(py::init<std::uint64_t, std::uint64_t>(), py::arg("num_samples"), py::arg("seed"));
    py::class_<Sequential, Order, std::shared_ptr<Sequential>>(module, "Sequential")
        .def(py::init<std::uint64_t>(), py::arg("num_samples"));
}

}  // namespace datacursor::bindings
