// Where the documents of a corpus lie, and how many tokens each holds.
//
// A corpus is a list of shards. A shard names its documents by two arrays of
// token offsets of one integer type; documents are numbered through all shards:
//
//     shard 0    begins  0  5  8      shard 1    begins  (absent: all 0)
//                ends    5  8  8                 ends    7  1
//     document           0  1  2                         3  4
//     length             5  3  0                         7  1
//
// Offsets that overlap, as Arrow and Megatron store them, are passed as the two
// views offsets[:-1] and offsets[1:].
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

namespace datacursor {

// Begin and end of every document of one shard, in tokens.
template <typename T>
struct OffsetSpans {
    std::optional<std::span<const T>> begins;  // absent: every document begins at 0
    std::span<const T> ends;

    [[nodiscard]] std::int64_t begin(std::size_t i) const {
        return begins ? static_cast<std::int64_t>((*begins)[i]) : 0;
    }
    [[nodiscard]] std::int64_t end(std::size_t i) const {
        return static_cast<std::int64_t>(ends[i]);
    }
    [[nodiscard]] std::int64_t length(std::size_t i) const { return end(i) - begin(i); }
};

using DocumentShard = std::variant<OffsetSpans<std::int32_t>, OffsetSpans<std::int64_t>,
                                   OffsetSpans<std::uint32_t>, OffsetSpans<std::uint64_t>>;

// How long a document counts in a packing: its tokens and the virtual ones
// (bos, eos) that every document gets. An empty document counts nothing, unless
// it is kept for the sake of its virtual tokens.
class LengthRule {
public:
    // Throws Error (argument) unless 0 <= num_virtual <= kMaxVirtual.
    LengthRule(std::int64_t num_virtual, bool keep_empty);

    // Requires: length is one that a LengthIndex gave, so the sum cannot overflow.
    [[nodiscard]] std::int64_t operator()(std::int64_t length) const noexcept {
        return length > 0 || keep_empty_ ? length + num_virtual_ : 0;
    }

    static constexpr std::int64_t kMaxVirtual = 2;

private:
    std::int64_t num_virtual_;
    bool keep_empty_;
};

// One document: its shard and its tokens [begin, end) there.
struct DocumentBounds {
    std::size_t shard;
    std::int64_t begin;
    std::int64_t end;
};

// Answers begin, end and length of any document.
//
// Borrows the arrays: they must outlive the index and must not change. Changed
// arrays give wrong lengths, never a read outside the arrays.
// Thread safety: const after construction, so any number of threads may ask.
// Cost: O(1) with one shard, one binary search over the shards with more.
class LengthIndex {
public:
    // Checks every document once, in O(num_documents).
    // Throws Error (argument) if begins and ends of a shard differ in length, and
    // Error (corpus), with the document and its values, unless
    // 0 <= begin <= end < 2^63 and all tokens, with kMaxVirtual more a document,
    // number less than 2^63.
    explicit LengthIndex(std::vector<DocumentShard> shards);

    [[nodiscard]] std::int64_t num_documents() const noexcept { return first_documents_.back(); }
    [[nodiscard]] std::int64_t num_tokens() const noexcept { return num_tokens_; }
    [[nodiscard]] std::int64_t num_empty() const noexcept { return num_empty_; }
    [[nodiscard]] std::int64_t longest() const noexcept { return longest_; }
    [[nodiscard]] std::size_t num_shards() const noexcept { return shards_.size(); }

    // First document of a shard; of num_shards(): num_documents().
    [[nodiscard]] std::int64_t first_document(std::size_t shard) const {
        return first_documents_[shard];
    }

    // Throws Error (argument) if the document is not in [0, num_documents).
    [[nodiscard]] DocumentBounds bounds(std::int64_t document) const;

    // Starts to fetch what bounds(document) reads, and for `count` - 1 documents of the same
    // shard that follow; does nothing out of range.
    void prefetch(std::int64_t document, std::int64_t count = 1) const;

    // Writes the length of documents[i] to lengths[i]. Independent loads in one
    // loop: the misses of a shuffled order overlap.
    // Requires: lengths.size() == documents.size().
    // Throws Error (argument) if a document is not in [0, num_documents).
    void lengths_of(std::span<const std::int64_t> documents, std::span<std::int64_t> lengths) const;

    // Writes the lengths of the documents [first, first + lengths.size()).
    // Throws Error (argument) if that range leaves [0, num_documents).
    void lengths(std::int64_t first, std::span<std::int64_t> lengths) const;

    // Calls visit(document, length) for the documents from `first` on until it returns
    // false; says whether it did, else the last document was visited. Looks a shard up
    // once, and then reads its arrays.
    // Throws Error (argument) if first is not in [0, num_documents).
    template <typename Visit>
    bool visit_from(std::int64_t first, const Visit& visit) const;

private:
    void require(std::int64_t document) const;
    [[nodiscard]] std::size_t shard_of(std::int64_t document) const noexcept;

    std::vector<DocumentShard> shards_;
    std::vector<std::int64_t> first_documents_;  // num_shards + 1 entries, the last: all documents
    std::int64_t num_tokens_ = 0;
    std::int64_t num_empty_ = 0;
    std::int64_t longest_ = 0;
};

template <typename Visit>
bool LengthIndex::visit_from(std::int64_t first, const Visit& visit) const {
    require(first);
    std::int64_t document = first;
    const auto visit_shard = [&](const auto& offsets, std::int64_t first_document) {
        auto i = static_cast<std::size_t>(document - first_document);
        for (; i < offsets.ends.size(); ++i, ++document) {
            if (!visit(document, offsets.length(i))) {
                return false;
            }
        }
        return true;
    };
    for (std::size_t shard = shard_of(first); shard < shards_.size(); ++shard) {
        const std::int64_t first_document = first_documents_[shard];
        if (!std::visit([&](const auto& offsets) { return visit_shard(offsets, first_document); },
                        shards_[shard])) {
            return true;
        }
    }
    return false;
}

}  // namespace datacursor
