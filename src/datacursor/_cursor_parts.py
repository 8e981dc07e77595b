"""The parts of a cursor that have no field of their own: bits of flags, and extensions.

What `Cursor.replace` accepts beside the fields is translated into the fields here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from reprlib import repr as _short
from typing import Any, Protocol

from datacursor.errors import ArgumentError

Entries = tuple[tuple[int, bytes], ...]  # of extensions: (type, payload)

# Part of the persistent format; add, never change.
DROP_LAST = 1 << 0  # critical_flags
DATA_UNVERIFIED = 1 << 0  # optional_flags
WINDOW_EXTENSION = 0x0001
DEFERRED_EXTENSION = 0x8001
PHASE_EXTENSION = 0x8002
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
PARTS = ("drop_last", "data_unverified", "accepted", "deferred", "phase", "window_batch_size")

_RANGE = struct.Struct("<QI")
_FLAGS = {
    "drop_last": ("critical_flags", DROP_LAST),
    "data_unverified": ("optional_flags", DATA_UNVERIFIED),
}
_NUMBERS = {
    "phase": (PHASE_EXTENSION, struct.Struct("<Q")),
    "window_batch_size": (WINDOW_EXTENSION, struct.Struct("<I")),
}


class Fields(Protocol):
    """What of a cursor the parts are kept in."""

    @property
    def critical_flags(self) -> int: ...
    @property
    def optional_flags(self) -> int: ...
    @property
    def extensions(self) -> Entries: ...


def ranges_in(extensions: Entries) -> tuple[tuple[int, int], ...]:
    """Return the deferred ranges (first, count)."""
    payload = dict(extensions).get(DEFERRED_EXTENSION, b"")
    return tuple((first, count) for first, count in _RANGE.iter_unpack(payload))


def number_in(extensions: Entries, kind: int) -> int:
    """Return the number that one extension holds, 0 without it."""
    return int.from_bytes(dict(extensions).get(kind, b""), "little")


def apply_part(fields: Fields, changes: dict[str, Any], name: str, value: Any) -> None:
    """Add to `changes` the field that keeps one of PARTS, with its new value.

    Raises:
        ArgumentError: The value is out of its range.
        TypeError: It has another type.
    """
    if name in _FLAGS:
        if not isinstance(value, bool):
            raise TypeError(f"{name} must be True or False, got {_short(value)}")
        field, bit = _FLAGS[name]
        _set_bits(fields, changes, field, bit, bit if value else 0)
    elif name == "accepted":
        bits = _flags_of(_listed(name, value))
        _set_bits(fields, changes, "optional_flags", _flags_of(ACCEPTED_BITS), bits)
    elif name == "deferred":
        pairs = [_listed("a deferred range", pair) for pair in _listed(name, value)]
        payload = b"".join(_pack(_RANGE, "a deferred range", *pair) for pair in pairs)
        _set_extension(fields, changes, DEFERRED_EXTENSION, payload)
    else:
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"{name} must be an int, got {_short(value)}")
        kind, packer = _NUMBERS[name]
        _set_extension(fields, changes, kind, _pack(packer, name, value) if value else b"")


def _listed(name: str, value: Any) -> Iterable[Any]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a sequence, got {_short(value)}")
    return value


def _set_bits(fields: Fields, changes: dict[str, Any], field: str, mask: int, bits: int) -> None:
    changes[field] = changes.get(field, getattr(fields, field)) & ~mask | bits


def _flags_of(names: Iterable[str]) -> int:
    flags = 0
    for name in names:
        if name not in ACCEPTED_BITS:
            raise ArgumentError(f"accepted must hold names of {tuple(ACCEPTED_BITS)}, got {name!r}")
        flags |= 1 << ACCEPTED_BITS[name]
    return flags


def _set_extension(fields: Fields, changes: dict[str, Any], kind: int, payload: bytes) -> None:
    kept = [entry for entry in changes.get("extensions", fields.extensions) if entry[0] != kind]
    if payload:
        kept.append((kind, payload))
    changes["extensions"] = tuple(sorted(kept))


def _pack(packer: struct.Struct, name: str, *numbers: Any) -> bytes:
    try:
        return packer.pack(*numbers)
    except struct.error as error:
        raise ArgumentError(f"{name} cannot be {_short(numbers)}: {error}") from error
