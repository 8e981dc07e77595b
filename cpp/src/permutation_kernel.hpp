// The choice among the compiled fill kernels of shuffle-1.
//
// A kernel writes out[i] = network.forward(first + i) for i in [0, count), bit-equal
// to Network::forward. Requires: first + count <= network.num_samples.
#pragma once

#include <cstddef>
#include <cstdint>

#include "datacursor/permutation.hpp"

namespace datacursor {

using FillFunction = void (*)(const Network& network, std::uint64_t first, std::size_t count,
                              std::int64_t* out) noexcept;

struct FillKernel {
    const char* name;
    FillFunction fill_narrow;  // word_bits == 16
    FillFunction fill_wide;    // word_bits == 32
};

extern const FillKernel kPortableKernel;
#if defined(DATACURSOR_X86_KERNELS)
extern const FillKernel kAvx2Kernel;
#endif

// Return the fastest kernel this processor runs, chosen once. The environment
// variable DATACURSOR_KERNEL=portable forces the portable one, for tests.
const FillKernel& fill_kernel() noexcept;

}  // namespace datacursor
