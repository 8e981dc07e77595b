// The copy loops, written once and compiled for each set by the file that defines it.
//
// Target is a type of that file alone (in an unnamed namespace), so that no loop compiled
// for one processor takes the place of another's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "gather_kernel.hpp"

namespace datacursor {

template <typename Target, typename Token, typename Id>
bool widen_each(const Token* tokens, std::size_t count, Id* ids) noexcept {
    constexpr std::uint64_t kLargestId = std::numeric_limits<Id>::max();
    std::uint64_t bits = 0;  // of all tokens: above the largest id if one of them is
    for (std::size_t i = 0; i < count; ++i) {
        // NOLINTNEXTLINE(bugprone-signed-char-misuse): a negative token must stay negative.
        const auto id = static_cast<std::int64_t>(tokens[i]);
        ids[i] = static_cast<Id>(id);
        if constexpr (std::is_signed_v<Token> || sizeof(Token) >= sizeof(Id)) {
            bits |= static_cast<std::uint64_t>(id);
        }
    }
    return bits <= kLargestId;
}

template <typename Target>
void count_each(std::int64_t first, std::size_t count, std::int64_t* out) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
        out[i] = first + static_cast<std::int64_t>(i);
    }
}

template <typename Target, typename Token>
constexpr Widen<Token> widen_functions() noexcept {
    return {widen_each<Target, Token, std::int64_t>, widen_each<Target, Token, std::int32_t>};
}

template <typename Target>
constexpr GatherKernel gather_loops() noexcept {
    return {widen_functions<Target, std::uint8_t>(),
            widen_functions<Target, std::uint16_t>(),
            widen_functions<Target, std::uint32_t>(),
            widen_functions<Target, std::uint64_t>(),
            widen_functions<Target, std::int8_t>(),
            widen_functions<Target, std::int16_t>(),
            widen_functions<Target, std::int32_t>(),
            widen_functions<Target, std::int64_t>(),
            count_each<Target>};
}

}  // namespace datacursor
