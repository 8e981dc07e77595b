"""Token shards from Parquet files.

Parquet stores lists encoded, so the token column is decoded into memory, a shard a row group; the
file is read by position and not mapped, the other columns are not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from datacursor.arrow import arrow_errors, choose_column, shards_from_arrays
from datacursor.errors import CorpusError
from datacursor.mapped_file import MappedFile
from datacursor.shards import NO_NULLS, SourceShards

MAGIC = b"PAR1"


def shards_from_file(file: MappedFile, column: str | None) -> SourceShards:
    """Return the documents of one Parquet file.

    Args:
        file: The file, which is read again by its path.
        column: Name of the column; see `arrow.choose_column`.

    Raises:
        CorpusError: Not Parquet, truncated or damaged, or no such column of integer lists.
    """
    shards = []
    nulls = [NO_NULLS]
    for first_row, _, group in read_row_groups(file, column):
        shards += group.shards
        nulls.append(group.nulls + first_row)
        column = group.column
    return SourceShards(shards, np.concatenate(nulls), column, (file,))


def read_row_groups(
    file: MappedFile, column: str | None, first_row: int = 0
) -> Iterator[tuple[int, int, SourceShards]]:
    """Yield (first row, rows of the file, documents) of one Parquet file, a row group at a time.

    Where all rows come before `first_row`, one without documents stands at the file's end.

    Args:
        file: As for `shards_from_file`.
        column: As for `shards_from_file`.
        first_row: Row groups that end before this row are not decoded and not yielded.

    Raises:
        CorpusError: As `shards_from_file`.
    """
    end = file.data[-len(MAGIC) :]
    if file.data[: len(MAGIC)] != MAGIC or end != MAGIC:
        raise CorpusError(
            f"{file.path}: not a whole Parquet file, it starts with {file.data[:4]!r} and ends "
            f"with {end!r}, expected {MAGIC!r}"
        )
    with arrow_errors(file.path, "Parquet"), pa.OSFile(file.path) as source:
        reader = pq.ParquetFile(source, pre_buffer=False)
        schema = reader.schema_arrow
        name = schema.field(choose_column(schema, column, file.path)).name
        where = f"{file.path}: column {name!r}"
        counts = [reader.metadata.row_group(n).num_rows for n in range(reader.num_row_groups)]
        row = 0
        for number, num_rows in enumerate(counts):
            if row + num_rows > first_row:
                chunks = _read_group(reader, number, name, file.path)
                yield row, sum(counts), shards_from_arrays(chunks, name, where, row)
            row += num_rows
        if row <= first_row:
            yield row, row, SourceShards([], column=name)


def _read_group(reader: Any, number: int, name: str, where: str) -> list[Any]:
    table = reader.read_row_group(number, columns=[name], use_threads=False)
    if table.column_names != [name]:
        raise CorpusError(f"{where}: row group {number} has columns {table.column_names}")
    num_rows = reader.metadata.row_group(number).num_rows
    if table.num_rows != num_rows:
        raise CorpusError(
            f"{where}: row group {number} has {table.num_rows} rows, its metadata {num_rows}"
        )
    chunks: list[Any] = table.column(0).chunks
    return chunks
