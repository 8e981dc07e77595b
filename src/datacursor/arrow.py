"""Token shards from Arrow: arrays, tables, and IPC files and streams mapped from disk.

Nothing is copied unless it must be: compressed buffers, null documents with an extent, list
views and fixed-size lists, whose extents are not stored as such.

Everything a file says is untrusted. pyarrow checks its own framing and `validate` the buffer
sizes; offsets are checked here before anything reads through them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from datacursor.errors import CorpusError
from datacursor.mapped_file import MappedFile
from datacursor.shards import NO_NULLS, IntArray, SourceShards, TokenShard, check_extents

COLUMN_NAMES = ("input_ids", "tokens", "token_ids")

_FILE_MAGIC = b"ARROW1"
_STREAM_START = b"\xff\xff\xff\xff"
_STREAM_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_OTHER_MAGIC = {b"PAR1": "a Parquet file", b"FEA1": "a Feather version 1 file"}


def shards_from_object(source: Any, column: str | None) -> SourceShards:
    """Return the shards of a pyarrow Array, ChunkedArray, RecordBatch or Table.

    Args:
        source: A list array (list, large_list, fixed_size_list or a list view) of integers, or
            a table with such a column.
        column: Name of the column; see `choose_column`. Must be None for an array.

    Raises:
        CorpusError: Not a list of integers, no such column, or damaged offsets.
    """
    if isinstance(source, (pa.Table, pa.RecordBatch)):
        index = choose_column(source.schema, column, "Arrow table")
        column = source.schema.field(index).name
        return shards_from_arrays(_chunks(source.column(index)), column, f"column {column!r}")
    if not isinstance(source, (pa.Array, pa.ChunkedArray)):
        raise CorpusError(
            f"{type(source).__name__} is not an Arrow array, chunked array, batch or table"
        )
    if column is not None:
        raise CorpusError(f"an Arrow array has no columns, got column={column!r}")
    if not _is_token_list(source.type):
        raise CorpusError(f"Arrow array of type {source.type} is not a list of integers")
    return shards_from_arrays(_chunks(source), None, "Arrow array")


def shards_from_file(file: MappedFile, column: str | None) -> SourceShards:
    """Return the shards of an Arrow IPC file or stream; its magic decides which it is.

    Args:
        file: The mapped file; its memory is viewed, not copied.
        column: Name of the column; see `choose_column`.

    Raises:
        CorpusError: Not Arrow IPC, truncated or damaged, or no such column of integer lists.
    """
    if file.data[: len(_FILE_MAGIC)] == _FILE_MAGIC:
        open_reader, batches = pa.ipc.open_file, _file_batches
    elif file.data[: len(_STREAM_START)] == _STREAM_START:
        _check_stream_end(file)
        open_reader, batches = pa.ipc.open_stream, _stream_batches
    else:
        found = _OTHER_MAGIC.get(file.data[:4], f"it starts with {file.data[:8]!r}")
        raise CorpusError(f"{file.path}: not an Arrow IPC file or stream, {found}")
    buffer = pa.py_buffer(file.data)
    with arrow_errors(file.path):
        index = choose_column(open_reader(buffer).schema, column, file.path)
        # The other columns are neither decompressed nor checked.
        options = pa.ipc.IpcReadOptions(included_fields=[index], use_threads=False)
        reader = open_reader(buffer, options=options)
        column = reader.schema.field(0).name
        arrays = (batch.column(0) for batch in batches(reader))
        part = shards_from_arrays(arrays, column, f"{file.path}: column {column!r}")
    return part._replace(files=(file,))


def shards_from_arrays(
    arrays: Iterable[Any], column: str | None, where: str, first_row: int = 0
) -> SourceShards:
    """Return the shards of list arrays, one each; empty ones are left out.

    Args:
        arrays: List arrays of integers, in order.
        column: Their name, which is passed on.
        where: Names the data in errors.
        first_row: Number of the first row within ``where``.

    Raises:
        CorpusError: Damaged buffers or offsets, or a null among the tokens of a document.
    """
    shards = []
    nulls = [NO_NULLS]
    num_rows = 0
    for array in arrays:
        if len(array) == 0:
            continue
        with arrow_errors(where):
            array.validate()
        shards.append(_shard(array, where, first_row + num_rows))
        if array.null_count:
            nulls.append(np.flatnonzero(_is_null(array)) + num_rows)
        num_rows += len(array)
    return SourceShards(shards, np.concatenate(nulls), column)


@contextmanager
def arrow_errors(where: str, kind: str = "Arrow") -> Iterator[None]:
    """Turn what pyarrow says about damaged data into a CorpusError that names the data."""
    try:
        yield
    except CorpusError:
        raise
    except (pa.ArrowException, OSError, EOFError, ValueError) as error:
        raise CorpusError(f"{where}: damaged {kind} data: {error}") from error


def choose_column(schema: Any, column: str | None, where: str) -> int:
    """Return the number of the token column.

    Without a name it is the only column of integer lists, else the only one of those that is
    called input_ids, tokens or token_ids.

    Raises:
        CorpusError: No column or several fit; lists the candidates.
    """
    fields = list(schema)
    lists = [index for index, field in enumerate(fields) if _is_token_list(field.type)]
    if column is not None:
        named = [index for index, field in enumerate(fields) if field.name == column]
        if len(named) != 1:
            raise CorpusError(
                f"{where}: {len(named)} columns are called {column!r}; columns of integer lists: "
                f"{_names(fields, lists)}"
            )
        if named[0] not in lists:
            kind = fields[named[0]].type
            raise CorpusError(f"{where}: column {column!r} is {kind}, not a list of integers")
        return named[0]
    if len(lists) == 1:
        return lists[0]
    usual = [index for index in lists if fields[index].name in COLUMN_NAMES]
    if len(usual) == 1:
        return usual[0]
    if not lists:
        raise CorpusError(
            f"{where}: no column holds lists of integers; columns: "
            f"{_names(fields, range(len(fields)))}"
        )
    raise CorpusError(
        f"{where}: several columns hold lists of integers, name one with column=: "
        f"{_names(fields, lists)}"
    )


def _names(fields: list[Any], indices: Iterable[int]) -> str:
    return ", ".join(f"{fields[index].name} ({fields[index].type})" for index in indices) or "none"


def _is_token_list(kind: Any) -> bool:
    return _list_layout(kind) is not None and pa.types.is_integer(kind.value_type)


def _list_layout(kind: Any) -> str | None:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return "offsets"
    # Lists of size 0 would let a few bytes of metadata claim any number of rows.
    if pa.types.is_fixed_size_list(kind) and kind.list_size > 0:
        return "fixed"
    # List views came with pyarrow 16.
    for name in ("is_list_view", "is_large_list_view"):
        if getattr(pa.types, name, lambda _: False)(kind):
            return "view"
    return None


def _chunks(column: Any) -> list[Any]:
    return list(column.chunks) if isinstance(column, pa.ChunkedArray) else [column]


def _file_batches(reader: Any) -> Iterator[Any]:
    return (reader.get_batch(index) for index in range(reader.num_record_batches))


def _stream_batches(reader: Any) -> Iterator[Any]:
    return iter(reader)


def _check_stream_end(file: MappedFile) -> None:
    # A reader takes the end of the file between two messages for the end of the stream, so
    # without the marker a truncated stream would pass for a shorter corpus.
    end = file.data[-len(_STREAM_END) :]
    if end != _STREAM_END:
        raise CorpusError(
            f"{file.path}: Arrow stream without an end marker, truncated or never closed "
            f"(last bytes {end.hex()}, expected {_STREAM_END.hex()})"
        )


def _shard(array: Any, where: str, first_row: int) -> TokenShard:
    begins, ends = _extents(array)
    values = array.values
    shard = TokenShard(_integers(values), begins, ends)
    check_extents(shard, where, first_row)
    if array.null_count:
        shard = shard._replace(ends=np.where(_is_null(array), begins, ends))
    if values.null_count:
        _check_no_null_token(shard, values, where, first_row)
    return shard


def _is_null(array: Any) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = array.is_null().to_numpy(zero_copy_only=False)
    return mask


def _extents(array: Any) -> tuple[IntArray, IntArray]:
    layout = _list_layout(array.type)
    if layout == "offsets":
        offsets = array.offsets.to_numpy()
        return offsets[:-1], offsets[1:]
    if layout == "view":
        begins = array.offsets.to_numpy().astype(np.int64)
        return begins, begins + array.sizes.to_numpy()
    size = array.type.list_size
    begins = (np.arange(len(array), dtype=np.int64) + array.offset) * size
    return begins, begins + size


def _integers(values: Any) -> IntArray:
    dtype = np.dtype(str(values.type))  # both call them int8 to uint64
    buffer = values.buffers()[1]
    if buffer is None or len(values) == 0:
        return np.empty(0, dtype=dtype)
    tokens = np.frombuffer(buffer, dtype, len(values), values.offset * dtype.itemsize)
    return tokens if tokens.flags.aligned else tokens.copy()


def _check_no_null_token(shard: TokenShard, values: Any, where: str, first_row: int) -> None:
    """Raise if a null lies inside a document; nulls between documents are nobody's tokens."""
    nulls = np.flatnonzero(_is_null(values))
    before_begin = np.searchsorted(nulls, shard.begins)
    holds_null = before_begin < np.searchsorted(nulls, shard.ends)
    if holds_null.any():
        row = int(holds_null.argmax())
        place = int(nulls[before_begin[row]]) - int(shard.begins[row])
        raise CorpusError(f"{where}: row {first_row + row}: token {place} is null")
