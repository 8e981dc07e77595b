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

    static constexpr std::uint64_t mix(std::uint64_t value) noexcept {
        auto x = static_cast<std::uint32_t>(value);
        x = static_cast<Word>(x * kFirst);
        x = static_cast<Word>((x ^ (x >> kShift)) * kSecond);
        return x;
    }
};

using Mixer16 = Mixer<std::uint16_t, 7, 0x88B5, 0xDB2D, 10>;
using Mixer32 = Mixer<std::uint32_t, 15, 0x7FEB352D, 0x846CA68B, 8>;

}  // namespace datacursor
