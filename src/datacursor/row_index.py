"""`RowIndex`: the number of a packed row, with the spans that make the row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
        slot: Where a worker writes the micro-batch that the row is the first of: key of a pool,
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


def _row_index(row: int, epoch: int, spans: bytes, marks: dict[str, Any]) -> RowIndex:
    index = RowIndex(row, epoch, np.frombuffer(spans, dtype=np.int64).reshape(-1, 3))
    index.__dict__.update(marks)
    return index
