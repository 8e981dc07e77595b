// A cache line fetched ahead of its use; a hint, without effect on results.
#pragma once

namespace datacursor {

inline void prefetch(const void* address) {
#if defined(__GNUC__)
    __builtin_prefetch(address);
    // GCC takes a function that only prefetches for one without effect and drops its calls.
    __asm__ volatile("");
#else
    static_cast<void>(address);
#endif
}

}  // namespace datacursor
