// best_fit: whole windows of documents packed into rows with little padding.
//
// A window is a buffer of documents at consecutive places of an order. It is packed
// by itself, so any window is planned again from its documents alone:
//
//     lengths 14 7 5 2 3, seq_len 8         documents 0 to 4
//     pieces      8 6 | 7 | 5 | 2 | 3       1. a longer document is cut (or truncated, ...)
//     sorted      8 7 6 5 3 2               2. longest first, or as they arrive
//     placed      0 1 2 3 3 2               3. into the fullest row that holds it
//     rows       |0--------| |1-------| |0-----3--| |2-----4---|
//
// 2. Of two pieces with as many tokens the one that comes first in the stream stands first.
// 3. A piece goes to the row with the least room that holds it; of equals to the one
//    that reached that room first; else to a new row. With align a piece takes, and so
//    needs, a multiple of it; a row with max_documents pieces has no room. 4. Inside a row,
//    pieces stand in the order of the stream. 5. The rows are permuted by sub-permutation
//    `window` of purpose kPackingWindow, n = rows, order id 1: at position r comes row
//    index_at(r) of those of 3, numbered as they were opened.
// 6. With cost groups of G, rows of about one cost (sum of squared span lengths, the work of
//    attention) come together: the rows by falling cost, of equals the one opened first, are
//    cut into groups of G, the last one smaller. The groups come in the order of
//    sub-permutation `window` of purpose kCostGroups, n = groups; in each its rows come in
//    the order of 5:
//
//     rows by cost  |9 8 8|7 7 5|4 1|      groups of 3      5. and a permutation of 3 groups
//     as they come  |7 5 7|4 1|8 9 8|
//
// Source: best-fit decreasing bin packing (Johnson 1973); the tie rule is ours, and
// with all of the above part of the persistent format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "datacursor/length_index.hpp"
#include "datacursor/room_index.hpp"

namespace datacursor {

inline constexpr std::int64_t kMaxBestFitSeqLen = std::int64_t{1} << 24;

// What becomes of a document that is longer than a row.
enum class LongDocuments {
    kSplit,     // cut every seq_len tokens
    kTruncate,  // only the first seq_len tokens are packed
    kDrop,      // left out
    kError,     // refused
};

struct BestFitRule {
    std::int64_t seq_len = 0;
    LongDocuments long_documents = LongDocuments::kSplit;
    bool decreasing = true;          // longest first, else as they arrive
    std::int64_t max_documents = 0;  // pieces a row holds at most; 0: any number
    std::int64_t align = 1;          // a piece takes a multiple of this from a row
    std::int64_t min_fragment = 1;   // a shorter piece of a split document is left out

    // Throws Error (argument) unless 1 <= seq_len <= kMaxBestFitSeqLen, align divides
    // seq_len, max_documents >= 0 and 1 <= min_fragment <= seq_len.
    void check() const;
};

// Which permutation the rows of a window come in; std::nullopt keeps the order of 3.
struct RowKey {
    std::uint64_t seed = 0;
    std::uint64_t epoch = 0;
    std::uint64_t window = 0;
    std::uint32_t cost_groups = 0;  // rows in a group of about one cost; 0: no groups
};

struct BestFitCounts {
    std::int64_t num_rows = 0;
    std::int64_t num_spans = 0;
    std::int64_t num_tokens = 0;     // in the rows
    std::int64_t sum_squares = 0;    // of span lengths
    std::int64_t num_empty = 0;      // documents that count no token
    std::int64_t num_split = 0;      // documents
    std::int64_t num_truncated = 0;  // documents
    std::int64_t num_dropped = 0;    // documents
    std::int64_t num_fragments_dropped = 0;
    std::int64_t num_tokens_dropped = 0;  // by all of these
};

// Packs windows one after the other, reusing its memory. Not thread safe.
//
// Cost: 12 to 17 ns a document, and the misses in lengths that the caches do not hold.
// Memory: 8 * seq_len bytes, and about 32 a piece of the largest window so far.
class BestFitPacker {
public:
    // Throws Error (argument) if rule.check() does.
    explicit BestFitPacker(const BestFitRule& rule);

    // Packs a window. Throws Error (argument) if a document is out of range or the window has
    // 2^32 pieces or 2^63 / seq_len tokens, and Error (corpus), with document and length, if
    // one is too long under kError. After an error, pack again before you write.
    const BestFitCounts& pack(const LengthIndex& index, const LengthRule& lengths,
                              std::span<const std::int64_t> documents);

    // Writes all rows of the window packed last: spans (document, start, stop) and
    // row_offsets, row r holding the spans [row_offsets[r], row_offsets[r + 1]).
    // Throws Error (argument) unless spans.size() == 3 * num_spans, row_offsets.size() ==
    // num_rows + 1 and window < 2^55.
    void write(const std::optional<RowKey>& key, std::span<std::int64_t> spans,
               std::span<std::int64_t> row_offsets) const;

private:
    struct Piece {
        std::int64_t document;
        std::int64_t start;
    };

    class Filling;

    void require_few_pieces(std::size_t more) const;
    void make_room(std::size_t more);
    void cut_block(std::span<const std::int64_t> documents,
                   std::span<const std::int64_t> num_tokens, const LengthRule& lengths);
    void cut_other(std::int64_t document, std::int64_t length, std::size_t num_left);
    void add_piece(std::int64_t document, std::int64_t start, std::int64_t length);
    void place_pieces();
    void place_counted(std::size_t num_lengths);
    void place_sorted();
    void place_run(std::size_t size, std::span<const std::uint32_t> run);
    [[nodiscard]] std::vector<std::int64_t> row_order(const RowKey& key) const;
    [[nodiscard]] std::vector<std::size_t> group_of_rows(std::size_t group_size) const;
    [[nodiscard]] std::size_t room_taken(std::size_t length) const;

    BestFitRule rule_;
    std::int64_t max_tokens_;  // of a window, so that no count reaches 2^63
    RoomIndex rooms_;
    BestFitCounts counts_;
    std::int64_t tokens_left_ = 0;  // until max_tokens_
    std::size_t num_pieces_ = 0;
    // Longer than needed: memory kept from larger windows.
    std::vector<Piece> pieces_;             // in stream order
    std::vector<std::uint32_t> lengths_;    // of the pieces
    std::vector<std::uint32_t> sequence_;   // pieces in the order they are placed
    std::vector<std::uint32_t> rows_;       // row of each piece
    std::vector<std::uint32_t> row_sizes_;  // pieces of each row
};

}  // namespace datacursor
