#include "datacursor/block_shuffle.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdint>

#include "order_checks.hpp"
#include "refusal.hpp"
#include "vectors.hpp"

namespace {

using namespace datacursor;
using tests::check_refused;

BOOST_AUTO_TEST_SUITE(block_shuffle_suite)

BOOST_AUTO_TEST_CASE(known_answers) {
    for (const tests::Words& words : tests::read_vectors("block_shuffle.txt")) {
        const std::vector<std::uint64_t> n = tests::decimals(words, 0);
        const BlockShuffle order(n.at(0), n.at(1), n.at(2), n.at(3));
        tests::check_index(order, n.at(4), n.at(5), n.at(6));
        BOOST_TEST(order.position_of(n.at(4), n.at(6)) == n.at(5));
    }
}

BOOST_AUTO_TEST_CASE(threads_fill_what_one_does) {
    tests::check_threads(BlockShuffle(1'000'003, 100, 13, 1), 2, 4321);
    tests::check_threads(BlockShuffle(1'000'003, 5, 20'000, 1), 2, 4321);
}

BOOST_AUTO_TEST_CASE(arguments_out_of_range_are_refused) {
    constexpr std::uint64_t kTooLarge = std::uint64_t{1} << 63;
    const auto make = [](std::uint64_t n, std::uint64_t block_size, std::uint64_t window_blocks) {
        return [=] { BlockShuffle(n, block_size, window_blocks, 0); };
    };
    check_refused(ErrorKind::kArgument, "num_samples=0", make(0, 1, 1));
    check_refused(ErrorKind::kArgument, "block_size=0", make(9, 0, 1));
    check_refused(ErrorKind::kArgument, "window_blocks=0", make(9, 1, 0));
    check_refused(ErrorKind::kArgument, "block_size=9223372036854775808", make(9, kTooLarge, 1));
    check_refused(ErrorKind::kArgument, "2**55 windows", make(kTooLarge - 1, 1, 255));
    make(kTooLarge - 1, 1, 256)();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
