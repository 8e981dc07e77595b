#include "gather_piece.hpp"

#include <limits>

namespace datacursor {
namespace {

[[noreturn]] void throw_argument(const std::string& message) {
    throw Error(ErrorKind::kArgument, message);
}

}  // namespace

void check_bounds(std::int64_t document, const DocumentBounds& bounds, std::int64_t num_values) {
    if (bounds.begin < 0 || bounds.begin > bounds.end || bounds.end > num_values) {
        throw Error(ErrorKind::kCorpus,
                    "document " + std::to_string(document) + " must lie within the " +
                        std::to_string(num_values) + " tokens of its shard, got begin=" +
                        std::to_string(bounds.begin) + " and end=" + std::to_string(bounds.end));
    }
}

void check_documents(const LengthIndex& index, std::size_t shard, std::int64_t num_values) {
    const std::int64_t stop = index.first_document(shard + 1);
    for (std::int64_t document = index.first_document(shard); document < stop; ++document) {
        check_bounds(document, index.bounds(document), num_values);
    }
}

void check_span(std::size_t i, const Piece& piece, std::int64_t length) {
    if (piece.start < 0 || piece.stop <= piece.start || piece.stop > length) {
        throw_argument("spans[" + std::to_string(i) +
                       "] must have 0 <= start < stop <= " + std::to_string(length) +
                       ", the length of document " + std::to_string(piece.document) +
                       ", got start=" + std::to_string(piece.start) +
                       " and stop=" + std::to_string(piece.stop));
    }
}

void check_rows(std::int64_t num_rows, std::int64_t seq_len,
                std::span<const std::int64_t> row_offsets, std::size_t num_spans,
                std::int64_t align) {
    constexpr std::int64_t kMaxTokens = std::numeric_limits<std::int32_t>::max();  // of cu_seqlens
    if (num_rows < 0 || seq_len < 1 || num_rows > kMaxTokens / seq_len) {
        throw_argument("num_rows * seq_len must be in [0, 2**31), got num_rows=" +
                       std::to_string(num_rows) + " and seq_len=" + std::to_string(seq_len));
    }
    if (std::ssize(row_offsets) != num_rows + 1) {
        throw_argument("row_offsets must have num_rows + 1 = " + std::to_string(num_rows + 1) +
                       " entries, got " + std::to_string(row_offsets.size()));
    }
    if (row_offsets.front() != 0 || row_offsets.back() != static_cast<std::int64_t>(num_spans) ||
        !std::ranges::is_sorted(row_offsets)) {
        throw_argument("row_offsets must rise from 0 to the number of spans, " +
                       std::to_string(num_spans) + ", got " + std::to_string(row_offsets.front()) +
                       " to " + std::to_string(row_offsets.back()));
    }
    if (align < 1 || seq_len % align != 0) {
        throw_argument("align must divide seq_len=" + std::to_string(seq_len) +
                       ", got align=" + std::to_string(align));
    }
}

void throw_row_overflow(std::int64_t seq_len, std::size_t row) {
    throw_argument("the spans of a row must fit seq_len=" + std::to_string(seq_len) +
                   ", got more in row " + std::to_string(row));
}

}  // namespace datacursor
