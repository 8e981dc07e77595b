#include "datacursor/packer.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "datacursor/error.hpp"

namespace datacursor {
namespace {

// Lengths are looked up this many documents at a time, so that cache misses overlap.
constexpr std::size_t kBlock = 256;

[[noreturn]] void throw_argument(const std::string& message) {
    throw Error(ErrorKind::kArgument, message);
}

// Calls visit(place, length) for each document in turn until it returns false.
template <typename Visit>
void for_each_length(const LengthIndex& index, const LengthRule& rule,
                     std::span<const std::int64_t> documents, const Visit& visit) {
    std::array<std::int64_t, kBlock> buffer;
    for (std::size_t first = 0; first < documents.size(); first += kBlock) {
        const std::size_t count = std::min(kBlock, documents.size() - first);
        const std::span<std::int64_t> lengths = std::span(buffer).first(count);
        index.lengths_of(documents.subspan(first, count), lengths);
        for (std::size_t i = 0; i < count; ++i) {
            if (!visit(first + i, rule(lengths[i]))) {
                return;
            }
        }
    }
}

void check_concat(std::int64_t seq_len, std::size_t num_documents, const ConcatState& state,
                  std::size_t spans_size, std::size_t num_rows) {
    if (seq_len < 1) {
        throw_argument("seq_len must be at least 1, got seq_len=" + std::to_string(seq_len));
    }
    if (state.filled < 0 || state.filled >= seq_len) {
        throw_argument("filled must be in [0, " + std::to_string(seq_len) +
                       "), got filled=" + std::to_string(state.filled));
    }
    if (state.offset < 0) {
        throw_argument("offset must not be negative, got offset=" + std::to_string(state.offset));
    }
    if (spans_size / 3 < num_documents + num_rows) {
        throw_argument("spans must have room for " + std::to_string(num_documents + num_rows) +
                       " spans, got " + std::to_string(spans_size / 3));
    }
}

}  // namespace

ConcatProgress pack_concat(const LengthIndex& index, const LengthRule& rule, std::int64_t seq_len,
                           std::span<const std::int64_t> documents, ConcatState state,
                           std::span<std::int64_t> spans, std::span<std::int64_t> row_ends) {
    check_concat(seq_len, documents.size(), state, spans.size(), row_ends.size());
    ConcatProgress progress{.state = state};
    if (row_ends.empty()) {
        return progress;
    }
    auto& [offset, filled] = progress.state;

    // Packs what is left of one document; false when the last row end is written.
    const auto pack = [&](std::size_t place, std::int64_t length) {
        if (offset > 0 && offset >= length) {
            throw_argument("offset must be in [0, " + std::to_string(length) + ") in document " +
                           std::to_string(documents[place]) +
                           ", got offset=" + std::to_string(offset));
        }
        while (offset < length && progress.num_rows < row_ends.size()) {
            const std::int64_t take = std::min(length - offset, seq_len - filled);
            std::int64_t* span = &spans[3 * progress.num_spans++];
            span[0] = documents[place];
            span[1] = offset;
            span[2] = offset + take;
            offset += take;
            filled += take;
            if (filled == seq_len) {
                row_ends[progress.num_rows++] = static_cast<std::int64_t>(progress.num_spans);
                filled = 0;
            }
        }
        if (offset >= length) {
            offset = 0;
            progress.documents_read = place + 1;
        }
        return progress.num_rows < row_ends.size();
    };
    for_each_length(index, rule, documents, pack);
    return progress;
}

void count_tokens(const LengthIndex& index, const LengthRule& rule,
                  std::span<const std::int64_t> documents, std::int64_t stride, std::int64_t before,
                  std::span<std::int64_t> totals) {
    if (stride < 1) {
        throw_argument("stride must be at least 1, got stride=" + std::to_string(stride));
    }
    if (before < 0) {
        throw_argument("before must not be negative, got before=" + std::to_string(before));
    }
    const auto step = static_cast<std::size_t>(stride);
    const std::size_t wanted = documents.size() / step + (documents.size() % step != 0 ? 1 : 0);
    if (totals.size() != wanted) {
        throw_argument("totals must have " + std::to_string(wanted) + " entries, got " +
                       std::to_string(totals.size()));
    }
    std::int64_t total = before;
    for_each_length(index, rule, documents, [&](std::size_t place, std::int64_t length) {
        if (length > std::numeric_limits<std::int64_t>::max() - total) {
            throw_argument("totals must stay below 2**63, got " + std::to_string(length) +
                           " more than " + std::to_string(total));
        }
        total += length;
        totals[place / step] = total;
        return true;
    });
}

TokenPlace locate_token(const LengthIndex& index, const LengthRule& rule,
                        std::span<const std::int64_t> documents, std::int64_t target) {
    if (target < 0) {
        throw_argument("target must not be negative, got target=" + std::to_string(target));
    }
    TokenPlace found{.place = 0, .offset = target};
    for_each_length(index, rule, documents, [&](std::size_t place, std::int64_t length) {
        if (found.offset == 0 || found.offset < length) {
            return false;
        }
        found = {.place = place + 1, .offset = found.offset - length};
        return true;
    });
    if (found.offset > 0 && found.place == documents.size()) {
        throw_argument("target must not pass the documents' tokens, got target=" +
                       std::to_string(target) + ", " + std::to_string(found.offset) + " too many");
    }
    return found;
}

std::size_t cut_rows(const LengthIndex& index, const LengthRule& rule,
                     std::span<const std::int64_t> totals, std::int64_t stride,
                     std::span<const std::int64_t> ranges, std::span<std::int64_t> spans,
                     std::span<std::int64_t> row_ends) {
    const std::int64_t num_documents = index.num_documents();
    if (stride < 1 || std::ssize(totals) != (num_documents - 1) / stride + 1) {
        throw_argument("totals must have an entry for every stride=" + std::to_string(stride) +
                       " of " + std::to_string(num_documents) + " documents, got " +
                       std::to_string(totals.size()));
    }
    if (ranges.size() != 2 * row_ends.size()) {
        throw_argument("row_ends must have one entry for each of " +
                       std::to_string(ranges.size() / 2) + " ranges, got " +
                       std::to_string(row_ends.size()));
    }
    std::size_t num_spans = 0;
    for (std::size_t row = 0; row < row_ends.size(); ++row) {
        const std::int64_t begin = ranges[2 * row];
        const std::int64_t end = ranges[2 * row + 1];
        if (begin < 0 || begin >= end || end > totals.back()) {
            throw_argument("ranges[" + std::to_string(row) + "] must have 0 <= begin < end <= " +
                           std::to_string(totals.back()) + ", got begin=" + std::to_string(begin) +
                           " and end=" + std::to_string(end));
        }
        // The entry of the first document that may hold the first token.
        const auto entry = std::ranges::upper_bound(totals, begin) - totals.begin();
        std::int64_t token = entry > 0 ? totals[static_cast<std::size_t>(entry - 1)] : 0;
        for (std::int64_t document = entry * stride; token < end; ++document) {
            const DocumentBounds bounds = index.bounds(document);
            const std::int64_t length = rule(bounds.end - bounds.begin);
            const std::int64_t start = std::max<std::int64_t>(begin - token, 0);
            if (start < length) {
                if (3 * num_spans + 2 < spans.size()) {
                    spans[3 * num_spans] = document;
                    spans[3 * num_spans + 1] = start;
                    spans[3 * num_spans + 2] = std::min(length, end - token);
                }
                ++num_spans;
            }
            token += length;
        }
        row_ends[row] = static_cast<std::int64_t>(num_spans);
    }
    return num_spans;
}

}  // namespace datacursor
