#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "datacursor/packer.hpp"
#include "refusal.hpp"
#include "vectors.hpp"

namespace {

using namespace datacursor;
using Numbers = std::vector<std::int64_t>;

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

// An index over documents of these lengths, which outlive it.
LengthIndex index_of(const Numbers& lengths) {
    return LengthIndex({OffsetSpans<std::int64_t>{.begins = {}, .ends = std::span(lengths)}});
}

Numbers natural_order(const Numbers& lengths) {
    Numbers documents(lengths.size());
    std::iota(documents.begin(), documents.end(), 0);
    return documents;
}

// What several calls of pack_concat packed, and where the reader stands.
struct Packed {
    Numbers spans;
    Numbers row_ends;
    std::int64_t position = 0;
    ConcatState state;
};

// Packs num_rows rows, or as many as there are, from buffers of buffer_size documents.
Packed pack(const LengthIndex& index, const LengthRule& rule, std::int64_t seq_len,
            const Numbers& documents, std::size_t num_rows, std::size_t buffer_size,
            Packed packed = {}) {
    const std::size_t wanted = packed.row_ends.size() + num_rows;
    while (packed.row_ends.size() < wanted) {
        const auto position = static_cast<std::size_t>(packed.position);
        const std::size_t count = std::min(buffer_size, documents.size() - position);
        if (count == 0) {
            break;
        }
        const std::size_t missing = wanted - packed.row_ends.size();
        Numbers spans(3 * (count + missing));
        Numbers row_ends(missing);
        const ConcatProgress progress =
            pack_concat(index, rule, seq_len, std::span(documents).subspan(position, count),
                        packed.state, spans, row_ends);
        const auto num_spans = static_cast<std::int64_t>(packed.spans.size() / 3);
        for (std::size_t row = 0; row < progress.num_rows; ++row) {
            packed.row_ends.push_back(num_spans + row_ends[row]);
        }
        spans.resize(3 * progress.num_spans);
        packed.spans.insert(packed.spans.end(), spans.begin(), spans.end());
        packed.position += static_cast<std::int64_t>(progress.documents_read);
        packed.state = progress.state;
    }
    return packed;
}

template <typename Call>
void check_refused(const std::string& text, const Call& call) {
    tests::check_refused(ErrorKind::kArgument, text, call);
}

// Every document with its real tokens alone.
LengthRule plain() { return {0, false}; }

BOOST_AUTO_TEST_SUITE(packer_suite)

// One case of the golden file, and the rows it gives.
struct GoldenCase {
    std::string name;
    Numbers parameters;  // seq_len, pad_tail, num_virtual, keep_empty, phase
    Numbers lengths;
    Numbers documents;
    std::vector<Numbers> rows;  // reader position, reader offset, spans
};

std::vector<GoldenCase> golden_cases() {
    std::vector<GoldenCase> cases;
    for (const tests::Words& words : tests::read_vectors("concat.txt")) {
        const std::string& keyword = words.front();
        if (keyword == "case") {
            cases.push_back({.name = words.at(1),
                             .parameters = {},
                             .lengths = {},
                             .documents = {},
                             .rows = {}});
            continue;
        }
        Numbers numbers;
        for (std::size_t i = 1; i < words.size(); ++i) {
            numbers.push_back(static_cast<std::int64_t>(tests::decimal(words[i])));
        }
        if (keyword == "parameters") {
            cases.back().parameters = numbers;
        } else if (keyword == "lengths") {
            cases.back().lengths = numbers;
        } else if (keyword == "order") {
            cases.back().documents = numbers;
        } else if (keyword == "row") {
            cases.back().rows.push_back(numbers);
        }
    }
    return cases;
}

// The packer knows no tail: a padded last row is the row it leaves open.
void check_golden(const GoldenCase& golden) {
    const LengthIndex index = index_of(golden.lengths);
    const LengthRule rule(golden.parameters.at(2), golden.parameters.at(3) != 0);
    Packed packed;
    packed.state.filled = golden.parameters.at(4);
    for (const Numbers& row : golden.rows) {
        const auto num_before = static_cast<std::ptrdiff_t>(packed.spans.size());
        const std::size_t num_rows = packed.row_ends.size();
        packed = pack(index, rule, golden.parameters.at(0), golden.documents, 1, 3, packed);
        BOOST_TEST(Numbers(packed.spans.begin() + num_before, packed.spans.end()) ==
                   Numbers(row.begin() + 2, row.end()));
        const bool is_padded = &row == &golden.rows.back() && packed.row_ends.size() == num_rows;
        BOOST_TEST(packed.row_ends.size() == num_rows + (is_padded ? 0 : 1));
        BOOST_TEST((is_padded ? golden.parameters.at(1) == 1
                              : Numbers({packed.position, packed.state.offset}) ==
                                    Numbers(row.begin(), row.begin() + 2)));
    }
}

BOOST_AUTO_TEST_CASE(known_answers) {
    for (const GoldenCase& golden : golden_cases()) {
        BOOST_TEST_CONTEXT(golden.name) { check_golden(golden); }
    }
}

BOOST_AUTO_TEST_CASE(documents_are_joined_and_cut) {
    const Numbers lengths{3, 2, 5};
    const Packed packed = pack(index_of(lengths), plain(), 4, {0, 1, 2}, 9, 9);
    BOOST_TEST(packed.spans == Numbers({0, 0, 3, 1, 0, 1, 1, 1, 2, 2, 0, 3, 2, 3, 5}));
    BOOST_TEST(packed.row_ends == Numbers({2, 4}));
    BOOST_TEST(packed.position == 3);
    BOOST_TEST(packed.state.offset == 0);
    BOOST_TEST(packed.state.filled == 2);
}

BOOST_AUTO_TEST_CASE(the_reader_follows_the_order) {
    const Numbers lengths{3, 2, 5};
    const LengthIndex index = index_of(lengths);
    const Packed one = pack(index, plain(), 4, {2, 0, 1}, 1, 3);
    BOOST_TEST(one.spans == Numbers({2, 0, 4}));
    BOOST_TEST(one.position == 0);
    BOOST_TEST(one.state.offset == 4);
    const Packed two = pack(index, plain(), 4, {2, 0, 1}, 1, 3, one);
    BOOST_TEST(two.spans == Numbers({2, 0, 4, 2, 4, 5, 0, 0, 3}));
    BOOST_TEST(two.position == 2);
    BOOST_TEST(two.state.offset == 0);
}

BOOST_AUTO_TEST_CASE(a_row_that_ends_with_a_document_leaves_the_reader_at_the_next) {
    const Numbers lengths{4, 0, 4};
    const Packed packed = pack(index_of(lengths), plain(), 4, {0, 1, 2}, 1, 3);
    BOOST_TEST(packed.position == 1);
    BOOST_TEST(packed.state.offset == 0);
}

BOOST_AUTO_TEST_CASE(empty_documents_have_no_span) {
    const Numbers lengths{1, 0, 2, 0, 1};
    const Packed packed = pack(index_of(lengths), plain(), 4, natural_order(lengths), 1, 5);
    BOOST_TEST(packed.spans == Numbers({0, 0, 1, 2, 0, 2, 4, 0, 1}));
    BOOST_TEST(packed.position == 5);
}

BOOST_AUTO_TEST_CASE(virtual_tokens_count_in_spans) {
    const Numbers lengths{1, 0, 2};
    const LengthIndex index = index_of(lengths);
    const Packed skipped = pack(index, LengthRule(2, false), 4, {0, 1, 2}, 9, 3);
    BOOST_TEST(skipped.spans == Numbers({0, 0, 3, 2, 0, 1, 2, 1, 4}));
    const Packed kept = pack(index, LengthRule(2, true), 4, {0, 1, 2}, 9, 3);
    BOOST_TEST(kept.spans == Numbers({0, 0, 3, 1, 0, 1, 1, 1, 2, 2, 0, 3, 2, 3, 4}));
}

// Lengths around the row, around the packer's own blocks of 256, and empty ones.
Numbers many_lengths() {
    Numbers lengths;
    for (std::int64_t i = 0; i < 700; ++i) {
        lengths.push_back(i % 5 == 0 ? 0 : (i * i + 3 * i) % 23);
    }
    return lengths;
}

BOOST_AUTO_TEST_CASE(any_buffer_size_packs_the_same) {
    const Numbers lengths = many_lengths();
    const LengthIndex index = index_of(lengths);
    const Numbers documents = natural_order(lengths);
    for (const LengthRule& rule : {plain(), LengthRule(1, false), LengthRule(2, true)}) {
        const Packed whole = pack(index, rule, 16, documents, 9999, documents.size());
        for (const std::size_t buffer_size : {1U, 2U, 7U, 255U, 256U, 257U}) {
            const Packed pieces = pack(index, rule, 16, documents, 9999, buffer_size);
            BOOST_TEST(pieces.spans == whole.spans);
            BOOST_TEST(pieces.row_ends == whole.row_ends);
            BOOST_TEST(pieces.state.filled == whole.state.filled);
        }
    }
}

// Packs row by row and compares with `whole`; every reader must be where locate finds it.
void check_row_by_row(const LengthIndex& index, std::int64_t seq_len, const Numbers& documents,
                      const Packed& whole) {
    Packed rows;
    std::vector<Numbers> readers;
    std::vector<Numbers> located;
    for (std::size_t row = 1; row <= whole.row_ends.size(); ++row) {
        rows = pack(index, plain(), seq_len, documents, 1, 300, rows);
        const TokenPlace found =
            locate_token(index, plain(), documents, static_cast<std::int64_t>(row) * seq_len);
        readers.push_back({rows.position, rows.state.offset});
        located.push_back({static_cast<std::int64_t>(found.place), found.offset});
    }
    BOOST_TEST((readers == located));
    BOOST_TEST(rows.row_ends == whole.row_ends);
    const auto num_packed = static_cast<std::ptrdiff_t>(3 * whole.row_ends.back());
    BOOST_TEST(rows.spans == Numbers(whole.spans.begin(), whole.spans.begin() + num_packed));
}

BOOST_AUTO_TEST_CASE(row_by_row_packs_the_same_and_locate_finds_every_reader) {
    const Numbers lengths = many_lengths();
    const LengthIndex index = index_of(lengths);
    const Numbers documents = natural_order(lengths);
    for (const std::int64_t seq_len : {1, 3, 16, 100, 5000}) {
        const Packed whole = pack(index, plain(), seq_len, documents, 99999, documents.size());
        check_row_by_row(index, seq_len, documents, whole);
    }
}

BOOST_AUTO_TEST_CASE(a_long_document_fills_many_rows) {
    const Numbers lengths{1'000'000'000'000, 5};
    const LengthIndex index = index_of(lengths);
    Packed packed;
    packed.state.offset = 999'999'999'990;
    packed = pack(index, plain(), 4, {0, 1}, 9, 2, packed);
    BOOST_TEST(packed.row_ends == Numbers({1, 2, 4}));
    BOOST_TEST(packed.spans.at(6 + 2) == 1'000'000'000'000);
    BOOST_TEST(packed.state.filled == 3);
}

// Whether a call with so many of two documents and room for so many rows does nothing.
bool does_nothing(std::size_t num_documents, std::size_t num_rows) {
    const Numbers lengths{3, 2};
    const Numbers documents{0, 1};
    Numbers spans(27);
    Numbers row_ends(1);
    const ConcatProgress progress =
        pack_concat(index_of(lengths), plain(), 4, std::span(documents).first(num_documents),
                    {.offset = 1, .filled = 2}, spans, std::span(row_ends).first(num_rows));
    return progress.documents_read == 0 && progress.num_spans == 0 && progress.num_rows == 0 &&
           progress.state.offset == 1 && progress.state.filled == 2;
}

BOOST_AUTO_TEST_CASE(nothing_wanted_or_nothing_given_changes_nothing) {
    BOOST_TEST(does_nothing(2, 0));
    BOOST_TEST(does_nothing(0, 1));
    BOOST_TEST(!does_nothing(1, 1));
}

BOOST_AUTO_TEST_CASE(wrong_arguments_are_refused) {
    const Numbers lengths{3, 2};
    const LengthIndex index = index_of(lengths);
    const auto check = [&](std::int64_t seq_len, ConcatState state, const Numbers& documents,
                           const std::string& message) {
        Numbers spans(9);
        Numbers row_ends(1);
        check_refused(message, [&] {
            static_cast<void>(
                pack_concat(index, plain(), seq_len, documents, state, spans, row_ends));
        });
    };
    check(0, {}, {0, 1}, "seq_len must be at least 1, got seq_len=0");
    check(4, {.filled = 4}, {0, 1}, "filled must be in [0, 4), got filled=4");
    check(4, {.filled = -1}, {0, 1}, "got filled=-1");
    check(4, {.offset = -1}, {0, 1}, "offset must not be negative, got offset=-1");
    check(4, {.offset = 3}, {0, 1}, "offset must be in [0, 3) in document 0, got offset=3");
    check(4, {}, {0, 2}, "document must be in [0, 2), got document=2");
    check(4, {}, {0, -1}, "got document=-1");
    check(4, {}, {0, 1, 0}, "spans must have room for 4 spans, got 3");
}

BOOST_AUTO_TEST_CASE(prefix_counts_are_taken_at_every_stride) {
    const Numbers lengths{3, 0, 2, 5};
    const LengthIndex index = index_of(lengths);
    const Numbers documents = natural_order(lengths);
    Numbers totals(2);
    count_tokens(index, plain(), documents, 2, 10, totals);
    BOOST_TEST(totals == Numbers({13, 20}));
    count_tokens(index, LengthRule(1, true), documents, 3, 0, totals);
    BOOST_TEST(totals == Numbers({8, 14}));
}

BOOST_AUTO_TEST_CASE(wrong_prefix_counts_are_refused) {
    const Numbers lengths{3, kMax / 2};
    const LengthIndex index = index_of(lengths);
    const auto check = [&](std::int64_t stride, std::int64_t before, const Numbers& documents,
                           const std::string& message) {
        Numbers totals(2);
        check_refused(message,
                      [&] { count_tokens(index, plain(), documents, stride, before, totals); });
    };
    check(0, 0, {0, 1}, "stride must be at least 1, got stride=0");
    check(1, -1, {0, 1}, "before must not be negative, got before=-1");
    check(2, 0, {0, 1}, "totals must have 1 entries, got 2");
    check(1, kMax - 2, {0, 1}, "totals must stay below 2**63");
    check(2, 0, {1, 1, 1}, "totals must stay below 2**63");
    check(1, 0, {0, 2}, "got document=2");
}

BOOST_AUTO_TEST_CASE(a_token_is_located_at_the_first_place_that_fits) {
    const Numbers lengths{0, 3, 0, 0, 2};
    const LengthIndex index = index_of(lengths);
    const Numbers documents = natural_order(lengths);
    const auto located = [&](std::int64_t target) {
        const TokenPlace found = locate_token(index, plain(), documents, target);
        return Numbers({static_cast<std::int64_t>(found.place), found.offset});
    };
    BOOST_TEST(located(0) == Numbers({0, 0}));
    BOOST_TEST(located(2) == Numbers({1, 2}));
    BOOST_TEST(located(3) == Numbers({2, 0}));
    BOOST_TEST(located(4) == Numbers({4, 1}));
    BOOST_TEST(located(5) == Numbers({5, 0}));
    check_refused("got target=6, 1 too many", [&] { located(6); });
    check_refused("target must not be negative, got target=-1", [&] { located(-1); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
