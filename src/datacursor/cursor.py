"""The cursor: the whole position of a run over its data, as one immutable value.

A cursor has one byte form, drawn in ``cpp/include/datacursor/cursor.hpp``; the token, the JSON
text and the sampler's state hold those bytes in other clothes. This module imports neither numpy
nor torch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, fields
from operator import attrgetter
from reprlib import repr as _short
from typing import TYPE_CHECKING, Any

from datacursor import _core, _cursor_text
from datacursor.errors import ArgumentError, CursorFormatError

if TYPE_CHECKING:
    from typing_extensions import Buffer, Self

# Part of the persistent format; add, never change.
STATE_NUM_BYTES = 512
DROP_LAST = 1 << 0  # critical_flags
DATA_UNVERIFIED = 1 << 0  # optional_flags
DEFERRED_EXTENSION = 0x8001
PHASE_EXTENSION = 0x8002
ORDER_NAMES = {
    1: "shuffle-1",
    2: "sequential-1",
    3: "block-shuffle-1",
    4: "mixture-1",
    5: "weighted-1",
    6: "subset-1",
}
_PERMUTATION_IDS = (1, 2, 3)  # base_size is the length of an epoch
PACKING_NAMES = {0: "none", 1: "concat", 2: "best_fit", 3: "chunk"}
ACCEPTED_BITS = {  # optional_flags: differences that a load was told to accept
    "fingerprint": 8,
    "num_samples": 9,  # base_size of samples
    "num_documents": 9,  # base_size of packed rows
    "seed": 10,
    "order": 11,
    "packing": 12,
    "plan": 13,
    "seq_len": 14,
    "drop_last": 15,
}
_MIN_NUM_BYTES = 188  # a record without extensions
_TOTAL_LENGTH = slice(10, 12)
_RANGE = struct.Struct("<QI")
_PHASE = struct.Struct("<Q")


class _Recorded:
    """Holds the byte form beside the fields, so that it is made once and is no field itself."""

    __slots__ = ("_record",)
    _record: bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cursor(_Recorded):
    """The position of a run over its data.

    Immutable and hashable; equal if and only if the bytes are equal. Cursors have no order.
    The fields are those of the record, with its ranges; construction checks them all.

    Args:
        minor: 0, or the minor format version of the newer release that wrote it.
        critical_flags: Bit 0 drop_last; every other bit is refused.
        optional_flags: Bit 0 data unverified, bits 8 to 15 accepted differences; others are kept.
        order_id: 1 shuffle, 2 sequential, 3 block, 4 mixture, 5 weighted, 6 subset, or 0x8000
            and above for your own.
        packing_id: 0 none (samples), 1 concat, 2 best_fit, 3 chunk.
        data_fingerprint: 16 bytes, digest of the data's content.
        plan_digest: 16 bytes, digest of the parameters that have no field of their own.
        base_size: Number of samples, or of documents if packed; 1 <= base_size < 2**63.
        seed: The user's number, 0 <= seed < 2**64.
        epoch: Pass over the data, 0 <= epoch < 2**40.
        position: Contributions committed in this epoch; for samples below base_size, or equal
            to it while ranges are deferred, unless the order may repeat (4, 5, 0x8000 and above).
        updates_committed: Running total of optimizer updates.
        tokens_committed: Running total of tokens; 0 for samples.
        reader_position: Place in the document order (best_fit: window); 0 for samples.
        reader_offset: Tokens of that document already read (best_fit: row in the window); 0 for
            samples.
        identity_digest: 16 bytes, multiset hash of what was committed in this epoch.
        digest_first: Position that identity_digest counts from, at most position.
        last_digest: 16 bytes, identity_digest of the epoch before when it ended.
        skipped: Contributions skipped in this epoch, at most position.
        attempt: Number of the restart, 0 <= attempt < 2**32.
        replicas: Number of replicas that wrote it, advisory.
        pending: Micro-batches in the gradients but in no update.
        seq_len: Tokens a row; 0 for samples.
        extensions: (type, payload) tuples with strictly rising types.

    Raises:
        ArgumentError: A field is out of its range; the message names it and shows the value.
        TypeError: A field has another type; a bool is not an int here.

    Example:
        >>> cursor = Cursor(order_id=1, base_size=1000, seed=7, epoch=3, position=250,
        ...                 data_fingerprint=bytes(16), plan_digest=bytes(16))
        >>> len(bytes(cursor)), Cursor.from_token(cursor.token()) == cursor
        (188, True)
        >>> cursor.replace(position=500).position
        500
    """

    minor: int = 0
    critical_flags: int = 0
    optional_flags: int = 0
    order_id: int
    packing_id: int = 0
    data_fingerprint: bytes
    plan_digest: bytes
    base_size: int
    seed: int
    epoch: int = 0
    position: int = 0
    updates_committed: int = 0
    tokens_committed: int = 0
    reader_position: int = 0
    reader_offset: int = 0
    identity_digest: bytes = bytes(16)
    digest_first: int = 0
    last_digest: bytes = bytes(16)
    skipped: int = 0
    attempt: int = 0
    replicas: int = 0
    pending: int = 0
    seq_len: int = 0
    extensions: tuple[tuple[int, bytes], ...] = ()

    def __post_init__(self) -> None:
        """Check every field by writing the record."""
        object.__setattr__(self, "_record", _core.encode_cursor(_fields_of(self)))

    @classmethod
    def from_bytes(cls, record: Buffer) -> Self:
        """Return the cursor whose whole byte form is in any C-contiguous bytes-like object.

        Raises:
            CursorFormatError: Not a cursor, damaged, or in need of a newer release.
        """
        return cls(**_core.decode_cursor(record))

    @classmethod
    def from_token(cls, token: str) -> Self:
        """Return the cursor of a text made by `token`; nothing but that exact text is accepted.

        Raises:
            CursorFormatError: Not a token, damaged, or in need of a newer release.
        """
        return cls.from_bytes(_cursor_text.from_token(token))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the cursor of a JSON object made by `to_json`, in any order and spacing.

        Raises:
            CursorFormatError: Not such an object, damaged, or in need of a newer release.
        """
        values, checksum = _cursor_text.from_json(text, _NAMES)
        try:
            cursor = cls(**values)
        except ArgumentError as error:
            raise CursorFormatError(f"not a cursor: {error}") from error
        expected = _cursor_text.checksum_of(cursor._record)
        if checksum != expected:
            raise CursorFormatError(
                f"not a cursor: bad checksum ({_short(checksum)}, expected {expected!r})"
            )
        return cursor

    @property
    def drop_last(self) -> bool:
        """Whether the incomplete last round of an epoch is dropped."""
        return bool(self.critical_flags & DROP_LAST)

    @property
    def data_unverified(self) -> bool:
        """Whether data_fingerprint stands for the length alone, not for the content."""
        return bool(self.optional_flags & DATA_UNVERIFIED)

    @property
    def accepted(self) -> tuple[str, ...]:
        """Names of the differences that loads were told to accept, a subset of ACCEPTED_BITS."""
        other_size = "num_documents" if self.packing_id == 0 else "num_samples"
        return tuple(
            name
            for name, bit in ACCEPTED_BITS.items()
            if self.optional_flags >> bit & 1 and name != other_size
        )

    @property
    def deferred(self) -> tuple[tuple[int, int], ...]:
        """Ranges (first, count) of this epoch that were put off, in contributions, rising."""
        return tuple(_RANGE.iter_unpack(dict(self.extensions).get(DEFERRED_EXTENSION, b"")))

    @property
    def phase(self) -> int:
        """Tokens by which this epoch's rows are shifted since seq_len was changed; mostly 0."""
        payload = dict(self.extensions).get(PHASE_EXTENSION)
        return 0 if payload is None else int.from_bytes(payload, "little")

    def replace(self, **changes: Any) -> Self:
        """Return a cursor with some fields changed.

        Besides the fields themselves, each of the read-only properties may be given:
        `drop_last`, `data_unverified`, `accepted` (names), `deferred` ((first, count) pairs; empty
        for none) and `phase` (0 for none). They are applied after the fields.

        Raises:
            ArgumentError: A value is out of its range.
            TypeError: There is no such field, or the value has another type.
        """
        derived = {name: changes.pop(name) for name in _DERIVED if name in changes}
        values = _fields_of(self) | changes
        for name, value in derived.items():
            _apply_derived(values, name, value)
        return type(self)(**values)

    def same_position(self, other: Cursor) -> bool:
        """Return whether both are equal but for attempt and replicas."""
        return self.replace(attempt=0, replicas=0) == other.replace(attempt=0, replicas=0)

    def token(self) -> str:
        """Return the bytes as one word of text, for logs, YAML and JSON: ``dc1.`` + base64url."""
        return _cursor_text.to_token(self._record)

    def to_json(self) -> str:
        """Return a JSON object of all fields and the record's checksum.

        64-bit numbers are decimal strings and bytes are hexadecimal.
        """
        return _cursor_text.to_json(_fields_of(self), self._record)

    def __bytes__(self) -> bytes:
        """Return the byte form of `cpp/include/datacursor/cursor.hpp`."""
        return self._record

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same bytes."""
        return self._record == other._record if isinstance(other, Cursor) else NotImplemented

    def __hash__(self) -> int:
        """Return a hash of the bytes."""
        return hash(self._record)

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        """Pickle and copy by way of the bytes."""
        return type(self).from_bytes, (self._record,)

    def __str__(self) -> str:
        """Return one line for people; it may change between releases."""
        parts = [f"epoch {self.epoch:,}", *_place(self), f"update {self.updates_committed:,}"]
        parts.append(_data(self))
        parts.append(ORDER_NAMES.get(self.order_id, f"order 0x{self.order_id:04x}"))
        if self.pending:
            parts.append(f"pending {self.pending:,}")
        if self.deferred:
            parts.append(f"deferred {sum(count for _, count in self.deferred):,}")
        if self.accepted:
            parts.append(f"accepted {', '.join(self.accepted)}")
        return " \u00b7 ".join(parts)


_NAMES = tuple(field.name for field in fields(Cursor))
_values_of = attrgetter(*_NAMES)
_DERIVED = ("drop_last", "data_unverified", "accepted", "deferred", "phase")


def pack_state(cursor: Cursor) -> bytes:
    """Return a sampler's state: the record and zeros, exactly STATE_NUM_BYTES bytes."""
    return bytes(cursor).ljust(STATE_NUM_BYTES, b"\0")


def unpack_state(buffer: Buffer) -> Cursor:
    """Return the cursor of a sampler's state.

    Raises:
        CursorFormatError: Not STATE_NUM_BYTES bytes, not a cursor, or damaged anywhere.
    """
    state = memoryview(buffer).tobytes()
    if len(state) != STATE_NUM_BYTES:
        raise CursorFormatError(
            f"not a cursor: a state has {STATE_NUM_BYTES} bytes, got {len(state)} bytes"
        )
    total_length = int.from_bytes(state[_TOTAL_LENGTH], "little")
    record = state[: max(total_length, _MIN_NUM_BYTES)]
    cursor = Cursor.from_bytes(record)
    padding = state[len(record) :]
    if any(padding):
        place, value = next((i, byte) for i, byte in enumerate(padding, len(record)) if byte)
        raise CursorFormatError(f"not a cursor: byte {place} of a state must be 0, got {value}")
    return cursor


def _fields_of(cursor: Cursor) -> dict[str, Any]:
    return dict(zip(_NAMES, _values_of(cursor), strict=True))


def _place(cursor: Cursor) -> list[str]:
    is_permutation = cursor.order_id in _PERMUTATION_IDS
    if cursor.packing_id == 0 and not is_permutation:
        return [f"sample {cursor.position:,}"]
    if cursor.packing_id == 0:
        share = 100 * cursor.position / cursor.base_size
        return [f"sample {cursor.position:,} / {cursor.base_size:,} ({share:.1f} %)"]
    parts = [f"row {cursor.position:,}"]
    packing = PACKING_NAMES[cursor.packing_id]
    if packing == "concat":
        place = f"{cursor.reader_position:,}"
        place += f" / {cursor.base_size:,}" if is_permutation else ""
        parts.append(f"document {place} + {cursor.reader_offset:,} tokens")
    elif packing == "best_fit":
        parts.append(f"window {cursor.reader_position:,} + {cursor.reader_offset:,} rows")
    return parts


def _data(cursor: Cursor) -> str:
    digits = cursor.data_fingerprint.hex()
    return "data unverified" if cursor.data_unverified else f"data {digits[:4]}\u2026{digits[-2:]}"


def _apply_derived(values: dict[str, Any], name: str, value: Any) -> None:
    if name == "drop_last":
        _set_bits(values, "critical_flags", DROP_LAST, DROP_LAST if value else 0)
    elif name == "data_unverified":
        _set_bits(values, "optional_flags", DATA_UNVERIFIED, DATA_UNVERIFIED if value else 0)
    elif name == "accepted":
        _set_bits(values, "optional_flags", _flags_of(ACCEPTED_BITS), _flags_of(value))
    elif name == "deferred":
        payload = b"".join(_pack(_RANGE, "a deferred range", *pair) for pair in value)
        _set_extension(values, DEFERRED_EXTENSION, payload)
    else:
        payload = b"" if value == 0 else _pack(_PHASE, "phase", value)
        _set_extension(values, PHASE_EXTENSION, payload)


def _set_bits(values: dict[str, Any], name: str, mask: int, bits: int) -> None:
    values[name] = values[name] & ~mask | bits


def _flags_of(names: Iterable[str]) -> int:
    flags = 0
    for name in names:
        if name not in ACCEPTED_BITS:
            raise ArgumentError(f"accepted must hold names of {tuple(ACCEPTED_BITS)}, got {name!r}")
        flags |= 1 << ACCEPTED_BITS[name]
    return flags


def _set_extension(values: dict[str, Any], kind: int, payload: bytes) -> None:
    entries = [entry for entry in values["extensions"] if entry[0] != kind]
    if payload:
        entries.append((kind, payload))
    values["extensions"] = tuple(sorted(entries))


def _pack(packer: struct.Struct, name: str, *numbers: Any) -> bytes:
    try:
        return packer.pack(*numbers)
    except struct.error as error:
        raise ArgumentError(f"{name} cannot be {_short(numbers)}: {error}") from error
