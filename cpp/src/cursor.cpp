#include "datacursor/cursor.hpp"

#include <algorithm>
#include <string>

#include "datacursor/error.hpp"

namespace datacursor {
namespace {

constexpr std::uint32_t kKnownCriticalFlags = kDropLast;
constexpr std::uint64_t kEpochLimit = 1ULL << 40U;
constexpr std::uint64_t kSignedLimit = 1ULL << 63U;  // counts must fit a signed 64-bit integer
constexpr std::size_t kExtensionHeadSize = 4;
constexpr std::size_t kDeferredRangeSize = 12;
constexpr std::size_t kPhaseSize = 8;
constexpr const char* kRemedy = "; if a newer release wrote it, upgrade datacursor";

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorKind::kArgument, message); }

[[noreturn]] void refuse_bytes(const std::string& message) {
    throw Error(ErrorKind::kFormat, "not a cursor: " + message);
}

std::string shown(const std::string& name, std::uint64_t value) {
    return ", got " + name + "=" + std::to_string(value);
}

// Requires low <= value < high.
void check_range(const std::string& name, std::uint64_t value, std::uint64_t low,
                 std::uint64_t high) {
    if (value < low || value >= high) {
        refuse(name + " must be in [" + std::to_string(low) + ", " + std::to_string(high) + ")" +
               shown(name, value));
    }
}

void check_at_most(const std::string& name, std::uint64_t value, const std::string& limit_name,
                   std::uint64_t limit) {
    if (value > limit) {
        refuse(name + " must be at most " + limit_name + "=" + std::to_string(limit) +
               shown(name, value));
    }
}

void check_zero_for_samples(const std::string& name, std::uint64_t value) {
    if (value != 0) {
        refuse(name + " must be 0 for samples (packing_id=0)" + shown(name, value));
    }
}

void check_ids(const Cursor& cursor) {
    if ((cursor.critical_flags & ~kKnownCriticalFlags) != 0) {
        refuse("critical_flags must be within " + to_hex(kKnownCriticalFlags, 8) +
               ", got critical_flags=" + to_hex(cursor.critical_flags, 8) + kRemedy);
    }
    const bool is_released = cursor.order_id >= 1 && cursor.order_id <= kLastOrderId;
    if (!is_released && cursor.order_id < kFirstUserOrderId) {
        refuse("order_id must be in [1, " + std::to_string(kLastOrderId) + "] or at least " +
               std::to_string(kFirstUserOrderId) + shown("order_id", cursor.order_id) + kRemedy);
    }
    if (cursor.packing_id > kLastPackingId) {
        refuse("packing_id must be in [0, " + std::to_string(kLastPackingId) + "]" +
               shown("packing_id", cursor.packing_id) + kRemedy);
    }
}

void check_counts(const Cursor& cursor) {
    check_range("base_size", cursor.base_size, 1, kSignedLimit);
    check_range("epoch", cursor.epoch, 0, kEpochLimit);
    check_range("position", cursor.position, 0, kSignedLimit);
    check_at_most("digest_first", cursor.digest_first, "position", cursor.position);
    check_at_most("skipped", cursor.skipped, "position", cursor.position);
}

// Whether an epoch of this order may be longer than base_size.
bool may_repeat(const Cursor& cursor) {
    return cursor.order_id == kMixtureOrderId || cursor.order_id == kWeightedOrderId ||
           cursor.order_id >= kFirstUserOrderId;
}

void check_samples(const Cursor& cursor, bool has_deferred) {
    check_zero_for_samples("tokens_committed", cursor.tokens_committed);
    check_zero_for_samples("reader_position", cursor.reader_position);
    check_zero_for_samples("reader_offset", cursor.reader_offset);
    check_zero_for_samples("seq_len", cursor.seq_len);
    // The end of an epoch is position 0 of the next one, except while deferred ranges remain.
    if (!may_repeat(cursor)) {
        check_range("position", cursor.position, 0, cursor.base_size + (has_deferred ? 1 : 0));
    }
}

void check_rows(const Cursor& cursor) {
    if (cursor.seq_len == 0) {
        refuse("seq_len must be at least 1 for packed rows, got seq_len=0");
    }
    if (!may_repeat(cursor)) {
        check_at_most("reader_position", cursor.reader_position, "base_size", cursor.base_size);
    }
    check_range("reader_position", cursor.reader_position, 0, kSignedLimit);
    check_range("reader_offset", cursor.reader_offset, 0, kSignedLimit);
}

void check_deferred(std::span<const std::byte> payload, std::uint64_t position) {
    const std::size_t num_ranges = payload.size() / kDeferredRangeSize;
    if (payload.size() % kDeferredRangeSize != 0 || num_ranges < 1 ||
        num_ranges > kMaxDeferredRanges) {
        refuse("deferred must hold 1 to " + std::to_string(kMaxDeferredRanges) + " ranges of " +
               std::to_string(kDeferredRangeSize) + " bytes, got " +
               std::to_string(payload.size()) + " bytes");
    }
    ByteReader reader(payload);
    std::uint64_t end = 0;
    while (reader.remaining() != 0) {
        std::uint64_t first = 0;
        std::uint32_t count = 0;
        reader.take(first);
        reader.take(count);
        if (count == 0 || first < end || first >= position || count > position - first) {
            refuse("deferred ranges must be rising, disjoint, not empty and below position=" +
                   std::to_string(position) + ", got first=" + std::to_string(first) + " count=" +
                   std::to_string(count) + " where first must be at least " + std::to_string(end));
        }
        end = first + count;
    }
}

void check_phase(std::span<const std::byte> payload, std::uint32_t seq_len) {
    if (payload.size() != kPhaseSize) {
        refuse("phase must have " + std::to_string(kPhaseSize) + " bytes, got " +
               std::to_string(payload.size()) + " bytes");
    }
    std::uint64_t phase = 0;
    ByteReader(payload).take(phase);
    if (phase < 1 || phase >= seq_len) {
        refuse("phase must be at least 1 and below seq_len=" + std::to_string(seq_len) +
               shown("phase", phase));
    }
}

// Checks every extension; returns whether ranges are deferred.
bool check_extensions(const Cursor& cursor) {
    bool has_deferred = false;
    std::int32_t previous_type = -1;
    cursor.extensions.for_each([&](const Extension& extension) {
        if (extension.type <= previous_type) {
            refuse("extension types must rise strictly, got " + to_hex(extension.type, 4) +
                   " after " + to_hex(static_cast<std::uint64_t>(previous_type), 4));
        }
        previous_type = extension.type;
        if (extension.type == kDeferredRanges) {
            check_deferred(extension.payload, cursor.position);
            has_deferred = true;
        } else if (extension.type == kPhase) {
            check_phase(extension.payload, cursor.seq_len);
        } else if (extension.type >= kCriticalExtension) {
            refuse("critical extension " + to_hex(extension.type, 4) + " is unknown" + kRemedy);
        }
    });
    return has_deferred;
}

void validate(const Cursor& cursor) {
    check_ids(cursor);
    check_counts(cursor);
    const bool has_deferred = check_extensions(cursor);
    if (cursor.packing_id == 0) {
        check_samples(cursor, has_deferred);
    } else {
        check_rows(cursor);
    }
}

std::uint64_t read_big_endian(std::span<const std::byte> bytes) {
    std::uint64_t value = 0;
    for (const std::byte byte : bytes) {
        value = (value << 8U) | std::to_integer<std::uint64_t>(byte);
    }
    return value;
}

void check_magic(std::span<const std::byte> record) {
    const std::span<const std::byte> magic = std::as_bytes(std::span(kMagic));
    const std::span<const std::byte> found = record.first(std::min(record.size(), magic.size()));
    if (!std::ranges::equal(found, magic.first(found.size()))) {
        refuse_bytes("bad magic (" + to_hex(read_big_endian(found), 2 * found.size()) +
                     ", expected " + to_hex(read_big_endian(magic), 2 * magic.size()) + ")");
    }
}

void check_checksum(std::span<const std::byte> record) {
    std::uint32_t stored = 0;
    ByteReader(record.last(kChecksumSize)).take(stored);
    const std::uint32_t computed = crc32c(record.first(record.size() - kChecksumSize));
    if (stored != computed) {
        refuse_bytes("bad checksum (" + to_hex(stored, 8) + ", expected " + to_hex(computed, 8) +
                     ")");
    }
}

// Reads the part that is the same in every major, so that damage is told apart from age.
// Returns a reader at the first field and sets `minor`.
ByteReader open_record(std::span<const std::byte> record, std::uint8_t& minor) {
    check_magic(record);
    if (record.size() < kMinRecordSize) {
        refuse_bytes("truncated (" + std::to_string(record.size()) + " bytes, expected at least " +
                     std::to_string(kMinRecordSize) + ")");
    }
    ByteReader reader(record.first(record.size() - kChecksumSize));
    std::uint8_t major = 0;
    std::uint16_t total_length = 0;
    static_cast<void>(reader.take_view(kMagic.size()));
    reader.take(major);
    reader.take(minor);
    reader.take(total_length);
    if (total_length != record.size()) {
        refuse_bytes("total_length must be the size of the record, got total_length=" +
                     std::to_string(total_length) + " in " + std::to_string(record.size()) +
                     " bytes");
    }
    check_checksum(record);
    if (major != kMajor) {
        refuse_bytes("format " + std::to_string(major) + "." + std::to_string(minor) +
                     ", this release reads " + std::to_string(kMajor) + ".x" + kRemedy);
    }
    return reader;
}

}  // namespace

Extension take_extension(ByteReader& reader) {
    Extension extension{};
    std::uint16_t length = 0;
    reader.take(extension.type);
    reader.take(length);
    if (length > reader.remaining()) {
        throw Error(ErrorKind::kFormat,
                    "extension " + to_hex(extension.type, 4) +
                        " must end before the checksum, got length=" + std::to_string(length) +
                        " with " + std::to_string(reader.remaining()) + " bytes left");
    }
    extension.payload = reader.take_view(length);
    return extension;
}

void Extensions::append(const Extension& extension) {
    const std::size_t length = extension.payload.size();
    const std::size_t room = bytes_.size() - size_;
    if (length + kExtensionHeadSize > room) {
        refuse("extensions must fit in " + std::to_string(kMaxExtensionsSize) + " bytes, got " +
               std::to_string(length) + " bytes for extension " + to_hex(extension.type, 4) +
               " with " + std::to_string(room) + " left");
    }
    ByteWriter writer{std::span(bytes_).subspan(size_)};
    writer.put(extension.type);
    writer.put(static_cast<std::uint16_t>(length));
    writer.put(extension.payload);
    size_ += writer.size();
}

std::size_t encoded_size(const Cursor& cursor) noexcept {
    return kMinRecordSize + cursor.extensions.bytes().size();
}

std::size_t encode(const Cursor& cursor, std::span<std::byte> out) {
    validate(cursor);
    ByteWriter writer(out);
    writer.put(std::as_bytes(std::span(kMagic)));
    writer.put(kMajor);
    writer.put(cursor.minor);
    writer.put(static_cast<std::uint16_t>(encoded_size(cursor)));
    for_each_field(cursor, [&](const char* /*name*/, const auto& field) { writer.put(field); });
    writer.put(cursor.extensions.bytes());
    writer.put(crc32c(out.first(writer.size())));
    return writer.size();
}

Cursor decode(std::span<const std::byte> record) {
    Cursor cursor;
    ByteReader reader = open_record(record, cursor.minor);
    try {
        for_each_field(cursor, [&](const char* /*name*/, auto& field) { reader.take(field); });
        while (reader.remaining() != 0) {
            cursor.extensions.append(take_extension(reader));
        }
        validate(cursor);
    } catch (const Error& error) {
        refuse_bytes(error.what());
    }
    return cursor;
}

}  // namespace datacursor
