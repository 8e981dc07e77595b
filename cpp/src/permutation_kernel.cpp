#include "permutation_kernel.hpp"

#include <cstdlib>
#include <string_view>

namespace datacursor {
namespace {

const FillKernel& choose_kernel() noexcept {
    const char* variable = std::getenv("DATACURSOR_KERNEL");
    if (variable != nullptr && std::string_view(variable) == kPortableKernel.name) {
        return kPortableKernel;
    }
#if defined(DATACURSOR_X86_KERNELS)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") != 0) {
        return kAvx2Kernel;
    }
#endif
    return kPortableKernel;
}

}  // namespace

const FillKernel& fill_kernel() noexcept {
    static const FillKernel& kernel = choose_kernel();
    return kernel;
}

}  // namespace datacursor
