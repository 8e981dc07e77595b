// Spans found in the shards of a table: what gathering tokens and gathering columns share.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "datacursor/error.hpp"
#include "datacursor/gather.hpp"
#include "datacursor/length_index.hpp"

namespace datacursor {

// One span, found: the real values of its document and the virtual ones wanted.
struct Piece {
    std::size_t shard;
    std::int64_t document;
    std::int64_t begin;   // first real value of the document
    std::int64_t length;  // real values of the document
    std::int64_t start;
    std::int64_t stop;
};

// The real values [first, first + count) of the piece's document.
template <typename T>
std::span<T> real_values(std::span<T> values, const Piece& piece, std::int64_t first,
                         std::int64_t count) {
    return values.subspan(static_cast<std::size_t>(piece.begin + first),
                          static_cast<std::size_t>(count));
}

inline std::int64_t virtual_length(std::int64_t length, const GatherOptions& options) {
    const std::int64_t whole = length + (options.bos ? 1 : 0) + (options.eos ? 1 : 0);
    return std::min(whole, options.longest.value_or(whole));
}

// What a segment of `count` tokens takes from its row.
inline std::int64_t aligned(std::int64_t count, const GatherOptions& options) {
    return options.align == 1 ? count : (count + options.align - 1) / options.align * options.align;
}

// Throws Error (corpus) unless a document lies inside the values of its shard.
void check_bounds(std::int64_t document, const DocumentBounds& bounds, std::int64_t num_values);

// The same for every document of a shard.
void check_documents(const LengthIndex& index, std::size_t shard, std::int64_t num_values);

// Throws Error (argument) unless span i lies inside a document of that many virtual tokens.
void check_span(std::size_t i, const Piece& piece, std::int64_t length);

// Throws Error (argument) unless the rows are as BatchFields and TokenTable::gather ask.
void check_rows(std::int64_t num_rows, std::int64_t seq_len,
                std::span<const std::int64_t> row_offsets, std::size_t num_spans,
                std::int64_t align);

[[noreturn]] void throw_row_overflow(std::int64_t seq_len, std::size_t row);

// Finds and checks span i; size_of(shard) is the number of values of a shard.
template <typename SizeOf>
Piece find_piece(const LengthIndex& index, const SizeOf& size_of,
                 std::span<const std::int64_t> spans, std::size_t i, const GatherOptions& options) {
    const std::int64_t document = spans[3 * i];
    const DocumentBounds bounds = index.bounds(document);
    check_bounds(document, bounds, size_of(bounds.shard));
    const Piece piece{.shard = bounds.shard,
                      .document = document,
                      .begin = bounds.begin,
                      .length = bounds.end - bounds.begin,
                      .start = spans[3 * i + 1],
                      .stop = spans[3 * i + 2]};
    check_span(i, piece, virtual_length(piece.length, options));
    return piece;
}

// Calls on_piece(row, piece) for each span and on_row_end() after each row, in order.
// Spans are found kLookahead ahead of that, when on_found(piece) may fetch their values, and
// their index entries are fetched as many ahead again, so that cache misses overlap with work.
template <typename SizeOf, typename OnFound, typename OnPiece, typename OnRowEnd>
void for_each_piece(const LengthIndex& index, const SizeOf& size_of,
                    std::span<const std::int64_t> spans, std::span<const std::int64_t> row_offsets,
                    const GatherOptions& options, const OnFound& on_found, const OnPiece& on_piece,
                    const OnRowEnd& on_row_end) {
    constexpr std::size_t kLookahead = 8;
    const std::size_t num_spans = spans.size() / 3;
    std::array<Piece, kLookahead> pieces{};
    std::size_t num_prefetched = 0;
    std::size_t num_found = 0;
    for (std::size_t row = 0; row + 1 < row_offsets.size(); ++row) {
        const auto stop = static_cast<std::size_t>(row_offsets[row + 1]);
        for (auto i = static_cast<std::size_t>(row_offsets[row]); i < stop; ++i) {
            for (; num_prefetched < std::min(num_spans, i + 2 * kLookahead); ++num_prefetched) {
                index.prefetch(spans[3 * num_prefetched]);
            }
            for (; num_found < std::min(num_spans, i + kLookahead); ++num_found) {
                Piece& found = pieces[num_found % kLookahead];
                found = find_piece(index, size_of, spans, num_found, options);
                on_found(found);
            }
            on_piece(row, pieces[i % kLookahead]);
        }
        on_row_end();
    }
}

}  // namespace datacursor
