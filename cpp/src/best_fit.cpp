#include "datacursor/best_fit.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <string>

#include "datacursor/error.hpp"
#include "datacursor/permutation.hpp"

namespace datacursor {
namespace {

constexpr std::size_t kBlock = 256;  // lengths looked up at a time
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
    if (num_pieces_ + more >= RoomIndex::kNone) {
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

// Cuts documents whose tokens are given. Most have some and fit a row: these are counted in
// registers.
void BestFitPacker::cut_block(std::span<const std::int64_t> documents,
                              std::span<const std::int64_t> num_tokens, const LengthRule& lengths) {
    const auto longest = static_cast<std::uint64_t>(rule_.seq_len);
    std::size_t num_pieces = num_pieces_;
    std::int64_t tokens_left = tokens_left_;
    std::int64_t sum_squares = 0;
    std::int64_t num_tokens_cut = 0;
    for (std::size_t i = 0; i < documents.size(); ++i) {
        const std::int64_t length = lengths(num_tokens[i]);
        if (length > tokens_left) {
            refuse("a window must hold at most " + std::to_string(max_tokens_) +
                   " tokens with seq_len=" + std::to_string(rule_.seq_len) +
                   ", got more in document " + std::to_string(documents[i]));
        }
        tokens_left -= length;
        if (static_cast<std::uint64_t>(length) - 1 < longest) {
            pieces_[num_pieces] = {.document = documents[i], .start = 0};
            lengths_[num_pieces] = static_cast<std::uint32_t>(length);
            ++num_pieces;
            sum_squares += length * length;
        } else {
            num_tokens_cut += length;
            num_pieces_ = num_pieces;
            cut_other(documents[i], length, documents.size() - i);
            num_pieces = num_pieces_;
        }
    }
    counts_.num_tokens += tokens_left_ - tokens_left - num_tokens_cut;
    counts_.sum_squares += sum_squares;
    tokens_left_ = tokens_left;
    num_pieces_ = num_pieces;
}

// Cuts a document that is empty or longer than a row, with room left for those that follow it.
void BestFitPacker::cut_other(std::int64_t document, std::int64_t length, std::size_t num_left) {
    if (length == 0) {
        ++counts_.num_empty;
        return;
    }
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
    rooms_.clear(num_pieces_);
    const auto num_lengths = static_cast<std::size_t>(rule_.seq_len) + 1;
    if (rule_.decreasing && num_lengths <= kMaxCountedPerPiece * num_pieces_) {
        place_counted(num_lengths);
    } else {
        place_sorted();
    }
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

// Fills rows of one room with pieces of one size. Rows that reach the same room stay together.
class BestFitPacker::Filling {
public:
    Filling(BestFitPacker& packer, std::size_t room, std::size_t size,
            std::span<const std::uint32_t> run)
        : packer_(packer),
          room_(room),
          size_(size),
          per_row_(room < 2 * size ? 1 : room / size),
          most_(static_cast<std::size_t>(packer.rule_.max_documents)),
          run_(run) {}

    [[nodiscard]] bool is_done() const { return run_.empty(); }

    void fill(std::uint32_t row) {
        std::uint32_t& row_size = packer_.row_sizes_[row];
        std::size_t count = std::min(per_row_, run_.size());
        if (most_ > 0) {
            count = std::min(count, most_ - row_size);
        }
        for (const std::uint32_t piece : run_.first(count)) {
            packer_.rows_[piece] = row;
        }
        run_ = run_.subspan(count);
        row_size += static_cast<std::uint32_t>(count);
        const std::size_t rest = room_ - count * size_;
        if (rest > 0 && row_size != most_) {
            add(row, rest);
        }
    }

    // Returns the pieces that are left.
    std::span<const std::uint32_t> finish() {
        if (chain_.room > 0) {
            packer_.rooms_.append(chain_);
        }
        return run_;
    }

private:
    void add(std::uint32_t row, std::size_t rest) {
        if (rest == chain_.room) {
            packer_.rooms_.link(chain_.last, row);
            chain_.last = row;
            return;
        }
        finish();
        chain_ = {.room = rest, .first = row, .last = row};
    }

    BestFitPacker& packer_;
    std::size_t room_;
    std::size_t size_;
    std::size_t per_row_;  // pieces, but in the last row
    std::size_t most_;
    std::span<const std::uint32_t> run_;
    RoomIndex::Chain chain_{};
};

// Pieces that take one size. Rows of the least room that holds one take as many as they hold,
// one after the other: what is left of them is less than `size`, so they stay the least.
void BestFitPacker::place_run(std::size_t size, std::span<const std::uint32_t> run) {
    const auto seq_len = static_cast<std::size_t>(rule_.seq_len);
    std::size_t room = size;
    while (!run.empty()) {
        room = rooms_.least_from(room);
        if (room < seq_len) {
            Filling filling(*this, room, size, run);
            std::uint32_t row = rooms_.first(room);
            while (row != RoomIndex::kNone && !filling.is_done()) {
                const std::uint32_t next = rooms_.next(row);  // before it is in another list
                filling.fill(row);
                row = next;
            }
            rooms_.drop_front(room, row);
            run = filling.finish();
        } else {
            Filling filling(*this, seq_len, size, run);
            while (!filling.is_done()) {
                row_sizes_.push_back(0);
                filling.fill(static_cast<std::uint32_t>(row_sizes_.size() - 1));
            }
            run = filling.finish();
        }
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
