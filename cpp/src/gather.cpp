#include "datacursor/gather.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <string>
#include <type_traits>

#include "datacursor/error.hpp"
#include "prefetch.hpp"

namespace datacursor {
namespace {

// Spans are found this many ahead of the one being written, and their index
// entries fetched as many ahead of that, so that cache misses overlap with copying.
constexpr std::size_t kLookahead = 8;
// Of a span's tokens so much is fetched ahead; the hardware streams the rest.
constexpr std::size_t kPrefetchBytes = 4096;
constexpr std::size_t kLineBytes = 64;

// One span, found: the real tokens of its document and the virtual ones wanted.
struct Piece {
    const TokenSpan* tokens;  // of the document's shard
    std::int64_t document;
    std::int64_t begin;   // first real token of the document
    std::int64_t length;  // real tokens of the document
    std::int64_t start;
    std::int64_t stop;
};

[[noreturn]] void throw_argument(const std::string& message) {
    throw Error(ErrorKind::kArgument, message);
}

std::vector<DocumentShard> documents_of(std::span<const TokenShard> shards) {
    std::vector<DocumentShard> documents;
    documents.reserve(shards.size());
    for (const TokenShard& shard : shards) {
        documents.push_back(shard.documents);
    }
    return documents;
}

void check_bounds(std::int64_t document, const DocumentBounds& bounds, const TokenSpan& tokens) {
    const std::int64_t num_tokens = std::visit([](auto span) { return std::ssize(span); }, tokens);
    if (bounds.begin < 0 || bounds.begin > bounds.end || bounds.end > num_tokens) {
        throw Error(ErrorKind::kCorpus,
                    "document " + std::to_string(document) + " must lie within the " +
                        std::to_string(num_tokens) + " tokens of its shard, got begin=" +
                        std::to_string(bounds.begin) + " and end=" + std::to_string(bounds.end));
    }
}

// Takes virtual tokens for real ones: a bos makes it one token wrong, for a hint.
void prefetch_tokens(const Piece& piece) {
    const std::int64_t first = std::min(piece.start, piece.length);
    const std::int64_t count = std::min(piece.stop, piece.length) - first;
    std::visit(
        [&](auto span) {
            const auto bytes = std::as_bytes(span.subspan(
                static_cast<std::size_t>(piece.begin + first), static_cast<std::size_t>(count)));
            if (!bytes.empty()) {
                prefetch(bytes.data());
            }
            for (std::size_t i = kLineBytes; i < std::min(bytes.size(), kPrefetchBytes);
                 i += kLineBytes) {
                prefetch_far(&bytes[i]);
            }
        },
        *piece.tokens);
}

// Copies tokens into 64-bit ids; returns whether all of them are ids.
template <typename T>
bool widen(std::span<const T> tokens, std::int64_t* ids) {
    std::int64_t signs = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        // NOLINTNEXTLINE(bugprone-signed-char-misuse): a negative token must stay negative.
        const auto id = static_cast<std::int64_t>(tokens[i]);
        ids[i] = id;
        if constexpr (std::is_signed_v<T> || sizeof(T) == sizeof(id)) {
            signs |= id;
        }
    }
    return signs >= 0;
}

[[noreturn]] void throw_bad_token(const Piece& piece, std::int64_t first, std::int64_t count) {
    const std::string found = std::visit(
        [&](auto span) {
            const auto tokens = span.subspan(static_cast<std::size_t>(piece.begin + first),
                                             static_cast<std::size_t>(count));
            const auto bad = std::ranges::find_if(
                tokens, [](auto token) { return static_cast<std::int64_t>(token) < 0; });
            return std::to_string(*bad) + " in document " + std::to_string(piece.document) +
                   " at token " + std::to_string(first + (bad - tokens.begin()));
        },
        *piece.tokens);
    throw Error(ErrorKind::kCorpus, "token ids must be in [0, 2**63), got " + found);
}

// Writes the real tokens [first, first + count) of the document of a piece.
void write_real_tokens(const Piece& piece, std::int64_t first, std::int64_t count,
                       std::int64_t* ids) {
    const bool good = std::visit(
        [&](auto span) {
            return widen(span.subspan(static_cast<std::size_t>(piece.begin + first),
                                      static_cast<std::size_t>(count)),
                         ids);
        },
        *piece.tokens);
    if (!good) {
        throw_bad_token(piece, first, count);
    }
}

std::int64_t virtual_length(std::int64_t length, const GatherOptions& options) {
    const std::int64_t whole = length + (options.bos ? 1 : 0) + (options.eos ? 1 : 0);
    return std::min(whole, options.longest.value_or(whole));
}

// What a segment of `count` tokens takes from its row.
std::int64_t aligned(std::int64_t count, const GatherOptions& options) {
    return options.align == 1 ? count : (count + options.align - 1) / options.align * options.align;
}

// Finds and checks span i, and starts to fetch its tokens.
Piece find_piece(const LengthIndex& index, const std::vector<TokenSpan>& shards,
                 std::span<const std::int64_t> spans, std::size_t i, const GatherOptions& options) {
    const std::int64_t document = spans[3 * i];
    const DocumentBounds bounds = index.bounds(document);
    const TokenSpan& tokens = shards[bounds.shard];
    check_bounds(document, bounds, tokens);
    const Piece piece{.tokens = &tokens,
                      .document = document,
                      .begin = bounds.begin,
                      .length = bounds.end - bounds.begin,
                      .start = spans[3 * i + 1],
                      .stop = spans[3 * i + 2]};
    const std::int64_t length = virtual_length(piece.length, options);
    if (piece.start < 0 || piece.stop <= piece.start || piece.stop > length) {
        throw_argument("spans[" + std::to_string(i) + "] must have 0 <= start < stop <= " +
                       std::to_string(length) + ", the length of document " +
                       std::to_string(document) + ", got start=" + std::to_string(piece.start) +
                       " and stop=" + std::to_string(piece.stop));
    }
    prefetch_tokens(piece);
    return piece;
}

// Writes the segments of a batch, row by row, and counts as it goes.
class BatchWriter {
public:
    BatchWriter(const GatherOptions& options, const BatchFields& fields)
        : options_(options), fields_(fields) {
        add_boundary();
    }

    void add_segment(const Piece& piece);
    void finish_row();  // pads what is left of it

    // Tokens that the row in hand can still take.
    [[nodiscard]] std::int64_t room() const noexcept { return fields_.seq_len - filled_; }
    [[nodiscard]] const BatchTotals& totals() const noexcept { return totals_; }

private:
    // The next `count` places of a field; nothing of a field that is left out.
    template <typename T>
    [[nodiscard]] std::span<T> next(std::span<T> field, std::int64_t count) const {
        return field.empty()
                   ? field
                   : field.subspan(static_cast<std::size_t>(at_), static_cast<std::size_t>(count));
    }

    void write_tokens(const Piece& piece, std::int64_t start, std::int64_t stop,
                      std::int64_t* ids) const;
    void write_labels(const Piece& piece, std::span<const std::int64_t> ids, bool has_next);
    void write_padding(std::int64_t count, std::int64_t first_position, std::int32_t segment);
    void close_segment(std::int64_t count);
    void add_boundary();

    const GatherOptions& options_;
    const BatchFields& fields_;
    BatchTotals totals_;
    std::int64_t at_ = 0;      // tokens of the batch that are written
    std::int64_t filled_ = 0;  // of these, tokens of the row in hand
    std::int32_t segment_ = 0;
};

void BatchWriter::add_segment(const Piece& piece) {
    const std::int64_t count = piece.stop - piece.start;
    const bool has_next = piece.stop < virtual_length(piece.length, options_);
    const std::span<std::int64_t> ids = next(fields_.input_ids, count);
    write_tokens(piece, piece.start, piece.stop, ids.data());
    write_labels(piece, ids, has_next);

    // Places without a target: shifted, the document's last; else the segment's first.
    const std::span<bool> mask = next(fields_.loss_mask, count);
    std::ranges::fill(mask, true);
    const bool all_targets = options_.shifted && has_next;
    if (!mask.empty() && !all_targets) {
        (options_.shifted ? mask.back() : mask.front()) = false;
    }
    totals_.num_targets += all_targets ? count : count - 1;

    const std::span<std::int64_t> positions = next(fields_.position_ids, count);
    std::iota(positions.begin(), positions.end(), options_.continued ? piece.start : 0);
    std::ranges::fill(next(fields_.segment_ids, count), segment_);
    at_ += count;
    const std::int64_t size = aligned(count, options_);
    if (size > count) {
        write_padding(size - count, (options_.continued ? piece.start : 0) + count, segment_);
    }
    ++segment_;
    close_segment(size);
}

// Writes places without a document: no labels, nothing to predict.
void BatchWriter::write_padding(std::int64_t count, std::int64_t first_position,
                                std::int32_t segment) {
    std::ranges::fill(next(fields_.input_ids, count), options_.pad);
    std::ranges::fill(next(fields_.labels, count), kIgnoreLabel);
    std::ranges::fill(next(fields_.loss_mask, count), false);
    const std::span<std::int64_t> positions = next(fields_.position_ids, count);
    std::iota(positions.begin(), positions.end(), first_position);
    std::ranges::fill(next(fields_.segment_ids, count), segment);
    at_ += count;
}

void BatchWriter::finish_row() {
    const std::int64_t count = room();
    if (count > 0) {
        write_padding(count, 0, kPaddingSegment);
        close_segment(count);
    }
    filled_ = 0;
    segment_ = 0;
}

// Writes the virtual tokens [start, stop) of a document.
void BatchWriter::write_tokens(const Piece& piece, std::int64_t start, std::int64_t stop,
                               std::int64_t* ids) const {
    if (options_.bos && start == 0) {
        *ids++ = *options_.bos;
        ++start;
    }
    const std::int64_t num_before = options_.bos ? 1 : 0;
    const std::int64_t real_stop = std::min(stop, num_before + piece.length);
    if (start < real_stop) {
        write_real_tokens(piece, start - num_before, real_stop - start, ids);
        ids += real_stop - start;
    }
    if (options_.eos && stop > num_before + piece.length) {
        *ids = *options_.eos;
    }
}

// Labels come from the ids just written, which are in cache, not from the source.
void BatchWriter::write_labels(const Piece& piece, std::span<const std::int64_t> ids,
                               bool has_next) {
    const std::span<std::int64_t> labels = next(fields_.labels, std::ssize(ids));
    if (labels.empty()) {
        return;
    }
    if (!options_.shifted) {
        labels.front() = kIgnoreLabel;
        std::ranges::copy(ids.subspan(1), labels.begin() + 1);
        return;
    }
    std::ranges::copy(ids.subspan(1), labels.begin());
    if (has_next) {
        write_tokens(piece, piece.stop, piece.stop + 1, &labels.back());
    } else {
        labels.back() = kIgnoreLabel;
    }
}

void BatchWriter::close_segment(std::int64_t count) {
    filled_ += count;
    totals_.max_seqlen = std::max(totals_.max_seqlen, count);
    add_boundary();
}

void BatchWriter::add_boundary() {
    const auto place = static_cast<std::size_t>(totals_.num_boundaries++);
    if (!fields_.cu_seqlens.empty()) {
        fields_.cu_seqlens[place] = static_cast<std::int32_t>(at_);
    }
}

template <typename T>
void check_size(std::span<T> field, std::size_t wanted, const char* name) {
    if (!field.empty() && field.size() != wanted) {
        throw_argument(std::string(name) + " must have num_rows * seq_len = " +
                       std::to_string(wanted) + " entries, got " + std::to_string(field.size()));
    }
}

void check_fields(const BatchFields& fields, std::size_t num_spans) {
    constexpr std::int64_t kMaxTokens = std::numeric_limits<std::int32_t>::max();  // of cu_seqlens
    if (fields.num_rows < 0 || fields.seq_len < 1 ||
        fields.num_rows > kMaxTokens / fields.seq_len) {
        throw_argument("num_rows * seq_len must be in [0, 2**31), got num_rows=" +
                       std::to_string(fields.num_rows) +
                       " and seq_len=" + std::to_string(fields.seq_len));
    }
    const auto size = static_cast<std::size_t>(fields.num_rows * fields.seq_len);
    if (fields.input_ids.size() != size) {
        throw_argument("input_ids must have num_rows * seq_len = " + std::to_string(size) +
                       " entries, got " + std::to_string(fields.input_ids.size()));
    }
    check_size(fields.labels, size, "labels");
    check_size(fields.position_ids, size, "position_ids");
    check_size(fields.segment_ids, size, "segment_ids");
    check_size(fields.loss_mask, size, "loss_mask");
    const std::size_t boundaries = num_spans + static_cast<std::size_t>(fields.num_rows) + 1;
    if (!fields.cu_seqlens.empty() && fields.cu_seqlens.size() < boundaries) {
        throw_argument("cu_seqlens must have room for " + std::to_string(boundaries) +
                       " boundaries, got " + std::to_string(fields.cu_seqlens.size()));
    }
}

void check_row_offsets(std::span<const std::int64_t> row_offsets, std::int64_t num_rows,
                       std::int64_t num_spans) {
    if (std::ssize(row_offsets) != num_rows + 1) {
        throw_argument("row_offsets must have num_rows + 1 = " + std::to_string(num_rows + 1) +
                       " entries, got " + std::to_string(row_offsets.size()));
    }
    if (row_offsets.front() != 0 || row_offsets.back() != num_spans ||
        !std::ranges::is_sorted(row_offsets)) {
        throw_argument("row_offsets must rise from 0 to the number of spans, " +
                       std::to_string(num_spans) + ", got " + std::to_string(row_offsets.front()) +
                       " to " + std::to_string(row_offsets.back()));
    }
}

}  // namespace

TokenTable::TokenTable(std::span<const TokenShard> shards) : index_(documents_of(shards)) {
    tokens_.reserve(shards.size());
    for (const TokenShard& shard : shards) {
        const std::int64_t stop = index_.first_document(tokens_.size() + 1);
        for (std::int64_t document = index_.first_document(tokens_.size()); document < stop;
             ++document) {
            check_bounds(document, index_.bounds(document), shard.tokens);
        }
        tokens_.push_back(shard.tokens);
    }
}

BatchTotals TokenTable::gather(std::span<const std::int64_t> spans,
                               std::span<const std::int64_t> row_offsets,
                               const GatherOptions& options, const BatchFields& fields) const {
    const std::size_t num_spans = spans.size() / 3;
    check_fields(fields, num_spans);
    check_row_offsets(row_offsets, fields.num_rows, static_cast<std::int64_t>(num_spans));
    if (options.align < 1 || fields.seq_len % options.align != 0) {
        throw_argument("align must divide seq_len=" + std::to_string(fields.seq_len) +
                       ", got align=" + std::to_string(options.align));
    }

    BatchWriter writer(options, fields);
    std::array<Piece, kLookahead> pieces;
    std::size_t num_prefetched = 0;
    std::size_t num_found = 0;
    for (std::size_t row = 0; row + 1 < row_offsets.size(); ++row) {
        const auto stop = static_cast<std::size_t>(row_offsets[row + 1]);
        for (auto i = static_cast<std::size_t>(row_offsets[row]); i < stop; ++i) {
            for (; num_prefetched < std::min(num_spans, i + 2 * kLookahead); ++num_prefetched) {
                index_.prefetch(spans[3 * num_prefetched]);
            }
            for (; num_found < std::min(num_spans, i + kLookahead); ++num_found) {
                pieces[num_found % kLookahead] =
                    find_piece(index_, tokens_, spans, num_found, options);
            }
            const Piece& piece = pieces[i % kLookahead];
            if (aligned(piece.stop - piece.start, options) > writer.room()) {
                throw_argument(
                    "the spans of a row must fit seq_len=" + std::to_string(fields.seq_len) +
                    ", got more in row " + std::to_string(row));
            }
            writer.add_segment(piece);
        }
        writer.finish_row();
    }
    return writer.totals();
}

}  // namespace datacursor
