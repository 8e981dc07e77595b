#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "datacursor/error.hpp"
#include "datacursor/length_index.hpp"
#include "refusal.hpp"

namespace {

using namespace datacursor;
using tests::check_refused;

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

template <typename T>
DocumentShard shard_of(const std::vector<T>& begins, const std::vector<T>& ends) {
    return OffsetSpans<T>{.begins = std::span(begins), .ends = std::span(ends)};
}

template <typename T>
DocumentShard shard_of(const std::vector<T>& lengths) {
    return OffsetSpans<T>{.begins = {}, .ends = std::span(lengths)};
}

std::vector<std::int64_t> lengths_in(const LengthIndex& index) {
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(index.num_documents()));
    index.lengths(0, lengths);
    return lengths;
}

BOOST_AUTO_TEST_SUITE(length_index_suite)

using OffsetTypes = std::tuple<std::int32_t, std::int64_t, std::uint32_t, std::uint64_t>;

BOOST_AUTO_TEST_CASE_TEMPLATE(one_shard_of_any_type, T, OffsetTypes) {
    const std::vector<T> begins{0, 5, 8};
    const std::vector<T> ends{5, 8, 8};
    const LengthIndex index({shard_of(begins, ends)});
    BOOST_TEST(index.num_documents() == 3);
    BOOST_TEST(index.num_tokens() == 8);
    BOOST_TEST(index.num_empty() == 1);
    BOOST_TEST(index.longest() == 5);
    BOOST_TEST(lengths_in(index) == std::vector<std::int64_t>({5, 3, 0}));
    const DocumentBounds bounds = index.bounds(1);
    BOOST_TEST(bounds.shard == 0U);
    BOOST_TEST(bounds.begin == 5);
    BOOST_TEST(bounds.end == 8);
}

BOOST_AUTO_TEST_CASE(documents_are_numbered_through_all_shards) {
    const std::vector<std::uint32_t> offsets{0, 2, 2, 9};
    const std::vector<std::int32_t> none;
    const std::vector<std::int64_t> lengths{4, 1};
    const LengthIndex index({
        shard_of(none),
        OffsetSpans<std::uint32_t>{.begins = std::span(offsets).first(3),
                                   .ends = std::span(offsets).subspan(1)},
        shard_of(none),
        shard_of(none),
        shard_of(lengths),
        shard_of(none),
    });
    BOOST_TEST(lengths_in(index) == std::vector<std::int64_t>({2, 0, 7, 4, 1}));
    const std::vector<std::int64_t> documents{4, 0, 2, 3, 1};
    std::vector<std::int64_t> found(documents.size());
    index.lengths_of(documents, found);
    BOOST_TEST(found == std::vector<std::int64_t>({1, 2, 7, 4, 0}));
    BOOST_TEST(index.bounds(2).shard == 1U);
    BOOST_TEST(index.bounds(2).begin == 2);
    BOOST_TEST(index.bounds(3).shard == 4U);
    BOOST_TEST(index.first_document(4) == 3);
    BOOST_TEST(index.first_document(6) == 5);
}

BOOST_AUTO_TEST_CASE(any_number_of_shards_finds_every_document) {
    const std::vector<std::vector<std::int32_t>> lengths{{0}, {1, 1}, {2, 2, 2}, {3}, {4, 4},
                                                         {5}, {6, 6}, {7, 7, 7}, {8}};
    std::vector<DocumentShard> shards;
    shards.reserve(lengths.size());
    std::vector<std::int64_t> expected;
    for (const auto& shard : lengths) {
        shards.push_back(shard_of(shard));
        expected.insert(expected.end(), shard.begin(), shard.end());
        BOOST_TEST(lengths_in(LengthIndex(shards)) == expected);
    }
}

BOOST_AUTO_TEST_CASE(documents_are_visited_from_any_on_until_told_to_stop) {
    const std::vector<std::uint32_t> offsets{0, 2, 2, 9};
    const std::vector<std::int64_t> lengths{4, 1};
    const std::vector<std::int32_t> none;
    const std::span<const std::uint32_t> all(offsets);
    const LengthIndex index(
        {shard_of(none), OffsetSpans<std::uint32_t>{.begins = all.first(3), .ends = all.subspan(1)},
         shard_of(none), shard_of(lengths), shard_of(none)});
    const std::vector<std::int64_t> expected{2, 0, 7, 4, 1};
    for (std::int64_t first = 0; first < 5; ++first) {
        for (std::int64_t last = first; last < 6; ++last) {
            std::int64_t next = first;
            const bool was_stopped =
                index.visit_from(first, [&](std::int64_t document, std::int64_t length) {
                    BOOST_TEST(document == next);
                    BOOST_TEST(length == expected.at(static_cast<std::size_t>(document)));
                    return next++ < last;
                });
            BOOST_TEST(was_stopped == (last < 5));
            BOOST_TEST(next == std::min<std::int64_t>(last + 1, 5));
        }
    }
    const auto visit = [](std::int64_t, std::int64_t) { return true; };
    for (const std::int64_t first : {-1, 5}) {
        check_refused(ErrorKind::kArgument, "document=" + std::to_string(first),
                      [&] { index.visit_from(first, visit); });
    }
}

BOOST_AUTO_TEST_CASE(any_documents_may_be_fetched_ahead) {
    const std::vector<std::int32_t> begins(40);
    const std::vector<std::int32_t> ends(40, 3);
    const LengthIndex index({shard_of(begins, ends), shard_of(ends)});
    for (const std::int64_t first : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{39},
                                     std::int64_t{40}, std::int64_t{79}, kMax}) {
        for (const std::int64_t count : {std::int64_t{0}, std::int64_t{1}, kMax}) {
            BOOST_CHECK_NO_THROW(index.prefetch(first, count));
        }
    }
}

BOOST_AUTO_TEST_CASE(without_documents) {
    const LengthIndex index({});
    BOOST_TEST(index.num_documents() == 0);
    BOOST_TEST(index.num_tokens() == 0);
    index.lengths(0, {});
    check_refused(ErrorKind::kArgument, "document must be in [0, 0), got document=0",
                  [&] { static_cast<void>(index.bounds(0)); });
}

void check_out_of_range(const LengthIndex& index, std::int64_t document) {
    const std::string message =
        "document must be in [0, 2), got document=" + std::to_string(document);
    const std::array<std::int64_t, 2> documents{1, document};
    std::array<std::int64_t, 2> out{};
    index.prefetch(document);
    check_refused(ErrorKind::kArgument, message,
                  [&] { static_cast<void>(index.bounds(document)); });
    check_refused(ErrorKind::kArgument, message, [&] { index.lengths_of(documents, out); });
}

BOOST_AUTO_TEST_CASE(documents_out_of_range_are_refused) {
    const std::vector<std::int64_t> lengths{1, 2};
    const std::vector<std::int64_t> none;
    const LengthIndex one({shard_of(lengths)});
    const LengthIndex two({shard_of(lengths), shard_of(none)});
    for (const std::int64_t document : {std::int64_t{-1}, std::int64_t{2}, kMax, -kMax - 1}) {
        check_out_of_range(one, document);
        check_out_of_range(two, document);
    }
}

BOOST_AUTO_TEST_CASE(ranges_that_leave_the_documents_are_refused) {
    const std::vector<std::int64_t> lengths{1, 2, 3};
    const LengthIndex index({shard_of(lengths)});
    std::array<std::int64_t, 4> out{};
    index.lengths(1, std::span(out).first(2));
    BOOST_TEST(out[0] == 2);
    BOOST_TEST(out[1] == 3);
    const auto check = [&](std::int64_t first, std::size_t count) {
        check_refused(ErrorKind::kArgument, "first + count must be in [0, 3], got first=", [&] {
            index.lengths(first, std::span(out).first(count));
        });
    };
    check(2, 2);
    check(-1, 1);
    check(kMax, 1);
    check(0, 4);
}

void check_bad_corpus(const std::vector<DocumentShard>& shards, const std::string& message) {
    check_refused(ErrorKind::kCorpus, message, [&] { static_cast<void>(LengthIndex(shards)); });
}

BOOST_AUTO_TEST_CASE(documents_that_end_before_they_begin_are_refused) {
    const std::vector<std::int32_t> begins{0, 5};
    const std::vector<std::int32_t> ends{5, 4};
    const std::vector<std::int64_t> good{3};
    check_bad_corpus({shard_of(good), shard_of(begins, ends)},
                     "document 2 must have 0 <= begin <= end < 2**63, got begin=5 and end=4");
}

BOOST_AUTO_TEST_CASE(negative_and_huge_offsets_are_refused) {
    const std::vector<std::int64_t> negative{-1};
    const std::vector<std::int64_t> zero{0};
    const std::vector<std::uint64_t> huge{std::uint64_t{1} << 63U};
    check_bad_corpus({shard_of(negative)}, "begin=0 and end=-1");
    check_bad_corpus({shard_of(negative, zero)}, "begin=-1 and end=0");
    check_bad_corpus({shard_of(huge)}, "begin=0 and end=9223372036854775808");
}

BOOST_AUTO_TEST_CASE(totals_stay_below_two_to_the_63_with_virtual_tokens) {
    const std::vector<std::int64_t> most{kMax - 2 * LengthRule::kMaxVirtual - 1, 1};
    const std::vector<std::int64_t> more{kMax - 2 * LengthRule::kMaxVirtual, 1};
    BOOST_TEST(LengthIndex({shard_of(most)}).num_tokens() == kMax - 2 * LengthRule::kMaxVirtual);
    check_bad_corpus({shard_of(more)}, "1 more in document 1");
}

BOOST_AUTO_TEST_CASE(begins_and_ends_of_two_sizes_are_refused) {
    const std::vector<std::int64_t> two{0, 1};
    const std::vector<std::int64_t> one{1};
    check_refused(ErrorKind::kArgument, "must have one length, got 2 and 1",
                  [&] { static_cast<void>(LengthIndex({shard_of(two, one)})); });
}

BOOST_AUTO_TEST_CASE(an_empty_document_has_virtual_tokens_only_if_kept) {
    BOOST_TEST(LengthRule(0, false)(7) == 7);
    BOOST_TEST(LengthRule(2, false)(7) == 9);
    BOOST_TEST(LengthRule(2, false)(0) == 0);
    BOOST_TEST(LengthRule(2, true)(0) == 2);
    BOOST_TEST(LengthRule(0, true)(0) == 0);
}

BOOST_AUTO_TEST_CASE(a_document_has_at_most_two_virtual_tokens) {
    for (const std::int64_t wrong : {-1, 3}) {
        check_refused(ErrorKind::kArgument, "num_virtual must be in [0, 2], got num_virtual=", [&] {
            static_cast<void>(LengthRule(wrong, false));
        });
    }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
