"""Files that belong to one plan and one epoch: a header that says so, numbers, a digest of both.

    offset  size  field
    0       8     magic        8B 44 43 50 4C 0D 0A 1A: no text, and mangled as one it shows
    8       4+4   kind, version
    12
    16      16    plan_digest  what decides the rows
    32      8     epoch
    40      8     num_entries  windows (kind 1) or rows (kind 2)
    48      8     num_spans    0 with kind 1
    56      16    payload_digest   BLAKE2b of all that follows the header
    72      8     header_digest    BLAKE2b of the header up to here
    80            payload, little-endian

All numbers are unsigned and little-endian. Part of the persistent format; add, never change.
"""

from __future__ import annotations

import hashlib
import struct
from typing import NamedTuple

from datacursor.errors import CorpusError

MAGIC = b"\x8bDCPL\r\n\x1a"
VERSION = 1
ROW_COUNTS = 1  # payload: u32 rows of each window
SPANS = 2  # payload: i64 row_offsets [num_entries + 1], i64 spans [num_spans, 3]
HEADER_SIZE = 80

_HEADER = struct.Struct("<8sII16sQQQ16s")
_KINDS = {ROW_COUNTS: "row counts", SPANS: "spans"}


class Header(NamedTuple):
    """What a file says of itself."""

    kind: int
    plan_digest: bytes
    epoch: int
    num_entries: int
    num_spans: int
    payload_digest: bytes

    @property
    def payload_size(self) -> int:
        """Bytes behind the header."""
        if self.kind == ROW_COUNTS:
            return 4 * self.num_entries
        return 8 * (self.num_entries + 1) + 24 * self.num_spans

    def to_bytes(self) -> bytes:
        """Return the header as it stands in the file."""
        fields = _HEADER.pack(
            MAGIC,
            self.kind,
            VERSION,
            self.plan_digest,
            self.epoch,
            self.num_entries,
            self.num_spans,
            self.payload_digest,
        )
        return fields + hashlib.blake2b(fields, digest_size=8).digest()


def read_header(name: str, data: bytes, file_size: int, kind: int) -> Header:
    """Return the header of a file of a kind.

    Args:
        name: The file, for errors.
        data: Its first 80 bytes, or all if it has fewer.
        file_size: All its bytes.
        kind: What it must hold.

    Raises:
        CorpusError: It is no such file, is damaged or has another size than it says.
    """
    if len(data) < HEADER_SIZE:
        raise CorpusError(f"{name}: file size is {file_size}, expected {HEADER_SIZE} at least")
    magic, found_kind, version, *fields = _HEADER.unpack_from(data)
    _require(name, "magic", magic.hex(), MAGIC.hex())
    digest = hashlib.blake2b(data[: _HEADER.size], digest_size=8).digest()
    _require(name, "header_digest", data[_HEADER.size : HEADER_SIZE].hex(), digest.hex())
    _require(name, "version", version, VERSION)
    _require(name, "kind", _KINDS.get(found_kind, found_kind), _KINDS[kind])
    header = Header(found_kind, *fields)
    _require(name, "file size", file_size, HEADER_SIZE + header.payload_size)
    return header


def digest_of(payload: bytes | memoryview) -> bytes:
    """Return the digest of what follows a header, 16 bytes."""
    return hashlib.blake2b(payload, digest_size=16).digest()


def require_plan(name: str, header: Header, plan_digest: bytes, epoch: int) -> None:
    """Raise unless a file belongs to a plan and an epoch.

    Raises:
        CorpusError: It belongs to another; names the field and both values.
    """
    _require(name, "plan_digest", header.plan_digest.hex(), plan_digest.hex())
    _require(name, "epoch", header.epoch, epoch)


def require_payload(name: str, header: Header, payload: bytes | memoryview) -> None:
    """Raise unless the payload is what was written.

    Raises:
        CorpusError: It is damaged.
    """
    _require(name, "payload_digest", header.payload_digest.hex(), digest_of(payload).hex())


def _require(name: str, field: str, found: object, expected: object) -> None:
    if found != expected:
        raise CorpusError(f"{name}: {field} is {found}, expected {expected}")
