#include <array>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "datacursor/gather_column.hpp"
#include "refusal.hpp"

namespace {

using namespace datacursor;
using tests::check_refused;
using Numbers = std::vector<std::int64_t>;

constexpr std::uint64_t kFill = 7;

// Values 11 12 13 of document 0, 14 15 of document 1.
template <typename T>
struct Column {
    std::vector<T> values{11, 12, 13, 14, 15};
    Numbers begins{0, 3};
    Numbers ends{3, 5};

    [[nodiscard]] ColumnShard shard() const {
        return {.values = std::span(values),
                .documents = OffsetSpans<std::int64_t>{.begins = std::span(begins),
                                                       .ends = std::span(ends)}};
    }
    [[nodiscard]] ColumnTable table() const { return ColumnTable(std::array{shard()}); }
};

template <typename T = std::uint32_t>
std::vector<T> gathered(const ColumnTable& table, std::int64_t seq_len, const Numbers& spans,
                        const Numbers& row_offsets, const GatherOptions& options) {
    std::vector<T> out((row_offsets.size() - 1) * static_cast<std::size_t>(seq_len), T{99});
    table.gather(spans, row_offsets, options, seq_len, kFill, std::span(out));
    return out;
}

BOOST_AUTO_TEST_SUITE(gather_column_suite)

using ValueTypes = std::tuple<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>;

BOOST_AUTO_TEST_CASE_TEMPLATE(values_of_any_size_stand_with_their_tokens, T, ValueTypes) {
    const Column<T> column;
    const auto out =
        gathered<T>(column.table(), 4, {1, 0, 2, 0, 1, 2, 0, 0, 3}, {0, 2, 3}, {.shifted = false});
    BOOST_TEST(out == std::vector<T>({14, 15, 12, 7, 11, 12, 13, 7}));
}

BOOST_AUTO_TEST_CASE(shifted_values_are_those_of_the_next_tokens) {
    const Column<std::uint32_t> column;
    const auto out = gathered(column.table(), 4, {1, 0, 2, 0, 0, 2}, {0, 2}, {.shifted = true});
    BOOST_TEST(out == std::vector<std::uint32_t>({15, 7, 12, 13}));
}

BOOST_AUTO_TEST_CASE(virtual_tokens_and_padding_have_the_fill) {
    const Column<std::uint32_t> column;
    const GatherOptions options{.bos = 0, .eos = 0, .shifted = false, .align = 3};
    const auto out = gathered(column.table(), 9, {1, 0, 4, 0, 2, 4}, {0, 2}, options);
    BOOST_TEST(out == std::vector<std::uint32_t>({7, 14, 15, 7, 7, 7, 12, 13, 7}));
    GatherOptions shifted = options;
    shifted.shifted = true;
    const auto next = gathered(column.table(), 9, {1, 0, 4, 0, 2, 4}, {0, 2}, shifted);
    BOOST_TEST(next == std::vector<std::uint32_t>({14, 15, 7, 7, 7, 7, 13, 7, 7}));
}

BOOST_AUTO_TEST_CASE(a_truncated_document_has_no_next_value) {
    const Column<std::uint32_t> column;
    const auto out =
        gathered(column.table(), 2, {0, 0, 2}, {0, 1}, {.shifted = true, .longest = 2});
    BOOST_TEST(out == std::vector<std::uint32_t>({12, 7}));
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused) {
    const Column<std::uint32_t> column;
    const Column<std::uint16_t> narrow;
    const ColumnTable table = column.table();
    const GatherOptions options{.shifted = false};
    check_refused(ErrorKind::kArgument, "fit seq_len=2, got more in row 0",
                  [&] { gathered(table, 2, {0, 0, 3}, {0, 1}, options); });
    check_refused(ErrorKind::kArgument, "values of its own size, got 2 bytes",
                  [&] { gathered<std::uint16_t>(table, 4, {0, 0, 3}, {0, 1}, options); });
    check_refused(ErrorKind::kArgument, "spans[0] must have 0 <= start < stop <= 3",
                  [&] { gathered(table, 4, {0, 0, 4}, {0, 1}, options); });
    check_refused(ErrorKind::kArgument, "values of one size, got another in shard 1", [&] {
        static_cast<void>(ColumnTable(std::array{column.shard(), narrow.shard()}));
    });
    std::vector<std::uint32_t> out(3);
    check_refused(ErrorKind::kArgument, "num_rows * seq_len = 4 entries, got 3", [&] {
        table.gather(Numbers({0, 0, 3}), Numbers({0, 1}), options, 4, kFill, std::span(out));
    });
    Column<std::uint8_t> torn;
    torn.ends.back() = 6;
    check_refused(ErrorKind::kCorpus, "must lie within the 5 tokens of its shard",
                  [&] { static_cast<void>(torn.table()); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
