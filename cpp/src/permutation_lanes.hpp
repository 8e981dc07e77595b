// The fill kernel, written once over a vector trait and compiled once per
// instruction set (permutation_<isa>.cpp).
//
// A trait `Lanes` has: Mixer, Vector, kLanes, kVectors (in flight), and the functions broadcast,
// iota, add, bit_xor, multiply_low, multiply_high, shift_right, subtract_if_reached, load, store,
// any_equal, store_values.
//
//     group of kGroup consecutive values -> `left` is one number, first round scalar
//     -> remaining rounds on kVectors vectors in flight -> store as int64
//     -> values >= n (only where left is the last row) are noted and walked densely
//
// Everything lives in an unnamed namespace and calls no inline library function,
// so that no code compiled for a newer instruction set can be linked into the
// portable path.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mixer.hpp"
#include "permutation_kernel.hpp"

namespace datacursor {
namespace {  // NOLINT(google-build-namespaces): one private copy per instruction set

template <class Lanes>
class LaneCipher {
    using Mixer = typename Lanes::Mixer;
    using Vector = typename Lanes::Vector;
    using Word = typename Mixer::Word;

public:
    static constexpr std::size_t kVectors = Lanes::kVectors;
    static constexpr std::size_t kGroup = kVectors * Lanes::kLanes;
    // Every right half spans at least 2^7 values (n > 4096), so an aligned group has one left.
    static_assert(kGroup <= 128);

    explicit LaneCipher(const Network& network) noexcept
        : network_(network),
          num_rows_(Lanes::broadcast(static_cast<Word>(network.num_rows))),
          last_row_(Lanes::broadcast(static_cast<Word>(network.num_rows - 1))),
          right_shift_(Mixer::kBits - network.right_bits),
          right_mask_((std::uint64_t{1} << network.right_bits) - 1),
          walks_((network.num_rows << network.right_bits) != network.num_samples) {
        for (std::size_t i = 0; i < Mixer::kRounds; ++i) {
            keys_[i] = Lanes::broadcast(static_cast<Word>(network.keys[i]));
        }
    }

    // Encrypt [base, base + kGroup) once, without walking. Requires: kGroup divides base.
    // Returns whether a value may lie in the last row and so be >= num_samples.
    bool encrypt_group(std::uint64_t base, std::int64_t* out) const noexcept {
        const std::uint64_t left_value = base >> network_.right_bits;
        const auto right_value = static_cast<Word>(base & right_mask_);
        const auto mixed =
            static_cast<Word>(Mixer::mix(left_value ^ network_.keys[0]) >> right_shift_);
        Vector left[kVectors];
        Vector right[kVectors];
        for (std::size_t v = 0; v < kVectors; ++v) {
            const auto first = static_cast<Word>(right_value + v * Lanes::kLanes);
            left[v] = Lanes::broadcast(static_cast<Word>(left_value));
            right[v] = Lanes::bit_xor(Lanes::add(Lanes::broadcast(first), Lanes::iota()),
                                      Lanes::broadcast(mixed));
        }
        round_left(left, right, keys_[1]);
        return finish(left, right, out);
    }

    // Encrypt kGroup values given as halves; otherwise as encrypt_group.
    bool encrypt_halves(const Word* lefts, const Word* rights, std::int64_t* out) const noexcept {
        Vector left[kVectors];
        Vector right[kVectors];
        for (std::size_t v = 0; v < kVectors; ++v) {
            left[v] = Lanes::load(lefts + v * Lanes::kLanes);
            right[v] = Lanes::load(rights + v * Lanes::kLanes);
        }
        round_right(left, right, keys_[0]);
        round_left(left, right, keys_[1]);
        return finish(left, right, out);
    }

    [[nodiscard]] const Network& network() const noexcept { return network_; }
    [[nodiscard]] std::uint64_t right_mask() const noexcept { return right_mask_; }

private:
    static Vector mix(Vector x, Vector key) noexcept {
        x = Lanes::multiply_low(Lanes::bit_xor(x, key), Lanes::broadcast(Word{Mixer::kFirst}));
        x = Lanes::bit_xor(x, Lanes::shift_right(x, Mixer::kShift));
        return Lanes::multiply_low(x, Lanes::broadcast(Word{Mixer::kSecond}));
    }

    void round_right(const Vector* left, Vector* right, Vector key) const noexcept {
        for (std::size_t v = 0; v < kVectors; ++v) {
            right[v] =
                Lanes::bit_xor(right[v], Lanes::shift_right(mix(left[v], key), right_shift_));
        }
    }

    void round_left(Vector* left, const Vector* right, Vector key) const noexcept {
        for (std::size_t v = 0; v < kVectors; ++v) {
            const Vector step = Lanes::multiply_high(mix(right[v], key), num_rows_);
            left[v] = Lanes::subtract_if_reached(Lanes::add(left[v], step), num_rows_);
        }
    }

    bool finish(Vector* left, Vector* right, std::int64_t* out) const noexcept {
        for (std::size_t i = 2; i < Mixer::kRounds; i += 2) {
            round_right(left, right, keys_[i]);
            round_left(left, right, keys_[i + 1]);
        }
        for (std::size_t v = 0; v < kVectors; ++v) {
            Lanes::store_values(left[v], right[v], network_.right_bits, out + v * Lanes::kLanes);
        }
        return walks_ && Lanes::any_equal(left, last_row_);
    }

    const Network& network_;
    Vector keys_[Mixer::kRounds];
    Vector num_rows_;
    Vector last_row_;
    std::uint32_t right_shift_;
    std::uint64_t right_mask_;
    bool walks_;
};

// The values that left [0, n): collected over many groups, then walked a group at a time.
template <class Lanes>
class Walker {
    using Cipher = LaneCipher<Lanes>;
    using Word = typename Lanes::Mixer::Word;

public:
    Walker(const Cipher& cipher, std::int64_t* out) noexcept : cipher_(cipher), out_(out) {}

    // Note the slots of [first, first + count) whose value must walk on.
    void collect(std::size_t first, std::size_t count) noexcept {
        const auto num_samples = static_cast<std::int64_t>(cipher_.network().num_samples);
        for (std::size_t slot = first; slot < first + count; ++slot) {
            slots_[num_slots_] = slot;
            num_slots_ += out_[slot] >= num_samples ? 1U : 0U;
        }
        while (num_slots_ >= Cipher::kGroup) {
            walk(Cipher::kGroup);
        }
    }

    void finish() noexcept {
        while (num_slots_ > 0) {
            walk(num_slots_ < Cipher::kGroup ? num_slots_ : Cipher::kGroup);
        }
    }

private:
    // Encrypt the last `count` noted values once more; keep those still outside.
    void walk(std::size_t count) noexcept {
        Word lefts[Cipher::kGroup] = {};
        Word rights[Cipher::kGroup] = {};
        std::int64_t values[Cipher::kGroup];
        num_slots_ -= count;
        const std::size_t* slots = slots_ + num_slots_;
        for (std::size_t i = 0; i < count; ++i) {
            const auto value = static_cast<std::uint64_t>(out_[slots[i]]);
            lefts[i] = static_cast<Word>(value >> cipher_.network().right_bits);
            rights[i] = static_cast<Word>(value & cipher_.right_mask());
        }
        cipher_.encrypt_halves(lefts, rights, values);
        const auto num_samples = static_cast<std::int64_t>(cipher_.network().num_samples);
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t slot = slots[i];
            out_[slot] = values[i];
            slots_[num_slots_] = slot;
            num_slots_ += values[i] >= num_samples ? 1U : 0U;
        }
    }

    const Cipher& cipher_;
    std::int64_t* out_;
    std::size_t slots_[2 * Cipher::kGroup + 1];  // one spare: slots are written before counted
    std::size_t num_slots_ = 0;
};

template <class Lanes>
void fill_lanes(const Network& network, std::uint64_t first, std::size_t count,
                std::int64_t* out) noexcept {
    using Cipher = LaneCipher<Lanes>;
    const Cipher cipher(network);
    Walker<Lanes> walker(cipher, out);
    std::int64_t edge[Cipher::kGroup];
    std::size_t done = 0;
    while (done < count) {
        const std::uint64_t value = first + done;
        const auto skip = static_cast<std::size_t>(value % Cipher::kGroup);
        const std::size_t room = Cipher::kGroup - skip;
        const std::size_t take = room < count - done ? room : count - done;
        bool may_walk = false;
        if (take == Cipher::kGroup) {
            may_walk = cipher.encrypt_group(value, out + done);
        } else {
            may_walk = cipher.encrypt_group(value - skip, edge);
            for (std::size_t i = 0; i < take; ++i) {
                out[done + i] = edge[skip + i];
            }
        }
        if (may_walk) {
            walker.collect(done, take);
        }
        done += take;
    }
    walker.finish();
}

}  // namespace
}  // namespace datacursor
