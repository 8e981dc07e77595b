// The fill kernel for x86-64 with AVX2. Compiled with -mavx2; nothing else may be.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "permutation_fill.hpp"
#include "permutation_kernel.hpp"

namespace datacursor {
namespace {

struct Avx2Base {
    using Vector = __m256i;
    static constexpr std::size_t kVectors = 8;

    static Vector bit_xor(Vector a, Vector b) noexcept { return _mm256_xor_si256(a, b); }
    static Vector load_bits(const void* words) noexcept {
        return _mm256_loadu_si256(static_cast<const __m256i*>(words));
    }
    static void store_bits(std::int64_t* out, Vector a) noexcept {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), a);
    }
    static __m128i count_of(std::uint32_t count) noexcept {
        return _mm_cvtsi32_si128(static_cast<int>(count));
    }
};

struct Avx2Narrow : Avx2Base {
    using Mixer = Mixer16;
    static constexpr std::size_t kLanes = 16;
    static constexpr std::size_t kMaskBits = 2;

    static Vector broadcast(std::uint16_t x) noexcept {
        return _mm256_set1_epi16(static_cast<std::int16_t>(x));
    }
    static Vector load(const std::uint16_t* words) noexcept {
        return _mm256_permutevar8x32_epi32(load_bits(words),
                                           _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
    }
    static Vector add(Vector a, Vector b) noexcept { return _mm256_add_epi16(a, b); }
    static Vector multiply_low(Vector a, Vector b) noexcept { return _mm256_mullo_epi16(a, b); }
    static Vector multiply_high(Vector a, Vector b) noexcept { return _mm256_mulhi_epu16(a, b); }
    static Vector shift_left(Vector a, std::uint32_t count) noexcept {
        return _mm256_sll_epi16(a, count_of(count));
    }
    static Vector shift_right(Vector a, std::uint32_t count) noexcept {
        return _mm256_srl_epi16(a, count_of(count));
    }
    // The wrapped difference is the larger one unless a >= limit.
    static Vector subtract_if_reached(Vector a, Vector limit) noexcept {
        return _mm256_min_epu16(a, _mm256_sub_epi16(a, limit));
    }
    static std::uint64_t equal_mask(Vector a, Vector b) noexcept {
        return static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi16(a, b))) &
               0x55555555U;
    }
    static void store(Vector low, Vector high, std::int64_t* out) noexcept {
        const Vector zero = _mm256_setzero_si256();
        const Vector front = _mm256_unpacklo_epi16(low, high);
        const Vector back = _mm256_unpackhi_epi16(low, high);
        store_bits(out, _mm256_unpacklo_epi32(front, zero));
        store_bits(out + 4, _mm256_unpackhi_epi32(front, zero));
        store_bits(out + 8, _mm256_unpacklo_epi32(back, zero));
        store_bits(out + 12, _mm256_unpackhi_epi32(back, zero));
    }
};

struct Avx2Wide : Avx2Base {
    using Mixer = Mixer32;
    static constexpr std::size_t kLanes = 8;
    static constexpr std::size_t kMaskBits = 1;

    static Vector broadcast(std::uint32_t x) noexcept {
        return _mm256_set1_epi32(static_cast<std::int32_t>(x));
    }
    static Vector load(const std::uint32_t* words) noexcept {
        return _mm256_permute4x64_epi64(load_bits(words), 0xD8);
    }
    static Vector add(Vector a, Vector b) noexcept { return _mm256_add_epi32(a, b); }
    static Vector multiply_low(Vector a, Vector b) noexcept { return _mm256_mullo_epi32(a, b); }
    static Vector multiply_high(Vector a, Vector uniform) noexcept {
        const Vector even = _mm256_mul_epu32(a, uniform);
        const Vector odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), uniform);
        return _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
    }
    static Vector shift_left(Vector a, std::uint32_t count) noexcept {
        return _mm256_sll_epi32(a, count_of(count));
    }
    static Vector shift_right(Vector a, std::uint32_t count) noexcept {
        return _mm256_srl_epi32(a, count_of(count));
    }
    static Vector subtract_if_reached(Vector a, Vector limit) noexcept {
        return _mm256_min_epu32(a, _mm256_sub_epi32(a, limit));
    }
    static std::uint64_t equal_mask(Vector a, Vector b) noexcept {
        return static_cast<std::uint32_t>(
            _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b))));
    }
    static void store(Vector low, Vector high, std::int64_t* out) noexcept {
        store_bits(out, _mm256_unpacklo_epi32(low, high));
        store_bits(out + 4, _mm256_unpackhi_epi32(low, high));
    }
};

}  // namespace

const FillKernel kAvx2Kernel{"avx2", fill_lanes<Avx2Narrow>, fill_lanes<Avx2Wide>};

}  // namespace datacursor
