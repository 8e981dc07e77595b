#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "datacursor/bytes.hpp"
#include "datacursor/error.hpp"

namespace {

using datacursor::ByteReader;
using datacursor::ByteWriter;
using datacursor::crc32c;
using datacursor::Error;
using datacursor::ErrorKind;

template <std::size_t kSize>
std::array<std::byte, kSize> bytes_of(const std::array<unsigned char, kSize>& values) {
    std::array<std::byte, kSize> bytes{};
    std::ranges::transform(values, bytes.begin(),
                           [](unsigned char value) { return std::byte{value}; });
    return bytes;
}

std::uint32_t crc32c_of(std::string_view text) { return crc32c(std::as_bytes(std::span(text))); }

auto is_kind(ErrorKind kind) {
    return [kind](const Error& error) { return error.kind() == kind; };
}

}  // namespace

BOOST_AUTO_TEST_SUITE(bytes)

BOOST_AUTO_TEST_CASE(integers_are_written_lowest_byte_first) {
    std::array<std::byte, 15> out{};
    ByteWriter writer(out);
    writer.put(std::uint8_t{0xA1});
    writer.put(std::uint16_t{0xB2B1});
    writer.put(std::uint32_t{0xC4C3C2C1});
    writer.put(std::uint64_t{0xD8D7D6D5D4D3D2D1});
    BOOST_TEST(writer.size() == out.size());
    BOOST_CHECK(out == bytes_of(std::array<unsigned char, 15>{0xA1, 0xB1, 0xB2, 0xC1, 0xC2, 0xC3,
                                                              0xC4, 0xD1, 0xD2, 0xD3, 0xD4, 0xD5,
                                                              0xD6, 0xD7, 0xD8}));
}

BOOST_AUTO_TEST_CASE(integers_are_read_as_written) {
    std::array<std::byte, 15> buffer{};
    ByteWriter writer(buffer);
    writer.put(std::numeric_limits<std::uint8_t>::max());
    writer.put(std::uint16_t{0x8001});
    writer.put(std::numeric_limits<std::uint32_t>::max());
    writer.put(std::uint64_t{0x8000000000000001});

    ByteReader reader(buffer);
    std::uint8_t first = 0;
    std::uint16_t second = 0;
    std::uint32_t third = 0;
    std::uint64_t fourth = 0;
    reader.take(first);
    reader.take(second);
    reader.take(third);
    reader.take(fourth);
    BOOST_TEST(first == 0xFFU);
    BOOST_TEST(second == 0x8001U);
    BOOST_TEST(third == 0xFFFFFFFFU);
    BOOST_TEST(fourth == 0x8000000000000001U);
    BOOST_TEST(reader.remaining() == 0U);
}

BOOST_AUTO_TEST_CASE(writing_past_the_end_throws_and_writes_nothing) {
    std::array<std::byte, 3> out{};
    ByteWriter writer(out);
    writer.put(std::uint8_t{7});
    BOOST_CHECK_EXCEPTION(writer.put(std::uint32_t{0xFFFFFFFF}), Error,
                          is_kind(ErrorKind::kArgument));
    BOOST_TEST(writer.size() == 1U);
    BOOST_CHECK(out == bytes_of(std::array<unsigned char, 3>{7, 0, 0}));
}

BOOST_AUTO_TEST_CASE(reading_past_the_end_throws_and_takes_nothing) {
    const std::array<std::byte, 3> in{};
    ByteReader reader(in);
    std::uint32_t value = 9;
    std::array<std::byte, 4> target{};
    BOOST_CHECK_EXCEPTION(reader.take(value), Error, is_kind(ErrorKind::kFormat));
    BOOST_CHECK_EXCEPTION(reader.take(target), Error, is_kind(ErrorKind::kFormat));
    BOOST_CHECK_EXCEPTION(
        static_cast<void>(reader.take_view(std::numeric_limits<std::size_t>::max())), Error,
        is_kind(ErrorKind::kFormat));
    BOOST_TEST(value == 9U);
    BOOST_TEST(reader.remaining() == 3U);
}

// Known answers: the check value of the CRC catalogue, and RFC 3720, appendix B.4.
BOOST_AUTO_TEST_CASE(crc32c_gives_the_published_answers) {
    BOOST_TEST(crc32c_of("") == 0x00000000U);
    BOOST_TEST(crc32c_of("123456789") == 0xE3069283U);

    std::array<std::byte, 32> block{};
    BOOST_TEST(crc32c(block) == 0x8A9136AAU);
    block.fill(std::byte{0xFF});
    BOOST_TEST(crc32c(block) == 0x62A8AB43U);
    for (std::size_t i = 0; i < block.size(); ++i) {
        block[i] = static_cast<std::byte>(i);
    }
    BOOST_TEST(crc32c(block) == 0x46DD794EU);
    std::ranges::reverse(block);
    BOOST_TEST(crc32c(block) == 0x113FDB5CU);
}

BOOST_AUTO_TEST_CASE(hex_has_at_least_the_digits_asked_for) {
    BOOST_TEST(datacursor::to_hex(0, 0) == "0x");
    BOOST_TEST(datacursor::to_hex(0, 4) == "0x0000");
    BOOST_TEST(datacursor::to_hex(0xABC, 8) == "0x00000abc");
    BOOST_TEST(datacursor::to_hex(0x1234567890ABCDEF, 2) == "0x1234567890abcdef");
}

BOOST_AUTO_TEST_SUITE_END()
