"""The cursor's byte form once more, in plain Python and independent of the core.

Run as a program it prints tests/vectors/cursor.txt: one line a cursor, the JSON of its fields, a
tab and its record in hexadecimal. That file is part of the persistent format; add, never change.
"""

from __future__ import annotations

import json
import struct
import sys
from typing import Any

FIXED_FIELDS = (
    ("critical_flags", "I"),
    ("optional_flags", "I"),
    ("order_id", "H"),
    ("packing_id", "H"),
    ("data_fingerprint", "16s"),
    ("plan_digest", "16s"),
    ("base_size", "Q"),
    ("seed", "Q"),
    ("epoch", "Q"),
    ("position", "Q"),
    ("updates_committed", "Q"),
    ("tokens_committed", "Q"),
    ("reader_position", "Q"),
    ("reader_offset", "Q"),
    ("identity_digest", "16s"),
    ("digest_first", "Q"),
    ("last_digest", "16s"),
    ("skipped", "Q"),
    ("attempt", "I"),
    ("replicas", "I"),
    ("pending", "I"),
    ("seq_len", "I"),
)
_LAYOUT = struct.Struct("<" + "".join(code for _, code in FIXED_FIELDS))


def crc32c(message: bytes) -> int:
    """Return the CRC-32C of a message, one table step a byte."""
    remainder = 0xFFFFFFFF
    for byte in message:
        remainder = _TABLE[(remainder ^ byte) & 0xFF] ^ (remainder >> 8)
    return remainder ^ 0xFFFFFFFF


def _table_entry(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_TABLE = [_table_entry(byte) for byte in range(256)]


def seal(body: bytes, *, major: int = 1, minor: int = 0) -> bytes:
    """Return a record with this body (fields and extensions), whatever the body holds."""
    head = struct.pack("<8sBBH", b"\x8bDCUR\r\n\x1a", major, minor, 12 + len(body) + 4)
    return head + body + struct.pack("<I", crc32c(head + body))


def encode_extension(kind: int, payload: bytes) -> bytes:
    """Return one type-length-value record."""
    return struct.pack("<HH", kind, len(payload)) + payload


def encode_body(fields: dict[str, Any]) -> bytes:
    """Return fields and extensions as they stand between the head and the checksum."""
    fixed = _LAYOUT.pack(*(fields[name] for name, _ in FIXED_FIELDS))
    return fixed + b"".join(encode_extension(*entry) for entry in fields["extensions"])


def encode(fields: dict[str, Any]) -> bytes:
    """Return the record of a cursor; checks no range."""
    return seal(encode_body(fields), minor=fields["minor"])


def deferred(*ranges: tuple[int, int]) -> tuple[int, bytes]:
    """Return the extension that defers these (first, count) ranges."""
    return 0x8001, b"".join(struct.pack("<QI", first, count) for first, count in ranges)


def phase(tokens: int) -> tuple[int, bytes]:
    """Return the extension for the phase of a changed seq_len."""
    return 0x8002, struct.pack("<Q", tokens)


def make_fields(**changes: Any) -> dict[str, Any]:
    """Return the fields of the smallest legal cursor with some of them changed."""
    fields: dict[str, Any] = {"minor": 0}
    for name, code in FIXED_FIELDS:
        fields[name] = bytes(16) if code == "16s" else 0
    return {**fields, "order_id": 1, "base_size": 1, "extensions": (), **changes}


def _digest(first: int) -> bytes:
    return bytes(range(first, first + 16))


# Every field differs from every other, so that no two can be exchanged unseen.
_SAMPLES = make_fields(
    critical_flags=1,
    optional_flags=0x0000FF01,
    order_id=2,
    data_fingerprint=_digest(0x10),
    plan_digest=_digest(0x20),
    base_size=0x1112131415161718,
    seed=0xF1F2F3F4F5F6F7F8,
    epoch=0xE1E2E3E4E5,
    position=0x0102030405060708,
    updates_committed=0xB1B2B3B4B5B6B7B8,
    identity_digest=_digest(0x30),
    digest_first=0x0102030405060707,
    last_digest=_digest(0x40),
    skipped=0x0102030405060706,
    attempt=0xA1A2A3A4,
    replicas=0x91929394,
    pending=0x81828384,
)
_ROWS = {
    **_SAMPLES,
    "packing_id": 1,
    "tokens_committed": 0xC1C2C3C4C5C6C7C8,
    "reader_position": 0x0112131415161718,
    "reader_offset": 0x2122232425262728,
    "seq_len": 0x71727374,
}
_LARGEST = make_fields(
    minor=0xFF,
    critical_flags=1,
    optional_flags=2**32 - 1,
    order_id=0xFFFF,
    packing_id=3,
    data_fingerprint=b"\xff" * 16,
    plan_digest=b"\xff" * 16,
    base_size=2**63 - 1,
    seed=2**64 - 1,
    epoch=2**40 - 1,
    position=2**63 - 1,
    updates_committed=2**64 - 1,
    tokens_committed=2**64 - 1,
    reader_position=2**63 - 1,
    reader_offset=2**63 - 1,
    identity_digest=b"\xff" * 16,
    digest_first=2**63 - 1,
    last_digest=b"\xff" * 16,
    skipped=2**63 - 1,
    attempt=2**32 - 1,
    replicas=2**32 - 1,
    pending=2**32 - 1,
    seq_len=2**32 - 1,
    extensions=(deferred((2**63 - 2**32, 2**32 - 1)), phase(2**32 - 2)),
)
_MOST_RANGES = deferred(*((100 * k, k + 1) for k in range(24)))

# Append only.
CURSORS: tuple[dict[str, Any], ...] = (
    make_fields(),
    _SAMPLES,
    _ROWS,
    _LARGEST,
    make_fields(base_size=9, seed=42, epoch=3, position=8, updates_committed=4, replicas=2),
    make_fields(base_size=9, position=9, extensions=(deferred((7, 2)),)),
    {**_ROWS, "packing_id": 2, "extensions": (deferred((0, 1), (1, 1), (4, 2)),)},
    {**_ROWS, "packing_id": 1, "extensions": (phase(1),)},
    {**_ROWS, "packing_id": 1, "extensions": (_MOST_RANGES, phase(0x71727373))},
    make_fields(order_id=3, base_size=2**63 - 1, position=2**63 - 2),
    make_fields(order_id=4, base_size=2, position=1, optional_flags=0x80000002),
    make_fields(order_id=0x8000, packing_id=3, seq_len=1, position=5),
    make_fields(minor=1, extensions=((0x0000, b""), (0x0001, b"\x00"), (0x7FFF, bytes(311)))),
)


def line_of(fields: dict[str, Any]) -> str:
    """Return a cursor's line in the file of vectors, without its end."""
    plain = {name: value.hex() if type(value) is bytes else value for name, value in fields.items()}
    plain["extensions"] = [[kind, payload.hex()] for kind, payload in fields["extensions"]]
    return f"{json.dumps(plain)}\t{encode(fields).hex()}"


if __name__ == "__main__":
    sys.stdout.writelines(f"{line_of(fields)}\n" for fields in CURSORS)
