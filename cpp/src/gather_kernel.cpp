#include "gather_kernel.hpp"

#include <string>

#include "datacursor/kernel.hpp"

namespace datacursor {
namespace {

const GatherKernel& choose_kernel() {
    const std::string name = kernel_name();
#if defined(DATACURSOR_AVX_KERNELS)
    // Stores bound the copy, so wider ones than AVX2's gain nothing.
    if (name == "avx512" || name == "avx2") {
        return kAvx2Gather;
    }
#endif
    return kPortableGather;
}

}  // namespace

const GatherKernel& gather_kernel() {
    static const GatherKernel& kernel = choose_kernel();
    return kernel;
}

}  // namespace datacursor
