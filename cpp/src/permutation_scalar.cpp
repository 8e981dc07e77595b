// The fill kernel for any processor: the definition, one value after another.
#include <cstddef>
#include <cstdint>

#include "permutation_kernel.hpp"

namespace datacursor {
namespace {

void fill_each(const Network& network, std::uint64_t first, std::size_t count,
               std::int64_t* out) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
        out[i] = static_cast<std::int64_t>(network.forward(first + i));
    }
}

}  // namespace

const FillKernel kScalarKernel{"scalar", fill_each, fill_each};

}  // namespace datacursor
