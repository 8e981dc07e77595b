// The network of shuffle-1 on vectors, written once over a vector trait and compiled once
// per instruction set (permutation_<isa>.cpp).
//
//     group of consecutive values -> `left` is one number, first round scalar
//     -> remaining rounds on kVectors vectors in flight -> store as int64
//
// A trait `Lanes` has: Mixer, Vector, kLanes, kVectors (in flight) and
//     broadcast(x)                  x in every lane
//     load(words)                   lane i takes words[position_of_lane<Lanes>(i)]
//     add, bit_xor, subtract_if_reached(a, limit)    a - limit where a >= limit; a < 2 * limit
//     multiply_low, multiply_high(a, uniform)        all lanes of `uniform` are equal
//     shift_left, shift_right(a, count)              count in [0, Mixer::kBits]
//     equal_mask(a, b)              64 bits, kMaskBits for each lane, the lowest set where equal
//     store(low, high, out)         high * 2^kBits + low as int64, in the order of positions
// Interleaving `low` and `high` mixes the 16-byte blocks of a long vector, so the
// lanes hold the positions that come out in order (position_of_lane).
//
// Everything lives in an unnamed namespace and calls no inline library function,
// so that no code compiled for a newer instruction set can be linked into the
// portable path.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
#endif

#include "datacursor/permutation.hpp"
#include "mixer.hpp"

namespace datacursor {
namespace {  // NOLINT(google-build-namespaces): one private copy per instruction set

// Requires: mask != 0.
inline std::size_t lowest_bit(std::uint64_t mask) noexcept {
#if defined(_MSC_VER) && !defined(__clang__)
    unsigned long index;
    _BitScanForward64(&index, mask);
    return index;
#else
    return static_cast<std::size_t>(__builtin_ctzll(mask));
#endif
}

// Two neighbours of every block are stored side by side: lanes 0, 1 of block 0, then of block 1.
template <class Lanes>
constexpr std::size_t position_of_lane(std::size_t lane) noexcept {
    constexpr std::size_t kLanesInBlock = 16 / sizeof(typename Lanes::Mixer::Word);
    constexpr std::size_t kBlocks = (Lanes::kLanes + kLanesInBlock - 1) / kLanesInBlock;
    const std::size_t block = lane / kLanesInBlock;
    const std::size_t pair = lane % kLanesInBlock / 2;
    return (pair * kBlocks + block) * 2 + lane % 2;
}

// 0, 1, 2, ...
template <class Word, std::size_t kSize>
struct Iota {
    Word words[kSize] = {};

    constexpr Iota() noexcept {
        for (std::size_t i = 0; i < kSize; ++i) {
            words[i] = static_cast<Word>(i);
        }
    }
};

// Which values of a group lie in the last row: masks of 64 bits, or of all its vectors.
template <class Lanes, std::size_t kVectors>
struct LastRowMarks {
    static constexpr std::size_t kBits = Lanes::kLanes * Lanes::kMaskBits;  // of one vector
    static constexpr std::size_t kVectorsInMask = kBits * kVectors <= 64 ? kVectors : 64 / kBits;
    static constexpr std::size_t kMasks = kVectors / kVectorsInMask;

    std::uint64_t masks[kMasks];

    // Call function(place in the group) for each mark.
    template <class Function>
    void for_each(Function function) const noexcept {
        for (std::size_t i = 0; i < kMasks; ++i) {
            for (std::uint64_t mask = masks[i]; mask != 0; mask &= mask - 1) {
                const std::size_t lane = lowest_bit(mask) / Lanes::kMaskBits;
                function((i * kVectorsInMask + lane / Lanes::kLanes) * Lanes::kLanes +
                         position_of_lane<Lanes>(lane % Lanes::kLanes));
            }
        }
    }
};

template <class Lanes, std::size_t kVectors>
class LaneCipher {
    using Mixer = typename Lanes::Mixer;
    using Vector = typename Lanes::Vector;

public:
    using Word = typename Mixer::Word;
    using Marks = LastRowMarks<Lanes, kVectors>;
    static constexpr std::size_t kGroup = kVectors * Lanes::kLanes;
    // Every right half spans at least 2^7 values (n > 4096), so an aligned group has one left.
    static_assert(kGroup <= 128);

    // kGroup values as halves, before and after encryption.
    struct Group {
        Vector left[kVectors];
        Vector right[kVectors];
    };

    explicit LaneCipher(const Network& network) noexcept
        : network_(network),
          num_rows_(Lanes::broadcast(static_cast<Word>(network.num_rows))),
          last_row_(Lanes::broadcast(static_cast<Word>(network.num_rows - 1))),
          right_shift_(Mixer::kBits - network.right_bits),
          right_mask_((std::uint64_t{1} << network.right_bits) - 1) {
        for (std::size_t i = 0; i < Mixer::kRounds; ++i) {
            keys_[i] = Lanes::broadcast(static_cast<Word>(network.keys[i]));
        }
    }

    // Encrypt [base, base + kGroup) once, without walking. Requires: kGroup divides base.
    [[nodiscard]] Group encrypt_from(std::uint64_t base) const noexcept {
        static constexpr Iota<Word, Lanes::kLanes> kIota;
        const auto left = static_cast<std::uint32_t>(base >> network_.right_bits);
        const std::uint32_t mixed =
            Mixer::mix(left ^ network_.keys[0]) >> (32 - network_.right_bits);
        const Vector iota = Lanes::load(kIota.words);
        Group group;
        for (std::size_t v = 0; v < kVectors; ++v) {
            const std::uint64_t first = (base & right_mask_) + v * Lanes::kLanes;
            group.left[v] = Lanes::broadcast(static_cast<Word>(left));
            group.right[v] =
                Lanes::bit_xor(Lanes::add(Lanes::broadcast(static_cast<Word>(first)), iota),
                               Lanes::broadcast(static_cast<Word>(mixed)));
        }
        encrypt_rest(group);
        return group;
    }

    // Encrypt kGroup values given as halves once.
    [[nodiscard]] Group encrypt_halves(const Word* lefts, const Word* rights) const noexcept {
        Group group;
        for (std::size_t v = 0; v < kVectors; ++v) {
            group.left[v] = Lanes::load(lefts + v * Lanes::kLanes);
            group.right[v] = Lanes::load(rights + v * Lanes::kLanes);
        }
        round_right(group, 0);
        encrypt_rest(group);
        return group;
    }

    void store(const Group& group, std::int64_t* out) const noexcept {
        for (std::size_t v = 0; v < kVectors; ++v) {
            const Vector low = Lanes::bit_xor(
                group.right[v], Lanes::shift_left(group.left[v], network_.right_bits));
            const Vector high = Lanes::shift_right(group.left[v], right_shift_);
            Lanes::store(low, high, out + v * Lanes::kLanes);
        }
    }

    [[nodiscard]] Marks mark_last_row(const Group& group) const noexcept {
        Marks marks;
        for (std::size_t i = 0; i < Marks::kMasks; ++i) {
            marks.masks[i] = 0;
            for (std::size_t v = 0; v < Marks::kVectorsInMask; ++v) {
                const Vector left = group.left[i * Marks::kVectorsInMask + v];
                marks.masks[i] |= Lanes::equal_mask(left, last_row_) << (v * Marks::kBits);
            }
        }
        return marks;
    }

    [[nodiscard]] std::uint64_t right_mask() const noexcept { return right_mask_; }

private:
    static Vector mix(Vector x, Vector key) noexcept {
        x = Lanes::multiply_low(Lanes::bit_xor(x, key), Lanes::broadcast(Word{Mixer::kFirst}));
        x = Lanes::bit_xor(x, Lanes::shift_right(x, Mixer::kShift));
        return Lanes::multiply_low(x, Lanes::broadcast(Word{Mixer::kSecond}));
    }

    void round_right(Group& group, std::size_t round) const noexcept {
        for (std::size_t v = 0; v < kVectors; ++v) {
            const Vector mixed = mix(group.left[v], keys_[round]);
            group.right[v] =
                Lanes::bit_xor(group.right[v], Lanes::shift_right(mixed, right_shift_));
        }
    }

    void round_left(Group& group, std::size_t round) const noexcept {
        for (std::size_t v = 0; v < kVectors; ++v) {
            const Vector mixed = mix(group.right[v], keys_[round]);
            const Vector moved = Lanes::add(group.left[v], Lanes::multiply_high(mixed, num_rows_));
            group.left[v] = Lanes::subtract_if_reached(moved, num_rows_);
        }
    }

    // All rounds but the first.
    void encrypt_rest(Group& group) const noexcept {
        round_left(group, 1);
        for (std::size_t i = 2; i < Mixer::kRounds; i += 2) {
            round_right(group, i);
            round_left(group, i + 1);
        }
    }

    const Network& network_;
    Vector keys_[Mixer::kRounds];
    Vector num_rows_;
    Vector last_row_;
    std::uint32_t right_shift_;
    std::uint64_t right_mask_;
};

}  // namespace
}  // namespace datacursor
