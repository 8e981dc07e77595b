// The fill kernel for x86-64 with AVX2. Compiled with -mavx2; nothing else may be.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "permutation_lanes.hpp"

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

    static Vector broadcast(std::uint16_t x) noexcept {
        return _mm256_set1_epi16(static_cast<std::int16_t>(x));
    }
    static Vector iota() noexcept {
        return _mm256_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    }
    static Vector load(const std::uint16_t* words) noexcept { return load_bits(words); }
    static Vector add(Vector a, Vector b) noexcept { return _mm256_add_epi16(a, b); }
    static Vector multiply_low(Vector a, Vector b) noexcept { return _mm256_mullo_epi16(a, b); }
    static Vector multiply_high(Vector a, Vector b) noexcept { return _mm256_mulhi_epu16(a, b); }
    static Vector shift_right(Vector a, std::uint32_t count) noexcept {
        return _mm256_srl_epi16(a, count_of(count));
    }
    // a < 2 * limit, so the wrapped difference is the larger one unless a >= limit.
    static Vector subtract_if_reached(Vector a, Vector limit) noexcept {
        return _mm256_min_epu16(a, _mm256_sub_epi16(a, limit));
    }
    static bool any_equal(const Vector* vectors, Vector x) noexcept {
        Vector equal = _mm256_setzero_si256();
        for (std::size_t v = 0; v < kVectors; ++v) {
            equal = _mm256_or_si256(equal, _mm256_cmpeq_epi16(vectors[v], x));
        }
        return _mm256_movemask_epi8(equal) != 0;
    }
    static void store_values(Vector left, Vector right, std::uint32_t right_bits,
                             std::int64_t* out) noexcept {
        const __m128i count = count_of(right_bits);
        const __m128i halves[2][2] = {
            {_mm256_castsi256_si128(left), _mm256_castsi256_si128(right)},
            {_mm256_extracti128_si256(left, 1), _mm256_extracti128_si256(right, 1)},
        };
        for (const auto& half : halves) {
            // n <= 2^31, so a value fits 32 bits.
            const Vector value =
                _mm256_or_si256(_mm256_sll_epi32(_mm256_cvtepu16_epi32(half[0]), count),
                                _mm256_cvtepu16_epi32(half[1]));
            store_bits(out, _mm256_cvtepu32_epi64(_mm256_castsi256_si128(value)));
            store_bits(out + 4, _mm256_cvtepu32_epi64(_mm256_extracti128_si256(value, 1)));
            out += 8;
        }
    }
};

struct Avx2Wide : Avx2Base {
    using Mixer = Mixer32;
    static constexpr std::size_t kLanes = 8;

    static Vector broadcast(std::uint32_t x) noexcept {
        return _mm256_set1_epi32(static_cast<std::int32_t>(x));
    }
    static Vector iota() noexcept { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
    static Vector load(const std::uint32_t* words) noexcept { return load_bits(words); }
    static Vector add(Vector a, Vector b) noexcept { return _mm256_add_epi32(a, b); }
    static Vector multiply_low(Vector a, Vector b) noexcept { return _mm256_mullo_epi32(a, b); }
    static Vector multiply_high(Vector a, Vector b) noexcept {
        const Vector even = _mm256_mul_epu32(a, b);
        const Vector odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32));
        return _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
    }
    static Vector shift_right(Vector a, std::uint32_t count) noexcept {
        return _mm256_srl_epi32(a, count_of(count));
    }
    static Vector subtract_if_reached(Vector a, Vector limit) noexcept {
        return _mm256_min_epu32(a, _mm256_sub_epi32(a, limit));
    }
    static bool any_equal(const Vector* vectors, Vector x) noexcept {
        Vector equal = _mm256_setzero_si256();
        for (std::size_t v = 0; v < kVectors; ++v) {
            equal = _mm256_or_si256(equal, _mm256_cmpeq_epi32(vectors[v], x));
        }
        return _mm256_movemask_epi8(equal) != 0;
    }
    static void store_values(Vector left, Vector right, std::uint32_t right_bits,
                             std::int64_t* out) noexcept {
        const __m128i count = count_of(right_bits);
        const Vector low = _mm256_or_si256(
            _mm256_sll_epi64(_mm256_cvtepu32_epi64(_mm256_castsi256_si128(left)), count),
            _mm256_cvtepu32_epi64(_mm256_castsi256_si128(right)));
        const Vector high = _mm256_or_si256(
            _mm256_sll_epi64(_mm256_cvtepu32_epi64(_mm256_extracti128_si256(left, 1)), count),
            _mm256_cvtepu32_epi64(_mm256_extracti128_si256(right, 1)));
        store_bits(out, low);
        store_bits(out + 4, high);
    }
};

}  // namespace

const FillKernel kAvx2Kernel{"avx2", fill_lanes<Avx2Narrow>, fill_lanes<Avx2Wide>};

}  // namespace datacursor
