"""The documents of token files a piece at a time, in a memory that does not grow with the files.

A piece ends after the document that fills it. Where the reading begins does not change where
pieces end, as long as it begins where a piece began.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from datacursor.corpus_files import FileSource, files_behind, read_file
from datacursor.mapped_file import MappedFile
from datacursor.shards import IntArray, SourceShards, TokenShard, join_documents

PIECE_TOKENS = 2**24
PIECE_DOCUMENTS = 2**22


class Piece(NamedTuple):
    """Some documents.

    Attributes:
        tokens: Of all of them, one after another; may be a view of a mapped file.
        lengths: Shape (documents,): tokens of each.
        nulls: Numbers of the null documents within the piece, rising.
        num_bytes_read: Size of the source up to the end of the piece, about.
    """

    tokens: IntArray
    lengths: NDArray[np.int64]
    nulls: NDArray[np.int64]
    num_bytes_read: int


def size_of(source: FileSource) -> int:
    """Return the number of bytes of all files of a resolved source."""
    return sum(_num_bytes(path, source) for path in source.paths)


def read_pieces(source: FileSource, first_document: int = 0) -> Iterator[Piece]:
    """Yield the documents of a resolved source from one of them on.

    Of Parquet one row group is in memory at a time; what ends before `first_document` is not
    decoded. Other formats are mapped.

    Raises:
        FileNotFoundError: There is no file at a path.
        CorpusError: A file is damaged, of another format, or changed while in use.
    """
    column = source.column
    num_bytes_before = 0
    skip = first_document  # counted from the file at hand
    for path in source.paths:
        num_bytes = _num_bytes(path, source)
        row = 0
        for first_row, num_rows, part in _parts(MappedFile(path), source, column, skip):
            column = part.column
            row = first_row
            for shard in part.shards:
                nulls = part.nulls - (row - first_row)
                for begin, end in _cuts(shard.lengths(), max(0, skip - row)):
                    done = num_bytes_before + num_bytes * (row + end) // num_rows
                    for file in part.files:
                        file.check()
                    yield _piece(shard, nulls, begin, end, done)
                row += len(shard.begins)
        skip = max(0, skip - row)
        num_bytes_before += num_bytes


def _parts(
    file: MappedFile, source: FileSource, column: str | None, first_row: int
) -> Iterator[tuple[int, int, SourceShards]]:
    if source.format == "parquet":
        from datacursor import parquet

        yield from parquet.read_row_groups(file, column, first_row)
    else:
        assert source.format is not None
        part = read_file(file, source.format, column, source.marking)
        yield 0, sum(len(shard.begins) for shard in part.shards), part


def _cuts(lengths: NDArray[np.int64], begin: int) -> Iterator[tuple[int, int]]:
    """Yield the numbers [begin, end) of the documents of each piece."""
    stops = np.cumsum(lengths)
    while begin < len(lengths):
        before = int(stops[begin - 1]) if begin else 0
        end = int(np.searchsorted(stops, before + PIECE_TOKENS)) + 1
        end = min(end, begin + PIECE_DOCUMENTS, len(lengths))
        yield begin, end
        begin = end


def _piece(
    shard: TokenShard, nulls: NDArray[np.int64], begin: int, end: int, num_bytes_read: int
) -> Piece:
    begins = shard.begins[begin:end].astype(np.int64)
    ends = shard.ends[begin:end].astype(np.int64)
    inside = nulls[np.searchsorted(nulls, begin) : np.searchsorted(nulls, end)]
    tokens = join_documents(shard.tokens, begins, ends)
    return Piece(tokens, ends - begins, inside - begin, num_bytes_read)


def _num_bytes(path: str, source: FileSource) -> int:
    assert source.format is not None
    return sum(Path(file).stat().st_size for file in files_behind(path, source.format))
