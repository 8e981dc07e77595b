#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <thread>
#include <vector>

#include "datacursor/error.hpp"
#include "datacursor/order.hpp"

namespace {

using namespace datacursor;

std::vector<std::int64_t> filled(const Order& order, std::uint64_t epoch, std::uint64_t first,
                                 std::size_t count) {
    std::vector<std::int64_t> out(count);
    order.fill(epoch, first, out);
    return out;
}

template <class Call>
void check_refused(Call call) {
    BOOST_CHECK_EXCEPTION(call(), Error,
                          [](const Error& error) { return error.kind() == ErrorKind::kArgument; });
}

BOOST_AUTO_TEST_SUITE(order_suite)

BOOST_AUTO_TEST_CASE(sequential_is_the_identity) {
    const Sequential order(10);
    BOOST_TEST(order.index_at(3, 4) == 4U);
    BOOST_TEST(order.position_of(3, 4) == 4U);
    BOOST_TEST(filled(order, 5, 7, 3) == (std::vector<std::int64_t>{7, 8, 9}),
               boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(epochs_and_seeds_differ) {
    const Shuffle order(5000, 1);
    const Shuffle other(5000, 2);
    BOOST_TEST(filled(order, 0, 0, 5000) != filled(order, 1, 0, 5000));
    BOOST_TEST(filled(order, 1, 0, 5000) != filled(other, 0, 0, 5000));
}

BOOST_AUTO_TEST_CASE(blocks_are_equally_spaced_parts) {
    const Shuffle order(6000, 1);
    const std::vector<std::int64_t> whole = filled(order, 2, 0, 6000);
    std::vector<std::int64_t> blocks(300);
    order.fill_blocks(2, 50, 3, 59, blocks);
    for (std::size_t k = 0; k < 100; ++k) {
        for (std::size_t i = 0; i < 3; ++i) {
            BOOST_TEST(blocks[3 * k + i] == whole[50 + 59 * k + i]);
        }
    }
}

BOOST_AUTO_TEST_CASE(arguments_out_of_range_are_refused) {
    const Shuffle order(100, 1);
    std::vector<std::int64_t> out(10);
    check_refused([&] { static_cast<void>(order.index_at(0, 100)); });
    check_refused([&] { static_cast<void>(order.index_at(kEpochLimit, 0)); });
    check_refused([&] { static_cast<void>(order.position_of(0, 100)); });
    check_refused([&] { order.fill(0, 91, out); });
    check_refused([&] { order.fill(0, ~std::uint64_t{0}, out); });
    check_refused([&] { order.fill_blocks(0, 0, 0, 1, out); });
    check_refused([&] { order.fill_blocks(0, 0, 3, 3, out); });
    check_refused([&] { order.fill_blocks(0, 0, 5, 4, out); });
    check_refused([&] { order.fill_blocks(0, 0, 5, 96, out); });
    check_refused([&] { order.fill_blocks(0, 0, 5, ~std::uint64_t{0}, out); });
    order.fill_blocks(0, 0, 5, 95, out);
    check_refused([] { Shuffle(0, 1); });
    check_refused([] { Sequential(std::uint64_t{1} << 63); });
}

// Threads at different epochs share one order and its cached epoch.
BOOST_AUTO_TEST_CASE(threads_share_an_order) {
    for (const std::uint64_t n : {500U, 50000U}) {
        const Shuffle order(n, 9);
        std::vector<std::vector<std::int64_t>> expected;
        expected.reserve(4);
        for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
            expected.push_back(filled(order, epoch, 0, 500));
        }
        std::atomic<int> wrong = 0;
        std::vector<std::thread> threads;
        threads.reserve(4);
        for (std::uint64_t thread = 0; thread < 4; ++thread) {
            threads.emplace_back([&, thread] {
                for (std::uint64_t turn = 0; turn < 50; ++turn) {
                    const std::uint64_t epoch = (thread + turn) % 4;
                    wrong += filled(order, epoch, 0, 500) == expected[epoch] ? 0 : 1;
                }
            });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
        BOOST_TEST(wrong == 0);
    }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
