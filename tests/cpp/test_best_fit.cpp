#include "datacursor/best_fit.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "datacursor/permutation.hpp"
#include "refusal.hpp"
#include "vectors.hpp"

namespace {

using namespace datacursor;
using Numbers = std::vector<std::int64_t>;

// An index over documents of these lengths, which outlive it.
LengthIndex index_of(const Numbers& lengths) {
    return LengthIndex({OffsetSpans<std::int64_t>{.begins = {}, .ends = std::span(lengths)}});
}

// The rows a packer holds, each as its spans.
std::vector<Numbers> rows_of(const BestFitPacker& packer, const BestFitCounts& counts,
                             const std::optional<RowKey>& key) {
    Numbers spans(3 * static_cast<std::size_t>(counts.num_spans));
    Numbers row_offsets(static_cast<std::size_t>(counts.num_rows) + 1);
    packer.write(key, spans, row_offsets);
    std::vector<Numbers> rows;
    for (std::size_t row = 0; row + 1 < row_offsets.size(); ++row) {
        rows.emplace_back(spans.begin() + 3 * row_offsets[row],
                          spans.begin() + 3 * row_offsets[row + 1]);
    }
    return rows;
}

// One case of the golden file.
struct GoldenCase {
    std::string name;
    BestFitRule rule;
    Numbers virtual_tokens;  // num_virtual, keep_empty
    Numbers lengths;
    Numbers documents;
    std::optional<RowKey> key;
    Numbers counts;
    std::vector<Numbers> rows;
};

Numbers numbers_of(const tests::Words& words) {
    Numbers numbers;
    for (std::size_t i = 1; i < words.size(); ++i) {
        numbers.push_back(static_cast<std::int64_t>(tests::decimal(words[i])));
    }
    return numbers;
}

BestFitRule rule_of(const tests::Words& words) {
    static const std::map<std::string, LongDocuments> names{
        {"split", LongDocuments::kSplit},
        {"truncate", LongDocuments::kTruncate},
        {"drop", LongDocuments::kDrop},
    };
    const auto number = [&](std::size_t i) {
        return static_cast<std::int64_t>(tests::decimal(words.at(i)));
    };
    return {.seq_len = number(1),
            .long_documents = names.at(words.at(2)),
            .decreasing = words.at(3) == "decreasing",
            .max_documents = number(4),
            .align = number(5),
            .min_fragment = number(6)};
}

std::vector<GoldenCase> golden_cases() {
    std::vector<GoldenCase> cases;
    for (const tests::Words& words : tests::read_vectors("best_fit.txt")) {
        const std::string& keyword = words.front();
        if (keyword == "case") {
            cases.emplace_back().name = words.at(1);
        } else if (keyword == "rule") {
            cases.back().rule = rule_of(words);
        } else if (keyword == "virtual") {
            cases.back().virtual_tokens = numbers_of(words);
        } else if (keyword == "lengths") {
            cases.back().lengths = numbers_of(words);
        } else if (keyword == "documents") {
            cases.back().documents = numbers_of(words);
        } else if (keyword == "key") {
            RowKey key{.seed = tests::decimal(words.at(1)),
                       .epoch = tests::decimal(words.at(2)),
                       .window = tests::decimal(words.at(3))};
            if (words.size() > 4) {
                key.cost_groups = static_cast<std::uint32_t>(tests::decimal(words.at(4)));
            }
            cases.back().key = key;
        } else if (keyword == "counts") {
            cases.back().counts = numbers_of(words);
        } else if (keyword == "row") {
            cases.back().rows.push_back(numbers_of(words));
        }
    }
    return cases;
}

Numbers listed(const BestFitCounts& counts) {
    return {counts.num_rows,          counts.num_spans,   counts.num_tokens,
            counts.sum_squares,       counts.num_empty,   counts.num_split,
            counts.num_truncated,     counts.num_dropped, counts.num_fragments_dropped,
            counts.num_tokens_dropped};
}

BOOST_AUTO_TEST_SUITE(best_fit_suite)

BOOST_AUTO_TEST_CASE(known_answers) {
    for (const GoldenCase& golden : golden_cases()) {
        BOOST_TEST_CONTEXT(golden.name) {
            const LengthIndex index = index_of(golden.lengths);
            const LengthRule lengths(golden.virtual_tokens.at(0), golden.virtual_tokens.at(1) != 0);
            BestFitPacker packer(golden.rule);
            const BestFitCounts counts = packer.pack(index, lengths, golden.documents);
            BOOST_TEST(listed(counts) == golden.counts, boost::test_tools::per_element());
            BOOST_CHECK(rows_of(packer, counts, golden.key) == golden.rows);
        }
    }
}

// As the packer keeps its memory, so must it forget what was in it.
BOOST_AUTO_TEST_CASE(a_packer_packs_each_window_as_a_new_one_does) {
    const Numbers lengths{5, 9, 1, 7, 0, 3, 12, 4, 4, 2};
    const LengthIndex index = index_of(lengths);
    const BestFitRule rule{.seq_len = 8};
    BestFitPacker kept(rule);
    for (const Numbers& documents :
         {Numbers{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, Numbers{9}, Numbers{}, Numbers{6, 3, 1}}) {
        BestFitPacker fresh(rule);
        const BestFitCounts counts = kept.pack(index, {0, false}, documents);
        BOOST_TEST(listed(counts) == listed(fresh.pack(index, {0, false}, documents)));
        BOOST_CHECK(rows_of(kept, counts, {}) == rows_of(fresh, counts, {}));
    }
}

// Few pieces of long rows are sorted by comparing, many of short rows by counting.
BOOST_AUTO_TEST_CASE(pieces_are_sorted_alike_by_both_ways) {
    const Numbers lengths{5, 9, 1, 7, 3, 12, 4, 4, 2};
    const LengthIndex index = index_of(lengths);
    const Numbers few{0, 1, 2, 3, 4, 5, 6, 7, 8};
    Numbers many;
    for (int i = 0; i < 8; ++i) {
        many.insert(many.end(), few.begin(), few.end());
    }
    // One document a row, so the rows stand in the order of sorting.
    BestFitPacker packer({.seq_len = 100, .max_documents = 1});
    const auto sorted = [&](const Numbers& documents) {
        return rows_of(packer, packer.pack(index, {0, false}, documents), {});
    };
    const std::vector<Numbers> by_comparing = sorted(few);
    const std::vector<Numbers> by_counting = sorted(many);
    for (std::size_t row = 0; row < by_counting.size(); ++row) {
        BOOST_TEST(by_counting[row][2] == by_comparing[row / 8][2]);
    }
}

BOOST_AUTO_TEST_CASE(rows_of_different_windows_are_permuted_differently) {
    const Numbers lengths(64, 2);
    const LengthIndex index = index_of(lengths);
    Numbers documents(64);
    for (std::size_t i = 0; i < documents.size(); ++i) {
        documents[i] = static_cast<std::int64_t>(i);
    }
    BestFitPacker packer({.seq_len = 2});
    const BestFitCounts counts = packer.pack(index, {0, false}, documents);
    std::set<std::vector<Numbers>> seen;
    for (const RowKey& key : {RowKey{0, 0, 0}, RowKey{0, 0, 1}, RowKey{0, 1, 0}, RowKey{1, 0, 0}}) {
        seen.insert(rows_of(packer, counts, key));
    }
    seen.insert(rows_of(packer, counts, {}));
    BOOST_TEST(seen.size() == 5);
}

BOOST_AUTO_TEST_CASE(rules_that_cannot_be_are_refused) {
    const auto refused = [](const std::string& text, const BestFitRule& rule) {
        tests::check_refused(ErrorKind::kArgument, text, [&] { BestFitPacker{rule}; });
    };
    refused("seq_len=0", {.seq_len = 0});
    refused("seq_len=16777217", {.seq_len = kMaxBestFitSeqLen + 1});
    refused("align=3", {.seq_len = 8, .align = 3});
    refused("align=0", {.seq_len = 8, .align = 0});
    refused("max_documents=-1", {.seq_len = 8, .max_documents = -1});
    refused("min_fragment=0", {.seq_len = 8, .min_fragment = 0});
    refused("min_fragment=9", {.seq_len = 8, .min_fragment = 9});
}

BOOST_AUTO_TEST_CASE(documents_that_cannot_be_packed_are_refused) {
    const Numbers lengths{3, 9};
    const LengthIndex index = index_of(lengths);
    BestFitPacker packer({.seq_len = 8, .long_documents = LongDocuments::kError});
    tests::check_refused(ErrorKind::kCorpus, "document 1 has 9 tokens, more than seq_len=8",
                         [&] { packer.pack(index, {0, false}, Numbers{0, 1}); });
    tests::check_refused(ErrorKind::kArgument, "2",
                         [&] { packer.pack(index, {0, false}, Numbers{2}); });
    BOOST_TEST(packer.pack(index, {0, false}, Numbers{0}).num_rows == 1);
}

BOOST_AUTO_TEST_CASE(a_window_too_large_to_count_is_refused_before_it_is_cut) {
    const Numbers lengths{std::int64_t{1} << 62};
    const LengthIndex index = index_of(lengths);
    BestFitPacker split({.seq_len = 1});
    tests::check_refused(ErrorKind::kArgument, "2**32 pieces",
                         [&] { split.pack(index, {0, false}, Numbers{0}); });
    BestFitPacker dropped({.seq_len = 8, .long_documents = LongDocuments::kDrop});
    tests::check_refused(ErrorKind::kArgument, "tokens",
                         [&] { dropped.pack(index, {0, false}, Numbers{0, 0, 0}); });
}

BOOST_AUTO_TEST_CASE(outputs_and_keys_of_another_size_are_refused) {
    const Numbers lengths{3, 2};
    const LengthIndex index = index_of(lengths);
    BestFitPacker packer({.seq_len = 4});
    packer.pack(index, {0, false}, Numbers{0, 1});
    Numbers spans(6);
    Numbers row_offsets(3);
    const auto refused = [&](const std::string& text, std::span<std::int64_t> out,
                             std::span<std::int64_t> offsets, const std::optional<RowKey>& key) {
        tests::check_refused(ErrorKind::kArgument, text, [&] { packer.write(key, out, offsets); });
    };
    refused("2 spans and 3 offsets", std::span(spans).first(3), row_offsets, {});
    refused("got 2 and 2", spans, std::span(row_offsets).first(2), {});
    refused("window=36028797018963968", spans, row_offsets, RowKey{.window = kSubPermutationLimit});
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
