"""`SourcePlan`: rows of documents that nobody has counted or measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from datacursor.checks import require_integer
from datacursor.errors import ArgumentError
from datacursor.plan import PackingPlan
from datacursor.source_reader import Reading, SourceReader
from datacursor.source_stream import SourceStream

if TYPE_CHECKING:
    import os

    from numpy.typing import ArrayLike

    from datacursor.document_source import DocumentSource
    from datacursor.order import Order
    from datacursor.row_block import PlanStats
    from datacursor.row_plan import RowPlan


class SourcePlan(PackingPlan):
    """best_fit over a `DocumentSource`, in windows that are read when their rows are wanted.

    Documents come in the source's order; rows are shuffled inside their window.

    Args:
        source: The documents.
        packing: "best_fit"; nothing else packs without all lengths.
        window_documents: Documents of a window; it has no default here.
        order: None.
        counts_dir: None.
        **options: As in `PackingPlan`.

    Raises:
        ArgumentError: An argument is out of range, or needs all lengths.
        TypeError: An argument has the wrong type.
    """

    def __init__(
        self,
        source: DocumentSource,
        *,
        packing: str,
        window_documents: int | None = None,
        order: Order | ArrayLike | None = None,
        counts_dir: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        if packing != "best_fit":
            raise ArgumentError(
                "packing must be 'best_fit' with a DocumentSource, whose lengths are told by "
                f"reading, got packing={packing!r}"
            )
        if window_documents is None:
            raise ArgumentError(
                "window_documents must be given with a DocumentSource: documents that are read "
                "and packed together"
            )
        for name, value in (("order", order), ("counts_dir", counts_dir)):
            if value is not None:
                raise ArgumentError(
                    f"{name} must be None with a DocumentSource, whose documents come as they "
                    f"are read, got {name}={value!r}"
                )
        super().__init__(source, packing=packing, window_documents=window_documents, **options)

    def _set_up(self, documents: Any, order: Order | ArrayLike | None, seed: int) -> None:
        size = require_integer("window_documents", self.options.window_documents or 0, 1, 2**31)
        self._source = self.reader = SourceReader(documents, size)
        self._plan = self._make_source_plan(seed)
        self.order = self._plan.stream.order
        self.base_size = self.order.num_samples

    def _make_source_plan(self, seed: int) -> RowPlan:
        num_virtual = (self.bos is not None) + (self.eos is not None)
        stream = SourceStream(
            self.reader, seed=seed, num_virtual=num_virtual, keep_empty=self.keep_empty
        )
        return self.options.plan(stream, self.seq_len, shuffle=self._shuffle)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore, and plan anew."""
        self.__dict__.update(state)
        self._plan = self._make_source_plan(self.order.seed)

    def reading_of(self, epoch: int, document: int) -> Reading:
        """Return what the window of a document was when it was read."""
        return self.reader.reading(epoch, document // self.reader.window_documents)

    def num_rows(self, epoch: int, *, phase: int = 0) -> NoReturn:
        """Raise: the end of a source is found by reading it.

        Raises:
            TypeError: Always.
        """
        raise TypeError(
            f"the rows of {self.reader.source!r} have no known number: a DocumentSource ends where "
            "reading it ends"
        )

    def num_windows(self, epoch: int) -> NoReturn:
        """Raise, as `num_rows` does."""
        self.num_rows(epoch)

    def len_estimate(self, epoch: int = 0) -> NoReturn:
        """Raise, as `num_rows` does."""
        self.num_rows(epoch)

    def stats(self, epoch: int) -> PlanStats:
        """Raise, as `num_rows` does."""
        self.num_rows(epoch)
