#include "datacursor/mixture.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "order_checks.hpp"
#include "refusal.hpp"
#include "vectors.hpp"

namespace {

using namespace datacursor;
using tests::check_refused;

Stopping stopping_of(const std::string& name) {
    if (name == "first_exhausted") {
        return Stopping::kFirstExhausted;
    }
    return name == "forever" ? Stopping::kForever : Stopping::kAllExhausted;
}

Mixture make_mixture(const tests::Case& given) {
    Mixture::Sources sources;
    std::vector<MixtureStage> stages;
    for (const tests::Words& words : given.lines) {
        if (words.front() == "shuffle") {
            sources.push_back(std::make_shared<Shuffle>(tests::decimal(words.at(1)),
                                                        tests::decimal(words.at(2))));
        } else if (words.front() == "sequential") {
            sources.push_back(std::make_shared<Sequential>(tests::decimal(words.at(1))));
        } else if (words.front() == "stage") {
            stages.push_back(
                {.first = tests::decimal(words.at(1)), .quotas = tests::decimals(words, 2)});
        }
    }
    const tests::Words words = given.of("mixture").at(0);
    return {sources, std::move(stages), tests::decimal(words.at(1)), stopping_of(words.at(2)),
            tests::decimal(words.at(3))};
}

Mixture make_pair(std::vector<MixtureStage> stages, std::uint64_t block,
                  Stopping stopping = Stopping::kFirstExhausted) {
    return {{std::make_shared<Shuffle>(1000, 1), std::make_shared<Sequential>(100)},
            std::move(stages),
            block,
            stopping,
            3};
}

// An order whose every use fails.
class Broken final : public Order {
public:
    Broken() : Order(1'000'000, 1'000'000) {}

private:
    [[nodiscard]] std::shared_ptr<const Epoch> epoch_at(std::uint64_t /*epoch*/) const override {
        throw Error(ErrorKind::kCorpus, "broken source");
    }
};

BOOST_AUTO_TEST_SUITE(mixture_suite)

BOOST_AUTO_TEST_CASE(known_answers) {
    for (const tests::Case& given : tests::read_cases("mixture.txt")) {
        BOOST_TEST_INFO_SCOPE(given.name);
        const Mixture mixture = make_mixture(given);
        BOOST_TEST(mixture.num_positions() == tests::decimal(given.of("positions").at(0).at(1)));
        for (const tests::Words& words : given.of("draw")) {
            const std::vector<std::uint64_t> n = tests::decimals(words, 1);
            tests::check_index(mixture, n.at(0), n.at(1), n.at(2));
            const MixtureDraw draw = mixture.draw_at(n.at(0), n.at(1));
            BOOST_TEST(draw.source == n.at(3));
            BOOST_TEST(draw.index == n.at(4));
            std::vector<std::int64_t> counts(n.size() - 5);
            mixture.count_draws(n.at(0), n.at(1), counts);
            BOOST_TEST(std::vector<std::uint64_t>(counts.begin(), counts.end()) ==
                           std::vector<std::uint64_t>(n.begin() + 5, n.end()),
                       boost::test_tools::per_element());
        }
    }
}

BOOST_AUTO_TEST_CASE(threads_fill_what_one_does) {
    const auto inner = std::make_shared<Mixture>(
        Mixture::Sources{std::make_shared<Shuffle>(1000, 1), std::make_shared<Sequential>(100)},
        std::vector<MixtureStage>{{.first = 0, .quotas = {9, 1}}}, 10U, Stopping::kFirstExhausted,
        3U);
    const Mixture mixture({std::make_shared<Shuffle>(50, 2), inner},
                          {{.first = 0, .quotas = {600, 400}}, {.first = 5000, .quotas = {1, 999}}},
                          1000, Stopping::kForever, 1);
    tests::check_threads(mixture, 0, 4321);
}

BOOST_AUTO_TEST_CASE(an_error_of_a_source_leaves_every_thread) {
    const Mixture mixture({std::make_shared<Broken>()}, {{.first = 0, .quotas = {100}}}, 100,
                          Stopping::kFirstExhausted, 1);
    for (std::size_t num_threads = 1; num_threads <= 4; ++num_threads) {
        check_refused(ErrorKind::kCorpus, "broken source", [&] {
            static_cast<void>(tests::filled(mixture, 0, 0, 600'000, num_threads));
        });
    }
}

BOOST_AUTO_TEST_CASE(a_position_beyond_the_epochs_of_a_source_is_refused) {
    const Mixture mixture({std::make_shared<Sequential>(5)}, {{.first = 0, .quotas = {1}}}, 1,
                          Stopping::kForever, 1);
    const std::uint64_t end = 5 * kEpochLimit;
    BOOST_TEST(mixture.index_at(0, end - 1) == 4U);
    check_refused(ErrorKind::kArgument, "orders[0]",
                  [&] { static_cast<void>(mixture.index_at(0, end)); });
    check_refused(ErrorKind::kArgument, "orders[0]",
                  [&] { static_cast<void>(tests::filled(mixture, 0, end - 7, 8)); });
}

BOOST_AUTO_TEST_CASE(draws_beyond_what_can_be_counted_are_refused) {
    const Mixture mixture({std::make_shared<Sequential>(std::uint64_t{1} << 62)},
                          {{.first = 0, .quotas = {1000}}}, 1000, Stopping::kForever, 1);
    static_cast<void>(mixture.index_at(0, mixture.num_positions() - 1));
    static_cast<void>(mixture.index_at(1, mixture.num_positions() - 1));
    check_refused(ErrorKind::kArgument, "epoch=20000",
                  [&] { static_cast<void>(mixture.index_at(20000, 0)); });
    check_refused(ErrorKind::kArgument, "epoch=1099511627775",
                  [&] { static_cast<void>(mixture.index_at(kEpochLimit - 1, 0)); });
}

BOOST_AUTO_TEST_CASE(arguments_out_of_range_are_refused) {
    const auto refused = [](const std::string& text, const std::vector<MixtureStage>& stages,
                            std::uint64_t block, Stopping stopping = Stopping::kFirstExhausted) {
        check_refused(ErrorKind::kArgument, text, [&] { make_pair(stages, block, stopping); });
    };
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
    refused("block=0", {{.first = 0, .quotas = {0, 0}}}, 0);
    refused("block=65537", {{.first = 0, .quotas = {65537, 0}}}, 65537);
    refused("position 0", {}, 10);
    refused("position 0", {{.first = 10, .quotas = {9, 1}}}, 10);
    refused("2 quotas", {{.first = 0, .quotas = {10}}}, 10);
    refused("add up", {{.first = 0, .quotas = {9, 2}}}, 10);
    refused("add up", {{.first = 0, .quotas = {kMost, 11}}}, 10);
    const MixtureStage whole{.first = 0, .quotas = {9, 1}};
    refused("position 15", {whole, {.first = 15, .quotas = {9, 1}}}, 10);
    refused("position 0", {whole, {.first = 0, .quotas = {9, 1}}}, 10);
    refused("stages[2]", {whole, {.first = 20, .quotas = {9, 1}}, whole}, 10);
    refused("position 18446744073709551610", {whole, {.first = kMost - 5, .quotas = {9, 1}}}, 10);
    refused("no whole block", {{.first = 0, .quotas = {1000, 101}}}, 1101);
    refused("never ends", {{.first = 0, .quotas = {10, 0}}}, 10, Stopping::kAllExhausted);

    const Mixture mixture = make_pair({whole}, 10);
    std::vector<std::int64_t> counts(1);
    check_refused(ErrorKind::kArgument, "got 1", [&] { mixture.count_draws(0, 0, counts); });
    check_refused(ErrorKind::kArgument, "index=5",
                  [&] { static_cast<void>(mixture.position_of(0, 5)); });
    check_refused(ErrorKind::kArgument, "position=1000",
                  [&] { static_cast<void>(mixture.draw_at(0, 1000)); });
    check_refused(ErrorKind::kArgument, "1 to 65536 orders",
                  [] { Mixture({}, {{.first = 0, .quotas = {}}}, 1, Stopping::kForever, 0); });
    const auto half = std::make_shared<Sequential>(std::uint64_t{1} << 62);
    check_refused(ErrorKind::kArgument, "2**63 samples", [&] {
        Mixture({half, half}, {{.first = 0, .quotas = {1, 1}}}, 2, Stopping::kForever, 0);
    });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
