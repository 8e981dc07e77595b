#include "datacursor/weighted.hpp"

#include <bit>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "order_checks.hpp"
#include "refusal.hpp"
#include "vectors.hpp"

namespace {

using namespace datacursor;
using tests::check_refused;

std::vector<double> weights_of(const tests::Case& given) {
    std::vector<double> weights;
    for (const tests::Words& words : given.of("weights")) {
        for (std::size_t i = 1; i < words.size(); ++i) {
            weights.push_back(std::bit_cast<double>(tests::hexadecimal(words[i])));
        }
    }
    for (const tests::Words& words : given.of("squares")) {
        for (std::uint64_t i = 0; i < tests::decimal(words.at(1)); ++i) {
            weights.push_back(static_cast<double>(i * i % tests::decimal(words.at(2))));
        }
    }
    return weights;
}

BOOST_AUTO_TEST_SUITE(weighted_suite)

BOOST_AUTO_TEST_CASE(known_answers) {
    for (const tests::Case& given : tests::read_cases("weighted.txt")) {
        BOOST_TEST_INFO_SCOPE(given.name);
        const tests::Words words = given.of("order").at(0);
        const Weighted order(weights_of(given), tests::decimal(words.at(1)),
                             tests::decimal(words.at(2)));
        for (const tests::Words& draw : given.of("draw")) {
            const std::vector<std::uint64_t> n = tests::decimals(draw, 1);
            tests::check_index(order, n.at(0), n.at(1), n.at(2));
        }
    }
}

BOOST_AUTO_TEST_CASE(threads_fill_what_one_does) {
    tests::check_threads(Weighted(std::vector<double>{1, 2, 0, 5}, 1'000'000, 1), 2, 4321);
}

BOOST_AUTO_TEST_CASE(arguments_out_of_range_are_refused) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr double kMost = std::numeric_limits<double>::max();
    const auto refused = [](const std::string& text, const std::vector<double>& weights) {
        check_refused(ErrorKind::kArgument, text, [&] { Weighted(weights, 10, 0); });
    };
    refused("num_samples=0", {});
    refused("weights[1]=nan", {1, std::numeric_limits<double>::quiet_NaN()});
    refused("weights[0]=inf", {kInfinity});
    refused("weights[2]=-1", {1, 1, -1});
    refused("weights[0]=-1e-300", {-1e-300, 1});
    refused("sum of 0", {0, 0});
    refused("sum of inf", {kMost, kMost});
    check_refused(ErrorKind::kArgument, "num_positions=0", [] { Weighted({{1.0}}, 0, 0); });
    const Weighted order(std::vector<double>{1, 2}, 10, 0);
    check_refused(ErrorKind::kArgument, "index=1",
                  [&] { static_cast<void>(order.position_of(0, 1)); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
