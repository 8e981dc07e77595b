#include "datacursor/permutation.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>
#include <utility>

#include "datacursor/error.hpp"
#include "datacursor/philox.hpp"
#include "mixer.hpp"
#include "permutation_kernel.hpp"

namespace datacursor {
namespace {

// A value as its two halves. Every step fits 32 bits: num_rows <= 2^31, right_bits <= 32.
struct Halves {
    std::uint32_t left;
    std::uint32_t right;
};

Halves split(const Network& network, std::uint64_t value) noexcept {
    const std::uint64_t right_mask = (std::uint64_t{1} << network.right_bits) - 1;
    return {static_cast<std::uint32_t>(value >> network.right_bits),
            static_cast<std::uint32_t>(value & right_mask)};
}

std::uint64_t join(const Network& network, const Halves& halves) noexcept {
    return std::uint64_t{halves.left} << network.right_bits | halves.right;
}

template <class Mixer>
std::uint32_t right_step(const Network& network, std::uint32_t left, std::size_t round) noexcept {
    return Mixer::mix(left ^ network.keys[round]) >> (32 - network.right_bits);
}

template <class Mixer>
std::uint32_t left_step(const Network& network, std::uint32_t right, std::size_t round) noexcept {
    return static_cast<std::uint32_t>(
        (Mixer::mix(right ^ network.keys[round]) * network.num_rows) >> 32);
}

std::uint32_t subtract_if_reached(std::uint32_t value, std::uint64_t limit) noexcept {
    return value - (value >= limit ? static_cast<std::uint32_t>(limit) : 0);
}

template <class Mixer>
std::uint64_t encrypt(const Network& network, std::uint64_t value) noexcept {
    auto [left, right] = split(network, value);
    for (std::size_t i = 0; i < Mixer::kRounds; i += 2) {
        right ^= right_step<Mixer>(network, left, i);
        left =
            subtract_if_reached(left + left_step<Mixer>(network, right, i + 1), network.num_rows);
    }
    return join(network, {left, right});
}

template <class Mixer>
std::uint64_t decrypt(const Network& network, std::uint64_t value) noexcept {
    const auto num_rows = static_cast<std::uint32_t>(network.num_rows);
    auto [left, right] = split(network, value);
    for (std::size_t i = Mixer::kRounds; i > 0; i -= 2) {
        const std::uint32_t step = left_step<Mixer>(network, right, i - 1);
        left = left - step + (left < step ? num_rows : 0);
        right ^= right_step<Mixer>(network, left, i - 2);
    }
    return join(network, {left, right});
}

}  // namespace

std::uint64_t Network::forward(std::uint64_t value) const noexcept {
    do {
        value = word_bits == Mixer16::kBits ? encrypt<Mixer16>(*this, value)
                                            : encrypt<Mixer32>(*this, value);
    } while (value >= num_samples);
    return value;
}

std::uint64_t Network::backward(std::uint64_t value) const noexcept {
    do {
        value = word_bits == Mixer16::kBits ? decrypt<Mixer16>(*this, value)
                                            : decrypt<Mixer32>(*this, value);
    } while (value >= num_samples);
    return value;
}

Permutation::Permutation(std::uint64_t num_samples, const PermutationKey& key)
    : num_samples_(num_samples), kernel_(&fill_kernel()) {
    if (num_samples == 0 || num_samples >> 63 != 0) {
        throw Error(ErrorKind::kArgument, "num_samples must be in [1, 2**63), got num_samples=" +
                                              std::to_string(num_samples));
    }
    if (num_samples <= kMaxTableSize) {
        draw_table(key);
    } else {
        draw_network(key);
    }
}

void Permutation::draw_table(const PermutationKey& key) {
    table_.resize(num_samples_);
    inverse_.resize(num_samples_);
    std::iota(table_.begin(), table_.end(), std::uint16_t{0});
    PhiloxStream words({key.seed, key.epoch}, key.rounds_stream, num_samples_, key.order_id);
    for (std::size_t i = table_.size() - 1; i > 0; --i) {
        std::swap(table_[i], table_[words.bounded(i + 1)]);
    }
    for (std::size_t i = 0; i < table_.size(); ++i) {
        inverse_[table_[i]] = static_cast<std::uint16_t>(i);
    }
}

void Permutation::draw_network(const PermutationKey& key) {
    const auto bits = static_cast<std::uint32_t>(std::bit_width(num_samples_ - 1));
    const bool narrow = num_samples_ <= kMaxNarrowSize;
    network_.num_samples = num_samples_;
    network_.right_bits = (bits + 1) / 2;
    network_.num_rows = ((num_samples_ - 1) >> network_.right_bits) + 1;
    network_.word_bits = narrow ? Mixer16::kBits : Mixer32::kBits;

    const PhiloxKey philox_key{key.seed, key.epoch};
    PhiloxStream rounds(philox_key, key.rounds_stream, num_samples_, key.order_id);
    const std::uint32_t key_mask = narrow ? 0xFFFF : 0xFFFFFFFF;
    const std::size_t num_rounds = narrow ? Mixer16::kRounds : Mixer32::kRounds;
    for (std::size_t i = 0; i < num_rounds; i += 2) {
        const std::uint64_t word = rounds.next();
        network_.keys[i] = static_cast<std::uint32_t>(word) & key_mask;
        network_.keys[i + 1] = static_cast<std::uint32_t>(word >> 32) & key_mask;
    }
    PhiloxStream tweak(philox_key, key.tweak_stream, num_samples_, key.order_id);
    swap_ = (tweak.next() & 1) != 0;
    offset_ = tweak.bounded(num_samples_);
}

std::uint64_t Permutation::index_at(std::uint64_t position) const noexcept {
    if (!table_.empty()) {
        return table_[position];
    }
    if (swap_ && position < 2) {
        position ^= 1;
    }
    const std::uint64_t room = num_samples_ - offset_;
    return network_.forward(position < room ? position + offset_ : position - room);
}

std::uint64_t Permutation::position_of(std::uint64_t index) const noexcept {
    if (!table_.empty()) {
        return inverse_[index];
    }
    const std::uint64_t rotated = network_.backward(index);
    std::uint64_t position =
        rotated >= offset_ ? rotated - offset_ : rotated + (num_samples_ - offset_);
    if (swap_ && position < 2) {
        position ^= 1;
    }
    return position;
}

void Permutation::fill(std::uint64_t first, std::span<std::int64_t> out) const noexcept {
    if (out.empty()) {
        return;
    }
    if (!table_.empty()) {
        std::copy_n(table_.begin() + static_cast<std::ptrdiff_t>(first), out.size(), out.begin());
        return;
    }
    // The rotation cuts the range in two at most, each contiguous for the kernel.
    const auto fill_network =
        network_.word_bits == Mixer16::kBits ? kernel_->fill_narrow : kernel_->fill_wide;
    const std::uint64_t room = num_samples_ - offset_;
    const std::size_t before = static_cast<std::size_t>(
        std::min<std::uint64_t>(out.size(), first < room ? room - first : 0));
    if (before > 0) {
        fill_network(network_, first + offset_, before, out.data());
    }
    if (before < out.size()) {
        fill_network(network_, first + before - room, out.size() - before, out.data() + before);
    }
    for (std::uint64_t position = first; swap_ && position < 2 && position - first < out.size();
         ++position) {
        out[position - first] = static_cast<std::int64_t>(index_at(position));
    }
}

}  // namespace datacursor
