// Gathering columns: values beside the tokens, one for each, taken by the same spans.
//
//     spans         (4, 2, 5) (9, 0, 2)             seq_len 8, no bos
//     tokens         c  d  e   v  w   0  0  0
//     column         C  D  E   V  W   .  .  .       '.' is the fill
//     shifted        D  E  F   W  X   .  .  .       of the next token, as shifted labels are
//
// A virtual token, padding, and shifted the last token of a document have the fill.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "datacursor/gather.hpp"
#include "datacursor/length_index.hpp"

namespace datacursor {

// Values of 1, 2, 4 or 8 bytes; they are copied, never read as numbers.
using ColumnSpan = std::variant<std::span<const std::uint8_t>, std::span<const std::uint16_t>,
                                std::span<const std::uint32_t>, std::span<const std::uint64_t>>;
using ColumnOut = std::variant<std::span<std::uint8_t>, std::span<std::uint16_t>,
                               std::span<std::uint32_t>, std::span<std::uint64_t>>;

// The values of one shard; all shards of a column have values of one size.
struct ColumnShard {
    ColumnSpan values;
    DocumentShard documents;
};

// A column of a corpus, ready to be gathered.
//
// Borrows the arrays, as TokenTable does, with the same promises.
// Thread safety: const after construction.
class ColumnTable {
public:
    // Throws Error (corpus) if a document ends behind the values of its shard, Error
    // (argument) if shards have values of different sizes.
    explicit ColumnTable(std::span<const ColumnShard> shards);

    [[nodiscard]] std::int64_t num_documents() const noexcept { return index_.num_documents(); }

    // Fills `out`, row-major [num_rows, seq_len], of rows of spans as in TokenTable::gather.
    // Of the options only these matter: whether there are bos and eos, shifted, align, longest.
    //
    // Throws Error (argument) as TokenTable::gather does, and if `out` has values of another
    // size than the column.
    void gather(std::span<const std::int64_t> spans, std::span<const std::int64_t> row_offsets,
                const GatherOptions& options, std::int64_t seq_len, std::uint64_t fill,
                const ColumnOut& out) const;

private:
    LengthIndex index_;
    std::vector<ColumnSpan> values_;
};

}  // namespace datacursor
