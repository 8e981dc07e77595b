#include "datacursor/chunk.hpp"

#include "datacursor/philox.hpp"

namespace datacursor {
namespace {

constexpr std::uint64_t kCutStream = std::uint64_t{4} << 56;

}  // namespace

std::uint64_t chunk_cut(std::uint64_t seed, std::uint64_t epoch, std::uint64_t seq_len) noexcept {
    return PhiloxStream({seed, epoch}, kCutStream, seq_len, PermutationKey{}.order_id)
        .bounded(seq_len);
}

Permutation chunk_rows(std::uint64_t seed, std::uint64_t epoch, std::uint64_t num_rows) {
    const PermutationKey key{.seed = seed, .epoch = epoch};
    return {num_rows, sub_permutation(key, Purpose::kPackingWindow, 0)};
}

}  // namespace datacursor
