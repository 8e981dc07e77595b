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

// -- cut_rows --------------------------------------------------------------------

// Rows looked up side by side, so that their cache misses overlap.
constexpr std::size_t kRows = 32;
constexpr std::int64_t kMaxAhead = 64;     // documents fetched ahead of a stride
constexpr std::int64_t kFewDocuments = 4;  // and of a row

void check_cut(const LengthIndex& index, std::span<const std::int64_t> totals, std::int64_t stride,
               const RowCut& cut, std::size_t num_rows, std::size_t num_ends) {
    const std::int64_t num_documents = index.num_documents();
    if (num_documents == 0) {
        throw_argument("rows must be none where there are no documents, got " +
                       std::to_string(num_rows));
    }
    if (stride < 1 || std::ssize(totals) != (num_documents - 1) / stride + 1) {
        throw_argument("totals must have an entry for every stride=" + std::to_string(stride) +
                       " of " + std::to_string(num_documents) + " documents, got " +
                       std::to_string(totals.size()));
    }
    if (cut.seq_len < 1 || cut.first_token <= -cut.seq_len) {
        throw_argument(
            "seq_len must be at least 1 and first_token more than -seq_len, got seq_len=" +
            std::to_string(cut.seq_len) + " and first_token=" + std::to_string(cut.first_token));
    }
    if (num_ends != num_rows) {
        throw_argument("row_ends must have one entry for each of " + std::to_string(num_rows) +
                       " rows, got " + std::to_string(num_ends));
    }
}

struct TokenRange {
    std::int64_t begin;
    std::int64_t end;
};

// Returns the tokens of a row. In unsigned numbers, which hold what 2^63 - 1 less a negative
// first token is.
TokenRange range_of(const RowCut& cut, std::int64_t row, std::int64_t num_tokens) {
    const auto first = static_cast<std::uint64_t>(cut.first_token);
    const auto seq_len = static_cast<std::uint64_t>(cut.seq_len);
    const std::uint64_t num_from_first = static_cast<std::uint64_t>(num_tokens) - first;
    const bool has_rows = num_tokens > std::max<std::int64_t>(cut.first_token, 0);
    const std::uint64_t num_rows = has_rows ? (num_from_first - 1) / seq_len + 1 : 0;
    if (static_cast<std::uint64_t>(row) >= num_rows) {
        throw_argument("row must be in [0, " + std::to_string(num_rows) +
                       "), got row=" + std::to_string(row));
    }
    const std::uint64_t skipped = static_cast<std::uint64_t>(row) * seq_len;
    const std::uint64_t taken = std::min(num_from_first - skipped, seq_len);
    const auto begin = static_cast<std::int64_t>(first + skipped);
    const auto end = static_cast<std::int64_t>(first + skipped + taken);
    return {.begin = std::max<std::int64_t>(begin, 0), .end = end};
}

// Counts the totals up to each range's begin: the entry of the first document that may
// hold its first token. Binary searches in step and without branches.
void find_entries(std::span<const std::int64_t> totals, std::span<const TokenRange> ranges,
                  std::span<std::size_t> entries) {
    std::ranges::fill(entries, 0U);
    for (std::size_t rest = totals.size(); rest > 0;) {
        const std::size_t half = (rest + 1) / 2;
        for (std::size_t i = 0; i < ranges.size(); ++i) {
            const bool is_before = totals[entries[i] + half - 1] <= ranges[i].begin;
            entries[i] += half * static_cast<std::size_t>(is_before);
        }
        rest -= half;
    }
}

struct RowCutter {
    const LengthIndex& index;
    const LengthRule& rule;
    std::span<const std::int64_t> totals;
    std::span<std::int64_t> spans;
    std::size_t num_spans = 0;

    // Cuts out a range of tokens, looked for from an entry's first document on.
    void cut(std::size_t entry, std::int64_t stride, const TokenRange& range) {
        const std::int64_t before = entry > 0 ? totals[entry - 1] : 0;
        if (before < 0) {
            throw_argument("totals must not be negative, got " + std::to_string(before));
        }
        std::int64_t skip = range.begin - before;  // tokens until the row begins
        std::int64_t rest = range.end - before;    // and until it ends
        const auto visit = [&](std::int64_t document, std::int64_t real_length) {
            const std::int64_t length = rule(real_length);
            if (skip < length) {
                add(document, skip, std::min(length, rest));
                skip = 0;
            } else {
                skip -= length;
            }
            if (length >= rest) {
                return false;
            }
            rest -= length;
            return true;
        };
        if (!index.visit_from(static_cast<std::int64_t>(entry) * stride, visit)) {
            throw_argument("totals must be those of the documents, which lack " +
                           std::to_string(rest) + " tokens");
        }
    }

    void add(std::int64_t document, std::int64_t start, std::int64_t stop) {
        if (3 * num_spans + 2 < spans.size()) {
            std::int64_t* span = &spans[3 * num_spans];
            span[0] = document;
            span[1] = start;
            span[2] = stop;
        }
        ++num_spans;
    }
};

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
                     std::span<const std::int64_t> totals, std::int64_t stride, const RowCut& cut,
                     std::span<const std::int64_t> rows, std::span<std::int64_t> spans,
                     std::span<std::int64_t> row_ends) {
    if (rows.empty() && row_ends.empty()) {
        return 0;
    }
    check_cut(index, totals, stride, cut, rows.size(), row_ends.size());
    RowCutter cutter{.index = index, .rule = rule, .totals = totals, .spans = spans};
    std::array<TokenRange, kRows> buffer;
    std::array<std::size_t, kRows> entries;
    const std::int64_t ahead = std::min(stride, kMaxAhead) + kFewDocuments;
    for (std::size_t first = 0; first < rows.size(); first += kRows) {
        const auto ranges = std::span(buffer).first(std::min(kRows, rows.size() - first));
        for (std::size_t i = 0; i < ranges.size(); ++i) {
            ranges[i] = range_of(cut, rows[first + i], totals.back());
        }
        find_entries(totals, ranges, entries);
        for (std::size_t i = 0; i < ranges.size(); ++i) {
            index.prefetch(static_cast<std::int64_t>(entries[i]) * stride, ahead);
        }
        for (std::size_t i = 0; i < ranges.size(); ++i) {
            cutter.cut(entries[i], stride, ranges[i]);
            row_ends[first + i] = static_cast<std::int64_t>(cutter.num_spans);
        }
    }
    return cutter.num_spans;
}

}  // namespace datacursor
