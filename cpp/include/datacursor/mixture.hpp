// mixture-1: several orders drawn from in exact proportion.
//
// A block of positions has as many slots; source s owns its quota of them
// (mixture_stages.hpp). Where in the block they stand is a permutation of its own for
// every block:
//
//     slots of a block, quotas 3 1 2     0 0 0 1 2 2
//     its positions                      2 0 0 2 1 0       a permutation of the slots
//     draws of source 0, in order          0 1     2       from its own order
//
// A source is drawn from in its own order: its draw j, counted over all epochs of the
// mixture, is position j mod m of its epoch floor(j / m), m its num_positions. So it
// repeats in epochs of its own, and a new epoch of the mixture goes on where the last
// one left off.
//
// Index i of source s is index i + (num_samples of the sources before s) of the mixture:
// the sources joined end to end.
//
// Keys: position p of block b is the slot that sub-permutation b of purpose kMixtureBlock,
// n = block, order id 4, puts there; blocks count from the epoch's start. Part of the
// persistent format.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "datacursor/last_used.hpp"
#include "datacursor/mixture_stages.hpp"
#include "datacursor/order.hpp"

namespace datacursor {

struct MixtureDraw {
    std::uint64_t source;
    std::uint64_t index;  // of the source
};

class Mixture final : public Order {
public:
    using Sources = std::vector<std::shared_ptr<const Order>>;

    static constexpr OrderId kId = OrderId::kMixture;

    // Requires: as MixtureStages; the sources hold fewer than 2^63 samples together.
    Mixture(Sources sources, std::vector<MixtureStage> stages, std::uint64_t block,
            Stopping stopping, std::uint64_t seed);

    // Return what is drawn at one position. Cost: O(1), and O(block) on entering another
    // block than the one used last.
    [[nodiscard]] MixtureDraw draw_at(std::uint64_t epoch, std::uint64_t position) const;

    // Write how often each source is drawn from in this epoch before one position.
    // Requires: position <= num_positions, one count a source. Cost: O(sources + block).
    void count_draws(std::uint64_t epoch, std::uint64_t position,
                     std::span<std::int64_t> counts) const;

private:
    class MixtureEpoch;

    Mixture(Sources sources, MixtureStages stages, std::uint64_t seed);

    [[nodiscard]] std::shared_ptr<const MixtureEpoch> mixture_epoch(std::uint64_t epoch) const;
    [[nodiscard]] std::shared_ptr<const Epoch> epoch_at(std::uint64_t epoch) const override;

    Sources sources_;
    MixtureStages stages_;
    std::uint64_t seed_;
    std::vector<std::uint64_t> offsets_;  // of each source's first sample
    LastUsed<MixtureEpoch> epochs_;
};

}  // namespace datacursor
