#include "datacursor/room_index.hpp"

#include <algorithm>
#include <bit>

namespace datacursor {
namespace {

constexpr std::size_t kWordBits = 64;

}  // namespace

RoomIndex::RoomIndex(std::int64_t seq_len) : lists_(static_cast<std::size_t>(seq_len)) {
    std::size_t size = lists_.size();
    do {
        size = (size + kWordBits - 1) / kWordBits;
        levels_.emplace_back(size, 0);
    } while (size > 1);
}

void RoomIndex::mark(std::size_t room) {
    for (auto& level : levels_) {
        std::uint64_t& word = level[room / kWordBits];
        const bool was_empty = word == 0;
        word |= std::uint64_t{1} << (room % kWordBits);
        if (!was_empty) {
            return;
        }
        room /= kWordBits;
    }
}

void RoomIndex::unmark(std::size_t room) {
    for (auto& level : levels_) {
        std::uint64_t& word = level[room / kWordBits];
        word &= ~(std::uint64_t{1} << (room % kWordBits));
        if (word != 0) {
            return;
        }
        room /= kWordBits;
    }
}

std::size_t RoomIndex::least_from(std::size_t size) const {
    std::size_t place = size;
    for (std::size_t depth = 0; depth < levels_.size(); ++depth) {
        const auto& level = levels_[depth];
        if (place / kWordBits >= level.size()) {
            break;
        }
        const std::uint64_t rest = level[place / kWordBits] >> (place % kWordBits);
        if (rest != 0) {
            place += static_cast<std::size_t>(std::countr_zero(rest));
            while (depth > 0) {
                --depth;
                place = place * kWordBits +
                        static_cast<std::size_t>(std::countr_zero(levels_[depth][place]));
            }
            return place;
        }
        place = place / kWordBits + 1;
    }
    return lists_.size();
}

void RoomIndex::drop_front(std::size_t room, std::uint32_t row) {
    lists_[room].first = row;
    if (row == kNone) {
        unmark(room);
    }
}

void RoomIndex::append(const Chain& chain) {
    next_[chain.last] = kNone;
    List& list = lists_[chain.room];
    const bool is_marked =
        (levels_[0][chain.room / kWordBits] >> (chain.room % kWordBits) & 1) != 0;
    if (is_marked) {
        next_[list.last] = chain.first;
        list.last = chain.last;
    } else {
        list = {.first = chain.first, .last = chain.last};
        mark(chain.room);
    }
}

void RoomIndex::clear(std::size_t max_rows) {
    for (auto& level : levels_) {
        std::ranges::fill(level, 0);
    }
    if (next_.size() < max_rows) {
        next_.resize(max_rows);
    }
}

}  // namespace datacursor
