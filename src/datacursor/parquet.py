"""Token shards from Parquet files.

Parquet stores lists encoded, so the token column is decoded into memory, a shard a row group; the
file is read by position and not mapped, the other columns are not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from datacursor.arrow import arrow_errors, choose_column, shards_from_arrays
from datacursor.errors import CorpusError
from datacursor.mapped_file import MappedFile
from datacursor.shards import SourceShards

MAGIC = b"PAR1"


def shards_from_file(file: MappedFile, column: str | None) -> SourceShards:
    """Return the documents of one Parquet file.

    Args:
        file: The file, which is read again by its path.
        column: Name of the column; see `arrow.choose_column`.

    Raises:
        CorpusError: Not Parquet, truncated or damaged, or no such column of integer lists.
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
        arrays = _arrays(reader, name, file.path)
        part = shards_from_arrays(arrays, name, f"{file.path}: column {name!r}")
    return part._replace(files=(file,))


def _arrays(reader: Any, name: str, where: str) -> Iterator[Any]:
    for number in range(reader.num_row_groups):
        table = reader.read_row_group(number, columns=[name], use_threads=False)
        if table.column_names != [name]:
            raise CorpusError(f"{where}: row group {number} has columns {table.column_names}")
        num_rows = reader.metadata.row_group(number).num_rows
        if table.num_rows != num_rows:
            raise CorpusError(
                f"{where}: row group {number} has {table.num_rows} rows, its metadata {num_rows}"
            )
        yield from table.column(0).chunks
