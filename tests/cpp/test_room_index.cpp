#include "datacursor/room_index.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <deque>
#include <map>

#include "datacursor/philox.hpp"

namespace {

using namespace datacursor;

constexpr std::uint32_t kNone = RoomIndex::kNone;

// What a RoomIndex is: a list of rows for each room.
using Lists = std::map<std::size_t, std::deque<std::uint32_t>>;

void check_same(const RoomIndex& index, const Lists& lists, std::size_t seq_len) {
    for (std::size_t size = 1; size <= seq_len; ++size) {
        const auto expected = lists.lower_bound(size);
        if (expected == lists.end()) {
            BOOST_TEST(index.least_from(size) >= seq_len);
        } else {
            BOOST_TEST(index.least_from(size) == expected->first);
        }
    }
    for (const auto& [room, rows] : lists) {
        std::uint32_t row = index.first(room);
        for (const std::uint32_t expected : rows) {
            BOOST_REQUIRE(row == expected);
            row = index.next(row);
        }
        BOOST_TEST(row == kNone);
    }
}

BOOST_AUTO_TEST_SUITE(room_index_suite)

// Rooms in one word, in two, and in words of words, with rows that come and go.
BOOST_AUTO_TEST_CASE(rooms_and_rows_are_those_of_plain_lists) {
    constexpr std::uint32_t kRows = 60;
    for (const std::size_t seq_len : {2U, 63U, 64U, 65U, 129U, 4096U, 4097U}) {
        RoomIndex index(static_cast<std::int64_t>(seq_len));
        PhiloxStream random({0, 0}, seq_len, 0, 0);
        for (int window = 0; window < 2; ++window) {
            index.clear(kRows);
            Lists lists;
            for (std::uint32_t row = 0; row + 2 <= kRows; row += 2) {
                const std::size_t room = 1 + random.bounded(seq_len - 1);
                index.link(row, row + 1);
                index.append({.room = room, .first = row, .last = row + 1});
                lists[room].insert(lists[room].end(), {row, row + 1});
                const auto least = lists.lower_bound(1 + random.bounded(seq_len - 1));
                if (least != lists.end() && row % 3 == 0) {
                    std::deque<std::uint32_t>& rows = least->second;
                    rows.pop_front();
                    const std::uint32_t second = rows.empty() ? kNone : rows.front();
                    index.drop_front(least->first, second);
                    if (rows.empty()) {
                        lists.erase(least);
                    }
                }
            }
            check_same(index, lists, seq_len);
        }
    }
}

BOOST_AUTO_TEST_CASE(rows_of_one_token_have_no_room) {
    RoomIndex index(1);
    index.clear(5);
    BOOST_TEST(index.least_from(1) >= 1U);
}

BOOST_AUTO_TEST_CASE(a_whole_list_is_dropped_at_once) {
    RoomIndex index(100);
    index.clear(3);
    index.link(2, 0);
    index.append({.room = 70, .first = 2, .last = 0});
    index.append({.room = 80, .first = 1, .last = 1});
    BOOST_TEST(index.least_from(5) == 70U);
    index.drop_front(70, kNone);
    BOOST_TEST(index.least_from(5) == 80U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
