"""`RowIndex`: the number of a packed row, with the spans that make the row.

A micro-batch of rows as it goes from the sampler to a data set:

    in the process   RowIndices: first row, spans of all, where each begins
    to a worker      [BatchIndex of these, 1, 2, ...] if nobody but `RowDataset` reads it
                     [RowIndex, RowIndex, ...]        else
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Self


class RowIndex(int):
    """The number of a row in its epoch, with the spans that make the row.

    An int to samplers and loaders; pickles by its values (about 150 bytes with two spans).

    Attributes:
        epoch: Pass over the data.
        spans: int64 [m, 3], rows (document, start, stop): start < stop in the document's tokens,
            its bos and eos counted.
        is_padding: The row only fills up the last round; it has no targets.
        reading: Of a `DocumentSource`: tells its window from one that reads differently.
        slot: Where a worker writes the micro-batch that the row is the first of: name of a pool,
            ticket, number of a slot; None: nowhere, or another row is the first.
    """

    epoch: int
    spans: NDArray[np.int64]
    is_padding: bool
    reading: tuple[int, ...] | None
    slot: tuple[bytes, int, int] | None = None

    def __new__(
        cls,
        row: int,
        epoch: int,
        spans: NDArray[np.int64],
        *,
        is_padding: bool = False,
        reading: tuple[int, ...] | None = None,
    ) -> Self:
        """Take the values as they are; the gather checks the spans."""
        self = super().__new__(cls, row)
        self.epoch = epoch
        self.spans = spans
        self.is_padding = is_padding
        self.reading = reading
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # Bytes pickle several times faster and smaller than an array.
        marks: dict[str, Any] = {"is_padding": True} if self.is_padding else {}
        if self.reading is not None:
            marks["reading"] = tuple(self.reading)
        if self.slot is not None:
            marks["slot"] = self.slot
        return _row_index, (int(self), self.epoch, self.spans.tobytes(), marks)

    def __repr__(self) -> str:
        padding = ", is_padding=True" if self.is_padding else ""
        return f"RowIndex({int(self)}, epoch={self.epoch}, spans={self.spans.tolist()}{padding})"


class RowIndices(Sequence[RowIndex]):
    """`RowIndex` objects of consecutive rows, made only when somebody looks at one.

    Attributes:
        first: The number of the first row.
        epoch: Pass over the data.
        spans: Of all the rows, int64 [m, 3].
        row_offsets: Row r holds spans[row_offsets[r] : row_offsets[r + 1]]; int64 [n + 1], from 0.
    """

    __slots__ = ("epoch", "first", "row_offsets", "spans")

    def __init__(
        self, first: int, epoch: int, spans: NDArray[np.int64], row_offsets: NDArray[np.int64]
    ) -> None:
        """Take the values as they are."""
        self.first = first
        self.epoch = epoch
        self.spans = spans
        self.row_offsets = row_offsets

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.row_offsets) - 1

    @overload
    def __getitem__(self, place: int) -> RowIndex: ...

    @overload
    def __getitem__(self, place: slice) -> list[RowIndex]: ...

    def __getitem__(self, place: int | slice) -> RowIndex | list[RowIndex]:
        """Return one row, or a list of some."""
        places = range(len(self))[place]
        if isinstance(places, range):
            return [self._row(number) for number in places]
        return self._row(places)

    def _row(self, place: int) -> RowIndex:
        spans = self.spans[self.row_offsets[place] : self.row_offsets[place + 1]]
        return RowIndex(self.first + place, self.epoch, spans)


def _row_index(row: int, epoch: int, spans: bytes, marks: dict[str, Any]) -> RowIndex:
    index = RowIndex(row, epoch, np.frombuffer(spans, dtype=np.int64).reshape(-1, 3))
    index.__dict__.update(marks)
    return index


class BatchIndex(int):
    """An index that stands for all rows of a micro-batch, on its way to a worker.

    It pickles and unpickles several times faster than they do. The other indices of its batch are
    numbers that nobody reads.

    Attributes:
        rows: The rows.
        slot: As of a `RowIndex`.
    """

    rows: RowIndices
    slot: tuple[bytes, int, int] | None

    def __new__(cls, rows: RowIndices, slot: tuple[bytes, int, int] | None) -> Self:
        """Take the values as they are."""
        self = super().__new__(cls, rows.first)
        self.rows = rows
        self.slot = slot
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        rows = self.rows
        parts = (rows.first, rows.epoch, rows.spans.tobytes(), rows.row_offsets.tobytes())
        return _batch_index, (parts, self.slot)


def _batch_index(
    parts: tuple[int, int, bytes, bytes], slot: tuple[bytes, int, int] | None
) -> BatchIndex:
    first, epoch, spans, row_offsets = parts
    array = np.frombuffer(spans, dtype=np.int64).reshape(-1, 3)
    offsets = np.frombuffer(row_offsets, dtype=np.int64)
    return BatchIndex(RowIndices(first, epoch, array, offsets), slot)


def rows_of(indices: Sequence[RowIndex]) -> Sequence[RowIndex]:
    """Return the rows that the indices of a micro-batch stand for."""
    first = indices[0]
    return first.rows if isinstance(first, BatchIndex) else indices
