// chunk: the keys of rows that are cut out of documents in their natural order.
//
// The cut before which an epoch's first whole row begins is bounded(seq_len) from
// stream 4 * 2^56, n = seq_len; the rows are permuted by sub-permutation 0 of purpose
// kPackingWindow, n = rows; both with order id 1. Where the tail is padded, what lies
// before the cut is row 0 of these, and what follows the last whole row is the last:
//
//     tokens      0 1 2 3 4 5 6 7 8 9      seq_len 4, cut 3
//     padded     |0----|1------|2----|
//     dropped          |0------|
//
// Part of the persistent format.
#pragma once

#include <cstdint>

#include "datacursor/permutation.hpp"

namespace datacursor {

// Return the tokens before an epoch's first whole row. Requires: seq_len >= 1.
[[nodiscard]] std::uint64_t chunk_cut(std::uint64_t seed, std::uint64_t epoch,
                                      std::uint64_t seq_len) noexcept;

// Return which row of the natural order comes at each position. Requires: num_rows >= 1.
[[nodiscard]] Permutation chunk_rows(std::uint64_t seed, std::uint64_t epoch,
                                     std::uint64_t num_rows);

}  // namespace datacursor
