// block-shuffle-1: shuffled blocks, then shuffled samples inside windows of blocks.
//
// Consecutive positions stay within window_blocks blocks of the data, so few row
// groups or remote shards are open at a time.
//
//     data          | block 0 | block 1 | block 2 | block 3 | block 4 | tail |
//     blocks        | block 3 | block 0 | block 4 | block 1 | block 2 | tail |   shuffle-1
//     windows of 2  |     window 0      |     window 1      |    window 2    |   shuffle-1 each
//
// The tail, shorter than block_size, stays behind the shuffled blocks, so any
// number of samples is a bijection and every other window has the same size.
//
// Keys: the blocks use stream 0 with n = number of whole blocks, window w uses
// sub-permutation w of purpose kBlockWindow with n = samples in the window; all
// with order id 3. The mapping is part of the persistent format.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "datacursor/last_used.hpp"
#include "datacursor/order.hpp"

namespace datacursor {

class BlockShuffle final : public Order {
public:
    static constexpr OrderId kId = OrderId::kBlockShuffle;

    // Requires: block_size >= 1, window_blocks >= 1, at most 2^55 windows.
    // Cost: a window is keyed when it is entered (permutation.hpp) and kept while in use.
    BlockShuffle(std::uint64_t num_samples, std::uint64_t block_size, std::uint64_t window_blocks,
                 std::uint64_t seed);

private:
    class BlockShuffleEpoch;

    [[nodiscard]] std::shared_ptr<const Epoch> epoch_at(std::uint64_t epoch) const override;

    std::uint64_t seed_;
    std::uint64_t block_size_;
    std::uint64_t window_size_;  // samples in every window but the last
    LastUsed<BlockShuffleEpoch> epochs_;
};

}  // namespace datacursor
