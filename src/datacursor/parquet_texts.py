"""Strings from a column of a Parquet file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from datacursor.arrow import arrow_errors
from datacursor.errors import CorpusError

_BATCH_ROWS = 1024


def count_rows(path: str) -> int:
    """Return the number of rows, by the metadata.

    Raises:
        CorpusError: Not Parquet, or damaged.
    """
    with _opened(path) as reader:
        return int(reader.metadata.num_rows)


def read_rows(path: str, column: str) -> Iterator[tuple[bytes | None, float]]:
    """Yield the bytes of each string, None for a null, with the share of rows up to it.

    Raises:
        CorpusError: Not Parquet, damaged, or no such column of strings.
    """
    with _opened(path) as reader:
        schema = reader.schema_arrow
        kinds = [field.type for field in schema if field.name == column]
        if len(kinds) != 1 or not _is_string(kinds[0]):
            listed = ", ".join(f"{field.name} ({field.type})" for field in schema) or "none"
            raise CorpusError(f"{path}: no column {column!r} of strings; columns: {listed}")
        num_rows = reader.metadata.num_rows
        row = 0
        for batch in reader.iter_batches(_BATCH_ROWS, columns=[column], use_threads=False):
            if batch.schema.names != [column]:
                raise CorpusError(f"{path}: column {column!r} reads as {batch.schema.names}")
            for value in _plain(batch.column(0)).cast(pa.large_binary()).to_pylist():
                row += 1
                yield value, min(1.0, row / max(1, num_rows))
        if row != num_rows:
            raise CorpusError(f"{path}: has {row} rows, {num_rows} by its metadata")


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    with arrow_errors(path, "Parquet"), pa.OSFile(path) as source:
        yield pq.ParquetFile(source, pre_buffer=False)


def _plain(values: Any) -> Any:
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _is_string(kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    names = ("is_string", "is_large_string", "is_string_view")  # views are newer than pyarrow 15
    return any(getattr(pa.types, name)(kind) for name in names if hasattr(pa.types, name))
