"""The cursor from Python: its bytes, its value, and every way of being wrong."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest
import reference_cursor as reference
from cursor_cases import (
    BYTES_FIELDS,
    LINES,
    RECORDS,
    SMALL,
    cursors,
    each_record,
    fields_of_line,
    flip_bit,
    make_cursor,
    make_rows,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from datacursor import _core
from datacursor.cursor import (
    ACCEPTED_BITS,
    STATE_NUM_BYTES,
    Cursor,
    pack_state,
    unpack_state,
)
from datacursor.errors import ArgumentError, CursorFormatError

INT_FIELDS = ("minor", *(name for name, code in reference.FIXED_FIELDS if code != "16s"))
UNFIT = {"negative": -1, "very negative": -(2**64), "large": 2**64, "huge": 10**5000}

# The byte form.


def test_the_vectors_are_what_the_reference_prints() -> None:
    assert [reference.line_of(fields) for fields in reference.CURSORS] == LINES


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_fields_have_the_golden_bytes(line: str) -> None:
    record = bytes.fromhex(line.partition("\t")[2])
    assert bytes(Cursor(**fields_of_line(line))) == record
    assert dataclasses.asdict(Cursor.from_bytes(record)) == fields_of_line(line)


def test_the_attributes_are_the_fields_of_the_record() -> None:
    names = [field.name for field in dataclasses.fields(Cursor)]
    assert names == ["minor", *(name for name, _ in reference.FIXED_FIELDS), "extensions"]


def test_the_smallest_cursor_has_188_bytes_and_the_longest_known_492() -> None:
    assert min(map(len, RECORDS)) == 188
    ranges = [(2 * first, 1) for first in range(24)]
    assert len(bytes(make_rows(position=100).replace(deferred=ranges, phase=1))) == 492


@given(cursors())
@settings(max_examples=60, deadline=None)
def test_the_core_and_the_reference_write_the_same_bytes(cursor: Cursor) -> None:
    assert bytes(cursor) == reference.encode(dataclasses.asdict(cursor))


@given(cursors())
@settings(max_examples=60, deadline=None)
def test_every_face_gives_the_cursor_back(cursor: Cursor) -> None:
    assert Cursor.from_bytes(bytes(cursor)) == cursor
    assert Cursor.from_token(cursor.token()) == cursor
    assert Cursor.from_json(cursor.to_json()) == cursor
    assert unpack_state(pack_state(cursor)) == cursor
    assert pickle.loads(pickle.dumps(cursor)) == cursor


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
def test_any_bytes_like_object_is_read(make: Any) -> None:
    assert bytes(Cursor.from_bytes(make(SMALL))) == SMALL


@each_record
def test_every_truncation_is_refused(record: bytes) -> None:
    for size in range(len(record)):
        with pytest.raises(CursorFormatError, match=r"^not a cursor: "):
            Cursor.from_bytes(record[:size])


@each_record
def test_every_single_bit_flip_is_refused(record: bytes) -> None:
    for bit in range(8 * len(record)):
        with pytest.raises(CursorFormatError, match=r"^not a cursor: "):
            Cursor.from_bytes(flip_bit(record, bit))


@given(st.binary(max_size=600), st.booleans())
@settings(max_examples=100, deadline=None)
def test_foreign_bytes_are_refused_or_read_canonically(body: bytes, is_sealed: bool) -> None:
    record = reference.seal(body) if is_sealed else body
    try:
        cursor = Cursor.from_bytes(record)
    except CursorFormatError:
        return
    assert bytes(cursor) == record


@given(cursors(), st.integers(0, 183), st.integers(0, 255))
@settings(max_examples=200, deadline=None)
def test_a_changed_byte_under_a_good_checksum_is_refused_or_read_canonically(
    cursor: Cursor, offset: int, value: int
) -> None:
    body = bytearray(bytes(cursor)[12:-4])
    body[offset % len(body)] = value
    record = reference.seal(bytes(body), minor=cursor.minor)
    try:
        read = Cursor.from_bytes(record)
    except CursorFormatError:
        return
    assert bytes(read) == record


def test_another_file_is_refused_with_both_magics() -> None:
    expected = r"bad magic \(0x504b030414000000, expected 0x8b444355520d0a1a\)"
    with pytest.raises(CursorFormatError, match=expected):
        Cursor.from_bytes(b"PK\x03\x04\x14" + bytes(200))


def test_damage_is_refused_with_both_checksums() -> None:
    expected = int.from_bytes(SMALL[-4:], "little")
    with pytest.raises(CursorFormatError) as caught:
        Cursor.from_bytes(SMALL[:-4] + b"\x78\x56\x34\x12")
    assert str(caught.value) == (
        f"not a cursor: bad checksum (0x12345678, expected 0x{expected:08x})"
    )


def test_a_higher_major_is_refused_with_a_remedy() -> None:
    body = reference.encode_body(reference.make_fields())
    with pytest.raises(CursorFormatError, match=r"format 2\.3, this release .* upgrade datacursor"):
        Cursor.from_bytes(reference.seal(body, major=2, minor=3))


def test_a_higher_minor_is_kept_through_every_face() -> None:
    record = reference.encode(reference.make_fields(minor=3, optional_flags=2))
    cursor = Cursor.from_bytes(record)
    assert cursor.minor == 3
    assert bytes(Cursor.from_json(cursor.to_json())) == record
    assert cursor.replace(epoch=1).minor == 3


def test_unknown_optional_parts_are_kept() -> None:
    extensions = ((0, b""), (5, b"later"))
    record = reference.encode(reference.make_fields(optional_flags=0x80000, extensions=extensions))
    cursor = Cursor.from_bytes(record)
    assert cursor.extensions == extensions
    assert bytes(cursor.replace(epoch=2).replace(epoch=0)) == record


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"critical_flags": 2}, "critical_flags must be within 0x00000001"),
        ({"extensions": ((0x8003, b""),)}, "critical extension 0x8003 is unknown"),
        ({"order_id": 7}, "order_id must be in"),
        ({"packing_id": 4}, "packing_id must be in"),
    ],
)
def test_unknown_critical_parts_are_refused_with_a_remedy(
    changes: dict[str, Any], message: str
) -> None:
    record = reference.encode(reference.make_fields(**changes))
    with pytest.raises(CursorFormatError, match=f"^not a cursor: {message}.*upgrade datacursor$"):
        Cursor.from_bytes(record)


# Construction.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"base_size": 0}, r"base_size must be in \[1, 9223372036854775808\), got base_size=0"),
        ({"base_size": 2**63}, "got base_size=9223372036854775808"),
        ({"epoch": 2**40}, r"epoch must be in \[0, 1099511627776\), got epoch=1099511627776"),
        ({"position": 1}, r"position must be in \[0, 1\), got position=1"),
        ({"digest_first": 1}, "digest_first must be at most position=0, got digest_first=1"),
        ({"skipped": 1}, "skipped must be at most position=0, got skipped=1"),
        ({"seq_len": 4}, r"seq_len must be 0 for samples \(packing_id=0\), got seq_len=4"),
        ({"packing_id": 1}, "seq_len must be at least 1 for packed rows, got seq_len=0"),
        ({"critical_flags": 3}, "got critical_flags=0x00000003"),
        ({"order_id": 0}, r"order_id must be in \[1, 6\] or at least 32768, got order_id=0"),
        ({"plan_digest": b"short"}, "plan_digest must have 16 bytes, got 5 bytes"),
        ({"extensions": ((1, bytes(321)),)}, "extensions must fit in 324 bytes, got 321 bytes"),
        ({"extensions": ((1, b""), (1, b""))}, "must rise strictly, got 0x0001 after 0x0001"),
        ({"extensions": (reference.phase(1),)}, "below seq_len=0, got phase=1"),
        ({"extensions": (reference.deferred((0, 1)),)}, "below position=0, got first=0 count=1"),
    ],
)
def test_a_field_out_of_range_is_refused_by_name_and_value(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        make_cursor(**changes)


@pytest.mark.parametrize("name", INT_FIELDS)
@pytest.mark.parametrize("value", [True, "1", 1.0, None, b"\x01"])
def test_an_integer_of_another_type_is_refused(name: str, value: object) -> None:
    with pytest.raises(TypeError, match=f"^{name} must be an int, got {type(value).__name__} "):
        make_cursor(**{name: value})


@pytest.mark.parametrize("name", INT_FIELDS)
@pytest.mark.parametrize("value", UNFIT.values(), ids=UNFIT.keys())
def test_an_integer_that_fits_nowhere_is_refused(name: str, value: int) -> None:
    with pytest.raises(ArgumentError, match=f"^{name} must be an unsigned [0-9]+-bit integer, got"):
        make_cursor(**{name: value})


@pytest.mark.parametrize(("name", "bits"), [("minor", 8), ("order_id", 16), ("attempt", 32)])
def test_a_narrow_integer_is_not_cut_off(name: str, bits: int) -> None:
    value = 2**bits + 1
    with pytest.raises(
        ArgumentError, match=f"{name} must be an .* {bits}-bit .* got {name}={value}$"
    ):
        make_cursor(**{name: value})


@pytest.mark.parametrize("name", BYTES_FIELDS)
@pytest.mark.parametrize("value", ["0" * 16, bytearray(16), 16, None])
def test_a_digest_of_another_type_is_refused(name: str, value: object) -> None:
    with pytest.raises(TypeError, match=f"^{name} must be bytes, got {type(value).__name__} "):
        make_cursor(**{name: value})


@pytest.mark.parametrize(
    ("extensions", "message"),
    [
        ([], "extensions must be a tuple of .* got list"),
        ((1,), "extensions must be a tuple of"),
        (((1, b"", 2),), "extensions must be a tuple of"),
        (((True, b""),), "an extension's type must be an int, got bool"),
        (((1, "text"),), "an extension's payload must be bytes, got str"),
    ],
)
def test_extensions_of_another_type_are_refused(extensions: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make_cursor(extensions=extensions)


def test_an_extension_type_of_more_than_16_bits_is_refused() -> None:
    with pytest.raises(ArgumentError, match="an extension's type must be an unsigned 16-bit"):
        make_cursor(extensions=((2**16, b""),))


def test_a_rejected_value_is_shown_in_short_ascii() -> None:
    with pytest.raises(TypeError) as caught:
        make_cursor(epoch="\u00e9\ud800" * 1000)
    assert str(caught.value).isascii()
    assert len(str(caught.value)) < 150


def test_the_core_takes_exactly_the_fields_of_a_cursor() -> None:
    fields = reference.make_fields()
    with pytest.raises(ArgumentError, match="a cursor has no field 'epohc'"):
        _core.encode_cursor({**fields, "epohc": 0})
    with pytest.raises(ArgumentError, match="a cursor has no field 7"):
        _core.encode_cursor({**fields, 7: 0})  # type: ignore[dict-item]
    del fields["epoch"]
    with pytest.raises(ArgumentError, match="a cursor needs the field epoch"):
        _core.encode_cursor(fields)


@pytest.mark.parametrize("value", [3, "text", None, memoryview(bytes(400))[::2]])
def test_what_is_no_buffer_of_bytes_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="buffer must be a C-contiguous bytes-like object, got"):
        Cursor.from_bytes(value)


def test_crc32c_gives_the_published_answers() -> None:
    assert _core.crc32c(b"123456789") == 0xE3069283 == reference.crc32c(b"123456789")
    assert _core.crc32c(b"") == 0
    assert _core.crc32c(bytes(32)) == 0x8A9136AA
    assert _core.crc32c(bytearray(b"\xff" * 32)) == 0x62A8AB43


# The value.


def test_cursors_are_equal_by_their_bytes() -> None:
    cursor = make_cursor(seed=3)
    assert cursor == make_cursor(seed=3)
    assert hash(cursor) == hash(make_cursor(seed=3))
    assert cursor != make_cursor(seed=4)
    assert cursor != bytes(cursor)
    assert len({cursor, make_cursor(seed=3), make_cursor(seed=4)}) == 2


def test_cursors_have_no_order() -> None:
    with pytest.raises(TypeError, match="not supported between"):
        assert make_cursor() < make_cursor(epoch=1)  # type: ignore[operator]


def test_a_cursor_cannot_be_changed() -> None:
    cursor = make_cursor()
    with pytest.raises(dataclasses.FrozenInstanceError):
        cursor.epoch = 1  # type: ignore[misc]
    with pytest.raises((AttributeError, TypeError)):
        cursor.extra = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_hold_the_bytes(protocol: int) -> None:
    cursor = Cursor.from_bytes(RECORDS[3])
    assert pickle.loads(pickle.dumps(cursor, protocol)) == cursor


def test_copies_are_equal() -> None:
    cursor = Cursor.from_bytes(RECORDS[3])
    assert copy.copy(cursor) == cursor == copy.deepcopy(cursor)


def test_same_position_ignores_attempt_and_replicas_alone() -> None:
    cursor = make_cursor(base_size=9)
    assert cursor.same_position(cursor.replace(attempt=2, replicas=8))
    for name in ("epoch", "position", "updates_committed", "pending", "seed", "optional_flags"):
        assert not cursor.same_position(cursor.replace(**{name: 1}))


def test_properties_read_flags_and_extensions() -> None:
    cursor = make_cursor()
    assert not cursor.drop_last
    assert not cursor.data_unverified
    assert (cursor.accepted, cursor.deferred, cursor.phase) == ((), (), 0)
    cursor = Cursor.from_bytes(RECORDS[8])
    assert cursor.drop_last
    assert cursor.data_unverified
    assert cursor.accepted == tuple(name for name in ACCEPTED_BITS if name != "num_samples")
    assert cursor.deferred == tuple((100 * k, k + 1) for k in range(24))
    assert cursor.phase == 0x71727373


def test_replace_sets_every_property() -> None:
    changes: dict[str, Any] = {
        "drop_last": True,
        "data_unverified": True,
        "accepted": ("seed", "plan"),
        "deferred": ((3, 2), (7, 1)),
        "phase": 5,
    }
    plain = make_rows(position=9, optional_flags=2, extensions=((4, b"kept"),))
    cursor = plain.replace(**changes)
    assert {name: getattr(cursor, name) for name in changes} == changes
    assert cursor.optional_flags & 2
    assert [kind for kind, _ in cursor.extensions] == [4, 0x8001, 0x8002]
    cleared = cursor.replace(
        drop_last=False, data_unverified=False, accepted=(), deferred=(), phase=0
    )
    assert cleared == plain


def test_replace_changes_position_and_deferred_ranges_together() -> None:
    cursor = make_cursor(base_size=9, position=8).replace(position=9, deferred=[(7, 2)])
    assert (cursor.position, cursor.deferred) == (9, ((7, 2),))
    with pytest.raises(ArgumentError, match=r"position must be in \[0, 9\), got position=9"):
        cursor.replace(deferred=())


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"epoch": -1}, ArgumentError, "epoch must be"),
        ({"accepted": ["sead"]}, ArgumentError, "accepted must hold names of .* got 'sead'"),
        ({"deferred": [(1, -1)]}, ArgumentError, r"a deferred range cannot be \(1, -1\)"),
        ({"deferred": [(1, 2**32)]}, ArgumentError, "a deferred range cannot be"),
        ({"deferred": [(1, 2, 3)]}, ArgumentError, "a deferred range cannot be"),
        ({"phase": "1"}, ArgumentError, "phase cannot be"),
        ({"phase": 2048}, ArgumentError, "phase must be at least 1 and below seq_len=2048"),
        ({"epohc": 1}, TypeError, "epohc"),
    ],
)
def test_replace_refuses_what_construction_refuses(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make_rows(position=9).replace(**changes)


# The sampler's state.


@each_record
def test_a_state_is_the_record_and_zeros(record: bytes) -> None:
    state = pack_state(Cursor.from_bytes(record))
    assert state == record + bytes(STATE_NUM_BYTES - len(record))
    assert bytes(unpack_state(bytearray(state))) == record


@pytest.mark.parametrize("number", [0, 8, 12])
def test_every_single_bit_flip_of_a_state_is_refused(number: int) -> None:
    state = pack_state(Cursor.from_bytes(RECORDS[number]))
    for bit in range(8 * len(state)):
        with pytest.raises(CursorFormatError, match=r"^not a cursor: "):
            unpack_state(flip_bit(state, bit))


@pytest.mark.parametrize("num_bytes", [0, 188, 511, 513, 1024])
def test_a_state_of_another_size_is_refused(num_bytes: int) -> None:
    state = pack_state(Cursor.from_bytes(SMALL)).ljust(1024, b"\0")[:num_bytes]
    with pytest.raises(CursorFormatError, match=f"a state has 512 bytes, got {num_bytes} bytes"):
        unpack_state(state)


def test_a_state_that_was_never_filled_is_refused_by_its_magic() -> None:
    with pytest.raises(CursorFormatError, match=r"bad magic \(0x0000000000000000"):
        unpack_state(bytes(STATE_NUM_BYTES))


def test_a_byte_after_the_record_is_refused_by_place() -> None:
    state = bytearray(pack_state(Cursor.from_bytes(SMALL)))
    state[-1] = 7
    with pytest.raises(CursorFormatError, match="byte 511 of a state must be 0, got 7"):
        unpack_state(state)


@pytest.mark.parametrize("value", [512, "x" * 512, None])
def test_a_state_must_be_a_buffer(value: Any) -> None:
    with pytest.raises(TypeError):
        unpack_state(value)
