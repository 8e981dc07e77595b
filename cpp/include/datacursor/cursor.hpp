// The cursor: the whole position of a run over its data, as one small value.
//
// A cursor has exactly one byte form, drawn here and nowhere else. It is part
// of the persistent format; add, never change.
//
//   offset size  field              range and meaning (integers little-endian)
//      0     8   magic              8B 44 43 55 52 0D 0A 1A: the high bit, CR LF and Ctrl-Z
//                                   show a transfer that took the bytes for text
//      8     1   major              1
//      9     1   minor              0; a reader accepts any
//     10     2   total_length       bytes of the record, magic to checksum; at most 512
//     12     4   critical_flags     bit 0 drop_last; an unknown bit is refused
//     16     4   optional_flags     bit 0 data unverified (the fingerprint is the length alone);
//                                   differences accepted at a load: bit 8 fingerprint,
//                                   9 base_size, 10 seed, 11 order, 12 packing, 13 plan,
//                                   14 seq_len, 15 drop_last; an unknown bit is kept
//     20     2   order_id           1 shuffle, 2 sequential, 3 block, 4 mixture, 5 weighted,
//                                   6 subset; 0x8000 and above: the user's own.
//                                   Mixtures, weighted and users' orders may repeat elements
//     22     2   packing_id         0 none (samples), 1 concat, 2 best_fit, 3 chunk
//     24    16   data_fingerprint   digest of the data's content
//     40    16   plan_digest        digest of all parameters that have no field of their own
//     56     8   base_size          samples, or documents if packed; 1 to 2^63 - 1
//     64     8   seed               any
//     72     8   epoch              below 2^40
//     80     8   position           contributions committed in this epoch; below 2^63, for
//                                   samples below base_size (equal while ranges are deferred)
//                                   unless the order may repeat
//     88     8   updates_committed  running total
//     96     8   tokens_committed   running total; 0 for samples
//    104     8   reader_position    place in the document order (best_fit: window), at most
//                                   base_size unless the order may repeat; 0 for samples
//    112     8   reader_offset      tokens of that document already read (best_fit: row in
//                                   window), below 2^63; 0 for samples
//    120    16   identity_digest    multiset hash of what was committed in this epoch
//    136     8   digest_first       position that identity_digest counts from, at most position
//    144    16   last_digest        identity_digest of the epoch before, when it ended
//    160     8   skipped            contributions skipped in this epoch, at most position
//    168     4   attempt            number of the restart
//    172     4   replicas           advisory: number of replicas that wrote it
//    176     4   pending            micro-batches in the gradients but in no update
//    180     4   seq_len            tokens a row, at least 1; 0 for samples
//    184         extensions         records of type u16, length u16 and payload, one after the
//                                   other, types strictly rising; top bit of a type: critical.
//                                   An unknown critical type is refused, an optional one kept.
//         12 k   0x8001 deferred    1 to 24 ranges (first u64, count u32), rising, disjoint,
//                                   not empty, below position
//            8   0x8002 phase       u64 from 1 to seq_len - 1: the cut after seq_len changed
//    end    4   checksum            CRC-32C of everything before it
//
// Versions. Magic, major, minor, total_length and the checksum keep their
// places in every major, so damage is told apart from age. A higher major is
// refused. A higher minor of the same major is read: it may add optional flags,
// extensions, ids and critical flags, but never a fixed field, so the fixed
// part has the same 184 bytes in every minor, and what a reader must not ignore
// is marked critical. A writer emits the lowest minor that can hold the state;
// a cursor that was read keeps the minor it came with, for it may hold optional
// parts that only the newer writer knows.
//
// Canonical: encode(decode(x)) equals x, or decode refuses x.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "datacursor/bytes.hpp"

namespace datacursor {

inline constexpr std::array<std::uint8_t, 8> kMagic{0x8B, 0x44, 0x43, 0x55, 0x52, 0x0D, 0x0A, 0x1A};
inline constexpr std::uint8_t kMajor = 1;

inline constexpr std::size_t kExtensionsOffset = 184;
inline constexpr std::size_t kChecksumSize = 4;
inline constexpr std::size_t kMinRecordSize = kExtensionsOffset + kChecksumSize;
inline constexpr std::size_t kMaxRecordSize = 512;  // the size of a sampler's state tensor
inline constexpr std::size_t kMaxExtensionsSize = kMaxRecordSize - kMinRecordSize;

inline constexpr std::uint32_t kDropLast = 1U << 0U;  // critical_flags

inline constexpr std::uint16_t kMixtureOrderId = 4;
inline constexpr std::uint16_t kWeightedOrderId = 5;
inline constexpr std::uint16_t kLastOrderId = 6;
inline constexpr std::uint16_t kFirstUserOrderId = 0x8000;
inline constexpr std::uint16_t kLastPackingId = 3;

inline constexpr std::uint16_t kCriticalExtension = 0x8000;
inline constexpr std::uint16_t kDeferredRanges = 0x8001;
inline constexpr std::uint16_t kPhase = 0x8002;
inline constexpr std::size_t kMaxDeferredRanges = 24;

using Bytes16 = std::array<std::byte, 16>;

// One type-length-value record; a view into the bytes it was read from.
struct Extension {
    std::uint16_t type;
    std::span<const std::byte> payload;
};

// Takes one record. Throws Error(kFormat) if it passes the end of what is left.
[[nodiscard]] Extension take_extension(ByteReader& reader);

// The extensions of one cursor in their byte form, held inline: copying a
// cursor copies them, and nothing is allocated.
class Extensions {
public:
    // Adds a record at the end. Throws Error(kArgument) if the cursor would pass 512 bytes.
    void append(const Extension& extension);

    // Calls visit(Extension) for every record in turn. The payloads live as long as this object.
    template <class Visit>
    void for_each(Visit&& visit) const {
        ByteReader reader(bytes());
        while (reader.remaining() != 0) {
            visit(take_extension(reader));
        }
    }

    // The records as they stand in the cursor's byte form.
    [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
        return std::span(bytes_).first(size_);
    }

    friend bool operator==(const Extensions&, const Extensions&) = default;

private:
    std::array<std::byte, kMaxExtensionsSize> bytes_{};
    std::size_t size_ = 0;
};

// The fields of the drawing above under their names there. A plain value: any
// field may be set to anything, and encode checks them all together.
struct Cursor {
    std::uint8_t minor = 0;
    std::uint32_t critical_flags = 0;
    std::uint32_t optional_flags = 0;
    std::uint16_t order_id = 0;
    std::uint16_t packing_id = 0;
    Bytes16 data_fingerprint{};
    Bytes16 plan_digest{};
    std::uint64_t base_size = 0;
    std::uint64_t seed = 0;
    std::uint64_t epoch = 0;
    std::uint64_t position = 0;
    std::uint64_t updates_committed = 0;
    std::uint64_t tokens_committed = 0;
    std::uint64_t reader_position = 0;
    std::uint64_t reader_offset = 0;
    Bytes16 identity_digest{};
    std::uint64_t digest_first = 0;
    Bytes16 last_digest{};
    std::uint64_t skipped = 0;
    std::uint32_t attempt = 0;
    std::uint32_t replicas = 0;
    std::uint32_t pending = 0;
    std::uint32_t seq_len = 0;
    Extensions extensions;

    friend bool operator==(const Cursor&, const Cursor&) = default;
};

// Calls visit(name, field) for the fixed fields from critical_flags to seq_len,
// in the order of their bytes. The one list that coding and bindings share.
template <class CursorType, class Visit>
void for_each_field(CursorType& cursor, Visit&& visit) {
    visit("critical_flags", cursor.critical_flags);
    visit("optional_flags", cursor.optional_flags);
    visit("order_id", cursor.order_id);
    visit("packing_id", cursor.packing_id);
    visit("data_fingerprint", cursor.data_fingerprint);
    visit("plan_digest", cursor.plan_digest);
    visit("base_size", cursor.base_size);
    visit("seed", cursor.seed);
    visit("epoch", cursor.epoch);
    visit("position", cursor.position);
    visit("updates_committed", cursor.updates_committed);
    visit("tokens_committed", cursor.tokens_committed);
    visit("reader_position", cursor.reader_position);
    visit("reader_offset", cursor.reader_offset);
    visit("identity_digest", cursor.identity_digest);
    visit("digest_first", cursor.digest_first);
    visit("last_digest", cursor.last_digest);
    visit("skipped", cursor.skipped);
    visit("attempt", cursor.attempt);
    visit("replicas", cursor.replicas);
    visit("pending", cursor.pending);
    visit("seq_len", cursor.seq_len);
}

// Number of bytes that encode writes: 188 and the extensions.
[[nodiscard]] std::size_t encoded_size(const Cursor& cursor) noexcept;

// Writes the byte form to the front of `out` and returns the number of bytes written.
//
// Throws Error(kArgument) naming the first field that is out of its range, or
// if out.size() < encoded_size(cursor); `out` is then unspecified.
// Cost: under a microsecond. Thread-safe.
std::size_t encode(const Cursor& cursor, std::span<std::byte> out);

// Reads a cursor from `record`, which must be the whole record and nothing else.
//
// Reads no byte outside `record`. Throws Error(kFormat) if it is not a cursor,
// is damaged, holds a value out of its range, or needs a newer release.
// Cost: under a microsecond. Thread-safe.
[[nodiscard]] Cursor decode(std::span<const std::byte> record);

}  // namespace datacursor
