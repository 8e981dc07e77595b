// Packing: which spans of which documents fill the rows of an epoch.
//
// The packer sees document lengths, never tokens, and never an order: the caller
// fills a buffer with the documents at the positions it wants packed.
//
// concat joins the documents and cuts the stream every seq_len tokens. With
// seq_len 4 and documents 0, 1, 2 of 3, 2 and 5 tokens:
//
//     document   0  0  0  1  1  2  2  2  2  2
//     row       |0--------0|1--------1|2------      row 2 stays open
//     spans     (0,0,3)(1,0,1) (1,1,2)(2,0,3) (2,3,5)
//     row_ends              2              4
//
// A row that ends exactly at a document's end leaves the reader at the next
// document, offset 0, even if that document is empty: the next row steps over it.
#pragma once

#include <cstdint>
#include <span>

#include "datacursor/length_index.hpp"

namespace datacursor {

// Where concat stands between two calls.
struct ConcatState {
    std::int64_t offset = 0;  // tokens of the next document that are read already
    std::int64_t filled = 0;  // tokens in the open row, [0, seq_len)
};

struct ConcatProgress {
    ConcatState state;
    std::size_t documents_read = 0;  // documents of the buffer that are done
    std::size_t num_spans = 0;       // spans written, an open row's included
    std::size_t num_rows = 0;        // row ends written
};

// Packs documents until row_ends is full or the documents are used up, and says
// how far it came. A pure function: the same arguments give the same result, and
// going on from the returned state with documents[documents_read..) gives what
// one longer call would have given.
//
// spans receives (document, start, stop) triples, where start and stop count
// virtual tokens; row_ends[k] is the number of spans up to the end of row k.
// Spans of an open row come last and belong to no row end yet.
//
// Requires: spans.size() >= 3 * (documents.size() + row_ends.size()), which always
// suffices, as a span ends with its document or with its row.
// Throws Error (argument) if seq_len < 1, filled is not in [0, seq_len), offset is
// not 0 and not below the length of documents[0], spans is too small, or a
// document is out of range.
// Cost: O(documents read + rows written); allocates nothing.
ConcatProgress pack_concat(const LengthIndex& index, const LengthRule& rule, std::int64_t seq_len,
                           std::span<const std::int64_t> documents, ConcatState state,
                           std::span<std::int64_t> spans, std::span<std::int64_t> row_ends);

// Writes before + the tokens of documents[0 .. (i + 1) * stride) to totals[i]; the
// last stride may be short. These are the entries of a skip table.
//
// Requires: totals.size() == ceil(documents.size() / stride).
// Throws Error (argument) if stride < 1, before < 0, totals has another size, a
// document is out of range or a total reaches 2^63.
void count_tokens(const LengthIndex& index, const LengthRule& rule,
                  std::span<const std::int64_t> documents, std::int64_t stride, std::int64_t before,
                  std::span<std::int64_t> totals);

// A token's place: documents[place], `offset` tokens in.
struct TokenPlace {
    std::size_t place;
    std::int64_t offset;
};

// Finds where a reader stands that has read `target` tokens from documents[0] on,
// in the normal form of the packer: the first place that fits, so (place + 1, 0)
// right after a document's end.
// Throws Error (argument) if target < 0, if the documents hold fewer tokens, or if
// a document is out of range.
TokenPlace locate_token(const LengthIndex& index, const LengthRule& rule,
                        std::span<const std::int64_t> documents, std::int64_t target);

// Where the joined documents are cut: row r holds the tokens first_token + r * seq_len
// and up, seq_len of them, those that exist.
struct RowCut {
    std::int64_t first_token;  // of row 0; negative: row 0 is short
    std::int64_t seq_len;
};

// Cuts any rows out of the joined documents [0, num_documents).
//
// totals is the skip table of count_tokens over all documents in their natural order,
// with this stride. Writes (document, start, stop) triples to spans and the number of
// spans up to the end of rows[i] to row_ends[i]. If the spans do not fit, spans holds
// the first ones and the result says how many there are.
//
// Throws Error (argument) if seq_len < 1, first_token <= -seq_len, a row holds no token,
// sizes do not fit each other, or totals are not those of the documents.
// Cost: a search in totals and up to `stride` lengths a row, whose cache misses overlap
// with those of other rows, and its spans.
std::size_t cut_rows(const LengthIndex& index, const LengthRule& rule,
                     std::span<const std::int64_t> totals, std::int64_t stride, const RowCut& cut,
                     std::span<const std::int64_t> rows, std::span<std::int64_t> spans,
                     std::span<std::int64_t> row_ends);

}  // namespace datacursor
