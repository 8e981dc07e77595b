// Cache lines fetched ahead of their use: hints, without effect on results.
#pragma once

namespace datacursor {

#if defined(__GNUC__)
// GCC takes a function that only prefetches for one without effect and drops its
// calls; the empty asm is the effect that keeps them.
inline void prefetch(const void* address) {
    __builtin_prefetch(address);
    __asm__ volatile("");  // NOLINT(portability-no-assembler): emits nothing
}

// Into the second-level cache: for more lines than the first can hold in flight.
inline void prefetch_far(const void* address) {
    __builtin_prefetch(address, 0, 2);
    __asm__ volatile("");  // NOLINT(portability-no-assembler): emits nothing
}
#else
inline void prefetch(const void* /*address*/) {}
inline void prefetch_far(const void* /*address*/) {}
#endif

}  // namespace datacursor
