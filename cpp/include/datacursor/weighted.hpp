// weighted-1: draws with replacement, each in proportion to its weight.
//
// The draw at a position is a pure function of (seed, epoch, position):
//
//     words of stream `position`, counter (j, position, n, 5), key (seed, epoch)
//     column = bounded(n); r = bounded(capacity)
//     index  = r < threshold[column] ? column : alias[column]
//
// Weights become integer masses once: mass = floor(weight * 2^k + 1/2), with the k
// that brings their sum, added up in order, into [2^61, 2^62). The sum of the masses
// is the capacity, so a probability is exact to 2^-62. The tables are integers, so
// they are equal on every platform.
//
// Tables: every column holds mass * n. Columns below the capacity are stacked in
// rising order, the others on another stack. While both hold one: the low column on
// top keeps what it holds as its threshold, its alias is the high one on top, which
// gives up what the low one lacks and moves to the low stack once it is below. A
// column that is left over is full.
//
// Source: Walker 1977, Vose 1991 (alias method). Deviation: integers in place of
// fractions. The mapping is part of the persistent format.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "datacursor/order.hpp"

namespace datacursor {

class Weighted final : public Order {
public:
    static constexpr OrderId kId = OrderId::kWeighted;

    // Requires: 1 <= weights.size() < 2^40, weights finite and >= 0, at least one > 0,
    // 1 <= num_positions < 2^63. Memory: 16 bytes a weight.
    Weighted(std::span<const double> weights, std::uint64_t num_positions, std::uint64_t seed);

private:
    class WeightedEpoch;

    struct Column {
        std::uint64_t threshold;
        std::uint64_t alias;
    };

    [[nodiscard]] std::shared_ptr<const Epoch> epoch_at(std::uint64_t epoch) const override;

    void draw_up(std::span<const std::uint64_t> masses);

    std::uint64_t seed_;
    std::uint64_t capacity_ = 0;
    std::vector<Column> columns_;
};

}  // namespace datacursor
