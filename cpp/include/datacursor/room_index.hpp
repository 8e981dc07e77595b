// The rows of a window that still have room, by room: what best fit looks its rows up in.
//
//     room     1  2  3  4  5  6  7  8 ...      a bit for each room that rows have,
//     marked   0  1  0  0  1  0  0  0          and above it one for each word with a bit
//     rows        4     .  0                   a list for each room, in the order in
//                 2                            which the rows reached it
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace datacursor {

// Not thread safe. Memory: 8 * seq_len bytes, and 4 a row.
class RoomIndex {
public:
    static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

    // Rows in the order in which they reached `room`, linked by next().
    struct Chain {
        std::size_t room;
        std::uint32_t first;
        std::uint32_t last;
    };

    // For rooms in [1, seq_len). Requires: seq_len >= 1. Call clear() before anything else.
    explicit RoomIndex(std::int64_t seq_len);

    // Empties all lists, and makes them ready for the rows [0, max_rows).
    void clear(std::size_t max_rows);

    // Returns the least room >= size that a row has; seq_len or more if there is none.
    [[nodiscard]] std::size_t least_from(std::size_t size) const;

    // Returns the row that reached a room first. Requires: a row has that room.
    [[nodiscard]] std::uint32_t first(std::size_t room) const { return lists_[room].first; }

    // Returns the row after another in its list or chain, kNone after the last.
    [[nodiscard]] std::uint32_t next(std::uint32_t row) const { return next_[row]; }

    void link(std::uint32_t row, std::uint32_t next) { next_[row] = next; }

    // Drops the rows of a list before `row`; all of them if it is kNone.
    void drop_front(std::size_t room, std::uint32_t row);

    // Puts the rows of a chain behind those that have its room.
    void append(const Chain& chain);

private:
    struct List {
        std::uint32_t first;
        std::uint32_t last;
    };

    void mark(std::size_t room);
    void unmark(std::size_t room);

    std::vector<List> lists_;                         // by room; valid where marked
    std::vector<std::uint32_t> next_;                 // by row
    std::vector<std::vector<std::uint64_t>> levels_;  // a bit for each word below
};

}  // namespace datacursor
