#include "datacursor/bytes.hpp"

#include <algorithm>
#include <array>

#include "datacursor/error.hpp"

namespace datacursor {
namespace {

constexpr std::uint32_t kReflectedPolynomial = 0x82F63B78U;

// Remainders of all one-byte messages, for the byte-at-a-time algorithm.
constexpr std::array<std::uint32_t, 256> make_crc_table() {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
        std::uint32_t remainder = byte;
        for (int bit = 0; bit < 8; ++bit) {
            const bool carry = (remainder & 1U) != 0;
            remainder = (remainder >> 1U) ^ (carry ? kReflectedPolynomial : 0U);
        }
        table[byte] = remainder;
    }
    return table;
}

constexpr std::array<std::uint32_t, 256> kCrcTable = make_crc_table();

std::string shortage(std::size_t position, std::size_t count, std::size_t left) {
    return "byte " + std::to_string(position) + ": " + std::to_string(count) + " bytes needed, " +
           std::to_string(left) + " left";
}

}  // namespace

void ByteWriter::put(std::span<const std::byte> bytes) {
    std::ranges::copy(bytes, claim(bytes.size()).begin());
}

std::span<std::byte> ByteWriter::claim(std::size_t count) {
    const std::size_t left = out_.size() - size_;
    if (count > left) {
        throw Error(ErrorKind::kArgument, "buffer too small at " + shortage(size_, count, left));
    }
    const std::span<std::byte> claimed = out_.subspan(size_, count);
    size_ += count;
    return claimed;
}

void ByteReader::take(std::span<std::byte> out) {
    std::ranges::copy(take_view(out.size()), out.begin());
}

std::span<const std::byte> ByteReader::take_view(std::size_t count) {
    if (count > remaining()) {
        throw Error(ErrorKind::kFormat, "truncated at " + shortage(position_, count, remaining()));
    }
    const std::span<const std::byte> taken = in_.subspan(position_, count);
    position_ += count;
    return taken;
}

std::uint32_t crc32c(std::span<const std::byte> bytes) noexcept {
    std::uint32_t remainder = 0xFFFFFFFFU;
    for (const std::byte byte : bytes) {
        remainder = kCrcTable[(remainder ^ std::to_integer<std::uint32_t>(byte)) & 0xFFU] ^
                    (remainder >> 8U);
    }
    return ~remainder;
}

std::string to_hex(std::uint64_t value, std::size_t digits) {
    constexpr std::array kDigits{'0', '1', '2', '3', '4', '5', '6', '7',
                                 '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'};
    std::string text;
    for (; value != 0 || text.size() < digits; value >>= 4U) {
        text.insert(text.begin(), kDigits[value & 0xFU]);
    }
    return "0x" + text;
}

}  // namespace datacursor
