// The fill kernel for every x86-64 processor: SSE2 belongs to the base instruction set.
#include <emmintrin.h>

#include <cstddef>
#include <cstdint>

#include "permutation_fill.hpp"
#include "permutation_kernel.hpp"

namespace datacursor {
namespace {

struct Sse2Base {
    using Vector = __m128i;
    static constexpr std::size_t kVectors = 8;

    static Vector bit_xor(Vector a, Vector b) noexcept { return _mm_xor_si128(a, b); }
    static void store_bits(std::int64_t* out, Vector a) noexcept {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out), a);
    }
    static __m128i count_of(std::uint32_t count) noexcept {
        return _mm_cvtsi32_si128(static_cast<int>(count));
    }
};

struct Sse2Narrow : Sse2Base {
    using Mixer = Mixer16;
    static constexpr std::size_t kLanes = 8;
    static constexpr std::size_t kMaskBits = 2;

    static Vector broadcast(std::uint16_t x) noexcept {
        return _mm_set1_epi16(static_cast<std::int16_t>(x));
    }
    static Vector load(const std::uint16_t* words) noexcept {
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(words));
    }
    static Vector add(Vector a, Vector b) noexcept { return _mm_add_epi16(a, b); }
    static Vector multiply_low(Vector a, Vector b) noexcept { return _mm_mullo_epi16(a, b); }
    static Vector multiply_high(Vector a, Vector b) noexcept { return _mm_mulhi_epu16(a, b); }
    static Vector shift_left(Vector a, std::uint32_t count) noexcept {
        return _mm_sll_epi16(a, count_of(count));
    }
    static Vector shift_right(Vector a, std::uint32_t count) noexcept {
        return _mm_srl_epi16(a, count_of(count));
    }
    // min(a, a - limit), where the wrapped difference is the larger one unless a >= limit;
    // SSE2 has no minimum of unsigned words, but a difference that stops at zero.
    static Vector subtract_if_reached(Vector a, Vector limit) noexcept {
        return _mm_sub_epi16(a, _mm_subs_epu16(a, _mm_sub_epi16(a, limit)));
    }
    static std::uint64_t equal_mask(Vector a, Vector b) noexcept {
        return static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi16(a, b))) & 0x5555U;
    }
    static void store(Vector low, Vector high, std::int64_t* out) noexcept {
        const Vector zero = _mm_setzero_si128();
        const Vector front = _mm_unpacklo_epi16(low, high);
        const Vector back = _mm_unpackhi_epi16(low, high);
        store_bits(out, _mm_unpacklo_epi32(front, zero));
        store_bits(out + 2, _mm_unpackhi_epi32(front, zero));
        store_bits(out + 4, _mm_unpacklo_epi32(back, zero));
        store_bits(out + 6, _mm_unpackhi_epi32(back, zero));
    }
};

// SSE2 multiplies 32-bit words only where they lie in 64 bits each, so a vector is two lanes
// of 64 bits. The upper half of a lane holds nothing of meaning, except that of `left`, which
// is zero: it comes from broadcast, load and multiply_high, where the upper halves are zero.
struct Sse2Wide : Sse2Base {
    using Mixer = Mixer32;
    static constexpr std::size_t kLanes = 2;
    static constexpr std::size_t kMaskBits = 1;

    static Vector broadcast(std::uint32_t x) noexcept { return _mm_set_epi64x(x, x); }
    static Vector load(const std::uint32_t* words) noexcept {
        return _mm_set_epi64x(words[1], words[0]);
    }
    static Vector add(Vector a, Vector b) noexcept { return _mm_add_epi64(a, b); }
    static Vector multiply_low(Vector a, Vector b) noexcept { return _mm_mul_epu32(a, b); }
    static Vector multiply_high(Vector a, Vector b) noexcept {
        return _mm_srli_epi64(_mm_mul_epu32(a, b), 32);
    }
    static Vector shift_left(Vector a, std::uint32_t count) noexcept {
        return _mm_sll_epi32(a, count_of(count));
    }
    static Vector shift_right(Vector a, std::uint32_t count) noexcept {
        return _mm_srl_epi32(a, count_of(count));
    }
    // limit <= 2^31, so the 32-bit difference is negative unless a >= limit.
    static Vector subtract_if_reached(Vector a, Vector limit) noexcept {
        const Vector difference = _mm_sub_epi32(a, limit);
        const Vector back = _mm_and_si128(_mm_srai_epi32(difference, 31), limit);
        return _mm_add_epi32(difference, back);
    }
    static std::uint64_t equal_mask(Vector a, Vector b) noexcept {
        const Vector lower_twice = _mm_shuffle_epi32(_mm_cmpeq_epi32(a, b), 0xA0);
        return static_cast<std::uint32_t>(_mm_movemask_pd(_mm_castsi128_pd(lower_twice)));
    }
    static void store(Vector low, Vector high, std::int64_t* out) noexcept {
        const Vector low_half = _mm_set_epi32(0, -1, 0, -1);
        store_bits(out, _mm_or_si128(_mm_and_si128(low, low_half), _mm_slli_epi64(high, 32)));
    }
};

}  // namespace

const FillKernel kSse2Kernel{"sse2", fill_lanes<Sse2Narrow>, fill_lanes<Sse2Wide>};

}  // namespace datacursor
