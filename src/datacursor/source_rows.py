"""Rows of a `DocumentSource`: planned in one process, gathered in others from their own reading.

sampler                            worker
reads window 3, packs it           reads window 3 too, keeps it for the next batches
RowIndex(17, spans, reading) --->  compares the readings, gathers the spans
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from datacursor._core import TokenTable
from datacursor.errors import ArgumentError
from datacursor.row_contributions import RowContributions
from datacursor.rows import RowDataset
from datacursor.tokens import TokenCorpus

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from datacursor.document_source import DocumentSource
    from datacursor.row_block import RowBlock
    from datacursor.row_index import RowIndex
    from datacursor.shards import TokenShard
    from datacursor.source_plan import SourcePlan
    from datacursor.token_column import TokenColumn


class SourceRows(RowDataset):
    """The rows of a source, gathered from the windows that a batch touches."""

    def __init__(
        self,
        plan: SourcePlan,
        source: DocumentSource,
        *,
        columns: Mapping[str, TokenColumn] | None,
        **options: Any,
    ) -> None:
        """Take the options of a `RowDataset`; read with the plan's reader, once in one process."""
        if columns is not None:
            raise ArgumentError(
                f"columns must be None with a DocumentSource, got columns={columns!r} with "
                f"{source!r}"
            )
        no_documents = TokenCorpus([])  # they come with the windows
        super().__init__(no_documents, seq_len=plan.seq_len, num_rows=0, **options)
        self._reader = plan.reader
        self._opened: list[tuple[int, int]] = []  # windows that the table is of

    @property
    def fingerprint(self) -> bytes | None:
        """What names the source's content, 16 bytes; None if nothing does."""
        return self._reader.fingerprint

    def __len__(self) -> int:
        """Raise: the rows of a source are not counted.

        Raises:
            TypeError: Always.
        """
        raise TypeError(f"the rows of {self._reader.source!r} have no known number")

    def _open(
        self, rows: Sequence[RowIndex], spans: NDArray[np.int64]
    ) -> tuple[TokenTable, NDArray[np.int64]]:
        """Read the rows' windows; their documents are numbered through, window after window."""
        size = self._reader.window_documents
        starts: dict[tuple[int, int], int] = {}
        shards: list[TokenShard] = []
        places = spans.copy()
        num_documents = first = 0
        for row in rows:
            window = int(row.spans[0, 0]) // size  # best_fit puts no other into the row
            key = (row.epoch, window)
            if key not in starts:
                read = self._reader.window(row.epoch, window, row.reading)
                starts[key] = num_documents
                num_documents += read.reading.num_documents
                shards.append(read.shard)
            places[first : first + len(row.spans), 0] += starts[key] - window * size
            first += len(row.spans)
        if self._table is None or self._opened != list(starts):
            if self.ids_dtype == "int32":
                for shard, (_, window) in zip(shards, starts, strict=True):
                    self._reader.require_tokens(shard, window * size, 2**31)
            self._table, self._opened = TokenTable([*shards]), list(starts)
        return self._table, places


class SourceContributions(RowContributions):
    """Rows that carry how their window read when they were planned."""

    plan: SourcePlan

    def _rows_of(
        self, block: RowBlock, epoch: int, position: int, first: int, count: int
    ) -> Sequence[RowIndex]:
        rows = [*super()._rows_of(block, epoch, position, first, count)]
        for row in rows:
            row.reading = self.plan.reading_of(epoch, int(row.spans[0, 0]))
        return rows
