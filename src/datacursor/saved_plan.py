"""One epoch of a plan on disk: rows of spans, mapped into memory and served as planned."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from uuid import uuid4

import numpy as np

from datacursor import plan_file
from datacursor.checks import require_integer
from datacursor.durable import sync_directory
from datacursor.errors import CorpusError
from datacursor.mapped_file import MappedFile
from datacursor.plan_file import HEADER_SIZE, SPANS, Header

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from datacursor.row_block import RowBlock

_BLOCK_BYTES = 2**20  # hashed at a time


class SavedPlan:
    """Rows of one epoch, as `PackingPlan.save` wrote them; made by `PackingPlan.open`.

    Whoever only reads rows needs no lengths and plans nothing: every process maps the one file.
    Rows are checked as they are read, so a damaged file gives an error and no wrong span of
    another shape; `verify` reads all of it.

    Attributes:
        epoch: The epoch that was saved.
        plan_digest: Names the plan, 16 bytes; equal to that of the plan that was saved.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Map a file and check its header.

        Raises:
            FileNotFoundError: There is no such file.
            CorpusError: It is no saved plan, is damaged or has another size than it says.
        """
        self._file = MappedFile(path)
        data = self._file.data
        self._header = plan_file.read_header(
            self._file.path, data[:HEADER_SIZE], self._file.size, SPANS
        )
        self.epoch = self._header.epoch
        self.plan_digest = self._header.plan_digest
        num_offsets = self._header.num_entries + 1
        self._row_offsets = np.frombuffer(data, "<i8", num_offsets, HEADER_SIZE)
        first = HEADER_SIZE + 8 * num_offsets
        self._spans = np.frombuffer(data, "<i8", 3 * self._header.num_spans, first).reshape(-1, 3)
        self._require_offset(0, 0)
        self._require_offset(self._header.num_entries, self._header.num_spans)

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._header.num_entries

    def rows(
        self, epoch: int, first: int, count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return rows [first, first + count), equal to those of the plan that was saved.

        Args:
            epoch: The epoch that was saved.
            first: First row.
            count: Number of rows.

        Returns:
            Spans and row_offsets as `PackingPlan.rows` returns them.

        Raises:
            ArgumentError: Another epoch was saved, or it has no such rows.
            CorpusError: The file is damaged or was changed.
        """
        require_integer("epoch", epoch, self.epoch, self.epoch + 1)
        first = require_integer("first", first, 0, len(self) + 1)
        count = require_integer("count", count, 0, len(self) - first + 1)
        self._file.check()
        offsets = self._row_offsets[first : first + count + 1].astype(np.int64)
        if offsets[0] < 0 or offsets[-1] > len(self._spans) or (np.diff(offsets) < 1).any():
            raise CorpusError(
                f"{self._file.path}: row_offsets must rise from 0 to {len(self._spans)}, got "
                f"{offsets.min()} to {offsets.max()} at rows {first} to {first + count}"
            )
        spans = self._spans[offsets[0] : offsets[-1]].astype(np.int64)
        wrong = np.flatnonzero((spans[:, 0] < 0) | (spans[:, 1] < 0) | (spans[:, 2] <= spans[:, 1]))
        if len(wrong) > 0:
            raise CorpusError(
                f"{self._file.path}: spans must have 0 <= document and 0 <= start < stop, got "
                f"{spans[wrong[0]].tolist()} at span {offsets[0] + wrong[0]}"
            )
        return spans, offsets - offsets[0]

    def verify(self) -> None:
        """Read the whole file and raise unless it holds what was written.

        Raises:
            CorpusError: It is damaged or was changed.
        """
        self._file.check()
        payload = memoryview(self._file.data)[HEADER_SIZE:]
        plan_file.require_payload(self._file.path, self._header, payload)

    def _require_offset(self, row: int, expected: int) -> None:
        if self._row_offsets[row] != expected:
            raise CorpusError(
                f"{self._file.path}: row_offsets[{row}] is {self._row_offsets[row]}, "
                f"expected {expected}"
            )


def save_rows(
    path: str | os.PathLike[str],
    blocks: Iterable[RowBlock],
    num_rows: int,
    plan_digest: bytes,
    epoch: int,
) -> None:
    """Write all rows of an epoch; on return the file is whole and survives a crash.

    Args:
        path: The file. Another one beside it is written first and renamed.
        blocks: All rows, in order.
        num_rows: How many they are.
        plan_digest: Names the plan.
        epoch: The epoch they are of.

    Raises:
        OSError: The file system refuses; `path` is as it was.
    """
    path = Path(path)
    own = path.with_name(f".{path.name}.{uuid4().hex}")
    offsets = np.zeros(num_rows + 1, dtype="<i8")
    row = num_spans = 0
    try:
        with own.open("w+b") as file:
            file.seek(HEADER_SIZE + offsets.nbytes)
            for block in blocks:
                file.write(block.spans.astype("<i8").tobytes())
                count = len(block.row_offsets) - 1
                offsets[row + 1 : row + count + 1] = block.row_offsets[1:] + num_spans
                row, num_spans = row + count, num_spans + len(block.spans)
            file.seek(HEADER_SIZE)
            file.write(offsets.tobytes())
            payload_digest = _digest_from(file)
            header = Header(SPANS, plan_digest, epoch, num_rows, num_spans, payload_digest)
            file.seek(0)
            file.write(header.to_bytes())
            file.flush()
            os.fsync(file.fileno())
        own.replace(path)
        sync_directory(path.parent)
    finally:
        own.unlink(missing_ok=True)


def _digest_from(file: BinaryIO) -> bytes:
    """Return the digest of what follows the header."""
    digest = hashlib.blake2b(digest_size=16)
    file.seek(HEADER_SIZE)
    while block := file.read(_BLOCK_BYTES):
        digest.update(block)
    return digest.digest()
