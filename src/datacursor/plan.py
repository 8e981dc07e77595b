"""Packing plans: which spans of which documents make each row of an epoch.

A plan reads document lengths and an order, never tokens, ranks or workers. Its whole
position is a `Reader` of two integers, so any row is planned without the rows before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from datacursor import _core
from datacursor.checks import (
    MAX_EPOCH,
    optional_integer,
    require_bool,
    require_choice,
    require_integer,
)
from datacursor.choose_order import choose_order
from datacursor.document_stream import DocumentStream
from datacursor.errors import ArgumentError
from datacursor.row_block import PlanStats, Reader, RowBlock
from datacursor.skip_table import Lengths

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from datacursor.order import Order

CONCAT_ID = 1
_MAX_SEQ_LEN = 2**31
_MIN_DOCUMENTS = 64  # read from the order at a time, so that short calls cost little
_MAX_DOCUMENTS = 65536


class PackingPlan:
    """Lengths in, spans out: packing without tokens.

    "concat" joins the documents in the epoch's order and cuts every seq_len tokens; a
    document that crosses a cut goes on in the next row.

    Args:
        lengths: Tokens of each document, or a `TokenCorpus`.
        seq_len: Tokens a row, 1 <= seq_len < 2**31.
        packing: "concat".
        long_documents: None or "split": what concat does with every document.
        seed: Key of all epochs, 0 <= seed < 2**64.
        shuffle: A new order of documents each epoch; False keeps the natural order.
        order: An `Order` over the documents, or documents in the order to read them, instead of
            shuffle and seed.
        tail: "pad" fills the epoch's last row, "drop" leaves its tokens out.
        bos: Token id put before every document, or None.
        eos: Token id put after every document, or None.
        keep_empty: Whether an empty document still has its bos and eos.

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
    """

    packing_id = CONCAT_ID

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
    ) -> None:
        self.seq_len = require_integer("seq_len", seq_len, 1, _MAX_SEQ_LEN)
        require_choice("packing", packing, ("concat",))
        if long_documents not in (None, "split"):
            raise ArgumentError(
                f"long_documents must be 'split' with packing='concat', got {long_documents!r}"
            )
        self.tail = require_choice("tail", tail, ("pad", "drop"))
        self.keep_empty = require_bool("keep_empty", keep_empty)
        self.bos = optional_integer("bos", bos, 0, 2**63)
        self.eos = optional_integer("eos", eos, 0, 2**63)
        self._source = lengths if hasattr(lengths, "shards") else _own_lengths(lengths)
        lengths = self._make_lengths()
        self.base_size = lengths.index.num_documents
        self.order = choose_order(
            order, self.base_size, shuffle=shuffle, seed=seed, noun="documents"
        )
        self._stream = DocumentStream(lengths, self.order)

    @property
    def parameters(self) -> dict[str, int | str | bool | None]:
        """What decides the rows besides the documents, their order and seq_len."""
        return {
            "tail": self.tail,
            "bos": self.bos,
            "eos": self.eos,
            "keep_empty": self.keep_empty,
        }

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is made again from the rest."""
        return self.__dict__ | {"_stream": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore, and borrow the lengths again."""
        self.__dict__.update(state)
        self._stream = DocumentStream(self._make_lengths(), self.order)

    def __repr__(self) -> str:
        """Show what decides the rows."""
        shown = "".join(f", {name}={value!r}" for name, value in self.parameters.items())
        return f"PackingPlan({self.order!r}, seq_len={self.seq_len}, packing='concat'{shown})"

    def __len__(self) -> int:
        """Return the number of rows in epoch 0."""
        return self.num_rows(0)

    def num_rows(self, epoch: int, *, phase: int = 0) -> int:
        """Return the number of rows of one epoch.

        O(1) if the order is a permutation; else the epoch's tokens are counted once.

        Args:
            epoch: Pass over the data, 0 <= epoch < 2**40.
            phase: Row k begins at token k * seq_len - phase, row 0 at token 0; not 0 only in
                an epoch in which seq_len was changed.

        Raises:
            ArgumentError: An argument is out of range.
        """
        require_integer("epoch", epoch, 0, MAX_EPOCH)
        places = self._stream.num_tokens(epoch) + require_integer("phase", phase, 0, self.seq_len)
        return places // self.seq_len if self.tail == "drop" else -(-places // self.seq_len)

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
        first, count = self._require_rows(epoch, first, count, phase)
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
        first, count = self._require_rows(epoch, first, count, phase)
        num_documents = self._stream.num_documents(epoch)
        position = require_integer("reader.position", reader[0], 0, num_documents + 1)
        offset = require_integer("reader.offset", reader[1], 0, 2**63)
        lengths = self._stream.lengths
        spans: list[NDArray[np.int64]] = []
        row_ends = np.empty(count, dtype=np.int64)
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
        all_spans = np.concatenate(spans) if spans else np.empty((0, 3), dtype=np.int64)
        row_offsets = np.concatenate((np.zeros(1, dtype=np.int64), row_ends))
        return RowBlock(all_spans, row_offsets, Reader(position, offset))

    def reader_of(self, epoch: int, row: int, *, phase: int = 0) -> Reader:
        """Return where a row begins, by a skip table of one number per 1024 documents.

        The table is filled as far as needed and kept for the epoch in use.

        Args:
            epoch: Pass over the data, 0 <= epoch < 2**40.
            row: Row of that epoch.
            phase: As in `num_rows`.

        Raises:
            ArgumentError: The epoch has no such row.
        """
        row = require_integer("row", row, 0, self.num_rows(epoch, phase=phase))
        token = row * self.seq_len - phase
        if token <= 0:
            return Reader(0, 0)
        return Reader(*self._stream.locate(epoch, token))

    def is_inside(self, epoch: int, reader: Reader) -> bool:
        """Return whether a reader's document is longer than its offset, in O(1)."""
        return self._stream.is_inside(epoch, *reader)

    def stats(self, epoch: int) -> PlanStats:
        """Return what packing does to one epoch, by planning all of it.

        Raises:
            ArgumentError: epoch is out of range, or the order is endless.
        """
        num_rows = self.num_rows(epoch)
        if self.order.is_endless:
            raise ArgumentError(f"an endless order has no stats, got order={self.order!r}")
        chunk = max(1, min(4096, 2**62 // self.seq_len**2))  # keeps sums of squares below 2**63
        reader = Reader(0, 0)
        num_tokens = num_spans = num_split = sum_squares = last_start = 0
        for first in range(0, num_rows, chunk):
            block = self.rows_from(epoch, reader, first, min(chunk, num_rows - first))
            reader = block.reader
            starts, sizes = block.spans[:, 1], block.spans[:, 2] - block.spans[:, 1]
            before = np.concatenate(([last_start], starts[:-1]))
            last_start = int(starts[-1])
            num_tokens += int(sizes.sum())
            num_spans += len(sizes)
            num_split += int(np.count_nonzero((starts > 0) & (before == 0)))
            sum_squares += int(np.dot(sizes, sizes))
        return PlanStats(
            num_rows=num_rows,
            num_tokens=num_tokens,
            num_padding=num_rows * self.seq_len - num_tokens,
            num_left=self._stream.num_tokens(epoch) - num_tokens,
            num_documents=self._stream.num_documents(epoch),
            num_empty=self._stream.num_empty(epoch),
            num_split=num_split,
            num_spans=num_spans,
            sum_squares=sum_squares,
        )

    def _make_lengths(self) -> Lengths:
        shards: list[tuple[NDArray[Any] | None, NDArray[Any]]] = [(None, self._source)]
        if hasattr(self._source, "shards"):
            shards = [(shard.begins, shard.ends) for shard in self._source.shards]
        return Lengths(
            _core.LengthIndex(shards),
            num_virtual=(self.bos is not None) + (self.eos is not None),
            keep_empty=self.keep_empty,
        )

    def _documents(self, epoch: int, position: int, num_rows: int) -> NDArray[np.int64]:
        """Return documents from a place on, about as many as so many rows need."""
        mean = max(1, self._stream.lengths.num_tokens // self.base_size)
        wanted = min(max(num_rows * self.seq_len // mean + 1, _MIN_DOCUMENTS), _MAX_DOCUMENTS)
        return self._stream.documents(epoch, position, wanted)

    def _require_rows(self, epoch: int, first: int, count: int, phase: int) -> tuple[int, int]:
        num_rows = self.num_rows(epoch, phase=phase)
        first = require_integer("first", first, 0, num_rows + 1)
        return first, require_integer("count", count, 0, num_rows - first + 1)

    def _require_last_row(self, row: int, filled: int, phase: int, epoch: int) -> None:
        """Raise unless the documents may end inside this row: the reader fits its row."""
        expected = (self._stream.num_tokens(epoch) + phase) % self.seq_len
        is_last = row == self.num_rows(epoch, phase=phase) - 1
        if not is_last or filled != expected or self.tail == "drop":
            raise ArgumentError(
                f"reader does not belong to the row: the documents ended in row {row} after "
                f"{filled} tokens, expected row {self.num_rows(epoch, phase=phase) - 1} and "
                f"{expected} tokens"
            )


def _own_lengths(lengths: Any) -> NDArray[np.uint64]:
    """Return plain lengths as an array of our own: the plan must not change with the caller's."""
    if not isinstance(lengths, (np.ndarray, Sequence)):
        raise TypeError(f"lengths must be integers or a TokenCorpus, got {type(lengths).__name__}")
    try:
        array = np.asarray(lengths)
    except (ValueError, OverflowError) as error:
        raise TypeError(f"lengths must be one-dimensional integers: {error}") from error
    if array.ndim != 1 or (array.dtype.kind not in "iu" and len(array) > 0):
        raise TypeError(
            f"lengths must be one-dimensional integers, got {array.dtype} of shape {array.shape}"
        )
    if len(array) > 0 and int(array.min()) < 0:
        document = int(np.argmin(array))
        raise ArgumentError(
            f"lengths must not be negative, got lengths[{document}]={int(array[document])}"
        )
    return np.array(array, dtype=np.uint64, order="C")
