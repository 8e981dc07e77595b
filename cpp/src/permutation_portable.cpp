// The fill kernel for any processor: fixed-size loops the compiler vectorises for
// the base instruction set.
#include <cstddef>
#include <cstdint>

#include "permutation_lanes.hpp"

namespace datacursor {
namespace {

template <class MixerType, class DoubleWord>
struct PortableLanes {
    using Mixer = MixerType;
    using Word = typename Mixer::Word;
    static constexpr std::size_t kLanes = 16 / sizeof(Word);
    static constexpr std::size_t kVectors = 8;

    struct Vector {
        alignas(16) Word lane[kLanes];
    };

    template <class Function>
    static Vector map(Function function) noexcept {
        Vector result;
        for (std::size_t i = 0; i < kLanes; ++i) {
            result.lane[i] = static_cast<Word>(function(i));
        }
        return result;
    }

    static Vector broadcast(Word x) noexcept {
        return map([=](std::size_t) { return x; });
    }
    static Vector iota() noexcept {
        return map([](std::size_t i) { return i; });
    }
    static Vector load(const Word* words) noexcept {
        return map([=](std::size_t i) { return words[i]; });
    }
    static Vector add(Vector a, Vector b) noexcept {
        return map([&](std::size_t i) { return a.lane[i] + b.lane[i]; });
    }
    static Vector bit_xor(Vector a, Vector b) noexcept {
        return map([&](std::size_t i) { return a.lane[i] ^ b.lane[i]; });
    }
    static Vector multiply_low(Vector a, Vector b) noexcept {
        return map([&](std::size_t i) { return DoubleWord{a.lane[i]} * b.lane[i]; });
    }
    static Vector multiply_high(Vector a, Vector b) noexcept {
        return map(
            [&](std::size_t i) { return (DoubleWord{a.lane[i]} * b.lane[i]) >> Mixer::kBits; });
    }
    static Vector shift_right(Vector a, std::uint32_t count) noexcept {
        return map([&](std::size_t i) { return a.lane[i] >> count; });
    }
    static Vector subtract_if_reached(Vector a, Vector limit) noexcept {
        return map([&](std::size_t i) {
            return a.lane[i] - (a.lane[i] >= limit.lane[i] ? limit.lane[i] : Word{0});
        });
    }
    static bool any_equal(const Vector* vectors, Vector x) noexcept {
        Word equal = 0;
        for (std::size_t v = 0; v < kVectors; ++v) {
            for (std::size_t i = 0; i < kLanes; ++i) {
                equal = static_cast<Word>(equal | (vectors[v].lane[i] == x.lane[i] ? 1 : 0));
            }
        }
        return equal != 0;
    }
    static void store_values(Vector left, Vector right, std::uint32_t right_bits,
                             std::int64_t* out) noexcept {
        for (std::size_t i = 0; i < kLanes; ++i) {
            const std::uint64_t value = (std::uint64_t{left.lane[i]} << right_bits) | right.lane[i];
            out[i] = static_cast<std::int64_t>(value);
        }
    }
};

}  // namespace

const FillKernel kPortableKernel{
    "portable",
    fill_lanes<PortableLanes<Mixer16, std::uint32_t>>,
    fill_lanes<PortableLanes<Mixer32, std::uint64_t>>,
};

}  // namespace datacursor
