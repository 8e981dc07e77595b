"""chunk: documents in their natural order, cut into rows that are shuffled."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from datacursor import _core
from datacursor.errors import ArgumentError
from datacursor.order import Sequential
from datacursor.row_block import PlanStats, Reader, RowBlock, sum_up
from datacursor.row_plan import RowPlan
from datacursor.skip_table import SkipTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from datacursor.document_stream import DocumentStream

_STATS_ROWS = 4096
_ROWS_PER_ENTRY = 8  # of the skip table: every row is looked up, not one a run
_MAX_STRIDE = 32  # documents an entry


class ChunkPlan(RowPlan):
    """Rows cut out of the joined documents at places that change with the epoch.

    Tokens up to the epoch's phase, drawn from [0, seq_len), and after the last whole row are
    left out (tail="drop") or make rows that are padded ("pad"). Every row is found in O(1), so
    there is no reader.

    Args:
        stream: The documents, in their natural order.
        seq_len: Tokens a row.
        tail: "pad" or "drop".
        seed: Key of the rows' order and of the phases.
        shuffle_rows: False keeps the natural order and begins at the first token.
    """

    packing = "chunk"
    packing_id = 3

    def __init__(
        self, stream: DocumentStream, seq_len: int, *, tail: str, seed: int, shuffle_rows: bool
    ) -> None:
        super().__init__(stream, seq_len)
        self.tail = tail
        self._seed = seed
        self._shuffle_rows = shuffle_rows

    @property
    def parameters(self) -> dict[str, Any]:
        """The tail, and whether rows are shuffled."""
        return {"tail": self.tail, "shuffle_rows": self._shuffle_rows}

    def num_rows(self, epoch: int, phase: int) -> int:
        """Return the number of rows, in O(1)."""
        cut = self._cut(epoch)
        num_tokens = self.stream.num_tokens(epoch)
        if self.tail == "drop":
            return max(0, num_tokens - cut) // self.seq_len
        return -(-(num_tokens - cut) // self.seq_len) + (cut > 0) if num_tokens > 0 else 0

    def rows_from(self, epoch: int, reader: Reader, first: int, count: int, phase: int) -> RowBlock:
        """Cut out the rows; they need no reader."""
        if not self._shuffle_rows:
            return self._cut_out(epoch, np.arange(first, first + count, dtype=np.int64))
        rows = np.empty(count, dtype=np.int64)
        _core.fill_chunk_rows(self._seed, epoch, self.num_rows(epoch, phase), first, rows)
        return self._cut_out(epoch, rows)

    def reader_of(self, epoch: int, row: int, phase: int) -> Reader:
        """Rows need no reader."""
        return Reader(0, 0)

    def problem_with(self, epoch: int, row: int, reader: Reader, phase: int) -> str | None:
        """Accept the only reader there is."""
        return None if reader == (0, 0) and phase == 0 else f"position={row}, phase={phase}"

    def is_passed(self, epoch: int, reader: Reader, position: int, document: int) -> bool:
        """Refuse: the rows of a document are anywhere in the epoch."""
        raise ArgumentError(
            "packing='chunk' shuffles the rows of a document over the epoch, so whether all of "
            f"document {document} was committed is not known"
        )

    def stats(self, epoch: int) -> PlanStats:
        """Cut all rows and count."""
        num_rows = self.num_rows(epoch, 0)
        firsts = range(0, num_rows, _STATS_ROWS)
        parts = (np.arange(k, min(k + _STATS_ROWS, num_rows), dtype=np.int64) for k in firsts)
        sums = sum_up(self._cut_out(epoch, part) for part in parts)
        return PlanStats(
            num_rows=num_rows,
            num_padding=num_rows * self.seq_len - sums.num_tokens,
            num_left=self.stream.num_tokens(epoch) - sums.num_tokens,
            num_documents=self.stream.num_documents(epoch),
            num_empty=self.stream.num_empty(epoch),
            **sums._asdict(),
        )

    def _cut(self, epoch: int) -> int:
        """Return the tokens before the first whole row."""
        return _core.chunk_cut(self._seed, epoch, self.seq_len) if self._shuffle_rows else 0

    def _cut_out(self, epoch: int, rows: NDArray[np.int64]) -> RowBlock:
        """Return rows by their numbers in the natural order; row 0 may be short."""
        cut = self._cut(epoch)
        has_short_first = self.tail == "pad" and cut > 0
        row_offsets = np.zeros(len(rows) + 1, dtype=np.int64)
        room = len(rows) * (2 + self.seq_len // self.stream.mean_length)
        room = min(room, len(rows) + self.stream.num_documents(epoch))
        while True:
            spans = np.empty((room, 3), dtype=np.int64)
            num_spans = _core.cut_rows(
                self.stream.lengths.index,
                self._table.totals(),
                self._table.stride,
                rows,
                first_token=cut - self.seq_len if has_short_first else cut,
                seq_len=self.seq_len,
                num_virtual=self.stream.lengths.num_virtual,
                keep_empty=self.stream.lengths.keep_empty,
                spans=spans,
                row_ends=row_offsets[1:],
            )
            if num_spans <= room:
                return RowBlock(spans[:num_spans], row_offsets, Reader(0, 0))
            room = num_spans

    @cached_property
    def _table(self) -> SkipTable:
        order = Sequential(self.stream.order.num_samples)
        stride = min(max(_ROWS_PER_ENTRY * self.seq_len // self.stream.mean_length, 1), _MAX_STRIDE)
        return SkipTable(self.stream.lengths, order, 0, stride=stride)
