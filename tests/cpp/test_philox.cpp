#include <array>
#include <boost/test/unit_test.hpp>
#include <cstdint>

#include "datacursor/philox.hpp"
#include "vectors.hpp"

namespace {

using namespace datacursor;

BOOST_AUTO_TEST_SUITE(philox_suite)

BOOST_AUTO_TEST_CASE(known_answers) {
    for (const tests::Words& words : tests::read_vectors("philox.txt")) {
        std::array<std::uint64_t, 10> numbers{};
        for (std::size_t i = 0; i < numbers.size(); ++i) {
            numbers[i] = tests::hexadecimal(words.at(i));
        }
        const PhiloxBlock block =
            philox({numbers[0], numbers[1], numbers[2], numbers[3]}, {numbers[4], numbers[5]});
        const PhiloxBlock expected{numbers[6], numbers[7], numbers[8], numbers[9]};
        BOOST_TEST(block == expected, boost::test_tools::per_element());
    }
}

BOOST_AUTO_TEST_CASE(a_stream_is_its_blocks_one_after_the_other) {
    PhiloxStream stream({3, 4}, 5, 6, 7);
    for (std::uint64_t block = 0; block < 3; ++block) {
        for (const std::uint64_t word : philox({block, 5, 6, 7}, {3, 4})) {
            BOOST_TEST(stream.next() == word);
        }
    }
}

BOOST_AUTO_TEST_CASE(bounded_numbers_stay_below_their_limit_and_reach_every_value) {
    PhiloxStream stream({1, 2}, 0, 0, 0);
    for (const std::uint64_t limit : {1U, 2U, 3U, 7U}) {
        std::array<int, 7> seen{};
        for (int i = 0; i < 500; ++i) {
            ++seen.at(stream.bounded(limit));
        }
        for (std::uint64_t value = 0; value < seen.size(); ++value) {
            BOOST_TEST((seen.at(value) > 0) == (value < limit));
        }
    }
    const std::uint64_t large = (std::uint64_t{1} << 63) + 1;  // rejects every other word
    for (int i = 0; i < 100; ++i) {
        BOOST_TEST(stream.bounded(large) < large);
    }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
