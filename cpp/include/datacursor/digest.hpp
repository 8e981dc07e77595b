// The identity digest: which elements were committed, whatever their order.
//
// An additive multiset hash in two lanes: each element adds the words 0 and 1 of
// philox(counter = (epoch, element, start, stop), key = (0, 0)), modulo 2^64.
// Addition, not exclusive or: a doubled element must not cancel itself. The sum
// does not depend on order, ranks or replica count, and sums of parts add up to
// the sum of the whole.
//
// A sample is an element with start = stop = 0; a span of a document always has
// stop >= 1, so the two never meet.
//
// Source: Clarke et al., "Incremental multiset hash functions", ASIACRYPT 2003.
// Part of the persistent format; add, never change. Thread safety: a value.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace datacursor {

class Digest {
public:
    static constexpr std::size_t kNumBytes = 16;

    // Add the samples `indices` of one epoch. Cost: about 12 ns each.
    void add_samples(std::uint64_t epoch, std::span<const std::int64_t> indices) noexcept;

    // Add spans given as rows (document, start, stop). Requires: spans.size() % 3 == 0.
    void add_spans(std::uint64_t epoch, std::span<const std::int64_t> spans) noexcept;

    // The two lanes, little-endian.
    [[nodiscard]] std::array<std::uint8_t, kNumBytes> bytes() const noexcept;

private:
    void add(std::uint64_t epoch, std::uint64_t element, std::uint64_t start,
             std::uint64_t stop) noexcept;

    std::array<std::uint64_t, 2> lanes_{0, 0};
};

}  // namespace datacursor
