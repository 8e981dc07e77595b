"""One row of the ledger: its fields, its bytes and its place in the chain.

A row is hashed and buffered as fixed-width little-endian bytes; the same bytes are a row of the
structured array `ROW`, and its fields are the columns of the files. Part of the persistent format;
add, never change.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Rows: TypeAlias = "NDArray[np.void]"  # a structured array of ROW

FIELDS = (  # name, code of struct, type of numpy; the chain comes last and is not hashed itself
    ("attempt", "I", "<u4"),
    ("update", "Q", "<u8"),
    ("epoch", "Q", "<u8"),
    ("first", "Q", "<u8"),
    ("stop", "Q", "<u8"),
    ("outcome", "B", "u1"),
    ("micro_batches", "I", "<u4"),
    ("num_tokens", "Q", "<u8"),
    ("ids_digest", "16s", "V16"),
    ("tokens_digest", "16s", "V16"),
    ("learning_rate", "d", "<f8"),
    ("loss", "d", "<f8"),
    ("time", "q", "<i8"),
    ("chain", "16s", "V16"),
)
ROW = np.dtype([(name, kind) for name, _, kind in FIELDS])
BODY = struct.Struct("<" + "".join(code for _, code, _ in FIELDS[:-1]))

OUTCOMES = ("start", "committed", "skipped", "deferred", "user_skipped")
START, COMMITTED, SKIPPED, DEFERRED, USER_SKIPPED = range(len(OUTCOMES))

CHAIN_NUM_BYTES = 16
GENESIS = bytes(CHAIN_NUM_BYTES)  # before the first row of a ledger
_KEYED = hashlib.blake2b(key=b"datacursor ledger 1", digest_size=CHAIN_NUM_BYTES)


def next_chain(previous: bytes, body: bytes | memoryview) -> bytes:
    """Return a row's chain value: keyed BLAKE2b of the value before it and the row's body."""
    state = _KEYED.copy()
    state.update(previous)
    state.update(body)
    return state.digest()


def chains(previous: bytes, rows: Rows) -> Iterator[bytes]:
    """Yield the chain value that each row should have."""
    data = memoryview(rows.tobytes())
    for start in range(0, len(data), ROW.itemsize):
        previous = next_chain(previous, data[start : start + BODY.size])
        yield previous


def digest_of_cursor(record: bytes) -> bytes:
    """Return what a start row holds of its attempt's first cursor: BLAKE2b, 16 bytes."""
    return hashlib.blake2b(record, digest_size=16).digest()


def values_of(row: np.void) -> dict[str, Any]:
    """Return a row as plain Python values; digests are bytes, the outcome is a word."""
    values = dict(zip(ROW.names or (), row.item(), strict=True))
    return values | {"outcome": OUTCOMES[values["outcome"]]}
