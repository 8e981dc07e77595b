// The orders beyond shuffle and sequential, and those that are written in Python.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "buffers.hpp"
#include "datacursor/block_shuffle.hpp"
#include "datacursor/mixture.hpp"
#include "datacursor/order.hpp"
#include "datacursor/subset.hpp"
#include "datacursor/weighted.hpp"

namespace py = pybind11;

namespace datacursor::bindings {
namespace {

constexpr std::int64_t kUnwritten = -1;

// An order written in Python, as a source of orders of the core. Takes the GIL to ask it.
class PythonOrder final : public Order {
public:
    PythonOrder(std::uint64_t num_samples, std::uint64_t num_positions, py::object order)
        : Order(num_samples, num_positions), order_(std::move(order)) {}

private:
    class PythonEpoch final : public Epoch {
    public:
        PythonEpoch(const PythonOrder& order, std::uint64_t epoch) : order_(order), epoch_(epoch) {
            const py::gil_scoped_acquire acquire;
            const auto found = order.order_.attr("num_positions")(epoch).cast<std::uint64_t>();
            if (found != order.num_positions()) {
                throw_argument(
                    "an order of a mixture must have as many positions in every epoch, "
                    "got " +
                    std::to_string(order.num_positions()) + " in epoch 0 and " +
                    std::to_string(found) + " in epoch " + std::to_string(epoch) + " from " +
                    py::repr(order.order_).cast<std::string>());
            }
        }

        [[nodiscard]] std::uint64_t index_at(std::uint64_t position) const override {
            std::int64_t index = 0;
            fill(position, {&index, 1});
            return static_cast<std::uint64_t>(index);
        }

        [[nodiscard]] std::uint64_t position_of(std::uint64_t index) const override {
            const py::gil_scoped_acquire acquire;
            return order_.order_.attr("position_of")(epoch_, index).cast<std::uint64_t>();
        }

        void fill(std::uint64_t first, std::span<std::int64_t> out) const override {
            const py::gil_scoped_acquire acquire;
            py::array_t<std::int64_t> indices(static_cast<py::ssize_t>(out.size()));
            std::ranges::fill(writable_1d<std::int64_t>(indices, "out"), kUnwritten);
            order_.order_.attr("fill")(epoch_, first, indices);
            const auto filled = readable_1d<std::int64_t>(indices, "out");
            for (std::size_t i = 0; i < out.size(); ++i) {
                const auto index = static_cast<std::uint64_t>(filled[i]);
                if (index >= order_.num_samples()) {
                    throw_argument("fill must write an index in [0, " +
                                   std::to_string(order_.num_samples()) +
                                   ") at every position, got " + std::to_string(filled[i]) +
                                   " at position " + std::to_string(first + i) + " from " +
                                   py::repr(order_.order_).cast<std::string>());
                }
                out[i] = filled[i];
            }
        }

    private:
        const PythonOrder& order_;
        std::uint64_t epoch_;
    };

    [[nodiscard]] std::shared_ptr<const Epoch> epoch_at(std::uint64_t epoch) const override {
        return std::make_shared<const PythonEpoch>(*this, epoch);
    }

    py::object order_;
};

Stopping stopping_of(const std::string& name) {
    static const std::map<std::string, Stopping> stoppings{
        {"first_exhausted", Stopping::kFirstExhausted},
        {"all_exhausted", Stopping::kAllExhausted},
        {"forever", Stopping::kForever},
    };
    const auto found = stoppings.find(name);
    if (found == stoppings.end()) {
        throw_argument("stopping must be 'first_exhausted', 'all_exhausted' or 'forever', got '" +
                       name + "'");
    }
    return found->second;
}

std::shared_ptr<Mixture> make_mixture(
    const std::vector<std::shared_ptr<Order>>& orders,
    const std::vector<std::pair<std::uint64_t, std::vector<std::uint64_t>>>& stages,
    std::uint64_t block, const std::string& stopping, std::uint64_t seed) {
    std::vector<MixtureStage> quotas;
    quotas.reserve(stages.size());
    for (const auto& [first, quota] : stages) {
        quotas.push_back({.first = first, .quotas = quota});
    }
    return std::make_shared<Mixture>(Mixture::Sources(orders.begin(), orders.end()),
                                     std::move(quotas), block, stopping_of(stopping), seed);
}

}  // namespace

void bind_orders(py::module_& module) {
    py::class_<PythonOrder, Order, std::shared_ptr<PythonOrder>>(module, "PythonOrder")
        .def(py::init<std::uint64_t, std::uint64_t, py::object>(), py::arg("num_samples"),
             py::arg("num_positions"), py::arg("order"));
    py::class_<BlockShuffle, Order, std::shared_ptr<BlockShuffle>>(module, "BlockShuffle")
        .def(py::init<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>(),
             py::arg("num_samples"), py::arg("block_size"), py::arg("window_blocks"),
             py::arg("seed"));
    py::class_<Mixture, Order, std::shared_ptr<Mixture>>(module, "Mixture")
        .def(py::init(&make_mixture), py::arg("orders"), py::arg("stages"), py::arg("block"),
             py::arg("stopping"), py::arg("seed"))
        .def(
            "draw_at",
            [](const Mixture& mixture, std::uint64_t epoch, std::uint64_t position) {
                const MixtureDraw draw = mixture.draw_at(epoch, position);
                return py::make_tuple(draw.source, draw.index);
            },
            py::arg("epoch"), py::arg("position"))
        .def(
            "count_draws",
            [](const Mixture& mixture, std::uint64_t epoch, std::uint64_t position,
               py::array counts) {
                mixture.count_draws(epoch, position, writable_1d<std::int64_t>(counts, "counts"));
            },
            py::arg("epoch"), py::arg("position"), py::arg("counts"));
    py::class_<Weighted, Order, std::shared_ptr<Weighted>>(module, "Weighted")
        .def(
            py::init([](const py::array& weights, std::uint64_t num_positions, std::uint64_t seed) {
                return std::make_shared<Weighted>(readable_1d<double>(weights, "weights"),
                                                  num_positions, seed);
            }),
            py::arg("weights"), py::arg("num_positions"), py::arg("seed"));
    py::class_<Subset, Order, std::shared_ptr<Subset>>(module, "Subset")
        .def(py::init([](const py::array& indices, std::uint64_t num_samples, std::uint64_t seed,
                         bool shuffle) {
                 return std::make_shared<Subset>(readable_1d<std::int64_t>(indices, "indices"),
                                                 num_samples, seed, shuffle);
             }),
             py::arg("indices"), py::arg("num_samples"), py::arg("seed"), py::arg("shuffle"));
}

}  // namespace datacursor::bindings
