"""Documents written into the data files of a corpus folder."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

from datacursor.corpus_folder import COLUMN, data_name, data_paths, open_data
from datacursor.durable import sync_directory
from datacursor.errors import CorpusError
from datacursor.pieces import PIECE_DOCUMENTS, PIECE_TOKENS, Piece
from datacursor.shards import IntArray

FILE_TOKENS = 2**30

_TEMPORARY = ".data.tmp"
_DTYPES = tuple(np.dtype(name) for name in ("uint8", "uint16", "uint32", "int64"))


class FolderWriter:
    """Adds documents to an unfinished folder, after those that are there.

    A file is closed when it holds `FILE_TOKENS`, or when tokens come that its dtype does not
    hold; the next one has the next wider of uint8, uint16, uint32 and int64. So the files are the
    same, byte for byte, however often the writing was interrupted.

    A context manager; left with an exception, it removes the file that is not complete.

    Attributes:
        num_documents: Number of documents in complete files.
    """

    def __init__(self, folder: Path, dtype: str | None = None) -> None:
        """Read what is there.

        Args:
            folder: It exists.
            dtype: Narrowest dtype to write; None for uint16, or uint8 where the source is.

        Raises:
            CorpusError: A file of the folder is missing or damaged.
        """
        self._folder = folder
        shards = open_data(folder).shards
        self._number = len(data_paths(folder))
        self._dtype = None if dtype is None else np.dtype(dtype)
        if shards:
            self._dtype = shards[-1].tokens.dtype
        self.num_documents = sum(len(shard.begins) for shard in shards)
        self._pieces: list[Piece] = []  # not yet written, and what they hold
        self._num_tokens = 0
        self._num_documents = 0
        self._file: _DataFile | None = None
        (folder / _TEMPORARY).unlink(missing_ok=True)

    def add(self, piece: Piece) -> None:
        """Add documents, in memory until there are enough for a batch.

        Raises:
            CorpusError: A token is larger than int64.
            OSError: The file system refuses; complete files are left as they are.
        """
        self._pieces.append(piece)
        self._num_tokens += len(piece.tokens)
        self._num_documents += len(piece.lengths)
        if self._num_tokens >= PIECE_TOKENS or self._num_documents >= PIECE_DOCUMENTS:
            self._write_batch()

    def finish(self) -> None:
        """Write the rest; a corpus without documents gets a file without any."""
        if self._pieces or self._number == 0:
            self._write_batch()
        self._close_file()

    def _write_batch(self) -> None:
        dtype = self._dtype
        for piece in self._pieces:
            dtype = _holding(piece.tokens, dtype)
        dtype = dtype or _DTYPES[1]
        if dtype != self._dtype:
            self._close_file()
            self._dtype = dtype
        if self._file is None:
            self._file = _DataFile(self._folder / _TEMPORARY, dtype)
        if self._pieces:
            self._file.add(self._pieces, dtype)
        self._pieces, self._num_tokens, self._num_documents = [], 0, 0
        if self._file.num_tokens >= FILE_TOKENS:
            self._close_file()

    def _close_file(self) -> None:
        if self._file is not None:
            name = data_name(self._number, self._file.finish())
            os.replace(self._folder / _TEMPORARY, self._folder / name)  # noqa: PTH105
            sync_directory(self._folder)
            self._file = None
            self._number += 1

    def __enter__(self) -> FolderWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()
            (self._folder / _TEMPORARY).unlink(missing_ok=True)


class _DataFile:
    """One Arrow stream being written, and a digest of its bytes.

    Attributes:
        num_tokens: Number of tokens in it.
        closed: What pyarrow asks of a file that it writes to.
    """

    def __init__(self, path: Path, dtype: np.dtype[Any]) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
        self._path = path
        self._descriptor = os.open(path, flags, 0o666)
        self._digest = hashlib.blake2b(digest_size=8)
        self._kind = pa.large_list(pa.field("item", pa.from_numpy_dtype(dtype)))
        self.closed = False
        self.num_tokens = 0
        self._writer = pa.ipc.new_stream(self, pa.schema([(COLUMN, self._kind)]))

    def add(self, pieces: list[Piece], dtype: np.dtype[Any]) -> None:
        """Write documents as one batch."""
        tokens = np.concatenate([piece.tokens for piece in pieces], dtype=dtype, casting="unsafe")
        lengths = np.concatenate([piece.lengths for piece in pieces])
        offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        is_null = np.zeros(len(lengths), dtype=np.bool_)
        first = 0
        for piece in pieces:
            is_null[piece.nulls + first] = True
            first += len(piece.lengths)
        array = pa.LargeListArray.from_arrays(
            pa.array(offsets),
            pa.array(tokens),
            type=self._kind,
            mask=pa.array(is_null) if is_null.any() else None,
        )
        self._writer.write_batch(pa.RecordBatch.from_arrays([array], [COLUMN]))
        self.num_tokens += len(tokens)

    def write(self, data: bytes) -> None:
        """Write bytes, for pyarrow."""
        self._digest.update(data)
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from error

    def flush(self) -> None:
        """Do nothing, for pyarrow: nothing is held back."""

    def finish(self) -> str:
        """End the stream, make the file durable and return the digest of its bytes."""
        self._writer.close()
        os.fsync(self._descriptor)
        self.close()
        return self._digest.hexdigest()

    def close(self) -> None:
        """Give up the descriptor."""
        if not self.closed:
            os.close(self._descriptor)
            self._descriptor = -1  # pyarrow may yet write, and the number be another file's
            self.closed = True


def _holding(tokens: IntArray, narrowest: np.dtype[Any] | None) -> np.dtype[Any]:
    """Return the narrowest dtype that holds the tokens and is not narrower than the given one."""
    if narrowest is None:
        narrowest = _DTYPES[0] if tokens.dtype == _DTYPES[0] else _DTYPES[1]
    if tokens.dtype == narrowest or len(tokens) == 0:
        return narrowest
    low, high = int(tokens.min()), int(tokens.max())
    for dtype in _DTYPES[_DTYPES.index(narrowest) :]:
        limits = np.iinfo(dtype)
        if limits.min <= low and high <= limits.max:
            return dtype
    raise CorpusError(f"token {high} is larger than int64")
