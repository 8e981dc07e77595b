// Checks that every order passes, whatever its parameters.
#pragma once

#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "datacursor/order.hpp"

namespace datacursor::tests {

inline std::vector<std::int64_t> filled(const Order& order, std::uint64_t epoch,
                                        std::uint64_t first, std::size_t count,
                                        std::size_t num_threads = 1) {
    std::vector<std::int64_t> out(count, -1);
    order.fill(epoch, first, out, num_threads);
    return out;
}

inline void check_index(const Order& order, std::uint64_t epoch, std::uint64_t position,
                        std::uint64_t index) {
    BOOST_TEST(order.index_at(epoch, position) == index);
    BOOST_TEST(filled(order, epoch, position, 1).front() == static_cast<std::int64_t>(index));
}

// Threads start above 2^17 positions; the result does not depend on their number.
inline void check_threads(const Order& order, std::uint64_t epoch, std::uint64_t first) {
    constexpr std::size_t kCount = (std::size_t{1} << 18) + 77;
    const std::vector<std::int64_t> expected = filled(order, epoch, first, kCount);
    for (std::size_t num_threads = 2; num_threads <= 4; ++num_threads) {
        BOOST_TEST((filled(order, epoch, first, kCount, num_threads) == expected));
    }
}

}  // namespace datacursor::tests
