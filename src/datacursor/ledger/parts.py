"""Rows as Arrow IPC and Parquet bytes, and back.

A foreign file, whose schema is not exactly ours, is refused: names, types, order, nullability and
the version in the schema's metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from datacursor.errors import LedgerError
from datacursor.ledger.rows import FIELDS, ROW

if TYPE_CHECKING:
    from datacursor.ledger.rows import Rows

# Part of the persistent format; add, never change.
_ARROW_TYPES = {
    "<u4": pa.uint32(),
    "<u8": pa.uint64(),
    "u1": pa.uint8(),
    "<i8": pa.timestamp("ns", tz="UTC"),
    "<f8": pa.float64(),
    "V16": pa.binary(16),
}
SCHEMA = pa.schema(
    [pa.field(name, _ARROW_TYPES[kind], nullable=False) for name, _, kind in FIELDS],
    metadata={"datacursor.ledger": "1"},
)


def encode_arrow(rows: Rows) -> bytes:
    """Return an Arrow IPC file of one record batch, not compressed."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, SCHEMA) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(_columns(rows), schema=SCHEMA))
    return bytes(sink.getvalue())


def encode_parquet(rows: Rows) -> bytes:
    """Return a Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays(_columns(rows), schema=SCHEMA), sink, compression="zstd")
    return bytes(sink.getvalue())


def decode_arrow(data: bytes) -> Rows:
    """Return the rows of an Arrow IPC file.

    Raises:
        LedgerError: Not such a file, or its schema is not exactly ours.
    """
    try:
        with pa.ipc.open_file(pa.py_buffer(data)) as reader:
            return _rows(reader.read_all())
    except (pa.ArrowException, OSError) as error:
        raise LedgerError(f"not an Arrow IPC file: {error}") from error


def decode_parquet(data: bytes) -> Rows:
    """Return the rows of a Parquet file.

    Raises:
        LedgerError: Not such a file, or its schema is not exactly ours.
    """
    try:
        return _rows(pq.read_table(pa.BufferReader(data)))
    except (pa.ArrowException, OSError) as error:
        raise LedgerError(f"not a Parquet file: {error}") from error


def _columns(rows: Rows) -> list[pa.Array]:
    return [
        pa.Array.from_buffers(
            _ARROW_TYPES[kind], len(rows), [None, pa.py_buffer(rows[name].tobytes())]
        )
        for name, _, kind in FIELDS
    ]


def _rows(table: pa.Table) -> Rows:
    if not table.schema.equals(SCHEMA, check_metadata=True):
        raise LedgerError(f"not a part of a ledger: its schema is\n{table.schema}")
    table.validate(full=True)
    rows = np.empty(table.num_rows, ROW)
    for name, _, kind in FIELDS:
        column = table.column(name)
        if len(column) == 0 or column.null_count > 0:
            raise LedgerError(f"not a part of a ledger: column {name} is empty or has nulls")
        values = column.combine_chunks()
        start = values.offset * np.dtype(kind).itemsize
        rows[name] = np.frombuffer(values.buffers()[1], kind, len(values), start)
    return rows
