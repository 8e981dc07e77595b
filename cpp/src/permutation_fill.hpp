// The fill kernel over a vector trait: permutation_lanes.hpp with cycle walking.
//
//     first                                                  first + count
//       |--part--|--group--|--group--| ... |--group--|--part--|
//     values >= n (only where left is the last row) are noted and walked together
//
// In an unnamed namespace, and free of inline library functions, for the reason given there.
#pragma once

#include <cstddef>
#include <cstdint>

#include "permutation_lanes.hpp"

namespace datacursor {
namespace {  // NOLINT(google-build-namespaces): one private copy per instruction set

template <class Lanes>
class Filler {
    using Cipher = LaneCipher<Lanes, Lanes::kVectors>;
    // A walk has few values at a time, so half a group wastes less.
    using WalkCipher = LaneCipher<Lanes, Lanes::kVectors / 2>;
    using Marks = typename Cipher::Marks;
    using Word = typename Cipher::Word;

public:
    static constexpr std::size_t kGroup = Cipher::kGroup;

    explicit Filler(const Network& network) noexcept
        : network_(network),
          cipher_(network),
          walk_cipher_(network),
          num_samples_(static_cast<std::int64_t>(network.num_samples)),
          walks_((network.num_rows << network.right_bits) != network.num_samples) {}

    // Write whole groups from `value` on, kBatch values at most; return how many.
    // Requires: kGroup divides value, kGroup <= room.
    //
    // Marks are looked at only after the last group: a branch on a fresh mark that goes the
    // wrong way would throw away the work begun on the group behind it.
    std::size_t fill_groups(std::uint64_t value, std::size_t room, std::int64_t* out) noexcept {
        const std::size_t size = room < kBatch ? room / kGroup * kGroup : kBatch;
        Marks marks[kBatch / kGroup];
        for (std::size_t i = 0; i < size; i += kGroup) {
            const auto group = cipher_.encrypt_from(value + i);
            cipher_.store(group, out + i);
            marks[i / kGroup] = cipher_.mark_last_row(group);
        }
        if (walks_) {
            for (std::size_t i = 0; i < size; i += kGroup) {
                note(marks[i / kGroup], 0, kGroup, out + i);
            }
            walk_until_below(WalkCipher::kGroup);
        }
        return size;
    }

    // Write values [skip, skip + count) of the group at `base`.
    void fill_part(std::uint64_t base, std::size_t skip, std::size_t count,
                   std::int64_t* out) noexcept {
        std::int64_t values[kGroup];
        const auto group = cipher_.encrypt_from(base);
        cipher_.store(group, values);
        for (std::size_t i = 0; i < count; ++i) {
            out[i] = values[skip + i];
        }
        if (walks_) {
            note(cipher_.mark_last_row(group), skip, count, out);
        }
    }

    // Walk what is left.
    void finish() noexcept {
        walk_until_below(kFew);
        for (std::size_t i = 0; i < num_outside_; ++i) {
            *outside_[i] = static_cast<std::int64_t>(
                network_.forward(static_cast<std::uint64_t>(*outside_[i])));
        }
    }

private:
    static constexpr std::size_t kBatch = 512;
    static constexpr std::size_t kFew = 4;  // scalar walks that cost less than vectors
    // A batch, both ends, what walk_until_below leaves, and one spare: a place is written
    // before it is counted.
    static constexpr std::size_t kMaxOutside = kBatch + 2 * kGroup + WalkCipher::kGroup + 1;

    // Note the places of those marked values in [skip, skip + count) that are >= num_samples.
    void note(const Marks& marks, std::size_t skip, std::size_t count, std::int64_t* out) noexcept {
        std::size_t num_outside = num_outside_;
        marks.for_each([&](std::size_t value) {
            const std::size_t i = value - skip;
            if (i < count) {
                std::int64_t& place = out[i];
                outside_[num_outside] = &place;
                num_outside += place >= num_samples_ ? 1U : 0U;
            }
        });
        num_outside_ = num_outside;
    }

    // Encrypt all noted values once more and keep those still outside, until they are few.
    void walk_until_below(std::size_t few) noexcept {
        while (num_outside_ >= few) {
            const std::size_t end = num_outside_;
            num_outside_ = 0;
            for (std::size_t i = 0; i < end; i += WalkCipher::kGroup) {
                walk(i, end - i < WalkCipher::kGroup ? end - i : WalkCipher::kGroup);
            }
        }
    }

    void walk(std::size_t first, std::size_t count) noexcept {
        Word lefts[WalkCipher::kGroup] = {};
        Word rights[WalkCipher::kGroup] = {};
        std::int64_t values[WalkCipher::kGroup];
        for (std::size_t i = 0; i < count; ++i) {
            const auto value = static_cast<std::uint64_t>(*outside_[first + i]);
            lefts[i] = static_cast<Word>(value >> network_.right_bits);
            rights[i] = static_cast<Word>(value & cipher_.right_mask());
        }
        walk_cipher_.store(walk_cipher_.encrypt_halves(lefts, rights), values);
        std::size_t num_outside = num_outside_;
        for (std::size_t i = 0; i < count; ++i) {
            std::int64_t* place = outside_[first + i];
            *place = values[i];
            outside_[num_outside] = place;
            num_outside += values[i] >= num_samples_ ? 1U : 0U;
        }
        num_outside_ = num_outside;
    }

    const Network& network_;
    Cipher cipher_;
    WalkCipher walk_cipher_;
    std::int64_t num_samples_;
    bool walks_;  // the last row is not full, so a value can be outside
    std::int64_t* outside_[kMaxOutside];
    std::size_t num_outside_ = 0;
};

template <class Lanes>
void fill_lanes(const Network& network, std::uint64_t first, std::size_t count,
                std::int64_t* out) noexcept {
    constexpr std::size_t kGroup = Filler<Lanes>::kGroup;
    Filler<Lanes> filler(network);
    std::size_t done = 0;
    while (done < count) {
        const std::uint64_t value = first + done;
        const std::size_t room = count - done;
        const auto skip = static_cast<std::size_t>(value % kGroup);
        if (skip == 0 && room >= kGroup) {
            done += filler.fill_groups(value, room, out + done);
        } else {
            const std::size_t take = kGroup - skip < room ? kGroup - skip : room;
            filler.fill_part(value - skip, skip, take, out + done);
            done += take;
        }
    }
    filler.finish();
}

}  // namespace
}  // namespace datacursor
