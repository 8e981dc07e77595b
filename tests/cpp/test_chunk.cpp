#include "datacursor/chunk.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "datacursor/packer.hpp"
#include "datacursor/philox.hpp"
#include "refusal.hpp"
#include "vectors.hpp"

namespace {

using namespace datacursor;
using Numbers = std::vector<std::int64_t>;

// One case of the golden file.
struct GoldenCase {
    std::string name;
    Numbers lengths;
    Numbers edges;  // of the rows, in the natural order
    std::vector<Numbers> rows;
    std::int64_t seq_len = 0;
    bool pad_tail = false;
    std::int64_t num_virtual = 0;
    bool keep_empty = false;
    std::uint64_t seed = 0;
    std::uint64_t epoch = 0;
};

Numbers numbers_of(const tests::Words& words) {
    Numbers numbers;
    for (std::size_t i = 1; i < words.size(); ++i) {
        numbers.push_back(static_cast<std::int64_t>(tests::decimal(words[i])));
    }
    return numbers;
}

std::vector<GoldenCase> golden_cases() {
    std::vector<GoldenCase> cases;
    for (const tests::Words& words : tests::read_vectors("chunk.txt")) {
        const std::string& keyword = words.front();
        if (keyword == "case") {
            cases.emplace_back().name = words.at(1);
        } else if (keyword == "parameters") {
            GoldenCase& golden = cases.back();
            golden.seq_len = static_cast<std::int64_t>(tests::decimal(words.at(1)));
            golden.pad_tail = words.at(2) == "1";
            golden.num_virtual = static_cast<std::int64_t>(tests::decimal(words.at(3)));
            golden.keep_empty = words.at(4) == "1";
            golden.seed = tests::decimal(words.at(5));
            golden.epoch = tests::decimal(words.at(6));
        } else if (keyword == "lengths") {
            cases.back().lengths = numbers_of(words);
        } else if (keyword == "edges") {
            cases.back().edges = numbers_of(words);
        } else if (keyword == "row") {
            cases.back().rows.push_back(numbers_of(words));
        }
    }
    return cases;
}

// Cuts rows out of documents of these lengths.
std::vector<Numbers> cut(const Numbers& lengths, const LengthRule& rule, const RowCut& at,
                         const Numbers& numbers, std::int64_t stride = 2) {
    const LengthIndex index({OffsetSpans<std::int64_t>{.begins = {}, .ends = std::span(lengths)}});
    Numbers documents(lengths.size());
    std::iota(documents.begin(), documents.end(), 0);
    Numbers totals((documents.size() - 1) / static_cast<std::size_t>(stride) + 1);
    count_tokens(index, rule, documents, stride, 0, totals);
    Numbers row_ends(numbers.size());
    const std::size_t num_spans = cut_rows(index, rule, totals, stride, at, numbers, {}, row_ends);
    Numbers spans(3 * num_spans);
    BOOST_TEST(cut_rows(index, rule, totals, stride, at, numbers, spans, row_ends) == num_spans);
    std::vector<Numbers> rows;
    std::int64_t first = 0;
    for (const std::int64_t end : row_ends) {
        rows.emplace_back(spans.begin() + 3 * first, spans.begin() + 3 * end);
        first = end;
    }
    return rows;
}

BOOST_AUTO_TEST_SUITE(chunk_suite)

BOOST_AUTO_TEST_CASE(known_cuts_and_permutations) {
    for (const tests::Words& words : tests::read_vectors("chunk.txt")) {
        const auto number = [&](std::size_t i) { return tests::decimal(words.at(i)); };
        if (words.front() == "cut") {
            BOOST_TEST(chunk_cut(number(1), number(2), number(3)) == number(4));
        } else if (words.front() == "permuted") {
            BOOST_TEST(chunk_rows(number(1), number(2), number(3)).index_at(number(4)) ==
                       number(5));
        }
    }
}

BOOST_AUTO_TEST_CASE(known_rows) {
    for (const GoldenCase& golden : golden_cases()) {
        BOOST_TEST_CONTEXT(golden.name) {
            const std::size_t num_rows = golden.edges.empty() ? 0 : golden.edges.size() - 1;
            BOOST_TEST(golden.rows.size() == num_rows);
            if (num_rows == 0) {
                continue;
            }
            Numbers order(num_rows);
            chunk_rows(golden.seed, golden.epoch, num_rows).fill(0, order);
            const auto seq_len = static_cast<std::uint64_t>(golden.seq_len);
            RowCut at{.first_token =
                          static_cast<std::int64_t>(chunk_cut(golden.seed, golden.epoch, seq_len)),
                      .seq_len = golden.seq_len};
            if (golden.pad_tail && at.first_token > 0) {
                at.first_token -= golden.seq_len;
            }
            const LengthRule rule(golden.num_virtual, golden.keep_empty);
            BOOST_CHECK(cut(golden.lengths, rule, at, order) == golden.rows);
        }
    }
}

BOOST_AUTO_TEST_CASE(rows_may_repeat_and_come_in_any_order) {
    const Numbers lengths{3, 0, 2, 0, 0, 5};
    const std::vector<Numbers> rows =
        cut(lengths, {0, false}, {.first_token = -2, .seq_len = 4}, {2, 0, 1, 2});
    const std::vector<Numbers> expected{
        {5, 1, 5}, {0, 0, 2}, {0, 2, 3, 2, 0, 2, 5, 0, 1}, {5, 1, 5}};
    BOOST_CHECK(rows == expected);
}

std::int64_t drawn_below(std::int64_t limit, PhiloxStream& random) {
    return static_cast<std::int64_t>(random.bounded(static_cast<std::uint64_t>(limit)));
}

// Lengths of many kinds: short, mostly empty, long; one giant; none but empty ones around it.
std::vector<Numbers> lengths_of_many_kinds() {
    PhiloxStream random({0, 0}, 1, 0, 0);
    const auto drawn = [&](std::int64_t longest, std::int64_t empty_in_ten) {
        Numbers lengths(300);
        for (std::int64_t& length : lengths) {
            const bool is_empty = drawn_below(10, random) < empty_in_ten;
            length = is_empty ? 0 : drawn_below(longest + 1, random);
        }
        return lengths;
    };
    std::vector<Numbers> kinds{drawn(9, 0), drawn(5, 9), drawn(1000, 3), Numbers(300, 1)};
    kinds.emplace_back(300, 0).at(151) = 5000;
    kinds.push_back({7});
    return kinds;
}

// Rows as they are defined: one document after the other, token numbers counted from 0.
std::vector<Numbers> cut_simply(const Numbers& lengths, const LengthRule& rule, const RowCut& at,
                                const Numbers& numbers) {
    std::vector<Numbers> rows;
    for (const std::int64_t number : numbers) {
        const std::int64_t begin = at.first_token + number * at.seq_len;
        Numbers& row = rows.emplace_back();
        std::int64_t token = 0;
        for (std::size_t d = 0; d < lengths.size(); ++d) {
            const std::int64_t length = rule(lengths[d]);
            const std::int64_t start = std::max(begin - token, std::int64_t{0});
            const std::int64_t stop = std::min(begin + at.seq_len - token, length);
            if (start < stop) {
                row.insert(row.end(), {static_cast<std::int64_t>(d), start, stop});
            }
            token += length;
        }
    }
    return rows;
}

BOOST_AUTO_TEST_CASE(any_rows_of_any_lengths_are_those_of_the_definition) {
    PhiloxStream random({0, 0}, 2, 0, 0);
    for (const Numbers& lengths : lengths_of_many_kinds()) {
        for (const LengthRule& rule : {LengthRule(0, false), LengthRule(2, false), {1, true}}) {
            std::int64_t num_tokens = 0;
            for (const std::int64_t length : lengths) {
                num_tokens += rule(length);
            }
            for (const std::int64_t seq_len : {1, 3, 50, 10'000}) {
                const std::int64_t first = drawn_below(2 * seq_len, random) - seq_len + 1;
                const RowCut at{.first_token = std::min(first, num_tokens - 1), .seq_len = seq_len};
                const std::int64_t num_rows = (num_tokens - at.first_token - 1) / seq_len + 1;
                Numbers numbers{0, num_rows - 1};
                for (int i = 0; i < 68; ++i) {  // more than are looked up side by side
                    numbers.push_back(drawn_below(num_rows, random));
                }
                const std::vector<Numbers> expected = cut_simply(lengths, rule, at, numbers);
                for (const std::int64_t stride : {1, 2, 7, 32, 1000}) {
                    BOOST_CHECK(cut(lengths, rule, at, numbers, stride) == expected);
                }
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(rows_cross_shards_of_any_type) {
    const std::vector<std::uint32_t> offsets{3, 5, 5, 9};
    const std::vector<std::int32_t> none;
    const Numbers lengths{4, 1, 0};
    const std::span<const std::uint32_t> all(offsets);
    const LengthIndex index(
        {OffsetSpans<std::int32_t>{.begins = {}, .ends = std::span(none)},
         OffsetSpans<std::uint32_t>{.begins = all.first(3), .ends = all.subspan(1)},
         OffsetSpans<std::int32_t>{.begins = {}, .ends = std::span(none)},
         OffsetSpans<std::int64_t>{.begins = {}, .ends = std::span(lengths)}});
    Numbers spans(15);
    Numbers row_ends(2);
    const RowCut at{.first_token = 1, .seq_len = 7};
    const Numbers totals{10, 11};
    BOOST_TEST(cut_rows(index, {0, false}, totals, 4, at, Numbers{0, 1}, spans, row_ends) == 5);
    BOOST_TEST(spans == Numbers({0, 1, 2, 2, 0, 4, 3, 0, 2, 3, 2, 4, 4, 0, 1}),
               boost::test_tools::per_element());
    BOOST_TEST(row_ends == Numbers({3, 5}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(too_few_spans_are_filled_and_all_counted) {
    const Numbers lengths{1, 1, 1, 1};
    const LengthIndex index({OffsetSpans<std::int64_t>{.begins = {}, .ends = std::span(lengths)}});
    const Numbers totals{4};
    Numbers spans(7, -1);
    Numbers row_ends(1);
    const RowCut at{.first_token = 0, .seq_len = 4};
    BOOST_TEST(cut_rows(index, {0, false}, totals, 4, at, Numbers{0}, spans, row_ends) == 4);
    BOOST_TEST(spans == Numbers({0, 0, 1, 1, 0, 1, -1}), boost::test_tools::per_element());
    BOOST_TEST(row_ends.front() == 4);
}

BOOST_AUTO_TEST_CASE(a_row_may_end_with_token_two_to_the_63) {
    const std::int64_t num_tokens = std::numeric_limits<std::int64_t>::max() - 2;
    const std::int64_t seq_len = std::int64_t{1} << 62;
    const std::vector<Numbers> rows = cut({num_tokens}, {0, false}, {-1, seq_len}, {0, 1});
    const std::vector<Numbers> expected{{0, 0, seq_len - 1}, {0, seq_len - 1, num_tokens}};
    BOOST_CHECK(rows == expected);
}

BOOST_AUTO_TEST_CASE(rows_that_cannot_be_cut_are_refused) {
    const Numbers lengths{3, 2};
    const LengthIndex index({OffsetSpans<std::int64_t>{.begins = {}, .ends = std::span(lengths)}});
    const auto refused = [&](const std::string& text, const Numbers& totals, std::int64_t stride,
                             const RowCut& at, const Numbers& numbers) {
        Numbers row_ends(1);
        tests::check_refused(ErrorKind::kArgument, text, [&] {
            cut_rows(index, {0, false}, totals, stride, at, numbers, {}, row_ends);
        });
    };
    constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
    refused("row must be in [0, 2), got row=2", {5}, 2, {0, 4}, {2});
    refused("row must be in [0, 2), got row=-1", {5}, 2, {0, 4}, {-1});
    refused("row must be in [0, 2), got row=-9223372036854775808", {5}, 2, {-3, 4}, {kLeast});
    refused("row must be in [0, 0), got row=0", {5}, 2, {5, 4}, {0});
    refused("row must be in [0, 0), got row=0", {0}, 2, {-1, 4}, {0});
    refused("row must be in [0, 0), got row=0", {-5}, 2, {-3, 4}, {0});
    refused("first_token=-4", {5}, 2, {-4, 4}, {0});
    refused("first_token=-9223372036854775808", {5}, 2, {kLeast, 4}, {0});
    refused("seq_len=0", {5}, 2, {1, 0}, {0});
    refused("seq_len=-9223372036854775808", {5}, 2, {1, kLeast}, {0});
    refused("stride=0", {5}, 0, {0, 4}, {0});
    refused("got 2", {3, 5}, 2, {0, 4}, {0});
    refused("row_ends", {5}, 2, {0, 4}, {0, 1});
    refused("lack 3 tokens", {8}, 2, {4, 4}, {0});
    refused("not be negative, got -4", {-4, 5}, 1, {0, 4}, {0});
}

BOOST_AUTO_TEST_CASE(there_are_no_rows_without_documents) {
    const LengthIndex index({});
    Numbers row_ends;
    BOOST_CHECK_EQUAL(cut_rows(index, {0, false}, {}, 1, {0, 4}, {}, {}, row_ends), 0U);
    row_ends.resize(1);
    const Numbers rows{0};
    tests::check_refused(ErrorKind::kArgument, "there are no documents, got 1",
                         [&] { cut_rows(index, {0, false}, {}, 1, {0, 4}, rows, {}, row_ends); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
