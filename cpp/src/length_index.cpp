#include "datacursor/length_index.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "datacursor/error.hpp"
#include "prefetch.hpp"

namespace datacursor {
namespace {

constexpr std::size_t kCacheLine = 64;
constexpr std::int64_t kMaxTokens = std::numeric_limits<std::int64_t>::max();

[[noreturn]] void throw_no_such_document(std::int64_t document, std::int64_t num_documents) {
    throw Error(ErrorKind::kArgument, "document must be in [0, " + std::to_string(num_documents) +
                                          "), got document=" + std::to_string(document));
}

template <typename T>
[[noreturn]] void throw_bad_bounds(const OffsetSpans<T>& offsets, std::size_t i,
                                   std::int64_t document) {
    const T begin = offsets.begins ? (*offsets.begins)[i] : T{0};
    throw Error(ErrorKind::kCorpus,
                "document " + std::to_string(document) +
                    " must have 0 <= begin <= end < 2**63, got begin=" + std::to_string(begin) +
                    " and end=" + std::to_string(offsets.ends[i]));
}

}  // namespace

LengthRule::LengthRule(std::int64_t num_virtual, bool keep_empty)
    : num_virtual_(num_virtual), keep_empty_(keep_empty) {
    if (num_virtual < 0 || num_virtual > kMaxVirtual) {
        throw Error(ErrorKind::kArgument, "num_virtual must be in [0, 2], got num_virtual=" +
                                              std::to_string(num_virtual));
    }
}

LengthIndex::LengthIndex(std::vector<DocumentShard> shards) : shards_(std::move(shards)) {
    first_documents_.reserve(shards_.size() + 1);
    std::int64_t document = 0;
    std::int64_t room = kMaxTokens;
    const auto count = [&](const auto& offsets) {
        if (offsets.begins && offsets.begins->size() != offsets.ends.size()) {
            throw Error(ErrorKind::kArgument,
                        "begins and ends of a shard must have one length, got " +
                            std::to_string(offsets.begins->size()) + " and " +
                            std::to_string(offsets.ends.size()));
        }
        for (std::size_t i = 0; i < offsets.ends.size(); ++i, ++document) {
            const std::int64_t begin = offsets.begin(i);
            const std::int64_t end = offsets.end(i);
            // A u64 of 2^63 or more is negative here.
            if (begin < 0 || end < begin) {
                throw_bad_bounds(offsets, i, document);
            }
            const std::int64_t length = end - begin;
            if (length > room - LengthRule::kMaxVirtual) {
                throw Error(ErrorKind::kCorpus,
                            "the corpus must hold less than 2**63 tokens, got " +
                                std::to_string(length) + " more in document " +
                                std::to_string(document));
            }
            room -= length + LengthRule::kMaxVirtual;
            num_tokens_ += length;
            num_empty_ += length == 0 ? 1 : 0;
            longest_ = std::max(longest_, length);
        }
    };
    for (const DocumentShard& shard : shards_) {
        first_documents_.push_back(document);
        std::visit(count, shard);
    }
    first_documents_.push_back(document);
}

// The last shard that begins at or before the document. A binary search without
// branches: shuffled documents would mispredict half of them.
std::size_t LengthIndex::shard_of(std::int64_t document) const noexcept {
    const std::int64_t* found = first_documents_.data();
    for (std::size_t count = shards_.size(); count > 1;) {
        const std::size_t half = count / 2;
        found += found[half] <= document ? half : 0;
        count -= half;
    }
    return static_cast<std::size_t>(found - first_documents_.data());
}

void LengthIndex::require(std::int64_t document) const {
    if (document < 0 || document >= num_documents()) {
        throw_no_such_document(document, num_documents());
    }
}

DocumentBounds LengthIndex::bounds(std::int64_t document) const {
    require(document);
    const std::size_t shard = shard_of(document);
    const auto i = static_cast<std::size_t>(document - first_documents_[shard]);
    return std::visit(
        [&](const auto& offsets) {
            return DocumentBounds{shard, offsets.begin(i), offsets.end(i)};
        },
        shards_[shard]);
}

void LengthIndex::prefetch(std::int64_t document, std::int64_t count) const {
    if (document < 0 || document >= num_documents()) {
        return;
    }
    const std::size_t shard = shard_of(document);
    const auto first = static_cast<std::size_t>(document - first_documents_[shard]);
    std::visit(
        [&](const auto& offsets) {
            constexpr std::size_t kStep = kCacheLine / sizeof(offsets.ends[0]);
            const std::size_t room = offsets.ends.size() - first;
            const std::size_t stop = first + std::min(static_cast<std::size_t>(count), room);
            for (std::size_t i = first; i < stop; i += kStep) {
                datacursor::prefetch(&offsets.ends[i]);
                if (offsets.begins) {
                    datacursor::prefetch(&(*offsets.begins)[i]);
                }
            }
        },
        shards_[shard]);
}

void LengthIndex::lengths_of(std::span<const std::int64_t> documents,
                             std::span<std::int64_t> lengths) const {
    if (shards_.size() != 1) {
        for (const std::int64_t document : documents) {
            prefetch(document);
        }
        for (std::size_t i = 0; i < documents.size(); ++i) {
            const DocumentBounds found = bounds(documents[i]);
            lengths[i] = found.end - found.begin;
        }
        return;
    }
    const std::int64_t num_all = num_documents();
    std::visit(
        [&](const auto& offsets) {
            for (std::size_t i = 0; i < documents.size(); ++i) {
                const std::int64_t document = documents[i];
                if (document < 0 || document >= num_all) {
                    throw_no_such_document(document, num_all);
                }
                const auto place = static_cast<std::size_t>(document);
                lengths[i] = offsets.length(place);
            }
        },
        shards_.front());
}

void LengthIndex::lengths(std::int64_t first, std::span<std::int64_t> lengths) const {
    const auto count = static_cast<std::int64_t>(lengths.size());
    if (first < 0 || count > num_documents() || first > num_documents() - count) {
        throw Error(ErrorKind::kArgument, "first + count must be in [0, " +
                                              std::to_string(num_documents()) +
                                              "], got first=" + std::to_string(first) +
                                              " and count=" + std::to_string(count));
    }
    if (lengths.empty()) {
        return;
    }
    std::size_t place = 0;
    visit_from(first, [&](std::int64_t, std::int64_t length) {
        lengths[place++] = length;
        return place < lengths.size();
    });
}

}  // namespace datacursor
