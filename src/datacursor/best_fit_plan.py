"""best_fit: windows of documents, each packed by itself into rows with little padding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from datacursor import _core
from datacursor.checks import require_integer
from datacursor.row_block import PlanStats, Reach, Reader, RowBlock
from datacursor.row_estimate import estimate_rows
from datacursor.row_plan import RowPlan
from datacursor.window_table import Windows, WindowTable

if TYPE_CHECKING:
    from datacursor.document_stream import DocumentStream
    from datacursor.row_counts import RowCounts

_ROWS_PER_WINDOW = 2048  # about so many, within the limits
_MIN_WINDOW = 2**14
_MAX_WINDOW = 2**20


def window_size(stream: DocumentStream, seq_len: int) -> int:
    """Return the documents of a window that holds about 2048 rows."""
    wanted = _ROWS_PER_WINDOW * seq_len // stream.mean_length
    return min(max(wanted, _MIN_WINDOW), _MAX_WINDOW)


class BestFitPlan(RowPlan):
    """Windows of consecutive places of the order, packed by best fit (best_fit.hpp).

    The reader is (window, row in the window). The rows of a window are shuffled by
    (seed, epoch, window).

    Args:
        stream: The documents.
        seq_len: Tokens a row, at most 2**24.
        long_documents: "split", "truncate", "drop" or "error".
        window_documents: Documents of a window.
        item_order: "decreasing" places the longest first, "arrival" as they come.
        max_documents: Pieces a row holds at most, or None.
        align: A piece takes a multiple of this; divides seq_len.
        min_fragment: A shorter piece of a split document is left out.
        shuffle_rows: Whether the rows of a window are shuffled.
        cost_groups: Rows of about one cost that come together, or None; needs shuffle_rows.

    Raises:
        ArgumentError: An argument is out of range.
    """

    packing = "best_fit"
    packing_id = 2

    def __init__(
        self,
        stream: DocumentStream,
        seq_len: int,
        *,
        long_documents: str,
        window_documents: int,
        item_order: str,
        max_documents: int | None,
        align: int,
        min_fragment: int,
        shuffle_rows: bool,
        cost_groups: int | None,
    ) -> None:
        super().__init__(stream, seq_len)
        self._parameters: dict[str, Any] = {
            "long_documents": long_documents,
            "window_documents": window_documents,
            "item_order": item_order,
            "max_documents": max_documents,
            "align": align,
            "min_fragment": min_fragment,
            "shuffle_rows": shuffle_rows,
        }
        if cost_groups is not None:
            self._parameters["cost_groups"] = cost_groups
        rule = _core.BestFitRule(
            seq_len=seq_len,
            long_documents=long_documents,
            decreasing=item_order == "decreasing",
            max_documents=max_documents or 0,
            align=align,
            min_fragment=min_fragment,
        )
        self._windows = Windows(
            stream,
            rule,
            window_documents,
            shuffle_rows=shuffle_rows,
            cost_groups=cost_groups or 0,
        )
        self._table: WindowTable | None = None
        self._row_counts: RowCounts | None = None
        is_whole = stream.has_lengths and stream.order.is_permutation
        self._refuses = is_whole and long_documents == "error" and stream.lengths.longest > seq_len
        self._rows_at_least = 0  # in every epoch
        if is_whole and long_documents in ("split", "error") and min_fragment == 1:
            self._rows_at_least = -(-stream.lengths.num_tokens // seq_len)

    @property
    def parameters(self) -> dict[str, Any]:
        """All arguments but the documents and seq_len."""
        return self._parameters

    def keep_row_counts(self, row_counts: RowCounts) -> None:
        """Take the rows of every window from a file, or write them there once counted."""
        self._row_counts = row_counts

    def estimate_rows(self, epoch: int) -> int:
        """Estimate from lengths; of an endless order, as many as its rows are taken to be."""
        if self.stream.order.is_endless:
            return self.num_rows(epoch, 0)
        names = ("long_documents", "min_fragment", "max_documents", "align")
        rule = {name: self._parameters[name] for name in names}
        num_documents = self.stream.num_documents(epoch)
        return estimate_rows(self.stream.lengths, num_documents, self.seq_len, **rule)

    def num_windows(self, epoch: int) -> int:
        """Return how often the documents of a window go into the epoch's, rounded up."""
        return self._windows.num_windows(epoch)

    def num_rows(self, epoch: int, phase: int) -> int:
        """Return the rows of all windows: packs every one of them once, kept for the epoch."""
        if self.stream.order.is_endless:
            return self.stream.num_tokens(epoch) // self.seq_len
        return self._table_of(epoch).num_rows()

    def reach(self, epoch: int, reader: Reader, row: int, target: int, phase: int) -> Reach:
        """Look from window to window, unless there are tokens for more rows than asked for."""
        num_windows = self._windows.num_windows(epoch)
        window = require_integer("reader.position", reader[0], 0, num_windows + 1)
        offset = require_integer("reader.offset", reader[1], 0, row + 1)
        if self._refuses:
            self.num_rows(epoch, phase)  # names the document, and raises
        if self._rows_at_least >= target:
            return Reach(self._rows_at_least, is_end=False)
        if self.stream.order.is_endless and self.stream.num_tokens(epoch) == 0:
            return Reach(0, is_end=True)
        return self._table_of(epoch).reach(window, row - offset, target)

    def rows_from(self, epoch: int, reader: Reader, first: int, count: int, phase: int) -> RowBlock:
        """Take rows of the reader's window and those after it."""
        num_windows = self._windows.num_windows(epoch)
        window = require_integer("reader.position", reader[0], 0, num_windows + 1)
        row = require_integer("reader.offset", reader[1], 0, 2**63)
        spans = [np.empty((0, 3), dtype=np.int64)]
        offsets = [np.zeros(1, dtype=np.int64)]
        num_spans = 0
        while count > 0:
            require_integer("reader.position", window, 0, num_windows)
            packed = self._windows.packed(epoch, window)
            row = require_integer("reader.offset", row, 0, packed.num_rows + 1)
            stop = min(row + count, packed.num_rows)
            part = packed.row_offsets[row : stop + 1]
            spans.append(packed.spans[part[0] : part[-1]])
            offsets.append(part[1:] - part[0] + num_spans)
            num_spans += int(part[-1] - part[0])
            count -= stop - row
            window, row = (window + 1, 0) if stop == packed.num_rows else (window, stop)
        return RowBlock(np.concatenate(spans), np.concatenate(offsets), Reader(window, row))

    def reader_of(self, epoch: int, row: int, phase: int) -> Reader:
        """Find the row's window, by packing the windows before it once an epoch."""
        return Reader(0, 0) if row == 0 else Reader(*self._table_of(epoch).find(row))

    def problem_with(self, epoch: int, row: int, reader: Reader, phase: int) -> str | None:
        """Look whether both are at the start, and at the rows of the reader's window."""
        if (row == 0) != (reader == (0, 0)) or reader.offset > row or phase > 0:
            return f"position={row}, phase={phase}"
        num_windows = self._windows.num_windows(epoch)
        if reader == (num_windows, 0) and self._is_end(epoch, row):
            return None  # where a cursor stands while ranges are deferred
        if reader.position >= num_windows:
            return f"only {num_windows} windows in the epoch"
        num_rows = self._windows.packed(epoch, reader.position).num_rows
        if reader.offset >= max(1, num_rows):
            return f"a window of {num_rows} rows"
        first = self._table_of(epoch).first_row(reader.position)
        if first is not None and first + reader.offset != row:
            return f"position={row}, of a window that begins at row {first}"
        return None

    def is_passed(self, epoch: int, reader: Reader, position: int, document: int) -> bool:
        """Return whether all rows that hold the document are passed; packs its window."""
        window = position // self._windows.size
        if window != reader.position:
            return window < reader.position
        packed = self._windows.packed(epoch, window)
        pieces = np.flatnonzero(packed.spans[:, 0] == document)
        if len(pieces) == 0:
            return False
        return int(pieces[-1]) < int(packed.row_offsets[reader.offset])

    def stats(self, epoch: int) -> PlanStats:
        """Pack every window and add up."""
        totals = self._windows.totals(epoch)
        num_rows = totals["num_rows"]
        return PlanStats(
            num_rows=num_rows,
            num_tokens=totals["num_tokens"],
            num_padding=num_rows * self.seq_len - totals["num_tokens"],
            num_left=totals["num_tokens_dropped"],
            num_documents=self.stream.num_documents(epoch),
            num_empty=totals["num_empty"],
            num_split=totals["num_split"],
            num_spans=totals["num_spans"],
            sum_squares=totals["sum_squares"],
            num_truncated=totals["num_truncated"],
            num_dropped=totals["num_dropped"],
            num_fragments_dropped=totals["num_fragments_dropped"],
        )

    def _is_end(self, epoch: int, row: int) -> bool:
        """Return whether an epoch may have so many rows; known if lengths are."""
        return not self.stream.has_lengths or row == self.num_rows(epoch, 0)

    def _table_of(self, epoch: int) -> WindowTable:
        if self._table is None or self._table.epoch != epoch:
            self._table = WindowTable(self._windows, epoch, self._row_counts)
        return self._table
