// shuffle-1: a pseudo-random permutation of [0, n), evaluated at any position in O(1).
//
// Immutable after construction and therefore free to share between threads. The
// scalar functions here are the definition; the vector kernels are bit-equal to
// them (kernel.hpp).
//
//     position --swap--> --rotate--> | network | --walk while >= n--> index
//               0 <-> 1   + offset       ^
//                                        one of n <= 4096: a table instead
//
// n <= 4096: a table drawn by Fisher-Yates with exact bounded numbers, so every
// order is equally likely.
//
// n > 4096: a Feistel network on a mixed radix domain {(left, right)},
// 0 <= left < num_rows, 0 <= right < 2^right_bits, value left * 2^right_bits + right.
// The domain exceeds n by less than one row, so cycle walking almost vanishes.
//     F(x, k) = mix(x ^ k)
//     even round: right ^= F(left, k) >> (word_bits - right_bits)
//     odd round:  left = (left + F(right, k) * num_rows / 2^word_bits) mod num_rows
//
// Keys: block j of stream s is philox((j, s, n, order_id), (seed, epoch)). Round
// keys are the 32-bit halves (low first) of stream `rounds`; swap bit and offset
// come from stream `tweak`.
//
// Source: Luby and Rackoff 1988 (Feistel networks); Black and Rogaway, CT-RSA
// 2002 (cycle walking, modular halves); the mixers are low-bias 16- and 32-bit
// multiply-xorshift functions. Deviation: only the left half is modular.
// The mapping is part of the persistent format; add an order id, never change.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace datacursor {

inline constexpr std::uint64_t kMaxTableSize = 4096;
inline constexpr std::uint64_t kMaxNarrowSize = std::uint64_t{1} << 31;
inline constexpr std::size_t kMaxRounds = 10;

// Names one permutation among all that a run uses.
struct PermutationKey {
    std::uint64_t seed = 0;
    std::uint64_t epoch = 0;
    std::uint64_t order_id = 1;
    std::uint64_t rounds_stream = 0;
    std::uint64_t tweak_stream = 0xFFFF;
};

// What a sub-permutation is for, so that no two uses share numbers; part of the
// persistent format; add, never change.
enum class Purpose : std::uint64_t {
    kBlockWindow = 1,
    kPackingWindow = 2,
    kMixtureBlock = 3,
    kCostGroups = 5,  // 4: the cuts of chunk
};

inline constexpr std::uint64_t kSubPermutationLimit = std::uint64_t{1} << 55;

// Return the key of the sub-permutation with this number. Requires: number < kSubPermutationLimit.
[[nodiscard]] constexpr PermutationKey sub_permutation(PermutationKey key, Purpose purpose,
                                                       std::uint64_t number) noexcept {
    key.rounds_stream = (static_cast<std::uint64_t>(purpose) << 56) + number;
    key.tweak_stream = key.rounds_stream + kSubPermutationLimit;
    return key;
}

// The Feistel network with its keys. Requires: kMaxTableSize < num_samples < 2^63.
struct Network {
    std::uint64_t num_samples = 0;
    std::uint64_t num_rows = 0;  // values of the left half
    std::uint32_t right_bits = 0;
    std::uint32_t word_bits = 0;  // 16 up to kMaxNarrowSize (ten rounds), else 32 (eight)
    std::array<std::uint32_t, kMaxRounds> keys{};

    // Encrypt, then walk the cycle until the value lies in [0, num_samples).
    [[nodiscard]] std::uint64_t forward(std::uint64_t value) const noexcept;
    [[nodiscard]] std::uint64_t backward(std::uint64_t value) const noexcept;
};

struct FillKernel;  // permutation_kernel.hpp

class Permutation {
public:
    // Requires: 1 <= num_samples < 2^63, else Error{kArgument}. Throws as kernel_name().
    // Cost: under 1 us for n > 4096; about 10 ns per element of the table below.
    Permutation(std::uint64_t num_samples, const PermutationKey& key);

    // Requires: position < num_samples.
    [[nodiscard]] std::uint64_t index_at(std::uint64_t position) const noexcept;

    // The inverse. Requires: index < num_samples.
    [[nodiscard]] std::uint64_t position_of(std::uint64_t index) const noexcept;

    // Write the indices at positions [first, first + out.size()).
    // Requires: first + out.size() <= num_samples. Cost: about 0.7 ns an index
    // with AVX2 (n > 2^31: 1.1 ns); kernel.hpp names what runs.
    void fill(std::uint64_t first, std::span<std::int64_t> out) const noexcept;

    [[nodiscard]] std::uint64_t num_samples() const noexcept { return num_samples_; }

private:
    void draw_table(const PermutationKey& key);
    void draw_network(const PermutationKey& key);

    std::uint64_t num_samples_;
    const FillKernel* kernel_;
    std::uint64_t offset_ = 0;
    bool swap_ = false;
    Network network_;                   // n > kMaxTableSize
    std::vector<std::uint16_t> table_;  // n <= kMaxTableSize
    std::vector<std::uint16_t> inverse_;
};

}  // namespace datacursor
