// Gathering: spans of documents in, the arrays of a batch out.
//
// Every document is its real tokens between virtual ones, bos before and eos
// after; spans count in that virtual space. Rows are filled from the left and
// padded at the end:
//
//     spans         (4, 2, 5) (9, 0, 2)             seq_len 8, pad 0
//     input_ids      c  d  e   v  w   0  0  0
//     labels         d  e  f   w  x   .  .  .       shifted; '.' is kIgnoreLabel
//                    .  d  e   .  w   .  .  .       not shifted
//     position_ids   0  1  2   0  1   0  1  2       continued: 2 3 4 first
//     segment_ids    0  0  0   1  1  -1 -1 -1
//     cu_seqlens    0        3      5         8
//
// With align, a segment ends in padding of its own: pad ids without labels, positions
// and segment going on. With longest, a document ends after so many tokens.
//
// A shifted label is the next token of the same document, also when that token
// lies in another row; a document's last token has no label. Padding is known by
// its place, never by a token's value, so pad may equal eos or a real token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "datacursor/length_index.hpp"

namespace datacursor {

struct GatherKernel;  // compiled copy loops

constexpr std::int64_t kIgnoreLabel = -100;  // torch's ignore_index
constexpr std::int32_t kPaddingSegment = -1;

using TokenSpan = std::variant<std::span<const std::uint8_t>, std::span<const std::uint16_t>,
                               std::span<const std::uint32_t>, std::span<const std::uint64_t>,
                               std::span<const std::int8_t>, std::span<const std::int16_t>,
                               std::span<const std::int32_t>, std::span<const std::int64_t>>;

// The tokens of one shard; its documents are ranges of them.
struct TokenShard {
    TokenSpan tokens;
    DocumentShard documents;
};

struct GatherOptions {
    std::optional<std::int64_t> bos = std::nullopt;  // virtual first token of every document
    std::optional<std::int64_t> eos = std::nullopt;  // virtual last token of every document
    std::int64_t pad = 0;
    bool shifted = true;                   // labels: the next token, else the token itself
    std::int64_t no_label = kIgnoreLabel;  // the label where there is no target
    bool continued = false;  // positions: go on from the span's start, else restart at 0
    std::int64_t align = 1;  // a segment is padded to a multiple, inside itself; divides seq_len
    std::optional<std::int64_t> longest = std::nullopt;  // tokens of a document that exist at all
};

using IdSpan = std::variant<std::span<std::int64_t>, std::span<std::int32_t>>;
using MaskSpan = std::variant<std::span<bool>, std::span<float>>;

// The caller's arrays, row-major [num_rows, seq_len]. All but input_ids may be
// left empty, and are then not written.
struct BatchFields {
    std::int64_t num_rows = 0;
    std::int64_t seq_len = 0;
    IdSpan input_ids;
    std::span<std::int64_t> labels;
    std::span<std::int64_t> position_ids;
    std::span<std::int32_t> segment_ids;
    MaskSpan loss_mask;                  // true, or 1, where a label is a target
    std::span<std::int32_t> cu_seqlens;  // room for spans + rows + 1 boundaries
};

struct BatchTotals {
    std::int64_t num_boundaries = 0;  // entries of cu_seqlens; the last is num_rows * seq_len
    std::int64_t max_seqlen = 0;      // longest segment, padding included
    std::int64_t num_targets = 0;     // labels that are not kIgnoreLabel by position
};

// The tokens of a corpus, ready to be gathered.
//
// Borrows the arrays: they must outlive the table and must not change. Every span
// is checked against the arrays when it is used, so arrays that change all the
// same give an Error or other tokens, never a read outside them.
// Thread safety: const after construction.
class TokenTable {
public:
    // Checks every document once, as LengthIndex does, and against its shard's
    // tokens: Error (corpus) if a document ends behind them.
    explicit TokenTable(std::span<const TokenShard> shards);

    [[nodiscard]] std::int64_t num_documents() const noexcept { return index_.num_documents(); }

    // Fills the fields of a batch. Row r holds the spans row_offsets[r] up to
    // row_offsets[r + 1]; spans are (document, start, stop) triples.
    //
    // Throws Error (argument) if a field has another size than num_rows * seq_len,
    // row_offsets do not rise from 0 to the number of spans, a span leaves its
    // document or is empty, a row's spans exceed seq_len, or the batch has 2^31
    // tokens or more; Error (corpus), with document and place, if a token is
    // negative or does not fit the ids: 2^63 or more, 2^31 with 32 bits. The fields then
    // hold anything.
    // Cost: one pass over the output; the tokens of the next spans are prefetched.
    [[nodiscard]] BatchTotals gather(std::span<const std::int64_t> spans,
                                     std::span<const std::int64_t> row_offsets,
                                     const GatherOptions& options, const BatchFields& fields) const;

private:
    LengthIndex index_;
    std::vector<TokenSpan> tokens_;
    const GatherKernel* kernel_;
};

}  // namespace datacursor
