#include "permutation_kernel.hpp"

#include <cstdlib>
#include <string>

#include "datacursor/error.hpp"
#include "datacursor/kernel.hpp"

namespace datacursor {
namespace {

const FillKernel& choose_kernel() {
    const std::vector<const FillKernel*> kernels = fill_kernels();
    const char* variable = std::getenv("DATACURSOR_KERNEL");
    const std::string wanted = variable == nullptr ? "" : variable;
    if (wanted.empty()) {
        return *kernels.front();
    }
    std::string names;
    for (const FillKernel* kernel : kernels) {
        if (wanted == kernel->name) {
            return *kernel;
        }
        names += (names.empty() ? "" : ", ") + std::string(kernel->name);
    }
    throw Error(ErrorKind::kArgument, "DATACURSOR_KERNEL must be one of " + names +
                                          " on this processor, got DATACURSOR_KERNEL=" + wanted);
}

}  // namespace

std::vector<const FillKernel*> fill_kernels() {
    std::vector<const FillKernel*> kernels;
#if defined(DATACURSOR_AVX_KERNELS)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0) {
        kernels.push_back(&kAvx512Kernel);
    }
    if (__builtin_cpu_supports("avx2") != 0) {
        kernels.push_back(&kAvx2Kernel);
    }
#endif
#if defined(DATACURSOR_SSE2_KERNEL)
    kernels.push_back(&kSse2Kernel);
#endif
#if defined(DATACURSOR_NEON_KERNEL)
    kernels.push_back(&kNeonKernel);
#endif
    kernels.push_back(&kScalarKernel);
    return kernels;
}

const FillKernel& fill_kernel() {
    static const FillKernel& kernel = choose_kernel();
    return kernel;
}

std::vector<std::string> kernel_names() {
    std::vector<std::string> names;
    for (const FillKernel* kernel : fill_kernels()) {
        names.emplace_back(kernel->name);
    }
    return names;
}

std::string kernel_name() { return fill_kernel().name; }

}  // namespace datacursor
