#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datacursor/bytes.hpp"
#include "datacursor/cursor.hpp"
#include "datacursor/error.hpp"

namespace {

using namespace datacursor;
using Record = std::vector<std::byte>;

Record encoded(const Cursor& cursor) {
    Record record(kMaxRecordSize);
    record.resize(encode(cursor, record));
    return record;
}

Record from_hex(std::string_view hex) {
    Record record(hex.size() / 2);
    for (std::size_t i = 0; i < record.size(); ++i) {
        unsigned value = 0;
        std::from_chars(hex.data() + 2 * i, hex.data() + 2 * i + 2, value, 16);
        record[i] = static_cast<std::byte>(value);
    }
    return record;
}

// The records of tests/vectors/cursor.txt, each after the tab of its line.
std::vector<Record> golden_records() {
    std::ifstream file(DATACURSOR_VECTORS "/cursor.txt");
    std::vector<Record> records;
    for (std::string line; std::getline(file, line);) {
        records.push_back(from_hex(std::string_view(line).substr(line.find('\t') + 1)));
    }
    BOOST_REQUIRE(records.size() >= 13);
    return records;
}

// Writes the right checksum over the end of a record that was changed on purpose.
Record sealed(Record record) {
    const std::span<std::byte> body = std::span(record).first(record.size() - kChecksumSize);
    ByteWriter(std::span(record).last(kChecksumSize)).put(crc32c(body));
    return record;
}

Record with_byte(Record record, std::size_t offset, unsigned value) {
    record.at(offset) = static_cast<std::byte>(value);
    return sealed(std::move(record));
}

// A record with `tail` between its fields and its checksum.
Record with_tail(const Cursor& cursor, const std::vector<unsigned>& tail) {
    Record record = encoded(cursor);
    record.resize(kExtensionsOffset);
    for (const unsigned value : tail) {
        record.push_back(static_cast<std::byte>(value));
    }
    record.resize(record.size() + kChecksumSize);
    const auto length = static_cast<std::uint16_t>(record.size());
    ByteWriter(std::span(record).subspan(10)).put(length);
    return sealed(std::move(record));
}

void check_refused(const Record& record, std::string_view expected_text) {
    BOOST_CHECK_EXCEPTION(static_cast<void>(decode(record)), Error, [&](const Error& error) {
        const std::string text = error.what();
        BOOST_TEST_INFO(text);
        return error.kind() == ErrorKind::kFormat && text.starts_with("not a cursor: ") &&
               text.find(expected_text) != std::string::npos;
    });
}

void check_invalid(const Cursor& cursor, std::string_view expected_text) {
    Record out(kMaxRecordSize);
    BOOST_CHECK_EXCEPTION(encode(cursor, out), Error, [&](const Error& error) {
        BOOST_TEST_INFO(error.what());
        return error.kind() == ErrorKind::kArgument &&
               std::string_view(error.what()) == expected_text;
    });
}

Cursor samples() {
    Cursor cursor;
    cursor.order_id = 1;
    cursor.base_size = 10;
    cursor.position = 5;
    return cursor;
}

Cursor rows() {
    Cursor cursor = samples();
    cursor.packing_id = 1;
    cursor.seq_len = 8;
    return cursor;
}

Cursor with(Cursor cursor, const std::function<void(Cursor&)>& change) {
    change(cursor);
    return cursor;
}

Cursor with_deferred(Cursor cursor,
                     const std::vector<std::pair<std::uint64_t, std::uint32_t>>& ranges) {
    Record payload(12 * ranges.size());
    ByteWriter writer(payload);
    for (const auto& [first, count] : ranges) {
        writer.put(first);
        writer.put(count);
    }
    cursor.extensions.append({kDeferredRanges, payload});
    return cursor;
}

Cursor with_phase(Cursor cursor, std::uint64_t phase) {
    Record payload(8);
    ByteWriter(payload).put(phase);
    cursor.extensions.append({kPhase, payload});
    return cursor;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cursor)

BOOST_AUTO_TEST_CASE(a_cursor_has_exactly_these_bytes) {
    Cursor cursor = with_phase(rows(), 3);
    cursor.critical_flags = kDropLast;
    cursor.optional_flags = 0x80000201;
    cursor.data_fingerprint.fill(std::byte{0xD1});
    cursor.plan_digest.fill(std::byte{0xD2});
    cursor.seed = 0x5152535455565758;
    cursor.epoch = 0x4142434445;
    cursor.updates_committed = 0x71;
    cursor.tokens_committed = 0x72;
    cursor.reader_position = 0x0A;
    cursor.reader_offset = 0x74;
    cursor.identity_digest.fill(std::byte{0xD3});
    cursor.digest_first = 2;
    cursor.last_digest.fill(std::byte{0xD4});
    cursor.skipped = 4;
    cursor.attempt = 0x81;
    cursor.replicas = 0x82;
    cursor.pending = 0x83;
    Record expected = from_hex(
        "8b444355520d0a1a0100c800010000000102008001000100"
        "d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d2d2d2d2d2d2d2d2d2d2d2d2d2d2d2d2"
        "0a00000000000000585756555453525145444342410000000500000000000000"
        "710000000000000072000000000000000a000000000000007400000000000000"
        "d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d30200000000000000"
        "d4d4d4d4d4d4d4d4d4d4d4d4d4d4d4d40400000000000000"
        "81000000820000008300000008000000"
        "02800800030000000000000000000000");
    expected = sealed(std::move(expected));
    BOOST_CHECK(encoded(cursor) == expected);
    BOOST_CHECK(decode(expected) == cursor);
}

BOOST_AUTO_TEST_CASE(golden_records_are_read_and_written_unchanged) {
    for (const Record& record : golden_records()) {
        const Cursor cursor = decode(record);
        BOOST_TEST(encoded_size(cursor) == record.size());
        BOOST_CHECK(encoded(cursor) == record);
    }
}

BOOST_AUTO_TEST_CASE(every_truncation_is_refused) {
    for (const Record& record : golden_records()) {
        for (std::size_t size = 0; size < record.size(); ++size) {
            // An exact copy, so that a sanitizer sees a read past the end.
            const Record part(record.begin(), record.begin() + static_cast<std::ptrdiff_t>(size));
            check_refused(part, "");
        }
    }
}

BOOST_AUTO_TEST_CASE(every_single_bit_flip_is_refused) {
    for (Record record : golden_records()) {
        for (std::size_t bit = 0; bit < 8 * record.size(); ++bit) {
            const std::byte flip = std::byte{1} << (bit % 8);
            record[bit / 8] ^= flip;
            check_refused(record, "");
            record[bit / 8] ^= flip;
        }
    }
}

BOOST_AUTO_TEST_CASE(bytes_after_the_record_are_refused) {
    Record record = encoded(samples());
    record.push_back(std::byte{0});
    check_refused(record,
                  "total_length must be the size of the record, got total_length=188 in 189");
}

BOOST_AUTO_TEST_CASE(a_damaged_record_shows_both_checksums) {
    Record record = sealed(encoded(samples()));
    record[183] ^= std::byte{1};
    record.resize(184);
    for (const unsigned value : {0x78U, 0x56U, 0x34U, 0x12U}) {
        record.push_back(static_cast<std::byte>(value));
    }
    const std::uint32_t computed = crc32c(std::span(record).first(184));
    check_refused(record, "bad checksum (0x12345678, expected " + to_hex(computed, 8) + ")");
}

BOOST_AUTO_TEST_CASE(a_higher_major_is_refused_with_a_remedy) {
    check_refused(with_byte(encoded(samples()), 8, 2), "format 2.0, this release reads 1.x");
    check_refused(with_byte(encoded(samples()), 8, 2), "upgrade datacursor");
    check_refused(with_byte(encoded(samples()), 8, 0), "format 0.0");
}

BOOST_AUTO_TEST_CASE(a_higher_minor_is_read_and_kept) {
    const Record record = with_byte(encoded(samples()), 9, 200);
    BOOST_TEST(decode(record).minor == 200U);
    BOOST_CHECK(encoded(decode(record)) == record);
}

BOOST_AUTO_TEST_CASE(an_unknown_critical_flag_is_refused_and_an_optional_one_kept) {
    check_refused(with_byte(encoded(samples()), 12, 0x02),
                  "critical_flags must be within 0x00000001, got critical_flags=0x00000002");
    check_refused(with_byte(encoded(samples()), 15, 0x80), "upgrade datacursor");
    const Record record = with_byte(encoded(samples()), 16, 0x02);
    BOOST_TEST(decode(record).optional_flags == 2U);
    BOOST_CHECK(encoded(decode(record)) == record);
}

BOOST_AUTO_TEST_CASE(an_unknown_critical_extension_is_refused_and_an_optional_one_kept) {
    check_refused(with_tail(samples(), {0x03, 0x80, 0, 0}), "critical extension 0x8003 is unknown");
    check_refused(with_tail(samples(), {0x00, 0x80, 0, 0}), "critical extension 0x8000 is unknown");
    const Record record = with_tail(samples(), {0, 0, 1, 0, 0xAA, 0xFF, 0x7F, 0, 0});
    BOOST_CHECK(encoded(decode(record)) == record);
}

BOOST_AUTO_TEST_CASE(extensions_must_fill_the_space_before_the_checksum) {
    check_refused(with_tail(samples(), {1}), "truncated at byte 184: 2 bytes needed, 1 left");
    check_refused(with_tail(samples(), {1, 0, 0}), "truncated at byte 186: 2 bytes needed, 1 left");
    check_refused(with_tail(samples(), {1, 0, 2, 0, 0}),
                  "extension 0x0001 must end before the checksum, got length=2 with 1 bytes left");
    check_refused(with_tail(samples(), {1, 0, 0xFF, 0xFF}), "got length=65535");
}

BOOST_AUTO_TEST_CASE(extension_types_must_rise_strictly) {
    check_refused(with_tail(samples(), {2, 0, 0, 0, 2, 0, 0, 0}),
                  "extension types must rise strictly, got 0x0002 after 0x0002");
    check_refused(with_tail(samples(), {2, 0, 0, 0, 1, 0, 0, 0}), "got 0x0001 after 0x0002");
}

BOOST_AUTO_TEST_CASE(a_record_has_at_most_512_bytes) {
    std::vector<unsigned> tail(kMaxExtensionsSize);
    tail[2] = 64;
    tail[3] = 1;  // length 320
    BOOST_TEST(encoded(decode(with_tail(samples(), tail))).size() == kMaxRecordSize);
    tail.push_back(0);
    ++tail[2];
    check_refused(with_tail(samples(), tail), "extensions must fit in 324 bytes, got 321 bytes");
}

BOOST_AUTO_TEST_CASE(deferred_ranges_must_be_sound) {
    const Cursor cursor = with(samples(), [](Cursor& c) { c.position = 9; });
    BOOST_CHECK_NO_THROW(encoded(with_deferred(cursor, {{0, 1}, {1, 2}, {8, 1}})));
    const std::string law =
        "deferred ranges must be rising, disjoint, not empty and below position=9, got ";
    check_invalid(with_deferred(cursor, {{3, 0}}),
                  law + "first=3 count=0 where first must be at least 0");
    check_invalid(with_deferred(cursor, {{8, 2}}),
                  law + "first=8 count=2 where first must be at least 0");
    check_invalid(with_deferred(cursor, {{9, 1}}),
                  law + "first=9 count=1 where first must be at least 0");
    check_invalid(with_deferred(cursor, {{1, 2}, {2, 1}}),
                  law + "first=2 count=1 where first must be at least 3");
    check_invalid(with_deferred(cursor, {{~0ULL, 2}}),
                  law + "first=18446744073709551615 count=2 where first must be at least 0");
}

BOOST_AUTO_TEST_CASE(one_to_24_ranges_can_be_deferred) {
    Cursor cursor = samples();
    cursor.base_size = 1000;
    cursor.position = 999;
    std::vector<std::pair<std::uint64_t, std::uint32_t>> ranges;
    check_invalid(with_deferred(cursor, ranges),
                  "deferred must hold 1 to 24 ranges of 12 bytes, got 0 bytes");
    for (std::uint64_t first = 0; first < 24; ++first) {
        ranges.emplace_back(2 * first, 1);
    }
    BOOST_CHECK_NO_THROW(encoded(with_deferred(cursor, ranges)));
    ranges.emplace_back(100, 1);
    check_invalid(with_deferred(cursor, ranges),
                  "deferred must hold 1 to 24 ranges of 12 bytes, got 300 bytes");
}

BOOST_AUTO_TEST_CASE(known_extensions_must_have_their_size) {
    check_refused(with_tail(samples(), {0x01, 0x80, 1, 0, 0}), "got 1 bytes");
    check_refused(with_tail(rows(), {0x02, 0x80, 7, 0, 1, 0, 0, 0, 0, 0, 0}),
                  "phase must have 8 bytes, got 7 bytes");
}

BOOST_AUTO_TEST_CASE(the_phase_must_lie_inside_a_row) {
    BOOST_CHECK_NO_THROW(encoded(with_phase(rows(), 1)));
    BOOST_CHECK_NO_THROW(encoded(with_phase(rows(), 7)));
    check_invalid(with_phase(rows(), 0),
                  "phase must be at least 1 and below seq_len=8, got phase=0");
    check_invalid(with_phase(rows(), 8),
                  "phase must be at least 1 and below seq_len=8, got phase=8");
    check_invalid(with_phase(samples(), 1),
                  "phase must be at least 1 and below seq_len=0, got phase=1");
}

BOOST_AUTO_TEST_CASE(the_end_of_an_epoch_is_a_position_only_while_ranges_are_deferred) {
    const Cursor end = with(samples(), [](Cursor& c) { c.position = 10; });
    check_invalid(end, "position must be in [0, 10), got position=10");
    BOOST_CHECK_NO_THROW(encoded(with_deferred(end, {{4, 2}})));
    const Cursor past = with(samples(), [](Cursor& c) { c.position = 11; });
    check_invalid(with_deferred(past, {{4, 2}}), "position must be in [0, 11), got position=11");
}

BOOST_AUTO_TEST_CASE(every_field_is_held_to_its_range) {
    check_invalid(with(samples(), [](Cursor& c) { c.order_id = 0; }),
                  "order_id must be in [1, 6] or at least 32768, got order_id=0; "
                  "if a newer release wrote it, upgrade datacursor");
    check_invalid(with(samples(), [](Cursor& c) { c.order_id = 7; }),
                  "order_id must be in [1, 6] or at least 32768, got order_id=7; "
                  "if a newer release wrote it, upgrade datacursor");
    check_invalid(with(samples(), [](Cursor& c) { c.packing_id = 4; }),
                  "packing_id must be in [0, 3], got packing_id=4; "
                  "if a newer release wrote it, upgrade datacursor");
    check_invalid(with(samples(), [](Cursor& c) { c.base_size = 0; }),
                  "base_size must be in [1, 9223372036854775808), got base_size=0");
    check_invalid(
        with(samples(), [](Cursor& c) { c.base_size = 1ULL << 63U; }),
        "base_size must be in [1, 9223372036854775808), got base_size=9223372036854775808");
    check_invalid(with(samples(), [](Cursor& c) { c.epoch = 1ULL << 40U; }),
                  "epoch must be in [0, 1099511627776), got epoch=1099511627776");
    check_invalid(with(rows(), [](Cursor& c) { c.position = 1ULL << 63U; }),
                  "position must be in [0, 9223372036854775808), got position=9223372036854775808");
    check_invalid(with(samples(), [](Cursor& c) { c.digest_first = 6; }),
                  "digest_first must be at most position=5, got digest_first=6");
    check_invalid(with(samples(), [](Cursor& c) { c.skipped = 6; }),
                  "skipped must be at most position=5, got skipped=6");
    check_invalid(with(rows(), [](Cursor& c) { c.seq_len = 0; }),
                  "seq_len must be at least 1 for packed rows, got seq_len=0");
    check_invalid(with(rows(), [](Cursor& c) { c.reader_position = 11; }),
                  "reader_position must be at most base_size=10, got reader_position=11");
    check_invalid(with(rows(), [](Cursor& c) { c.reader_offset = 1ULL << 63U; }),
                  "reader_offset must be in [0, 9223372036854775808), got "
                  "reader_offset=9223372036854775808");
}

BOOST_AUTO_TEST_CASE(samples_have_no_reader_and_no_tokens) {
    check_invalid(with(samples(), [](Cursor& c) { c.tokens_committed = 1; }),
                  "tokens_committed must be 0 for samples (packing_id=0), got tokens_committed=1");
    check_invalid(with(samples(), [](Cursor& c) { c.reader_position = 1; }),
                  "reader_position must be 0 for samples (packing_id=0), got reader_position=1");
    check_invalid(with(samples(), [](Cursor& c) { c.reader_offset = 1; }),
                  "reader_offset must be 0 for samples (packing_id=0), got reader_offset=1");
    check_invalid(with(samples(), [](Cursor& c) { c.seq_len = 1; }),
                  "seq_len must be 0 for samples (packing_id=0), got seq_len=1");
}

BOOST_AUTO_TEST_CASE(a_bad_field_under_a_good_checksum_is_refused) {
    check_refused(with_byte(encoded(samples()), 20, 0), "order_id must be in [1, 6]");
    check_refused(with_byte(encoded(samples()), 80, 10), "position must be in [0, 10)");
}

BOOST_AUTO_TEST_CASE(a_buffer_that_is_too_small_is_refused) {
    Record out(kMinRecordSize - 1);
    BOOST_CHECK_EXCEPTION(encode(samples(), out), Error,
                          [](const Error& error) { return error.kind() == ErrorKind::kArgument; });
}

BOOST_AUTO_TEST_CASE(extensions_are_equal_by_their_bytes) {
    BOOST_CHECK(with_phase(rows(), 2) == with_phase(rows(), 2));
    BOOST_CHECK(!(with_phase(rows(), 2) == with_phase(rows(), 3)));
}

BOOST_AUTO_TEST_SUITE_END()
