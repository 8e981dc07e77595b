#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "datacursor/gather.hpp"
#include "gather_kernel.hpp"
#include "refusal.hpp"

namespace {

using namespace datacursor;
using tests::check_refused;
using Numbers = std::vector<std::int64_t>;
using Boundaries = std::vector<std::int32_t>;

constexpr std::int64_t kIgn = kIgnoreLabel;

// One shard: all tokens, and where each document begins and ends.
template <typename T>
struct Corpus {
    std::vector<T> tokens;
    Numbers begins;
    Numbers ends;

    [[nodiscard]] TokenShard shard() const {
        return {.tokens = std::span(tokens),
                .documents = OffsetSpans<std::int64_t>{.begins = std::span(begins),
                                                       .ends = std::span(ends)}};
    }
    [[nodiscard]] TokenTable table() const { return TokenTable(std::array{shard()}); }
};

// Documents 1 2 3, 4 5 and 6 7 8 9 10.
Corpus<std::uint16_t> small_corpus() {
    Corpus<std::uint16_t> corpus{.tokens = {}, .begins = {0, 3, 5}, .ends = {3, 5, 10}};
    corpus.tokens.resize(10);
    std::iota(corpus.tokens.begin(), corpus.tokens.end(), std::uint16_t{1});
    return corpus;
}

// A batch that owns its fields, filled with numbers that no field should keep.
struct Batch {
    Batch(std::int64_t num_rows, std::int64_t seq_len, std::size_t num_spans)
        : size(static_cast<std::size_t>(num_rows * seq_len)),
          input_ids(size, -7),
          labels(size, -7),
          position_ids(size, -7),
          segment_ids(size, -7),
          loss_mask(std::make_unique<bool[]>(size)),
          cu_seqlens(num_spans + static_cast<std::size_t>(num_rows) + 1, -7),
          fields{.num_rows = num_rows,
                 .seq_len = seq_len,
                 .input_ids = input_ids,
                 .labels = labels,
                 .position_ids = position_ids,
                 .segment_ids = segment_ids,
                 .loss_mask = mask(),
                 .cu_seqlens = cu_seqlens} {}

    [[nodiscard]] std::span<bool> mask() const { return {loss_mask.get(), size}; }

    std::size_t size;
    Numbers input_ids;
    Numbers labels;
    Numbers position_ids;
    std::vector<std::int32_t> segment_ids;
    std::unique_ptr<bool[]> loss_mask;
    Boundaries cu_seqlens;
    BatchFields fields;
    BatchTotals totals;
};

Batch gathered(const TokenTable& table, std::int64_t seq_len, const Numbers& spans,
               const Numbers& row_offsets, const GatherOptions& options = {}) {
    Batch batch(std::ssize(row_offsets) - 1, seq_len, spans.size() / 3);
    batch.totals = table.gather(spans, row_offsets, options, batch.fields);
    batch.cu_seqlens.resize(static_cast<std::size_t>(batch.totals.num_boundaries));
    const std::span<const bool> mask = batch.mask();
    BOOST_TEST(std::ranges::count(mask, true) == batch.totals.num_targets);
    for (std::size_t i = 0; i < batch.size; ++i) {
        BOOST_TEST(mask[i] == (batch.labels[i] != kIgn));
    }
    return batch;
}

BOOST_AUTO_TEST_SUITE(gather_suite)

BOOST_AUTO_TEST_CASE(every_field_of_two_rows) {
    const auto corpus = small_corpus();
    const Batch batch =
        gathered(corpus.table(), 8, {2, 1, 4, 0, 0, 2, 1, 0, 2, 2, 2, 5}, {0, 2, 4});
    BOOST_TEST(batch.input_ids == Numbers({7, 8, 9, 1, 2, 0, 0, 0, 4, 5, 8, 9, 10, 0, 0, 0}));
    BOOST_TEST(batch.labels == Numbers({8, 9, 10, 2, 3, kIgn, kIgn, kIgn,  //
                                        5, kIgn, 9, 10, kIgn, kIgn, kIgn, kIgn}));
    BOOST_TEST(batch.position_ids == Numbers({0, 1, 2, 0, 1, 0, 1, 2, 0, 1, 0, 1, 2, 0, 1, 2}));
    BOOST_TEST(batch.segment_ids ==
               Boundaries({0, 0, 0, 1, 1, -1, -1, -1, 0, 0, 1, 1, 1, -1, -1, -1}));
    BOOST_TEST(batch.cu_seqlens == Boundaries({0, 3, 5, 8, 10, 13, 16}));
    BOOST_TEST(batch.totals.max_seqlen == 3);
    BOOST_TEST(batch.totals.num_targets == 8);
}

BOOST_AUTO_TEST_CASE(labels_that_are_not_shifted) {
    const auto corpus = small_corpus();
    const Batch batch = gathered(corpus.table(), 6, {2, 1, 4, 0, 0, 2}, {0, 2}, {.shifted = false});
    BOOST_TEST(batch.labels == Numbers({kIgn, 8, 9, kIgn, 2, kIgn}));
    BOOST_TEST(batch.totals.num_targets == 3);
}

BOOST_AUTO_TEST_CASE(positions_that_continue) {
    const auto corpus = small_corpus();
    const Batch batch =
        gathered(corpus.table(), 6, {2, 2, 4, 0, 1, 3}, {0, 2}, {.continued = true});
    BOOST_TEST(batch.position_ids == Numbers({2, 3, 1, 2, 0, 1}));
}

BOOST_AUTO_TEST_CASE(align_padding_lies_inside_its_segment) {
    const auto corpus = small_corpus();
    const Batch batch =
        gathered(corpus.table(), 8, {0, 0, 3, 1, 0, 1}, {0, 2}, {.pad = 9, .align = 4});
    BOOST_TEST(batch.input_ids == Numbers({1, 2, 3, 9, 4, 9, 9, 9}));
    BOOST_TEST(batch.labels == Numbers({2, 3, kIgn, kIgn, 5, kIgn, kIgn, kIgn}));
    BOOST_TEST(batch.position_ids == Numbers({0, 1, 2, 3, 0, 1, 2, 3}));
    BOOST_TEST(batch.segment_ids == std::vector<std::int32_t>({0, 0, 0, 0, 1, 1, 1, 1}));
    BOOST_TEST(batch.cu_seqlens == Boundaries({0, 4, 8}));
    BOOST_TEST(batch.totals.num_targets == 3);
    check_refused(ErrorKind::kArgument, "align=3",
                  [&] { gathered(corpus.table(), 8, {0, 0, 3}, {0, 1}, {.align = 3}); });
    check_refused(ErrorKind::kArgument, "got more in row 0", [&] {
        gathered(corpus.table(), 8, {0, 0, 3, 1, 0, 2, 2, 0, 1}, {0, 3}, {.align = 4});
    });
}

BOOST_AUTO_TEST_CASE(a_document_may_end_before_its_tokens_do) {
    const auto corpus = small_corpus();
    const GatherOptions options{.eos = 99, .longest = 4};
    const Batch batch = gathered(corpus.table(), 4, {2, 0, 4, 0, 0, 4}, {0, 1, 2}, options);
    BOOST_TEST(batch.input_ids == Numbers({6, 7, 8, 9, 1, 2, 3, 99}));
    BOOST_TEST(batch.labels == Numbers({7, 8, 9, kIgn, 2, 3, 99, kIgn}));
    BOOST_TEST(batch.totals.num_targets == 6);
    check_refused(ErrorKind::kArgument, "stop=5",
                  [&] { gathered(corpus.table(), 4, {2, 1, 5}, {0, 1}, options); });
}

BOOST_AUTO_TEST_CASE(virtual_tokens_stand_around_each_document) {
    const auto corpus = small_corpus();
    const GatherOptions options{.bos = 98, .eos = 99, .pad = 99};
    const Batch whole = gathered(corpus.table(), 5, {1, 0, 4}, {0, 1}, options);
    BOOST_TEST(whole.input_ids == Numbers({98, 4, 5, 99, 99}));
    BOOST_TEST(whole.labels == Numbers({4, 5, 99, kIgn, kIgn}));
    // Every way to cut the same four tokens in two.
    for (std::int64_t cut = 1; cut < 4; ++cut) {
        const Batch halves = gathered(corpus.table(), 4, {1, 0, cut, 1, cut, 4}, {0, 2}, options);
        BOOST_TEST(halves.input_ids == Numbers({98, 4, 5, 99}));
        BOOST_TEST(halves.labels == Numbers({4, 5, 99, kIgn}));
    }
}

BOOST_AUTO_TEST_CASE(one_kind_of_virtual_token_alone) {
    const auto corpus = small_corpus();
    const Batch begun = gathered(corpus.table(), 3, {1, 0, 3}, {0, 1}, {.bos = 98});
    BOOST_TEST(begun.input_ids == Numbers({98, 4, 5}));
    BOOST_TEST(begun.labels == Numbers({4, 5, kIgn}));
    const Batch ended = gathered(corpus.table(), 3, {1, 0, 3}, {0, 1}, {.eos = 99});
    BOOST_TEST(ended.input_ids == Numbers({4, 5, 99}));
    BOOST_TEST(ended.labels == Numbers({5, 99, kIgn}));
}

BOOST_AUTO_TEST_CASE(an_empty_document_may_have_virtual_tokens) {
    const Corpus<std::uint8_t> corpus{.tokens = {}, .begins = {0}, .ends = {0}};
    const GatherOptions options{.bos = 98, .eos = 99};
    const Batch whole = gathered(corpus.table(), 2, {0, 0, 2}, {0, 1}, options);
    BOOST_TEST(whole.input_ids == Numbers({98, 99}));
    BOOST_TEST(whole.labels == Numbers({99, kIgn}));
    const Batch end = gathered(corpus.table(), 2, {0, 1, 2}, {0, 1}, options);
    BOOST_TEST(end.input_ids == Numbers({99, 0}));
}

BOOST_AUTO_TEST_CASE(rows_without_spans_are_padding) {
    const auto corpus = small_corpus();
    const Batch batch = gathered(corpus.table(), 2, {0, 0, 2}, {0, 0, 1, 1}, {.pad = 5});
    BOOST_TEST(batch.input_ids == Numbers({5, 5, 1, 2, 5, 5}));
    BOOST_TEST(batch.segment_ids == Boundaries({-1, -1, 0, 0, -1, -1}));
    BOOST_TEST(batch.cu_seqlens == Boundaries({0, 2, 4, 6}));
    const Batch none = gathered(corpus.table(), 2, {}, {0});
    BOOST_TEST(none.cu_seqlens == Boundaries({0}));
    BOOST_TEST(none.totals.max_seqlen == 0);
}

using TokenTypes = std::tuple<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t,
                              std::int8_t, std::int16_t, std::int32_t, std::int64_t>;

// Long enough for every width of vector the compiler may use, and for its remainders.
BOOST_AUTO_TEST_CASE_TEMPLATE(tokens_of_any_type_arrive_as_they_are, T, TokenTypes) {
    constexpr auto kLargest = static_cast<T>(std::min<std::uint64_t>(
        std::numeric_limits<T>::max(), std::numeric_limits<std::int64_t>::max()));
    Corpus<T> corpus{.tokens = std::vector<T>(150), .begins = {1}, .ends = {148}};
    for (std::size_t i = 0; i < corpus.tokens.size(); ++i) {
        corpus.tokens[i] = static_cast<T>(kLargest - static_cast<T>(i % 100));
    }
    const TokenTable table = corpus.table();
    for (std::int64_t start = 0; start < 40; ++start) {
        for (const std::int64_t stop : {start + 1, start + 2, start + 33, std::int64_t{147}}) {
            const Batch batch = gathered(table, 147, {0, start, stop}, {0, 1}, {.pad = -1});
            for (std::int64_t i = 0; i < stop - start; ++i) {
                const auto place = static_cast<std::size_t>(1 + start + i);
                BOOST_REQUIRE(batch.input_ids[static_cast<std::size_t>(i)] ==
                              static_cast<std::int64_t>(corpus.tokens[place]));
            }
            BOOST_TEST(std::ranges::count(batch.input_ids, -1) == 147 - (stop - start));
            const auto last = static_cast<std::size_t>(stop - start - 1);
            BOOST_TEST(batch.labels[last] ==
                       (stop == 147 ? kIgn
                                    : static_cast<std::int64_t>(
                                          corpus.tokens[static_cast<std::size_t>(1 + stop)])));
        }
    }
}

BOOST_AUTO_TEST_CASE(documents_of_several_shards) {
    const auto first = small_corpus();
    const Corpus<std::int32_t> second{.tokens = {70, 71, 72}, .begins = {1}, .ends = {3}};
    const TokenTable table(std::array{first.shard(), second.shard()});
    BOOST_TEST(table.num_documents() == 4);
    const Batch batch = gathered(table, 4, {3, 0, 2, 1, 0, 2}, {0, 2});
    BOOST_TEST(batch.input_ids == Numbers({71, 72, 4, 5}));
}

// More spans than the lookahead, in many rows, against the tokens taken one by one.
BOOST_AUTO_TEST_CASE(many_short_spans) {
    Corpus<std::uint16_t> corpus;
    Numbers spans;
    Numbers row_offsets{0};
    Numbers expected;
    for (std::int64_t document = 0; document < 100; ++document) {
        corpus.begins.push_back(std::ssize(corpus.tokens));
        corpus.tokens.insert(corpus.tokens.end(), 2, static_cast<std::uint16_t>(document));
        corpus.ends.push_back(std::ssize(corpus.tokens));
        spans.insert(spans.end(), {99 - document, 0, 2});
        expected.insert(expected.end(), {99 - document, 99 - document});
        if (document % 4 == 3) {
            row_offsets.push_back(document + 1);
        }
    }
    BOOST_TEST(gathered(corpus.table(), 8, spans, row_offsets).input_ids == expected);
}

BOOST_AUTO_TEST_CASE(fields_may_be_left_out) {
    const auto corpus = small_corpus();
    Batch batch(1, 8, 1);
    BatchFields fields = batch.fields;
    fields.labels = {};
    fields.position_ids = {};
    fields.segment_ids = {};
    fields.loss_mask = MaskSpan();
    fields.cu_seqlens = {};
    const Numbers spans{2, 1, 4};
    const BatchTotals totals = corpus.table().gather(spans, Numbers({0, 1}), {}, fields);
    BOOST_TEST(batch.input_ids == Numbers({7, 8, 9, 0, 0, 0, 0, 0}));
    BOOST_TEST(batch.labels == Numbers(8, -7));
    BOOST_TEST(totals.num_boundaries == 3);
    BOOST_TEST(totals.max_seqlen == 5);
    BOOST_TEST(totals.num_targets == 3);
}

void check_refused_spans(const TokenTable& table, const Numbers& spans, const Numbers& row_offsets,
                         ErrorKind kind, const std::string& message,
                         const GatherOptions& options = {}) {
    check_refused(kind, message, [&] { gathered(table, 4, spans, row_offsets, options); });
}

BOOST_AUTO_TEST_CASE(tokens_that_are_no_ids_are_refused) {
    const Corpus<std::int16_t> negative{.tokens = {1, 2, 3, -4}, .begins = {1}, .ends = {4}};
    const Corpus<std::uint64_t> huge{
        .tokens = {1, 2, 3, std::uint64_t{1} << 63U}, .begins = {1}, .ends = {4}};
    const std::string message = "token ids must be in [0, 2**63), got -4 in document 0 at token 2";
    const TokenTable table = negative.table();
    check_refused_spans(table, {0, 0, 3}, {0, 1}, ErrorKind::kCorpus, message);
    check_refused_spans(table, {0, 2, 4}, {0, 1}, ErrorKind::kCorpus, message, {.bos = 9});
    check_refused_spans(huge.table(), {0, 0, 3}, {0, 1}, ErrorKind::kCorpus,
                        "got 9223372036854775808 in document 0 at token 2");
    // A shifted label looks one token beyond the span.
    check_refused_spans(table, {0, 0, 2}, {0, 1}, ErrorKind::kCorpus, message);
    BOOST_TEST(gathered(table, 2, {0, 0, 2}, {0, 1}, {.shifted = false}).input_ids ==
               Numbers({2, 3}));
}

BOOST_AUTO_TEST_CASE(documents_outside_their_tokens_are_refused) {
    const Corpus<std::uint8_t> corpus{.tokens = {1, 2}, .begins = {0, 1}, .ends = {1, 3}};
    check_refused(ErrorKind::kCorpus,
                  "document 1 must lie within the 2 tokens of its shard, got begin=1 and end=3",
                  [&] { static_cast<void>(corpus.table()); });
}

// A mapped file can change under a running program.
BOOST_AUTO_TEST_CASE(offsets_that_change_later_are_noticed) {
    auto corpus = small_corpus();
    const TokenTable table = corpus.table();
    for (const auto& [begin, end] : {std::pair{5, 11}, std::pair{-1, 10}, std::pair{11, 10}}) {
        corpus.begins[2] = begin;
        corpus.ends[2] = end;
        check_refused_spans(table, {2, 0, 1}, {0, 1}, ErrorKind::kCorpus,
                            "document 2 must lie within the 10 tokens");
    }
}

BOOST_AUTO_TEST_CASE(wrong_spans_are_refused) {
    const auto corpus = small_corpus();
    const TokenTable table = corpus.table();
    constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
    using Extent = std::pair<std::int64_t, std::int64_t>;
    for (const auto& [start, stop] : {Extent{-1, 1}, Extent{0, 0}, Extent{2, 1}, Extent{0, 3},
                                      Extent{kMax, -kMax}, Extent{-kMax - 1, kMax}}) {
        check_refused_spans(table, {0, 0, 1, 1, start, stop}, {0, 2}, ErrorKind::kArgument,
                            "spans[1] must have 0 <= start < stop <= 2, the length of document 1, "
                            "got start=" +
                                std::to_string(start) + " and stop=" + std::to_string(stop));
    }
    for (const std::int64_t document : {std::int64_t{-1}, std::int64_t{3}, kMax}) {
        check_refused_spans(table, {document, 0, 1}, {0, 1}, ErrorKind::kArgument,
                            "document must be in [0, 3), got document=");
    }
    check_refused_spans(table, {0, 0, 1, 1, 0, 2, 0, 0, 3}, {0, 1, 3}, ErrorKind::kArgument,
                        "the spans of a row must fit seq_len=4, got more in row 1");
}

BOOST_AUTO_TEST_CASE(wrong_row_offsets_are_refused) {
    const auto corpus = small_corpus();
    const TokenTable table = corpus.table();
    const Numbers spans{0, 0, 1, 1, 0, 1};
    for (const Numbers& offsets : {Numbers({0, 1}), Numbers({1, 2}), Numbers({0, 3, 2}),
                                   Numbers({0, 3}), Numbers({0, -1, 2}), Numbers({-1, 2})}) {
        check_refused_spans(table, spans, offsets, ErrorKind::kArgument,
                            "row_offsets must rise from 0 to the number of spans, 2");
    }
    const Batch batch(1, 4, 2);
    check_refused(
        ErrorKind::kArgument, "row_offsets must have num_rows + 1 = 2 entries, got 3",
        [&] { static_cast<void>(table.gather(spans, Numbers({0, 1, 2}), {}, batch.fields)); });
}

BOOST_AUTO_TEST_CASE(fields_of_another_size_are_refused) {
    const auto corpus = small_corpus();
    const TokenTable table = corpus.table();
    const Numbers spans{0, 0, 1};
    const Numbers row_offsets{0, 1};
    const auto refused = [&](auto change, const std::string& message) {
        Batch batch(1, 4, 1);
        change(batch.fields);
        check_refused(ErrorKind::kArgument, message, [&] {
            static_cast<void>(table.gather(spans, row_offsets, {}, batch.fields));
        });
    };
    const auto shorten = [](auto& field) { field = field.first(field.size() - 1); };
    const auto shorten_any = [&](auto& field) { std::visit(shorten, field); };
    refused([&](BatchFields& f) { shorten_any(f.input_ids); }, "input_ids must have");
    refused([&](BatchFields& f) { f.input_ids = IdSpan(); }, "input_ids must have");
    refused([&](BatchFields& f) { shorten(f.labels); }, "labels must have");
    refused([&](BatchFields& f) { shorten(f.position_ids); }, "position_ids must have");
    refused([&](BatchFields& f) { shorten(f.segment_ids); }, "segment_ids must have");
    refused([&](BatchFields& f) { shorten_any(f.loss_mask); }, "loss_mask must have");
    refused([&](BatchFields& f) { shorten(f.cu_seqlens); }, "cu_seqlens must have room for 3");
    refused([&](BatchFields& f) { f.seq_len = 0; }, "num_rows * seq_len must be in [0, 2**31)");
    refused([&](BatchFields& f) { f.num_rows = -1; }, "num_rows * seq_len must be in");
    refused([&](BatchFields& f) { f.num_rows = std::int64_t{1} << 62U; }, "must be in [0, 2**31)");
}

BOOST_AUTO_TEST_CASE(ids_of_32_bits_are_the_same_ids) {
    const auto corpus = small_corpus();
    const Numbers spans{2, 1, 4, 0, 0, 4};
    const GatherOptions options{.eos = 99, .pad = 7};
    const Batch expected = gathered(corpus.table(), 9, spans, {0, 2}, options);
    Batch batch(1, 9, 2);
    Boundaries ids(9, -7);
    batch.fields.input_ids = ids;
    batch.totals = corpus.table().gather(spans, Numbers({0, 2}), options, batch.fields);
    BOOST_TEST(Numbers(ids.begin(), ids.end()) == expected.input_ids);
    BOOST_TEST(batch.labels == expected.labels);
    for (const GatherOptions& wide : {GatherOptions{.bos = std::int64_t{1} << 31U},
                                      GatherOptions{.pad = std::int64_t{1} << 31U}}) {
        check_refused(ErrorKind::kArgument, "must fit ids of 32 bits, got 2147483648", [&] {
            static_cast<void>(corpus.table().gather(spans, Numbers({0, 2}), wide, batch.fields));
        });
    }
}

// Both sets of loops, over every remainder of a vector, and at the border of the ids.
template <typename Token, typename Id>
void check_widen(const GatherKernel& kernel) {
    constexpr std::size_t kCount = 70;
    constexpr auto kLargest = static_cast<Token>(std::min<std::uint64_t>(
        std::numeric_limits<Token>::max(), std::uint64_t{std::numeric_limits<Id>::max()}));
    std::vector<Token> tokens(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
        tokens[i] = static_cast<Token>(kLargest - static_cast<Token>(i));
    }
    for (std::size_t count = 0; count < kCount; ++count) {
        std::vector<Id> ids(kCount, Id{-7});
        BOOST_REQUIRE((widen_of<Token, Id>(kernel)(tokens.data(), count, ids.data())));
        for (std::size_t i = 0; i < kCount; ++i) {
            const std::int64_t expected = i < count ? static_cast<std::int64_t>(tokens[i]) : -7;
            BOOST_REQUIRE(static_cast<std::int64_t>(ids[i]) == expected);
        }
    }
    // Negative, too large, or for an unsigned type no larger than the ids 0.
    const auto beyond = static_cast<Token>(static_cast<std::uint64_t>(kLargest) + 1);
    const bool is_id = std::in_range<Id>(beyond) && std::cmp_greater_equal(beyond, 0);
    for (std::size_t i = 0; i < kCount; ++i) {
        std::vector<Token> changed = tokens;
        std::vector<Id> ids(kCount);
        changed[i] = beyond;
        BOOST_REQUIRE((widen_of<Token, Id>(kernel)(changed.data(), kCount, ids.data())) == is_id);
    }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(every_set_of_loops_widens_alike, Token, TokenTypes) {
    for (const GatherKernel* kernel : {&kPortableGather, &gather_kernel()}) {
        check_widen<Token, std::int64_t>(*kernel);
        check_widen<Token, std::int32_t>(*kernel);
    }
}

BOOST_AUTO_TEST_CASE(every_set_of_loops_counts_up) {
    for (const GatherKernel* kernel : {&kPortableGather, &gather_kernel()}) {
        for (std::size_t count = 0; count < 40; ++count) {
            Numbers places(40, -7);
            kernel->count_up(std::int64_t{1} << 40U, count, places.data());
            for (std::size_t i = 0; i < places.size(); ++i) {
                const auto place = static_cast<std::int64_t>(i);
                BOOST_REQUIRE(places[i] == (i < count ? (std::int64_t{1} << 40U) + place : -7));
            }
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
