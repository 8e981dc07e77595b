// The compiled fill kernels of shuffle-1, of which one is chosen at run time (kernel.hpp).
//
// A kernel writes out[i] = network.forward(first + i) for i in [0, count), bit-equal
// to Network::forward. Requires: first + count <= network.num_samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "datacursor/permutation.hpp"

namespace datacursor {

using FillFunction = void (*)(const Network& network, std::uint64_t first, std::size_t count,
                              std::int64_t* out) noexcept;

struct FillKernel {
    const char* name;
    FillFunction fill_narrow;  // word_bits == 16
    FillFunction fill_wide;    // word_bits == 32
};

// Each is defined only where its file is compiled (CMakeLists.txt).
extern const FillKernel kAvx512Kernel;
extern const FillKernel kAvx2Kernel;
extern const FillKernel kSse2Kernel;
extern const FillKernel kNeonKernel;
extern const FillKernel kScalarKernel;

// Return the kernels this processor runs, the fastest first.
std::vector<const FillKernel*> fill_kernels();

// Return the kernel in use. Throws as kernel_name().
const FillKernel& fill_kernel();

}  // namespace datacursor
