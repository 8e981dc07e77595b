#include "datacursor/gather.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "datacursor/error.hpp"
#include "gather_kernel.hpp"
#include "gather_piece.hpp"
#include "prefetch.hpp"

namespace datacursor {
namespace {

// Of a span's tokens so much is fetched ahead; the hardware streams the rest.
constexpr std::size_t kPrefetchBytes = 4096;
constexpr std::size_t kLineBytes = 64;

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

template <typename Variant>
std::size_t size_of(const Variant& field) {
    return std::visit([](auto span) { return span.size(); }, field);
}

// Takes virtual tokens for real ones: a bos makes it one token wrong, for a hint.
void prefetch_tokens(const TokenSpan& tokens, const Piece& piece) {
    const std::int64_t first = std::min(piece.start, piece.length);
    const std::int64_t count = std::min(piece.stop, piece.length) - first;
    std::visit(
        [&](auto span) {
            const auto bytes = std::as_bytes(real_values(span, piece, first, count));
            if (!bytes.empty()) {
                prefetch(bytes.data());
            }
            for (std::size_t i = kLineBytes; i < std::min(bytes.size(), kPrefetchBytes);
                 i += kLineBytes) {
                prefetch_far(&bytes[i]);
            }
        },
        tokens);
}

template <typename Token, typename Id>
[[noreturn]] void throw_bad_token(std::span<const Token> tokens, const Piece& piece,
                                  std::int64_t first) {
    const auto bad = std::ranges::find_if(
        tokens, [](Token token) { return !std::in_range<Id>(token) || std::cmp_less(token, 0); });
    throw Error(ErrorKind::kCorpus,
                "token ids must be in [0, 2**" + std::to_string(8 * sizeof(Id) - 1) + "), got " +
                    std::to_string(*bad) + " in document " + std::to_string(piece.document) +
                    " at token " + std::to_string(first + (bad - tokens.begin())));
}

// Writes the segments of a batch, row by row, and counts as it goes.
class BatchWriter {
public:
    BatchWriter(const std::vector<TokenSpan>& tokens, const GatherKernel& kernel,
                const GatherOptions& options, const BatchFields& fields)
        : tokens_(tokens), kernel_(kernel), options_(options), fields_(fields) {
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

    // Calls write(the next `count` places) for a field of one of several types.
    template <typename Variant, typename Write>
    void write_next(const Variant& field, std::int64_t count, const Write& write) const {
        std::visit([&](auto span) { write(next(span, count)); }, field);
    }

    template <typename Id>
    void write_tokens(const Piece& piece, std::int64_t start, std::int64_t stop, Id* ids) const;
    template <typename Id>
    void write_real_tokens(const Piece& piece, std::int64_t first, std::int64_t count,
                           Id* ids) const;
    void write_labels(const Piece& piece, bool has_next) const;
    void write_mask(std::int64_t count, bool all_targets) const;
    void write_positions(std::int64_t first, std::int64_t count) const;
    void write_padding(std::int64_t count, std::int64_t first_position, std::int32_t segment);
    void close_segment(std::int64_t count);
    void add_boundary();

    const std::vector<TokenSpan>& tokens_;
    const GatherKernel& kernel_;
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
    const bool all_targets = options_.shifted && has_next;
    const std::int64_t first_position = options_.continued ? piece.start : 0;
    write_next(fields_.input_ids, count,
               [&](auto ids) { write_tokens(piece, piece.start, piece.stop, ids.data()); });
    write_labels(piece, has_next);
    write_mask(count, all_targets);
    write_positions(first_position, count);
    std::ranges::fill(next(fields_.segment_ids, count), segment_);
    totals_.num_targets += all_targets ? count : count - 1;
    at_ += count;
    const std::int64_t size = aligned(count, options_);
    if (size > count) {
        write_padding(size - count, first_position + count, segment_);
    }
    ++segment_;
    close_segment(size);
}

// A shifted label is the token one later, also when it lies in another row.
void BatchWriter::write_labels(const Piece& piece, bool has_next) const {
    const std::span<std::int64_t> labels = next(fields_.labels, piece.stop - piece.start);
    if (labels.empty()) {
        return;
    }
    if (options_.shifted) {
        write_tokens(piece, piece.start + 1, piece.stop + (has_next ? 1 : 0), labels.data());
        if (!has_next) {
            labels.back() = options_.no_label;
        }
    } else {
        labels.front() = options_.no_label;
        write_tokens(piece, piece.start + 1, piece.stop, labels.data() + 1);
    }
}

// Places without a target: shifted, the document's last; else the segment's first.
void BatchWriter::write_mask(std::int64_t count, bool all_targets) const {
    write_next(fields_.loss_mask, count, [&](auto mask) {
        using Value = typename decltype(mask)::value_type;
        std::ranges::fill(mask, Value{1});
        if (!mask.empty() && !all_targets) {
            (options_.shifted ? mask.back() : mask.front()) = Value{0};
        }
    });
}

void BatchWriter::write_positions(std::int64_t first, std::int64_t count) const {
    const std::span<std::int64_t> positions = next(fields_.position_ids, count);
    kernel_.count_up(first, positions.size(), positions.data());
}

// Writes places without a document: no labels, nothing to predict.
void BatchWriter::write_padding(std::int64_t count, std::int64_t first_position,
                                std::int32_t segment) {
    write_next(fields_.input_ids, count, [&](auto ids) {
        std::ranges::fill(ids, static_cast<typename decltype(ids)::value_type>(options_.pad));
    });
    std::ranges::fill(next(fields_.labels, count), options_.no_label);
    write_next(fields_.loss_mask, count,
               [](auto mask) { std::ranges::fill(mask, typename decltype(mask)::value_type{0}); });
    write_positions(first_position, count);
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
template <typename Id>
void BatchWriter::write_tokens(const Piece& piece, std::int64_t start, std::int64_t stop,
                               Id* ids) const {
    if (options_.bos && start == 0) {
        *ids++ = static_cast<Id>(*options_.bos);
        ++start;
    }
    const std::int64_t num_before = options_.bos ? 1 : 0;
    const std::int64_t real_end = num_before + piece.length;
    const std::int64_t real_stop = std::min(stop, real_end);
    if (start < real_stop) {
        write_real_tokens(piece, start - num_before, real_stop - start, ids);
        ids += real_stop - start;
    }
    if (options_.eos && stop > std::max(start, real_end)) {
        *ids = static_cast<Id>(*options_.eos);
    }
}

// Writes the real tokens [first, first + count) of the document of a piece.
template <typename Id>
void BatchWriter::write_real_tokens(const Piece& piece, std::int64_t first, std::int64_t count,
                                    Id* ids) const {
    std::visit(
        [&]<typename Token>(std::span<const Token> shard) {
            const std::span<const Token> tokens = real_values(shard, piece, first, count);
            if (!widen_of<Token, Id>(kernel_)(tokens.data(), tokens.size(), ids)) {
                throw_bad_token<Token, Id>(tokens, piece, first);
            }
        },
        tokens_[piece.shard]);
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

void check_size(std::size_t found, std::size_t wanted, const char* name) {
    if (found != wanted) {
        throw_argument(std::string(name) + " must have num_rows * seq_len = " +
                       std::to_string(wanted) + " entries, got " + std::to_string(found));
    }
}

void check_size_if_given(std::size_t found, std::size_t wanted, const char* name) {
    check_size(found == 0 ? wanted : found, wanted, name);
}

void check_fields(const BatchFields& fields, std::size_t num_spans) {
    const auto size = static_cast<std::size_t>(fields.num_rows * fields.seq_len);
    check_size(size_of(fields.input_ids), size, "input_ids");
    check_size_if_given(fields.labels.size(), size, "labels");
    check_size_if_given(fields.position_ids.size(), size, "position_ids");
    check_size_if_given(fields.segment_ids.size(), size, "segment_ids");
    check_size_if_given(size_of(fields.loss_mask), size, "loss_mask");
    const std::size_t boundaries = num_spans + static_cast<std::size_t>(fields.num_rows) + 1;
    if (!fields.cu_seqlens.empty() && fields.cu_seqlens.size() < boundaries) {
        throw_argument("cu_seqlens must have room for " + std::to_string(boundaries) +
                       " boundaries, got " + std::to_string(fields.cu_seqlens.size()));
    }
}

void check_special_ids(const GatherOptions& options, const BatchFields& fields) {
    if (std::holds_alternative<std::span<std::int64_t>>(fields.input_ids)) {
        return;
    }
    for (const auto& [name, id] : {std::pair("bos", options.bos), std::pair("eos", options.eos),
                                   std::pair("pad", std::optional(options.pad))}) {
        if (id && !std::in_range<std::int32_t>(*id)) {
            throw_argument(std::string(name) + " must fit ids of 32 bits, got " +
                           std::to_string(*id));
        }
    }
}

}  // namespace

TokenTable::TokenTable(std::span<const TokenShard> shards)
    : index_(documents_of(shards)), kernel_(&gather_kernel()) {
    tokens_.reserve(shards.size());
    for (const TokenShard& shard : shards) {
        const auto num_tokens = static_cast<std::int64_t>(size_of(shard.tokens));
        check_documents(index_, tokens_.size(), num_tokens);
        tokens_.push_back(shard.tokens);
    }
}

BatchTotals TokenTable::gather(std::span<const std::int64_t> spans,
                               std::span<const std::int64_t> row_offsets,
                               const GatherOptions& options, const BatchFields& fields) const {
    const std::size_t num_spans = spans.size() / 3;
    check_rows(fields.num_rows, fields.seq_len, row_offsets, num_spans, options.align);
    check_fields(fields, num_spans);
    check_special_ids(options, fields);
    BatchWriter writer(tokens_, *kernel_, options, fields);
    for_each_piece(
        index_,
        [&](std::size_t shard) { return static_cast<std::int64_t>(size_of(tokens_[shard])); },
        spans, row_offsets, options,
        [&](const Piece& piece) { prefetch_tokens(tokens_[piece.shard], piece); },
        [&](std::size_t row, const Piece& piece) {
            if (aligned(piece.stop - piece.start, options) > writer.room()) {
                throw_row_overflow(fields.seq_len, row);
            }
            writer.add_segment(piece);
        },
        [&] { writer.finish_row(); });
    return writer.totals();
}

}  // namespace datacursor
