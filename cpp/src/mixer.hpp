// The two round functions of shuffle-1, as scalars: the definition.
//
// x *= kFirst; x ^= x >> kShift; x *= kSecond, modulo 2^kBits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace datacursor {

template <class WordType, unsigned kShiftBits, std::uint32_t kFirstFactor,
          std::uint32_t kSecondFactor, std::size_t kNumRounds>
struct Mixer {
    using Word = WordType;
    static constexpr std::uint32_t kBits = 8 * sizeof(Word);
    static constexpr unsigned kShift = kShiftBits;
    static constexpr std::uint32_t kFirst = kFirstFactor;
    static constexpr std::uint32_t kSecond = kSecondFactor;
    static constexpr std::size_t kRounds = kNumRounds;

    // Return the mixed word in the upper kBits of 32, zeros below: up there a product loses
    // by itself what exceeds the word. Bits of x beyond kBits have no effect.
    static constexpr std::uint32_t mix(std::uint32_t x) noexcept {
        constexpr std::uint32_t kUnused = 32 - kBits;
        x = (x << kUnused) * kFirst;
        x ^= x >> kShift >> kUnused << kUnused;
        return x * kSecond;
    }
};

using Mixer16 = Mixer<std::uint16_t, 7, 0x88B5, 0xDB2D, 10>;
using Mixer32 = Mixer<std::uint32_t, 15, 0x7FEB352D, 0x846CA68B, 8>;

}  // namespace datacursor
