// Philox4x64-10: a counter-based random number generator.
//
// The output is a pure function of (counter, key), so any number of any stream
// is reached in O(1) and nothing is ever advanced. Equal to the raw output of
// numpy.random.Philox for the same counter words (numpy increments word 0
// before its first block).
//
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as
// 1, 2, 3", SC'11. Thread safety: pure functions. Cost: about 10 ns a block.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
#endif

namespace datacursor {

struct WideProduct {
    std::uint64_t high;
    std::uint64_t low;
};

// Multiply two 64-bit numbers into 128 bits.
inline WideProduct multiply_wide(std::uint64_t a, std::uint64_t b) noexcept {
#if defined(_MSC_VER) && !defined(__clang__)
    WideProduct product;
    product.low = _umul128(a, b, &product.high);
    return product;
#else
    __extension__ using Uint128 = unsigned __int128;
    const Uint128 product = static_cast<Uint128>(a) * b;
    return {static_cast<std::uint64_t>(product >> 64), static_cast<std::uint64_t>(product)};
#endif
}

using PhiloxCounter = std::array<std::uint64_t, 4>;
using PhiloxKey = std::array<std::uint64_t, 2>;
using PhiloxBlock = std::array<std::uint64_t, 4>;

// Return the four words at one counter under one key.
inline PhiloxBlock philox(PhiloxCounter counter, PhiloxKey key) noexcept {
    constexpr std::uint64_t kMultiplier0 = 0xD2E7470EE14C6C93;
    constexpr std::uint64_t kMultiplier1 = 0xCA5A826395121157;
    constexpr std::uint64_t kWeyl0 = 0x9E3779B97F4A7C15;
    constexpr std::uint64_t kWeyl1 = 0xBB67AE8584CAA73B;
    constexpr int kRounds = 10;
    for (int round = 0; round < kRounds; ++round) {
        const WideProduct p0 = multiply_wide(kMultiplier0, counter[0]);
        const WideProduct p1 = multiply_wide(kMultiplier1, counter[2]);
        counter = {p1.high ^ counter[1] ^ key[0], p1.low, p0.high ^ counter[3] ^ key[1], p0.low};
        key[0] += kWeyl0;
        key[1] += kWeyl1;
    }
    return counter;
}

// The words of one stream in order: block j has counter (j, stream, word2, word3).
//
// A reader for set-up work (round keys, tables); not thread safe.
class PhiloxStream {
public:
    PhiloxStream(PhiloxKey key, std::uint64_t stream, std::uint64_t word2,
                 std::uint64_t word3) noexcept
        : key_(key), counter_{0, stream, word2, word3}, block_(philox(counter_, key)) {}

    // Return the next 64-bit word.
    std::uint64_t next() noexcept {
        if (used_ == block_.size()) {
            ++counter_[0];
            block_ = philox(counter_, key_);
            used_ = 0;
        }
        return block_[used_++];
    }

    // Return a number uniform in [0, limit), exactly. Requires: limit >= 1.
    //
    // Source: Lemire, "Fast random integer generation in an interval", TOMACS 2019.
    std::uint64_t bounded(std::uint64_t limit) noexcept {
        WideProduct product = multiply_wide(next(), limit);
        if (product.low < limit) {
            const std::uint64_t threshold = (0 - limit) % limit;
            while (product.low < threshold) {
                product = multiply_wide(next(), limit);
            }
        }
        return product.high;
    }

private:
    PhiloxKey key_;
    PhiloxCounter counter_;
    PhiloxBlock block_;
    std::size_t used_ = 0;
};

}  // namespace datacursor
