"""Packing plans: which spans of which documents make each row of an epoch.

A plan reads document lengths and an order, never tokens, ranks or workers. Its whole
position is a `Reader` of two integers, so any row is planned without the rows before it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from datacursor.checks import (
    MAX_COUNT,
    MAX_EPOCH,
    optional_integer,
    require_bool,
    require_integer,
)
from datacursor.choose_order import choose_order
from datacursor.document_stream import DocumentStream
from datacursor.errors import ArgumentError
from datacursor.given_lengths import make_lengths, own_lengths
from datacursor.packing_options import PackingOptions
from datacursor.plan_digest import lengths_digest, plan_digest
from datacursor.row_block import PlanStats, Reach, Reader, RowBlock
from datacursor.row_counts import RowCounts
from datacursor.saved_plan import SavedPlan, save_rows
from datacursor.skip_table import Lengths

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from datacursor.order import Order
    from datacursor.row_plan import RowPlan

_MAX_SEQ_LEN = 2**31
_ROWS_SAVED = 2**14  # planned at a time


class PackingPlan:
    """Lengths in, spans out: packing without tokens.

    "concat" joins the documents in the epoch's order and cuts every seq_len tokens; a
    document that crosses a cut goes on in the next row. No padding, O(1) everything.

    "best_fit" packs windows of documents so that few are cut and rows hold little padding;
    a row is found by packing its window.

    "chunk" joins the documents in their natural order and shuffles the rows; the cuts move
    with the epoch.

    Args:
        lengths: Tokens of each document, or a `TokenCorpus`.
        seq_len: Tokens a row, 1 <= seq_len < 2**31; at most 2**24 with best_fit.
        packing: "concat", "best_fit" or "chunk".
        long_documents: What best_fit does with a document longer than a row, without a default:
            "split", "truncate" (the rest is left out), "drop" or "error". The others split.
        seed: Key of all epochs, 0 <= seed < 2**64.
        shuffle: A new order of documents (chunk: of rows) each epoch; False keeps the natural
            one.
        order: An `Order` over the documents, or documents in the order to read them, instead of
            shuffle and seed. best_fit still shuffles the rows of a window, unless shuffle is
            False or the order is the same in every epoch. Not with chunk.
        tail: What becomes of an incomplete last row: "pad" fills it, "drop" leaves its tokens
            out. With best_fit rows are always padded.
        bos: Token id put before every document, or None.
        eos: Token id put after every document, or None.
        keep_empty: Whether an empty document still has its bos and eos.
        item_order: best_fit: "decreasing" places the longest pieces of a window first,
            "arrival" as they come. None: "decreasing", or "arrival" with max_documents.
        max_documents: best_fit: pieces a row holds at most, or None.
        align: best_fit: each piece is padded to a multiple, inside its segment; divides
            seq_len.
        min_fragment: best_fit: a piece of a split document shorter than this is left out.
        window_documents: best_fit: documents of a window; None: about 2048 rows' worth,
            2**14 to 2**20.
        cost_groups: best_fit: rows of a window that come together because they cost attention about
            the same (sum of squared span lengths), so that ranks finish a step together; 256, say.
            A batch then holds rows of like lengths. None: no groups.
        counts_dir: best_fit: a directory that keeps how many rows each window has, once an epoch
            was counted; made if need be, and shared by any plans and processes. It does not
            change the rows.

    Raises:
        ArgumentError: An argument is out of range, or there is no document.
        TypeError: An argument has the wrong type.

    Example:
        >>> plan = PackingPlan([3, 2, 5], seq_len=4, shuffle=False)
        >>> spans, row_offsets = plan.rows(epoch=0, first=0, count=2)
        >>> spans.tolist()
        [[0, 0, 3], [1, 0, 1], [1, 1, 2], [2, 0, 3]]
        >>> row_offsets.tolist(), len(plan)
        ([0, 2, 4], 3)
        >>> plan = PackingPlan([3, 3, 1, 1], seq_len=4, packing="best_fit",
        ...                    long_documents="split", shuffle=False)
        >>> plan.rows(0, 0, 2)[0].tolist()
        [[0, 0, 3], [2, 0, 1], [1, 0, 3], [3, 0, 1]]
    """

    def __init__(
        self,
        lengths: Any,
        *,
        seq_len: int,
        packing: str = "concat",
        long_documents: str | None = None,
        seed: int = 0,
        shuffle: bool = True,
        order: Order | ArrayLike | None = None,
        tail: str = "pad",
        bos: int | None = None,
        eos: int | None = None,
        keep_empty: bool = False,
        item_order: str | None = None,
        max_documents: int | None = None,
        align: int = 1,
        min_fragment: int = 1,
        window_documents: int | None = None,
        cost_groups: int | None = None,
        counts_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        self.seq_len = require_integer("seq_len", seq_len, 1, _MAX_SEQ_LEN)
        self.options = PackingOptions(
            packing=packing,
            long_documents=long_documents,
            tail=tail,
            item_order=item_order,
            max_documents=max_documents,
            align=align,
            min_fragment=min_fragment,
            window_documents=window_documents,
            cost_groups=cost_groups,
        )
        self.keep_empty = require_bool("keep_empty", keep_empty)
        self.bos = optional_integer("bos", bos, 0, 2**63)
        self.eos = optional_integer("eos", eos, 0, 2**63)
        self._shuffle = require_bool("shuffle", shuffle)
        self._counts_dir = counts_dir
        self._set_up(lengths, order, seed)

    @property
    def packing(self) -> str:
        """How documents become rows."""
        return self.options.packing

    @property
    def packing_id(self) -> int:
        """Names the packing in the cursor."""
        return self._plan.packing_id

    @property
    def can_change_seq_len(self) -> bool:
        """Whether rows of another seq_len may go on inside an epoch."""
        return self._plan.can_change_seq_len

    @property
    def parameters(self) -> dict[str, Any]:
        """What decides the rows besides the documents, their order and seq_len."""
        virtual = {"bos": self.bos, "eos": self.eos, "keep_empty": self.keep_empty}
        return self._plan.parameters | virtual

    @property
    def digest(self) -> bytes:
        """Names everything that decides the rows: documents, order, parameters, seq_len."""
        return self._digest_of(self._plan)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is made again from the rest."""
        return self.__dict__ | {"_plan": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore, and borrow the lengths again."""
        self.__dict__.update(state)
        self._plan = self._make_plan(self._make_lengths())

    def __repr__(self) -> str:
        """Show what decides the rows."""
        shown = "".join(f", {name}={value!r}" for name, value in self.parameters.items())
        return (
            f"PackingPlan({self.order!r}, seq_len={self.seq_len}, packing={self.packing!r}{shown})"
        )

    def __len__(self) -> int:
        """Return the number of rows in epoch 0."""
        return self.num_rows(0)

    def num_rows(self, epoch: int, *, phase: int = 0) -> int:
        """Return the number of rows of one epoch.

        O(1) with concat and chunk if the order is a permutation; else the epoch's tokens are
        counted, or its windows packed, once by all cores.

        Args:
            epoch: Pass over the data, 0 <= epoch < 2**40.
            phase: Row k begins at token k * seq_len - phase, row 0 at token 0; not 0 only in
                an epoch in which seq_len was changed.

        Raises:
            ArgumentError: An argument is out of range.
        """
        epoch = require_integer("epoch", epoch, 0, MAX_EPOCH)
        return self._plan.num_rows(epoch, require_integer("phase", phase, 0, self.seq_len))

    def len_estimate(self, epoch: int = 0) -> int:
        """Return about how many rows an epoch has, without packing any.

        Exact with concat and chunk. With best_fit it is low by as much as rows hold padding, most
        often under 0.1 %, and under 10 % with max_documents; it looks at the lengths of a million
        documents at most.

        Args:
            epoch: Pass over the data, 0 <= epoch < 2**40.

        Raises:
            ArgumentError: epoch is out of range.
        """
        return self._plan.estimate_rows(require_integer("epoch", epoch, 0, MAX_EPOCH))

    def num_windows(self, epoch: int) -> int:
        """Return the windows of one epoch, each packed by itself; 1 but with best_fit."""
        return self._plan.num_windows(require_integer("epoch", epoch, 0, MAX_EPOCH))

    def reach(
        self, epoch: int, reader: tuple[int, int], row: int, target: int, *, phase: int = 0
    ) -> Reach:
        """Return how far an epoch surely goes, without counting more rows than needed.

        Args:
            epoch: Pass over the data, 0 <= epoch < 2**40.
            reader: Where `row` begins.
            row: Row of that epoch.
            target: Row to look as far as; at least there, or to the end, goes the answer.
            phase: As in `num_rows`.

        Raises:
            ArgumentError: epoch is out of range, or an endless order gives no row any more.
        """
        epoch = require_integer("epoch", epoch, 0, MAX_EPOCH)
        return self._plan.reach(epoch, Reader(*reader), row, target, phase)

    def rows(
        self, epoch: int, first: int, count: int, *, phase: int = 0
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return rows [first, first + count) of one epoch.

        Finding row `first` costs one pass over the lengths before it, once an epoch.

        Args:
            epoch: Pass over the data, 0 <= epoch < 2**40.
            first: First row.
            count: Number of rows.
            phase: As in `num_rows`.

        Returns:
            Spans (document, start, stop), int64 of shape (m, 3), and row_offsets, int64 of shape
            (count + 1,): row r holds spans[row_offsets[r] : row_offsets[r + 1]].

        Raises:
            ArgumentError: The epoch has no such rows.
        """
        first = require_integer("first", first, 0, MAX_COUNT)
        count = require_integer("count", count, 0, MAX_COUNT)
        stop = self.reach(epoch, (0, 0), 0, first + count, phase=phase).stop
        require_integer("first", first, 0, stop + 1)
        require_integer("count", count, 0, stop - first + 1)
        reader = self.reader_of(epoch, first, phase=phase) if count > 0 else Reader(0, 0)
        block = self.rows_from(epoch, reader, first, count, phase=phase)
        return block.spans, block.row_offsets

    def rows_from(
        self, epoch: int, reader: tuple[int, int], first: int, count: int, *, phase: int = 0
    ) -> RowBlock:
        """Return rows [first, first + count) when the reader of row `first` is known.

        Args:
            epoch: Pass over the data, 0 <= epoch < 2**40.
            reader: Where row `first` begins.
            first: First row.
            count: Number of rows.
            phase: As in `num_rows`.

        Raises:
            ArgumentError: The epoch has no such rows, or the reader cannot be right.
        """
        first = require_integer("first", first, 0, MAX_COUNT)
        target = first + require_integer("count", count, 0, MAX_COUNT)
        reach = self.reach(epoch, reader, first, target, phase=phase)
        require_integer("first", first, 0, reach.stop + 1)
        require_integer("count", count, 0, reach.stop - first + 1)
        return self._plan.rows_from(epoch, Reader(*reader), first, count, phase)

    def reader_of(self, epoch: int, row: int, *, phase: int = 0) -> Reader:
        """Return where a row begins, by a table that is filled as far as needed.

        concat keeps one number per 1024 documents, best_fit one per window, for the epoch in use.

        Args:
            epoch: Pass over the data, 0 <= epoch < 2**40.
            row: Row of that epoch.
            phase: As in `num_rows`.

        Raises:
            ArgumentError: The epoch has no such row.
        """
        row = require_integer("row", row, 0, MAX_COUNT)
        require_integer("row", row, 0, self.reach(epoch, (0, 0), 0, row + 1, phase=phase).stop)
        return self._plan.reader_of(epoch, row, phase)

    def problem_with(self, epoch: int, row: int, reader: Reader, *, phase: int = 0) -> str | None:
        """Return why a row cannot begin at a reader, as far as is told without counting rows."""
        return self._plan.problem_with(epoch, row, reader, phase)

    def is_passed(self, epoch: int, reader: Reader, document: int) -> bool:
        """Return whether every token of a document lies before the reader, left out ones aside.

        Raises:
            ArgumentError: The order has no inverse, or readers do not tell (chunk).
        """
        position = self.order.position_of(epoch, document)
        return self._plan.is_passed(epoch, reader, position, document)

    def stats(self, epoch: int) -> PlanStats:
        """Return what packing does to one epoch, by planning all of it.

        Raises:
            ArgumentError: epoch is out of range, or the order is endless.
        """
        require_integer("epoch", epoch, 0, MAX_EPOCH)
        if self.order.is_endless:
            raise ArgumentError(f"stats need an epoch that ends, got {self.order!r}")
        return self._plan.stats(epoch)

    def save(self, path: str | os.PathLike[str], epoch: int = 0) -> None:
        """Write all rows of one epoch to a file, for readers that plan nothing.

        Takes 24 bytes a span and 8 a row; `PackingPlan.open` maps it. On return it is whole and
        survives a crash; before, `path` is as it was.

        Raises:
            ArgumentError: epoch is out of range, or the order is endless.
            OSError: The file cannot be written.
        """
        num_rows = self.num_rows(epoch)
        if self.order.is_endless:
            raise ArgumentError(f"a plan is saved by whole epochs, got {self.order!r}")
        save_rows(path, self._blocks(epoch, num_rows), num_rows, self.digest, epoch)

    @staticmethod
    def open(path: str | os.PathLike[str]) -> SavedPlan:
        """Map an epoch that was saved.

        Raises:
            FileNotFoundError: There is no such file.
            CorpusError: It is no saved plan, is damaged or has another size than it says.
        """
        return SavedPlan(path)

    def _blocks(self, epoch: int, num_rows: int) -> Iterator[RowBlock]:
        reader = Reader(0, 0)
        for first in range(0, num_rows, _ROWS_SAVED):
            block = self.rows_from(epoch, reader, first, min(_ROWS_SAVED, num_rows - first))
            reader = block.reader
            yield block

    def _set_up(self, documents: Any, order: Order | ArrayLike | None, seed: int) -> None:
        self._source = documents if hasattr(documents, "shards") else own_lengths(documents)
        counted = self._make_lengths()
        self.base_size = counted.index.num_documents
        if self.packing == "chunk" and order is not None:
            raise ArgumentError(
                "order must be None with packing='chunk', which reads documents in their natural "
                f"order, got {order!r}"
            )
        shuffle = self._shuffle and self.packing != "chunk"
        self.order = choose_order(
            order, self.base_size, shuffle=shuffle, seed=seed, noun="documents"
        )
        self._plan = self._make_plan(counted)

    def _make_lengths(self) -> Lengths:
        num_virtual = (self.bos is not None) + (self.eos is not None)
        return make_lengths(self._source, num_virtual=num_virtual, keep_empty=self.keep_empty)

    def _make_plan(self, lengths: Lengths) -> RowPlan:
        stream = DocumentStream(lengths, self.order)
        plan = self.options.plan(stream, self.seq_len, shuffle=self._shuffle)
        if self._counts_dir is not None:
            plan.keep_row_counts(RowCounts(self._counts_dir, self._digest_of(plan)))
        return plan

    def _digest_of(self, plan: RowPlan) -> bytes:
        lengths = plan.stream.lengths
        data = getattr(self._source, "fingerprint", None) or lengths_digest(lengths)
        virtual = [lengths.num_virtual, lengths.keep_empty]
        parameters = plan.parameters | {"seq_len": self.seq_len, "virtual": virtual}
        return plan_digest(data, self.order, self.packing, parameters)
