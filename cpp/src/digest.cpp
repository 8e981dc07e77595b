#include "datacursor/digest.hpp"

#include "datacursor/philox.hpp"

namespace datacursor {

void Digest::add(std::uint64_t epoch, std::uint64_t element, std::uint64_t start,
                 std::uint64_t stop) noexcept {
    const PhiloxBlock block = philox({epoch, element, start, stop}, {0, 0});
    lanes_[0] += block[0];
    lanes_[1] += block[1];
}

void Digest::add_samples(std::uint64_t epoch, std::span<const std::int64_t> indices) noexcept {
    for (const std::int64_t index : indices) {
        add(epoch, static_cast<std::uint64_t>(index), 0, 0);
    }
}

void Digest::add_spans(std::uint64_t epoch, std::span<const std::int64_t> spans) noexcept {
    for (std::size_t i = 0; i + 3 <= spans.size(); i += 3) {
        add(epoch, static_cast<std::uint64_t>(spans[i]), static_cast<std::uint64_t>(spans[i + 1]),
            static_cast<std::uint64_t>(spans[i + 2]));
    }
}

std::array<std::uint8_t, Digest::kNumBytes> Digest::bytes() const noexcept {
    std::array<std::uint8_t, kNumBytes> out{};
    for (std::size_t i = 0; i < kNumBytes; ++i) {
        out[i] = static_cast<std::uint8_t>(lanes_[i / 8] >> (8 * (i % 8)));
    }
    return out;
}

}  // namespace datacursor
