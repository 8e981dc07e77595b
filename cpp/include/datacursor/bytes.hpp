// Bounded little-endian reading and writing, and the checksum of every record.
//
// All functions work on spans that the caller owns; nothing here allocates
// except the text of an error. A read or write past the end of its span throws
// Error and touches nothing. Objects are as thread-safe as plain integers:
// share none, or only const ones.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace datacursor {

// Writes values one after another into a fixed span.
class ByteWriter {
public:
    // Requires: `out` outlives the writer.
    explicit ByteWriter(std::span<std::byte> out) noexcept : out_(out) {}

    // Appends an integer, lowest byte first. Throws Error(kArgument) if it does not fit.
    template <std::unsigned_integral T>
    void put(T value) {
        for (std::byte& target : claim(sizeof(T))) {
            target = static_cast<std::byte>(value & 0xFFU);
            value = static_cast<T>(static_cast<std::uint64_t>(value) >> 8U);
        }
    }

    // Appends bytes as they are. Throws Error(kArgument) if they do not fit.
    void put(std::span<const std::byte> bytes);

    // Number of bytes written so far.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

private:
    std::span<std::byte> claim(std::size_t count);

    std::span<std::byte> out_;
    std::size_t size_ = 0;
};

// Reads values one after another from a fixed span.
class ByteReader {
public:
    // Requires: `in` outlives the reader and every view that take_view returned.
    explicit ByteReader(std::span<const std::byte> in) noexcept : in_(in) {}

    // Takes an integer, lowest byte first. Throws Error(kFormat) past the end.
    template <std::unsigned_integral T>
    void take(T& value) {
        std::uint64_t wide = 0;
        unsigned shift = 0;
        for (const std::byte source : take_view(sizeof(T))) {
            wide |= std::to_integer<std::uint64_t>(source) << shift;
            shift += 8;
        }
        value = static_cast<T>(wide);
    }

    // Fills `out`. Throws Error(kFormat) past the end.
    void take(std::span<std::byte> out);

    // Takes `count` bytes without copying. Throws Error(kFormat) past the end.
    [[nodiscard]] std::span<const std::byte> take_view(std::size_t count);

    // Number of bytes not yet taken.
    [[nodiscard]] std::size_t remaining() const noexcept { return in_.size() - position_; }

private:
    std::span<const std::byte> in_;
    std::size_t position_ = 0;
};

// Computes CRC-32C: polynomial 0x1EDC6F41 reflected, initial value and final xor all ones.
//
// Finds every error burst of up to 32 bits and every change of up to five bits
// in a record of at most 512 bytes. Cost: about 2 ns a byte.
// Source: Castagnoli et al., IEEE Trans. Communications 41(6), 1993; RFC 3720, section 12.1.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes) noexcept;

// Formats `value` as "0x" and at least `digits` lower-case hexadecimal digits.
// Requires: digits <= 16.
[[nodiscard]] std::string to_hex(std::uint64_t value, std::size_t digits);

}  // namespace datacursor
