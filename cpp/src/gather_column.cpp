#include "datacursor/gather_column.hpp"

#include <algorithm>
#include <string>

#include "datacursor/error.hpp"
#include "gather_piece.hpp"

namespace datacursor {
namespace {

[[noreturn]] void throw_argument(const std::string& message) {
    throw Error(ErrorKind::kArgument, message);
}

std::vector<DocumentShard> documents_of(std::span<const ColumnShard> shards) {
    std::vector<DocumentShard> documents;
    documents.reserve(shards.size());
    for (const ColumnShard& shard : shards) {
        documents.push_back(shard.documents);
    }
    return documents;
}

std::int64_t size_of(const ColumnSpan& values) {
    return std::visit([](auto span) { return std::ssize(span); }, values);
}

// Copies the real values that a piece has, its own or shifted the next ones.
template <typename T>
void copy_piece(std::span<const T> values, const Piece& piece, const GatherOptions& options,
                T* out) {
    const std::int64_t shift = options.shifted ? 1 : 0;
    const std::int64_t num_before = options.bos ? 1 : 0;
    const std::int64_t end =
        std::min(virtual_length(piece.length, options), num_before + piece.length);
    const std::int64_t first = std::max(piece.start + shift, num_before);
    const std::int64_t stop = std::min(piece.stop + shift, end);
    if (first < stop) {
        const auto found = real_values(values, piece, first - num_before, stop - first);
        std::ranges::copy(found, out + (first - shift - piece.start));
    }
}

}  // namespace

ColumnTable::ColumnTable(std::span<const ColumnShard> shards) : index_(documents_of(shards)) {
    values_.reserve(shards.size());
    for (const ColumnShard& shard : shards) {
        if (shard.values.index() != shards.front().values.index()) {
            throw_argument(
                "shards of a column must have values of one size, got another in shard " +
                std::to_string(values_.size()));
        }
        check_documents(index_, values_.size(), size_of(shard.values));
        values_.push_back(shard.values);
    }
}

void ColumnTable::gather(std::span<const std::int64_t> spans,
                         std::span<const std::int64_t> row_offsets, const GatherOptions& options,
                         std::int64_t seq_len, std::uint64_t fill, const ColumnOut& out) const {
    const std::int64_t num_rows = std::ssize(row_offsets) - 1;
    check_rows(num_rows, seq_len, row_offsets, spans.size() / 3, options.align);
    const auto write = [&]<typename T>(std::span<T> places) {
        const auto wanted = static_cast<std::size_t>(num_rows * seq_len);
        if (places.size() != wanted) {
            throw_argument("a column must have num_rows * seq_len = " + std::to_string(wanted) +
                           " entries, got " + std::to_string(places.size()));
        }
        std::ranges::fill(places, static_cast<T>(fill));
        std::int64_t row_start = 0;
        std::int64_t filled = 0;
        for_each_piece(
            index_, [&](std::size_t shard) { return size_of(values_[shard]); }, spans, row_offsets,
            options, [](const Piece&) {},
            [&](std::size_t row, const Piece& piece) {
                const std::int64_t size = aligned(piece.stop - piece.start, options);
                if (size > seq_len - filled) {
                    throw_row_overflow(seq_len, row);
                }
                const auto* values = std::get_if<std::span<const T>>(&values_[piece.shard]);
                if (values == nullptr) {
                    throw_argument("a column must be gathered into values of its own size, got " +
                                   std::to_string(sizeof(T)) + " bytes");
                }
                copy_piece(*values, piece, options,
                           &places[static_cast<std::size_t>(row_start + filled)]);
                filled += size;
            },
            [&] {
                row_start += seq_len;
                filled = 0;
            });
    };
    std::visit(write, out);
}

}  // namespace datacursor
