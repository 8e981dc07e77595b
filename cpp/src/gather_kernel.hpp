// The compiled copy loops of gather, of which one set is chosen at run time (kernel.hpp).
//
// Every set writes the same; the portable one, plain loops for any processor, is the
// definition. Set kAvx2Gather is the same loops, compiled for AVX2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace datacursor {

// Write ids[i] = tokens[i] for i in [0, count); return whether all of them are ids, in
// [0, 2^63) or [0, 2^31). The ids then hold anything.
template <typename Token, typename Id>
using WidenFunction = bool (*)(const Token* tokens, std::size_t count, Id* ids) noexcept;

template <typename Token>
struct Widen {
    WidenFunction<Token, std::int64_t> to_64;
    WidenFunction<Token, std::int32_t> to_32;
};

struct GatherKernel : Widen<std::uint8_t>,
                      Widen<std::uint16_t>,
                      Widen<std::uint32_t>,
                      Widen<std::uint64_t>,
                      Widen<std::int8_t>,
                      Widen<std::int16_t>,
                      Widen<std::int32_t>,
                      Widen<std::int64_t> {
    // Write out[i] = first + i for i in [0, count).
    void (*count_up)(std::int64_t first, std::size_t count, std::int64_t* out) noexcept;
};

// Defined only where its file is compiled (CMakeLists.txt).
extern const GatherKernel kAvx2Gather;
extern const GatherKernel kPortableGather;

// Return the set that goes with the kernel in use. Throws as kernel_name().
const GatherKernel& gather_kernel();

template <typename Token, typename Id>
WidenFunction<Token, Id> widen_of(const GatherKernel& kernel) noexcept {
    const Widen<Token>& widen = kernel;
    if constexpr (std::is_same_v<Id, std::int32_t>) {
        return widen.to_32;
    } else {
        return widen.to_64;
    }
}

}  // namespace datacursor
