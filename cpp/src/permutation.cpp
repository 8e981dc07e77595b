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

template <class Mixer>
std::uint64_t encrypt(const Network& network, std::uint64_t value) noexcept {
    std::uint64_t left = value >> network.right_bits;
    std::uint64_t right = value & ((std::uint64_t{1} << network.right_bits) - 1);
    for (std::size_t i = 0; i < network.num_rounds; i += 2) {
        right ^= Mixer::mix(left ^ network.keys[i]) >> (Mixer::kBits - network.right_bits);
        left += (Mixer::mix(right ^ network.keys[i + 1]) * network.num_rows) >> Mixer::kBits;
        left -= left >= network.num_rows ? network.num_rows : 0;
    }
    return (left << network.right_bits) | right;
}

template <class Mixer>
std::uint64_t decrypt(const Network& network, std::uint64_t value) noexcept {
    std::uint64_t left = value >> network.right_bits;
    std::uint64_t right = value & ((std::uint64_t{1} << network.right_bits) - 1);
    for (std::size_t i = network.num_rounds; i > 0; i -= 2) {
        left += network.num_rows -
                ((Mixer::mix(right ^ network.keys[i - 1]) * network.num_rows) >> Mixer::kBits);
        left -= left >= network.num_rows ? network.num_rows : 0;
        right ^= Mixer::mix(left ^ network.keys[i - 2]) >> (Mixer::kBits - network.right_bits);
    }
    return (left << network.right_bits) | right;
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
    : num_samples_(num_samples) {
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
    network_.num_rounds = narrow ? Mixer16::kRounds : Mixer32::kRounds;

    const PhiloxKey philox_key{key.seed, key.epoch};
    PhiloxStream rounds(philox_key, key.rounds_stream, num_samples_, key.order_id);
    const std::uint32_t key_mask = narrow ? 0xFFFF : 0xFFFFFFFF;
    for (std::size_t i = 0; i < network_.num_rounds; i += 2) {
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
    const FillKernel& kernel = fill_kernel();
    const auto fill_network =
        network_.word_bits == Mixer16::kBits ? kernel.fill_narrow : kernel.fill_wide;
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
