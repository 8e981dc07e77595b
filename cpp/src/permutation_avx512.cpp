// The fill kernel for x86-64 with AVX-512 F and BW. Compiled with -mavx512bw; nothing else may be.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "permutation_fill.hpp"
#include "permutation_kernel.hpp"

namespace datacursor {
namespace {

struct Avx512Base {
    using Vector = __m512i;
    static constexpr std::size_t kMaskBits = 1;

    static Vector bit_xor(Vector a, Vector b) noexcept { return _mm512_xor_si512(a, b); }
    static Vector load_bits(const void* words) noexcept { return _mm512_loadu_si512(words); }
    static void store_bits(std::int64_t* out, Vector a) noexcept { _mm512_storeu_si512(out, a); }
    static __m128i count_of(std::uint32_t count) noexcept {
        return _mm_cvtsi32_si128(static_cast<int>(count));
    }
};

struct Avx512Narrow : Avx512Base {
    using Mixer = Mixer16;
    static constexpr std::size_t kLanes = 32;
    static constexpr std::size_t kVectors = 4;

    static Vector broadcast(std::uint16_t x) noexcept {
        return _mm512_set1_epi16(static_cast<std::int16_t>(x));
    }
    static Vector load(const std::uint16_t* words) noexcept {
        const Vector pairs =
            _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        return _mm512_permutexvar_epi32(pairs, load_bits(words));
    }
    static Vector add(Vector a, Vector b) noexcept { return _mm512_add_epi16(a, b); }
    static Vector multiply_low(Vector a, Vector b) noexcept { return _mm512_mullo_epi16(a, b); }
    static Vector multiply_high(Vector a, Vector b) noexcept { return _mm512_mulhi_epu16(a, b); }
    static Vector shift_left(Vector a, std::uint32_t count) noexcept {
        return _mm512_sll_epi16(a, count_of(count));
    }
    static Vector shift_right(Vector a, std::uint32_t count) noexcept {
        return _mm512_srl_epi16(a, count_of(count));
    }
    // The wrapped difference is the larger one unless a >= limit.
    static Vector subtract_if_reached(Vector a, Vector limit) noexcept {
        return _mm512_min_epu16(a, _mm512_sub_epi16(a, limit));
    }
    static std::uint64_t equal_mask(Vector a, Vector b) noexcept {
        return _mm512_cmpeq_epi16_mask(a, b);
    }
    static void store(Vector low, Vector high, std::int64_t* out) noexcept {
        const Vector zero = _mm512_setzero_si512();
        const Vector front = _mm512_unpacklo_epi16(low, high);
        const Vector back = _mm512_unpackhi_epi16(low, high);
        store_bits(out, _mm512_unpacklo_epi32(front, zero));
        store_bits(out + 8, _mm512_unpackhi_epi32(front, zero));
        store_bits(out + 16, _mm512_unpacklo_epi32(back, zero));
        store_bits(out + 24, _mm512_unpackhi_epi32(back, zero));
    }
};

struct Avx512Wide : Avx512Base {
    using Mixer = Mixer32;
    static constexpr std::size_t kLanes = 16;
    static constexpr std::size_t kVectors = 8;

    static Vector broadcast(std::uint32_t x) noexcept {
        return _mm512_set1_epi32(static_cast<std::int32_t>(x));
    }
    static Vector load(const std::uint32_t* words) noexcept {
        const Vector pairs = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
        return _mm512_permutexvar_epi64(pairs, load_bits(words));
    }
    static Vector add(Vector a, Vector b) noexcept { return _mm512_add_epi32(a, b); }
    static Vector multiply_low(Vector a, Vector b) noexcept { return _mm512_mullo_epi32(a, b); }
    static Vector multiply_high(Vector a, Vector uniform) noexcept {
        const Vector even = _mm512_mul_epu32(a, uniform);
        const Vector odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), uniform);
        return _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
    }
    static Vector shift_left(Vector a, std::uint32_t count) noexcept {
        return _mm512_sll_epi32(a, count_of(count));
    }
    static Vector shift_right(Vector a, std::uint32_t count) noexcept {
        return _mm512_srl_epi32(a, count_of(count));
    }
    static Vector subtract_if_reached(Vector a, Vector limit) noexcept {
        return _mm512_min_epu32(a, _mm512_sub_epi32(a, limit));
    }
    static std::uint64_t equal_mask(Vector a, Vector b) noexcept {
        return _mm512_cmpeq_epi32_mask(a, b);
    }
    static void store(Vector low, Vector high, std::int64_t* out) noexcept {
        store_bits(out, _mm512_unpacklo_epi32(low, high));
        store_bits(out + 8, _mm512_unpackhi_epi32(low, high));
    }
};

}  // namespace

const FillKernel kAvx512Kernel{"avx512", fill_lanes<Avx512Narrow>, fill_lanes<Avx512Wide>};

}  // namespace datacursor
