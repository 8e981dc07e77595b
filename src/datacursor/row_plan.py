"""What every way of packing answers: rows of an epoch, from any place on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from datacursor.row_block import Reach

if TYPE_CHECKING:
    from datacursor.document_stream import DocumentStream
    from datacursor.row_block import PlanStats, Reader, RowBlock


class RowPlan(ABC):
    """Rows of spans, as pure functions of (epoch, reader); arguments are checked already.

    Attributes:
        packing: Name of the way of packing.
        packing_id: Names it in the cursor.
        can_change_seq_len: Whether rows of another length may go on inside an epoch.
        stream: The documents.
        seq_len: Tokens a row.
    """

    packing: str
    packing_id: int
    can_change_seq_len = False

    def __init__(self, stream: DocumentStream, seq_len: int) -> None:
        """Keep what all plans have."""
        self.stream = stream
        self.seq_len = seq_len

    @property
    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """What decides the rows besides documents, order, seq_len, bos, eos and keep_empty."""

    @abstractmethod
    def num_rows(self, epoch: int, phase: int) -> int:
        """Return the number of rows of an epoch."""

    def num_windows(self, epoch: int) -> int:
        """Return the windows of an epoch, each packed by itself."""
        return 1

    def reach(self, epoch: int, reader: Reader, row: int, target: int, phase: int) -> Reach:
        """Return how far an epoch surely goes from a row on: to `target` at least, or to its end.

        Args:
            epoch: Pass over the data.
            reader: Where `row` begins.
            row: Row of that epoch, or their number.
            target: Row to look as far as.
            phase: As in `num_rows`.
        """
        return Reach(self.num_rows(epoch, phase), is_end=True)

    @abstractmethod
    def rows_from(self, epoch: int, reader: Reader, first: int, count: int, phase: int) -> RowBlock:
        """Return rows [first, first + count), which exist; row `first` begins at `reader`.

        Raises:
            ArgumentError: The reader cannot be right.
        """

    @abstractmethod
    def reader_of(self, epoch: int, row: int, phase: int) -> Reader:
        """Return where a row begins that exists."""

    @abstractmethod
    def problem_with(self, epoch: int, row: int, reader: Reader, phase: int) -> str | None:
        """Return why a row cannot begin at a reader, as far as is told without counting rows."""

    @abstractmethod
    def is_passed(self, epoch: int, reader: Reader, position: int, document: int) -> bool:
        """Return whether all of a document, at `position` of the order, lies before the reader.

        Raises:
            ArgumentError: Readers do not tell.
        """

    @abstractmethod
    def stats(self, epoch: int) -> PlanStats:
        """Return what packing does to one epoch, by planning all of it."""
