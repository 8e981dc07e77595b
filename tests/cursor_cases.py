"""Cursors to test with: the golden records, and any legal cursor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import reference_cursor as reference
from hypothesis import strategies as st

from datacursor.cursor import Cursor

VECTORS = Path(__file__).parent / "vectors" / "cursor.txt"
LINES = VECTORS.read_text(encoding="ascii").splitlines()
RECORDS = [bytes.fromhex(line.partition("\t")[2]) for line in LINES]
BYTES_FIELDS = tuple(name for name, code in reference.FIXED_FIELDS if code == "16s")
each_record = pytest.mark.parametrize("record", RECORDS, ids=range(len(RECORDS)))

SMALL = RECORDS[5]  # with one extension


def make_cursor(**changes: Any) -> Cursor:
    return Cursor(**reference.make_fields(**changes))


def make_rows(**changes: Any) -> Cursor:
    return make_cursor(**{"base_size": 1_234_567, "packing_id": 1, "seq_len": 2048, **changes})


def fields_of_line(line: str) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(line.partition("\t")[0])
    for name in BYTES_FIELDS:
        fields[name] = bytes.fromhex(fields[name])
    fields["extensions"] = tuple((kind, bytes.fromhex(text)) for kind, text in fields["extensions"])
    return fields


def flip_bit(data: bytes, bit: int) -> bytes:
    damaged = bytearray(data)
    damaged[bit // 8] ^= 1 << (bit % 8)
    return bytes(damaged)


@st.composite
def deferred_ranges(draw: st.DrawFn, position: int) -> list[tuple[int, int]]:
    cuts = st.integers(0, min(position, 2**32 - 1))
    places = sorted(draw(st.sets(cuts, max_size=48)))
    return [(first, stop - first) for first, stop in zip(places[::2], places[1::2], strict=False)]


@st.composite
def cursors(draw: st.DrawFn) -> Cursor:
    """Any legal cursor."""
    u32, u64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
    digest = st.binary(min_size=16, max_size=16)
    packing_id = draw(st.integers(0, 3))
    base_size = draw(st.integers(1, 2**63 - 1))
    order_id = draw(st.integers(1, 6) | st.integers(0x8000, 0xFFFF))
    may_repeat = order_id in (4, 5) or order_id >= 0x8000
    is_bounded = packing_id == 0 and not may_repeat
    position = draw(st.integers(0, base_size - 1 if is_bounded else 2**63 - 1))
    fields = reference.make_fields(
        minor=draw(st.integers(0, 255)),
        critical_flags=draw(st.integers(0, 1)),
        optional_flags=draw(u32),
        order_id=order_id,
        packing_id=packing_id,
        data_fingerprint=draw(digest),
        plan_digest=draw(digest),
        base_size=base_size,
        seed=draw(u64),
        epoch=draw(st.integers(0, 2**40 - 1)),
        position=position,
        updates_committed=draw(u64),
        identity_digest=draw(digest),
        digest_first=draw(st.integers(0, position)),
        last_digest=draw(digest),
        skipped=draw(st.integers(0, position)),
        attempt=draw(u32),
        replicas=draw(u32),
        pending=draw(u32),
    )
    if draw(st.booleans()):
        fields["extensions"] = ((draw(st.integers(0, 0x7FFF)), draw(st.binary(max_size=20))),)
    if packing_id:
        fields["tokens_committed"] = draw(u64)
        fields["reader_position"] = draw(st.integers(0, 2**63 - 1 if may_repeat else base_size))
        fields["reader_offset"] = draw(st.integers(0, 2**63 - 1))
        fields["seq_len"] = draw(st.integers(1, 2**32 - 1))
    cursor = Cursor(**fields).replace(deferred=draw(deferred_ranges(position)))
    return cursor.replace(phase=draw(st.integers(0, max(0, cursor.seq_len - 1))))
