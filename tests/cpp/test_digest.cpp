#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <vector>

#include "datacursor/digest.hpp"
#include "vectors.hpp"

namespace {

using namespace datacursor;

BOOST_AUTO_TEST_SUITE(digest_suite)

BOOST_AUTO_TEST_CASE(known_answers) {
    for (const tests::Words& words : tests::read_vectors("digest.txt")) {
        const std::uint64_t epoch = tests::decimal(words.at(0));
        const std::uint64_t count = tests::decimal(words.at(1));
        std::vector<std::int64_t> spans(3 * count);
        for (std::size_t i = 0; i < spans.size(); ++i) {
            spans[i] = static_cast<std::int64_t>(tests::decimal(words.at(2 + i)));
        }
        Digest digest;
        digest.add_spans(epoch, spans);
        const auto bytes = digest.bytes();
        for (std::size_t lane = 0; lane < 2; ++lane) {
            const std::uint64_t expected = tests::hexadecimal(words.at(2 + 3 * count + lane));
            for (std::size_t i = 0; i < 8; ++i) {
                BOOST_TEST(bytes.at(8 * lane + i) ==
                           static_cast<std::uint8_t>(expected >> (8 * i)));
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(samples_are_spans_from_zero_to_zero_in_any_order_and_any_parts) {
    Digest whole;
    whole.add_spans(4, std::vector<std::int64_t>{7, 0, 0, 9, 0, 0, 8, 0, 0});
    Digest parts;
    parts.add_samples(4, std::vector<std::int64_t>{8});
    parts.add_samples(4, std::vector<std::int64_t>{});
    parts.add_samples(4, std::vector<std::int64_t>{9, 7});
    BOOST_TEST(whole.bytes() == parts.bytes(), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
