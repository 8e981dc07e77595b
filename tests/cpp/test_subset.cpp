#include "datacursor/subset.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "order_checks.hpp"
#include "refusal.hpp"
#include "vectors.hpp"

namespace {

using namespace datacursor;
using tests::check_refused;

std::vector<std::int64_t> indices_of(const tests::Case& given, std::uint64_t num_samples) {
    std::vector<std::int64_t> indices;
    for (const tests::Words& words : given.of("indices")) {
        for (const std::uint64_t index : tests::decimals(words, 1)) {
            indices.push_back(static_cast<std::int64_t>(index));
        }
    }
    for (const tests::Words& words : given.of("multiples")) {
        for (std::uint64_t i = 0; i < tests::decimal(words.at(1)); ++i) {
            const std::uint64_t index = i * tests::decimal(words.at(2)) % num_samples;
            indices.push_back(static_cast<std::int64_t>(index));
        }
    }
    return indices;
}

BOOST_AUTO_TEST_SUITE(subset_suite)

BOOST_AUTO_TEST_CASE(known_answers) {
    for (const tests::Case& given : tests::read_cases("subset.txt")) {
        BOOST_TEST_INFO_SCOPE(given.name);
        const std::vector<std::uint64_t> made = tests::decimals(given.of("order").at(0), 1);
        const Subset order(indices_of(given, made.at(0)), made.at(0), made.at(1), made.at(2) == 1);
        for (const tests::Words& draw : given.of("draw")) {
            const std::vector<std::uint64_t> n = tests::decimals(draw, 1);
            tests::check_index(order, n.at(0), n.at(1), n.at(2));
            BOOST_TEST(order.position_of(n.at(0), n.at(2)) == n.at(1));
        }
    }
}

BOOST_AUTO_TEST_CASE(threads_fill_what_one_does) {
    std::vector<std::int64_t> indices;
    for (std::int64_t i = 300'000; i > 0; --i) {
        indices.push_back(3 * i);
    }
    tests::check_threads(Subset(indices, 1'000'000, 1, true), 2, 4321);
    tests::check_threads(Subset(indices, 1'000'000, 1, false), 2, 4321);
}

BOOST_AUTO_TEST_CASE(indices_that_cannot_be_are_refused) {
    const auto refused = [](const std::string& text, const std::vector<std::int64_t>& indices) {
        check_refused(ErrorKind::kArgument, text, [&] { Subset(indices, 10, 0, true); });
    };
    refused("num_positions=0", {});
    refused("-1", {3, -1});
    refused("10", {3, 10});
    refused("3 twice", {3, 3});
    refused("3 twice", {3, 1, 3});
    const Subset order(std::vector<std::int64_t>{3, 1}, 10, 0, true);
    for (const std::uint64_t index : {0U, 2U, 9U, 10U}) {
        check_refused(ErrorKind::kArgument, "index=" + std::to_string(index),
                      [&] { static_cast<void>(order.position_of(0, index)); });
    }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
