// subset-1: given indices only, in the order given or shuffled anew each epoch.
//
// Shuffled, position p holds indices[q], q the p-th value of the permutation of
// [0, indices.size()) with order id 6. Part of the persistent format.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "datacursor/last_used.hpp"
#include "datacursor/order.hpp"

namespace datacursor {

class Subset final : public Order {
public:
    static constexpr OrderId kId = OrderId::kSubset;

    // Copies the indices; sorts them once unless they rise.
    // Requires: indices within [0, num_samples), none twice, at least one.
    Subset(std::span<const std::int64_t> indices, std::uint64_t num_samples, std::uint64_t seed,
           bool shuffle);

private:
    class SubsetEpoch;

    [[nodiscard]] std::shared_ptr<const Epoch> epoch_at(std::uint64_t epoch) const override;

    // Return the place of an index in indices_; throws if it is not there.
    [[nodiscard]] std::uint64_t place_of(std::uint64_t index) const;
    void sort_places();

    std::uint64_t seed_;
    bool shuffle_;
    std::vector<std::int64_t> indices_;
    std::vector<std::uint64_t> places_;  // of the indices in rising order; empty if they rise
    LastUsed<SubsetEpoch> epochs_;
};

}  // namespace datacursor
