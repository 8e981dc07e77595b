// The fill kernel for every AArch64 processor: NEON belongs to the base instruction set.
#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "permutation_fill.hpp"
#include "permutation_kernel.hpp"

namespace datacursor {
namespace {

// NEON shifts to the right by a negative count to the left.
struct NeonNarrow {
    using Mixer = Mixer16;
    using Vector = uint16x8_t;
    static constexpr std::size_t kLanes = 8;
    static constexpr std::size_t kVectors = 8;
    static constexpr std::size_t kMaskBits = 8;

    static Vector broadcast(std::uint16_t x) noexcept { return vdupq_n_u16(x); }
    static Vector load(const std::uint16_t* words) noexcept { return vld1q_u16(words); }
    static Vector add(Vector a, Vector b) noexcept { return vaddq_u16(a, b); }
    static Vector bit_xor(Vector a, Vector b) noexcept { return veorq_u16(a, b); }
    static Vector multiply_low(Vector a, Vector b) noexcept { return vmulq_u16(a, b); }
    static Vector multiply_high(Vector a, Vector b) noexcept {
        const uint32x4_t front = vmull_u16(vget_low_u16(a), vget_low_u16(b));
        const uint32x4_t back = vmull_high_u16(a, b);
        return vuzp2q_u16(vreinterpretq_u16_u32(front), vreinterpretq_u16_u32(back));
    }
    static Vector shift_left(Vector a, std::uint32_t count) noexcept {
        return vshlq_u16(a, vdupq_n_s16(static_cast<std::int16_t>(count)));
    }
    static Vector shift_right(Vector a, std::uint32_t count) noexcept {
        return vshlq_u16(a, vdupq_n_s16(static_cast<std::int16_t>(-static_cast<int>(count))));
    }
    // The wrapped difference is the larger one unless a >= limit.
    static Vector subtract_if_reached(Vector a, Vector limit) noexcept {
        return vminq_u16(a, vsubq_u16(a, limit));
    }
    static std::uint64_t equal_mask(Vector a, Vector b) noexcept {
        const uint8x8_t bytes = vmovn_u16(vceqq_u16(a, b));
        return vget_lane_u64(vreinterpret_u64_u8(bytes), 0) & 0x0101010101010101U;
    }
    static void store(Vector low, Vector high, std::int64_t* out) noexcept {
        const uint32x4_t front = vreinterpretq_u32_u16(vzip1q_u16(low, high));
        const uint32x4_t back = vreinterpretq_u32_u16(vzip2q_u16(low, high));
        vst1q_s64(out, vreinterpretq_s64_u64(vmovl_u32(vget_low_u32(front))));
        vst1q_s64(out + 2, vreinterpretq_s64_u64(vmovl_high_u32(front)));
        vst1q_s64(out + 4, vreinterpretq_s64_u64(vmovl_u32(vget_low_u32(back))));
        vst1q_s64(out + 6, vreinterpretq_s64_u64(vmovl_high_u32(back)));
    }
};

struct NeonWide {
    using Mixer = Mixer32;
    using Vector = uint32x4_t;
    static constexpr std::size_t kLanes = 4;
    static constexpr std::size_t kVectors = 8;
    static constexpr std::size_t kMaskBits = 16;

    static Vector broadcast(std::uint32_t x) noexcept { return vdupq_n_u32(x); }
    static Vector load(const std::uint32_t* words) noexcept { return vld1q_u32(words); }
    static Vector add(Vector a, Vector b) noexcept { return vaddq_u32(a, b); }
    static Vector bit_xor(Vector a, Vector b) noexcept { return veorq_u32(a, b); }
    static Vector multiply_low(Vector a, Vector b) noexcept { return vmulq_u32(a, b); }
    static Vector multiply_high(Vector a, Vector b) noexcept {
        const uint64x2_t front = vmull_u32(vget_low_u32(a), vget_low_u32(b));
        const uint64x2_t back = vmull_high_u32(a, b);
        return vuzp2q_u32(vreinterpretq_u32_u64(front), vreinterpretq_u32_u64(back));
    }
    static Vector shift_left(Vector a, std::uint32_t count) noexcept {
        return vshlq_u32(a, vdupq_n_s32(static_cast<std::int32_t>(count)));
    }
    static Vector shift_right(Vector a, std::uint32_t count) noexcept {
        return vshlq_u32(a, vdupq_n_s32(-static_cast<std::int32_t>(count)));
    }
    static Vector subtract_if_reached(Vector a, Vector limit) noexcept {
        return vminq_u32(a, vsubq_u32(a, limit));
    }
    static std::uint64_t equal_mask(Vector a, Vector b) noexcept {
        const uint16x4_t words = vmovn_u32(vceqq_u32(a, b));
        return vget_lane_u64(vreinterpret_u64_u16(words), 0) & 0x0001000100010001U;
    }
    static void store(Vector low, Vector high, std::int64_t* out) noexcept {
        vst1q_s64(out, vreinterpretq_s64_u32(vzip1q_u32(low, high)));
        vst1q_s64(out + 2, vreinterpretq_s64_u32(vzip2q_u32(low, high)));
    }
};

}  // namespace

const FillKernel kNeonKernel{"neon", fill_lanes<NeonNarrow>, fill_lanes<NeonWide>};

}  // namespace datacursor
