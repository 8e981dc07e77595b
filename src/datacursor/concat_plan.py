"""concat: documents in order, joined and cut every seq_len tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from datacursor import _core
from datacursor.checks import require_integer
from datacursor.errors import ArgumentError
from datacursor.row_block import PlanStats, Reader, RowBlock, sum_up
from datacursor.row_plan import RowPlan

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from datacursor.document_stream import DocumentStream

_MIN_DOCUMENTS = 64  # read from the order at a time, so that short calls cost little
_MAX_DOCUMENTS = 65536
_SHARE_MORE = 16  # one in so many more than rows need by the mean length
_STATS_ROWS = 4096  # planned at a time


class ConcatPlan(RowPlan):
    """Rows of the joined documents; the reader is (place in the order, tokens of it read).

    Args:
        stream: The documents.
        seq_len: Tokens a row.
        tail: "pad" or "drop", for the epoch's last row.
    """

    packing = "concat"
    packing_id = 1
    can_change_seq_len = True

    def __init__(self, stream: DocumentStream, seq_len: int, *, tail: str) -> None:
        super().__init__(stream, seq_len)
        self.tail = tail

    @property
    def parameters(self) -> dict[str, Any]:
        """The tail."""
        return {"tail": self.tail}

    def num_rows(self, epoch: int, phase: int) -> int:
        """Return the number of rows, O(1) if the order is a permutation."""
        places = self.stream.num_tokens(epoch) + phase
        return places // self.seq_len if self.tail == "drop" else -(-places // self.seq_len)

    def rows_from(self, epoch: int, reader: Reader, first: int, count: int, phase: int) -> RowBlock:
        """Join and cut on from the reader."""
        position = require_integer(
            "reader.position", reader[0], 0, self.stream.num_documents(epoch) + 1
        )
        offset = require_integer("reader.offset", reader[1], 0, 2**63)
        lengths = self.stream.lengths
        spans: list[NDArray[np.int64]] = []
        row_offsets = np.zeros(count + 1, dtype=np.int64)
        row_ends = row_offsets[1:]
        num_rows = num_spans = 0
        filled = phase if first == 0 else 0  # a phase puts row 0 before the first document
        while num_rows < count:
            documents = self._documents(epoch, position, count - num_rows)
            if len(documents) == 0:
                self._require_last_row(first + num_rows, filled, phase, epoch)
                row_ends[num_rows] = num_spans
                break
            out = np.empty((len(documents) + count - num_rows, 3), dtype=np.int64)
            ends = row_ends[num_rows:]
            read, offset, filled, added, ended = _core.concat(
                lengths.index,
                documents,
                seq_len=self.seq_len,
                num_virtual=lengths.num_virtual,
                keep_empty=lengths.keep_empty,
                offset=offset,
                filled=filled,
                spans=out,
                row_ends=ends,
            )
            ends[:ended] += num_spans
            position, num_rows, num_spans = position + read, num_rows + ended, num_spans + added
            spans.append(out[:added])
        if len(spans) != 1:  # most often one, which is not copied
            spans = [np.concatenate((np.empty((0, 3), dtype=np.int64), *spans))]
        return RowBlock(spans[0], row_offsets, Reader(position, offset))

    def reader_of(self, epoch: int, row: int, phase: int) -> Reader:
        """Find the row's first token in the skip table."""
        token = row * self.seq_len - phase
        return Reader(0, 0) if token <= 0 else Reader(*self.stream.locate(epoch, token))

    def problem_with(self, epoch: int, row: int, reader: Reader, phase: int) -> str | None:
        """Look whether both are at the start, and at the length of the reader's document."""
        if (row == 0) != (reader == (0, 0)) or (row == 0 and phase > 0):
            return f"position={row}, phase={phase}"
        if reader.offset > 0 and not self.stream.is_inside(epoch, *reader):
            return "an offset beyond its document"
        return None

    def is_passed(self, epoch: int, reader: Reader, position: int, document: int) -> bool:
        """Return whether the document's place lies before the reader's."""
        return position < reader.position

    def stats(self, epoch: int) -> PlanStats:
        """Plan the whole epoch and count."""
        num_rows = self.num_rows(epoch, 0)
        sums = sum_up(self._blocks(epoch, num_rows))
        return PlanStats(
            num_rows=num_rows,
            num_padding=num_rows * self.seq_len - sums.num_tokens,
            num_left=self.stream.num_tokens(epoch) - sums.num_tokens,
            num_documents=self.stream.num_documents(epoch),
            num_empty=self.stream.num_empty(epoch),
            **sums._asdict(),
        )

    def _blocks(self, epoch: int, num_rows: int) -> Iterator[RowBlock]:
        reader = Reader(0, 0)
        for first in range(0, num_rows, _STATS_ROWS):
            block = self.rows_from(epoch, reader, first, min(_STATS_ROWS, num_rows - first), 0)
            reader = block.reader
            yield block

    def _documents(self, epoch: int, position: int, num_rows: int) -> NDArray[np.int64]:
        """Return documents from a place on, most often enough for so many rows."""
        wanted = num_rows * self.seq_len // self.stream.mean_length
        wanted += wanted // _SHARE_MORE + _MIN_DOCUMENTS
        return self.stream.documents(epoch, position, min(wanted, _MAX_DOCUMENTS))

    def _require_last_row(self, row: int, filled: int, phase: int, epoch: int) -> None:
        """Raise unless the documents may end inside this row: the reader fits its row."""
        expected = (self.stream.num_tokens(epoch) + phase) % self.seq_len
        is_last = row == self.num_rows(epoch, phase) - 1
        if not is_last or filled != expected or self.tail == "drop":
            raise ArgumentError(
                f"reader does not belong to the row: the documents ended in row {row} after "
                f"{filled} tokens, expected row {self.num_rows(epoch, phase) - 1} and "
                f"{expected} tokens"
            )
