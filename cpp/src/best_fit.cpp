#include "datacursor/best_fit.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>
#include <string>

#include "datacursor/error.hpp"
#include "datacursor/permutation.hpp"

namespace datacursor {
namespace {

constexpr std::size_t kWordBits = 64;
constexpr std::size_t kBlock = 256;  // lengths looked up at a time
constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
// Sorting by counting costs a pass over all lengths that a piece can have.
constexpr std::size_t kMaxCountedPerPiece = 4;

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorKind::kArgument, message); }

}  // namespace

void BestFitRule::check() const {
    if (seq_len < 1 || seq_len > kMaxBestFitSeqLen) {
        refuse("seq_len must be in [1, " + std::to_string(kMaxBestFitSeqLen) +
               "] for best_fit, got seq_len=" + std::to_string(seq_len));
    }
    if (align < 1 || seq_len % align != 0) {
        refuse("align must divide seq_len=" + std::to_string(seq_len) +
               ", got align=" + std::to_string(align));
    }
    if (max_documents < 0) {
        refuse("max_documents must not be negative, got max_documents=" +
               std::to_string(max_documents));
    }
    if (min_fragment < 1 || min_fragment > seq_len) {
        refuse("min_fragment must be in [1, " + std::to_string(seq_len) +
               "], got min_fragment=" + std::to_string(min_fragment));
    }
}

BestFitPacker::RoomIndex::RoomIndex(std::int64_t seq_len)
    : lists_(static_cast<std::size_t>(seq_len)) {
    std::size_t size = lists_.size();
    do {
        size = (size + kWordBits - 1) / kWordBits;
        levels_.emplace_back(size, 0);
    } while (size > 1);
}

void BestFitPacker::RoomIndex::mark(std::size_t room) {
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

void BestFitPacker::RoomIndex::unmark(std::size_t room) {
    for (auto& level : levels_) {
        std::uint64_t& word = level[room / kWordBits];
        word &= ~(std::uint64_t{1} << (room % kWordBits));
        if (word != 0) {
            return;
        }
        room /= kWordBits;
    }
}

// Return the least marked room >= size, or the number of rooms if there is none.
std::size_t BestFitPacker::RoomIndex::least_from(std::size_t size) const {
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

std::size_t BestFitPacker::RoomIndex::take(std::size_t size, std::uint32_t& row) {
    if (size >= lists_.size()) {
        return 0;
    }
    const std::size_t room = least_from(size);
    if (room >= lists_.size()) {
        return 0;
    }
    List& list = lists_[room];
    row = list.first;
    list.first = next_[row];
    if (list.first == kNone) {
        unmark(room);
    }
    return room;
}

void BestFitPacker::RoomIndex::put(std::size_t room, std::uint32_t row) {
    if (row >= next_.size()) {
        next_.resize(row + 1);
    }
    next_[row] = kNone;
    const bool is_marked = (levels_[0][room / kWordBits] >> (room % kWordBits) & 1) != 0;
    if (is_marked) {
        next_[lists_[room].last] = row;
        lists_[room].last = row;
    } else {
        lists_[room] = {.first = row, .last = row};
        mark(room);
    }
}

void BestFitPacker::RoomIndex::clear() {
    for (auto& level : levels_) {
        std::ranges::fill(level, 0);
    }
}

BestFitPacker::BestFitPacker(const BestFitRule& rule)
    : rule_((rule.check(), rule)),
      max_tokens_(std::numeric_limits<std::int64_t>::max() / rule.seq_len),
      rooms_(rule.seq_len) {}

const BestFitCounts& BestFitPacker::pack(const LengthIndex& index, const LengthRule& lengths,
                                         std::span<const std::int64_t> documents) {
    counts_ = {};
    tokens_left_ = max_tokens_;
    num_pieces_ = 0;
    make_room(documents.size());
    std::array<std::int64_t, kBlock> buffer;
    for (std::size_t first = 0; first < documents.size(); first += kBlock) {
        const auto rest = documents.subspan(first);
        const auto part = rest.first(std::min(kBlock, rest.size()));
        const auto found = std::span(buffer).first(part.size());
        index.lengths_of(part, found);
        make_room(rest.size());
        cut_block(part, found, lengths);
    }
    require_few_pieces(0);
    place_pieces();
    counts_.num_rows = static_cast<std::int64_t>(row_sizes_.size());
    counts_.num_spans = static_cast<std::int64_t>(num_pieces_);
    return counts_;
}

// Makes room for so many pieces more; what is there stays, as room for the next window.
void BestFitPacker::make_room(std::size_t more) {
    if (num_pieces_ + more > pieces_.size()) {
        pieces_.resize(num_pieces_ + more);
        lengths_.resize(num_pieces_ + more);
    }
}

// Pieces and rows are numbered in 32 bits.
void BestFitPacker::require_few_pieces(std::size_t more) const {
    if (num_pieces_ + more >= kNone) {
        refuse("a window must hold fewer than 2**32 pieces of documents, got " +
               std::to_string(num_pieces_) + " and " + std::to_string(more) + " more");
    }
}

// Requires: there is room for it.
void BestFitPacker::add_piece(std::int64_t document, std::int64_t start, std::int64_t length) {
    pieces_[num_pieces_] = {.document = document, .start = start};
    lengths_[num_pieces_] = static_cast<std::uint32_t>(length);
    ++num_pieces_;
    counts_.num_tokens += length;
    counts_.sum_squares += length * length;
}

// Cuts documents whose tokens are given. Most have some and fit a row.
void BestFitPacker::cut_block(std::span<const std::int64_t> documents,
                              std::span<const std::int64_t> num_tokens, const LengthRule& lengths) {
    const auto longest = static_cast<std::uint64_t>(rule_.seq_len);
    for (std::size_t i = 0; i < documents.size(); ++i) {
        const std::int64_t length = lengths(num_tokens[i]);
        if (length > tokens_left_) {
            refuse("a window must hold at most " + std::to_string(max_tokens_) +
                   " tokens with seq_len=" + std::to_string(rule_.seq_len) +
                   ", got more in document " + std::to_string(documents[i]));
        }
        tokens_left_ -= length;
        if (static_cast<std::uint64_t>(length) - 1 < longest) {
            add_piece(documents[i], 0, length);
        } else if (length == 0) {
            ++counts_.num_empty;
        } else {
            cut_long(documents[i], length, documents.size() - i);
        }
    }
}

// Cuts a document that is longer than a row, with room left for those that follow it.
void BestFitPacker::cut_long(std::int64_t document, std::int64_t length, std::size_t num_left) {
    switch (rule_.long_documents) {
        case LongDocuments::kSplit:
            ++counts_.num_split;
            require_few_pieces(static_cast<std::size_t>(length / rule_.seq_len));
            make_room(static_cast<std::size_t>(length / rule_.seq_len) + num_left);
            for (std::int64_t start = 0; start < length; start += rule_.seq_len) {
                const std::int64_t count = std::min(rule_.seq_len, length - start);
                if (count < rule_.min_fragment) {
                    ++counts_.num_fragments_dropped;
                    counts_.num_tokens_dropped += count;
                } else {
                    add_piece(document, start, count);
                }
            }
            break;
        case LongDocuments::kTruncate:
            ++counts_.num_truncated;
            counts_.num_tokens_dropped += length - rule_.seq_len;
            add_piece(document, 0, rule_.seq_len);
            break;
        case LongDocuments::kDrop:
            ++counts_.num_dropped;
            counts_.num_tokens_dropped += length;
            break;
        case LongDocuments::kError:
            throw Error(ErrorKind::kCorpus,
                        "document " + std::to_string(document) + " has " + std::to_string(length) +
                            " tokens, more than seq_len=" + std::to_string(rule_.seq_len) +
                            "; choose long_documents='split', 'truncate' or 'drop'");
    }
}

std::size_t BestFitPacker::room_taken(std::size_t length) const {
    const auto align = static_cast<std::size_t>(rule_.align);
    return (length + align - 1) / align * align;
}

void BestFitPacker::place_pieces() {
    if (rows_.size() < num_pieces_) {
        rows_.resize(num_pieces_);
        sequence_.resize(num_pieces_);
    }
    row_sizes_.clear();
    const auto num_lengths = static_cast<std::size_t>(rule_.seq_len) + 1;
    if (rule_.decreasing && num_lengths <= kMaxCountedPerPiece * num_pieces_) {
        place_counted(num_lengths);
    } else {
        place_sorted();
    }
    rooms_.clear();
}

// Sorts by counting, longest first, and places the pieces of each length. Stable, so equal
// pieces stay in the order of the stream.
void BestFitPacker::place_counted(std::size_t num_lengths) {
    std::vector<std::uint32_t> stops(num_lengths, 0);
    for (std::size_t i = 0; i < num_pieces_; ++i) {
        ++stops[lengths_[i]];
    }
    std::uint32_t place = 0;
    for (std::size_t length = num_lengths; length-- > 0;) {
        const std::uint32_t count = stops[length];
        stops[length] = place;
        place += count;
    }
    for (std::uint32_t i = 0; i < num_pieces_; ++i) {
        sequence_[stops[lengths_[i]]++] = i;
    }
    const std::span<const std::uint32_t> all = sequence_;
    std::size_t first = 0;
    for (std::size_t length = num_lengths; length-- > 0;) {
        if (stops[length] > first) {
            place_run(room_taken(length), all.subspan(first, stops[length] - first));
            first = stops[length];
        }
    }
}

// Places pieces longest first, sorted by comparing, or as they arrive.
void BestFitPacker::place_sorted() {
    const auto all = std::span(sequence_).first(num_pieces_);
    std::iota(all.begin(), all.end(), 0U);
    if (rule_.decreasing) {
        std::ranges::stable_sort(
            all, [&](std::uint32_t a, std::uint32_t b) { return lengths_[a] > lengths_[b]; });
    }
    for (std::size_t first = 0; first < all.size();) {
        const std::uint32_t length = lengths_[all[first]];
        std::size_t stop = first + 1;
        while (stop < all.size() && lengths_[all[stop]] == length) {
            ++stop;
        }
        place_run(room_taken(length), all.subspan(first, stop - first));
        first = stop;
    }
}

// Pieces that take one size. The row found takes as many as it holds, one after the other: no
// other row has a room from `size` to its own, so each time its own is the least.
void BestFitPacker::place_run(std::size_t size, std::span<const std::uint32_t> run) {
    const auto most = static_cast<std::size_t>(rule_.max_documents);
    std::size_t least = size;  // no room in [size, least)
    while (!run.empty()) {
        std::uint32_t row = 0;
        std::size_t room = rooms_.take(least, row);
        least = room;
        if (room == 0) {
            row = static_cast<std::uint32_t>(row_sizes_.size());
            row_sizes_.push_back(0);
            room = static_cast<std::size_t>(rule_.seq_len);
            least = room;
        }
        std::size_t count = room < 2 * size ? 1 : std::min(room / size, run.size());
        if (most > 0) {
            count = std::min(count, most - row_sizes_[row]);
        }
        for (const std::uint32_t i : run.first(count)) {
            rows_[i] = row;
        }
        row_sizes_[row] += static_cast<std::uint32_t>(count);
        room -= count * size;
        if (room > 0 && row_sizes_[row] != most) {
            rooms_.put(room, row);
        }
        run = run.subspan(count);
    }
}

// Requires: there is a row.
std::vector<std::int64_t> BestFitPacker::row_order(const RowKey& key) const {
    const std::size_t num_rows = row_sizes_.size();
    const PermutationKey all{.seed = key.seed, .epoch = key.epoch};
    std::vector<std::int64_t> rows(num_rows);
    Permutation(num_rows, sub_permutation(all, Purpose::kPackingWindow, key.window)).fill(0, rows);
    if (key.cost_groups == 0) {
        return rows;
    }
    const std::size_t group_size = key.cost_groups;
    const std::size_t num_groups = (num_rows + group_size - 1) / group_size;
    std::vector<std::int64_t> groups(num_groups);  // in the order they come
    Permutation(num_groups, sub_permutation(all, Purpose::kCostGroups, key.window)).fill(0, groups);
    std::vector<std::size_t> next(num_groups);  // where each group's next row goes
    std::size_t place = 0;
    for (const std::int64_t number : groups) {
        const auto group = static_cast<std::size_t>(number);
        next[group] = place;
        place += std::min(group_size, num_rows - group * group_size);
    }
    const std::vector<std::size_t> group_of = group_of_rows(group_size);
    std::vector<std::int64_t> grouped(num_rows);
    for (const std::int64_t row : rows) {
        grouped[next[group_of[static_cast<std::size_t>(row)]]++] = row;
    }
    return grouped;
}

// Return the group of each row: groups of the costliest rows first.
std::vector<std::size_t> BestFitPacker::group_of_rows(std::size_t group_size) const {
    std::vector<std::uint64_t> costs(row_sizes_.size(), 0);
    for (std::size_t i = 0; i < num_pieces_; ++i) {
        costs[rows_[i]] += std::uint64_t{lengths_[i]} * lengths_[i];
    }
    std::vector<std::size_t> by_cost(costs.size());
    std::iota(by_cost.begin(), by_cost.end(), std::size_t{0});
    std::ranges::stable_sort(by_cost,
                             [&](std::size_t a, std::size_t b) { return costs[a] > costs[b]; });
    std::vector<std::size_t> groups(costs.size());
    for (std::size_t place = 0; place < by_cost.size(); ++place) {
        groups[by_cost[place]] = place / group_size;
    }
    return groups;
}

void BestFitPacker::write(const std::optional<RowKey>& key, std::span<std::int64_t> spans,
                          std::span<std::int64_t> row_offsets) const {
    const std::size_t num_rows = row_sizes_.size();
    if (spans.size() != 3 * num_pieces_ || row_offsets.size() != num_rows + 1) {
        refuse("spans and row_offsets must have room for " + std::to_string(num_pieces_) +
               " spans and " + std::to_string(num_rows + 1) + " offsets, got " +
               std::to_string(spans.size() / 3) + " and " + std::to_string(row_offsets.size()));
    }
    if (key && key->window >= kSubPermutationLimit) {
        refuse("window must be in [0, 2**55), got window=" + std::to_string(key->window));
    }
    std::vector<std::int64_t> rows(num_rows);  // in the order they are written
    if (key && num_rows > 0) {
        rows = row_order(*key);
    } else {
        std::iota(rows.begin(), rows.end(), std::int64_t{0});
    }
    std::vector<std::uint32_t> next(num_rows);  // where each row's next span goes
    std::uint32_t place = 0;
    for (std::size_t r = 0; r < num_rows; ++r) {
        const auto row = static_cast<std::size_t>(rows[r]);
        row_offsets[r] = static_cast<std::int64_t>(place);
        next[row] = place;
        place += row_sizes_[row];
    }
    row_offsets[num_rows] = static_cast<std::int64_t>(place);
    for (std::size_t i = 0; i < num_pieces_; ++i) {
        const Piece& piece = pieces_[i];
        std::int64_t* span = &spans[std::size_t{3} * next[rows_[i]]++];
        span[0] = piece.document;
        span[1] = piece.start;
        span[2] = piece.start + lengths_[i];
    }
}

}  // namespace datacursor
