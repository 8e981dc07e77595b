#include "datacursor/weighted.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <sstream>
#include <string>
#include <vector>

#include "datacursor/error.hpp"
#include "datacursor/philox.hpp"
#include "prefetch.hpp"

namespace datacursor {
namespace {

constexpr std::uint64_t kMaxWeights = std::uint64_t{1} << 40;
constexpr int kCapacityBits = 62;

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorKind::kArgument, message); }

// std::to_string would show 1e-300 as 0.
std::string shown(double value) {
    std::ostringstream text;
    text << value;
    return text.str();
}

double sum_of(std::span<const double> weights) {
    double sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
        if (!std::isfinite(weights[i]) || weights[i] < 0) {
            refuse("weights must be finite and at least 0, got weights[" + std::to_string(i) +
                   "]=" + shown(weights[i]));
        }
        sum += weights[i];
    }
    if (!std::isfinite(sum) || sum <= 0) {
        refuse("weights must have a sum above 0 that is finite, got a sum of " + shown(sum));
    }
    return sum;
}

std::vector<std::uint64_t> masses_of(std::span<const double> weights) {
    if (weights.empty() || weights.size() >= kMaxWeights) {
        refuse("weights must be at least one and fewer than 2**40, got " +
               std::to_string(weights.size()) + " weights");
    }
    const int scale = kCapacityBits - 1 - std::ilogb(sum_of(weights));
    std::vector<std::uint64_t> masses;
    masses.reserve(weights.size());
    for (const double weight : weights) {
        // std::round is exact; adding 1/2 would round again, at 2^52 and just below 1/2.
        masses.push_back(static_cast<std::uint64_t>(std::round(std::ldexp(weight, scale))));
    }
    return masses;
}

// A number below 2^104: mass * number of weights.
struct Wide {
    std::uint64_t high;
    std::uint64_t low;

    [[nodiscard]] bool is_below(std::uint64_t limit) const { return high == 0 && low < limit; }

    void subtract(std::uint64_t amount) {
        high -= low < amount ? 1U : 0U;
        low -= amount;
    }
};

}  // namespace

class Weighted::WeightedEpoch final : public Epoch {
public:
    WeightedEpoch(const Weighted& order, std::uint64_t epoch)
        : order_(order), key_{order.seed_, epoch} {}

    [[nodiscard]] std::uint64_t index_at(std::uint64_t position) const override {
        return resolve(draw_at(position));
    }

    [[nodiscard]] std::uint64_t position_of(std::uint64_t index) const override {
        refuse("a weighted order has no position_of: index=" + std::to_string(index) +
               " may occur many times or never");
    }

    void fill(std::uint64_t first, std::span<std::int64_t> out) const override {
        // Many columns are fetched from memory at a time.
        std::array<Draw, kBatchSize> draws;
        while (!out.empty()) {
            const std::size_t count = std::min(out.size(), draws.size());
            for (std::size_t i = 0; i < count; ++i) {
                draws[i] = draw_at(first + i);
                prefetch(&order_.columns_[draws[i].column]);
            }
            for (std::size_t i = 0; i < count; ++i) {
                out[i] = static_cast<std::int64_t>(resolve(draws[i]));
            }
            first += count;
            out = out.subspan(count);
        }
    }

private:
    static constexpr std::size_t kBatchSize = 64;

    struct Draw {
        std::uint64_t column;
        std::uint64_t level;  // below the capacity
    };

    [[nodiscard]] Draw draw_at(std::uint64_t position) const {
        const std::uint64_t num_columns = order_.num_samples();
        PhiloxStream words(key_, position, num_columns, static_cast<std::uint64_t>(kId));
        const std::uint64_t column = words.bounded(num_columns);
        return {.column = column, .level = words.bounded(order_.capacity_)};
    }

    [[nodiscard]] std::uint64_t resolve(const Draw& draw) const {
        const Column& column = order_.columns_[draw.column];
        return draw.level < column.threshold ? draw.column : column.alias;
    }

    const Weighted& order_;
    PhiloxKey key_;
};

Weighted::Weighted(std::span<const double> weights, std::uint64_t num_positions, std::uint64_t seed)
    : Order(weights.size(), num_positions), seed_(seed) {
    draw_up(masses_of(weights));
}

void Weighted::draw_up(std::span<const std::uint64_t> masses) {
    for (const std::uint64_t mass : masses) {
        capacity_ += mass;
    }
    std::vector<Wide> held;
    std::vector<std::uint64_t> low;
    std::vector<std::uint64_t> high;
    held.reserve(masses.size());
    columns_.reserve(masses.size());
    for (std::uint64_t i = 0; i < masses.size(); ++i) {
        const WideProduct product = multiply_wide(masses[i], masses.size());
        held.push_back({.high = product.high, .low = product.low});
        columns_.push_back({.threshold = capacity_, .alias = i});
        (held[i].is_below(capacity_) ? low : high).push_back(i);
    }
    while (!low.empty() && !high.empty()) {
        const std::uint64_t taker = low.back();
        const std::uint64_t giver = high.back();
        low.pop_back();
        columns_[taker] = {.threshold = held[taker].low, .alias = giver};
        held[giver].subtract(capacity_ - held[taker].low);
        if (held[giver].is_below(capacity_)) {
            high.pop_back();
            low.push_back(giver);
        }
    }
}

std::shared_ptr<const Order::Epoch> Weighted::epoch_at(std::uint64_t epoch) const {
    return std::make_shared<const WeightedEpoch>(*this, epoch);
}

}  // namespace datacursor
