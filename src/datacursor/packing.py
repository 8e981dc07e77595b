"""`PackedSampler`: a `CursorSampler` whose contributions are packed rows of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from datacursor import _core
from datacursor.contributions import Advance, Contributions, Layout, last_round_ranges
from datacursor.cursor import Cursor
from datacursor.errors import ArgumentError, CursorMismatchError
from datacursor.layout import make_layout
from datacursor.plan import PackingPlan
from datacursor.row_block import Reach, Reader, RowBlock
from datacursor.row_index import RowIndex
from datacursor.rows import RowDataset
from datacursor.sampler import CursorSampler
from datacursor.token_column import TokenColumn
from datacursor.tokens import TokenCorpus

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from datacursor.order import Order

_MAX_ROWS_AHEAD = 256  # rows planned ahead of the loader


class RowContributions(Contributions):
    """The packed rows of a plan: planned for all ranks, handed out for one."""

    base_noun = "documents"

    def __init__(self, plan: PackingPlan, fingerprint: bytes) -> None:
        """Take the plan and the fingerprint of the corpus it was made for."""
        super().__init__(plan.order, plan.base_size, fingerprint, data_unverified=False)
        self.plan = plan
        self.packing_id = plan.packing_id
        self.seq_len = plan.seq_len

    @property
    def packing_parameters(self) -> dict[str, int | str | bool | None]:
        """The plan's parameters but seq_len."""
        return self.plan.parameters

    def num_positions(self, cursor: Cursor) -> int:
        """Return the number of rows in the cursor's epoch."""
        return self.plan.num_rows(cursor.epoch, phase=cursor.phase)

    def reach(self, cursor: Cursor, position: int, reader: tuple[int, int], target: int) -> Reach:
        """Look ahead as far as needed, without counting the rows of the epoch."""
        return self.plan.reach(cursor.epoch, reader, position, target, phase=cursor.phase)

    def advance(self, cursor: Cursor, count: int) -> Advance:
        """Return the digest of the next rows' spans, their tokens, and the reader after them."""
        block = self._rows(cursor, cursor.position, _reader(cursor), count)
        num_tokens = int((block.spans[:, 2] - block.spans[:, 1]).sum())
        return Advance(_core.digest_spans(cursor.epoch, block.spans), num_tokens, block.reader)

    def reader_at(self, cursor: Cursor, position: int) -> tuple[int, int]:
        """Return the reader at the start of any row of the cursor's epoch."""
        if position >= self.num_positions(cursor):
            return 0, 0
        return self.plan.reader_of(cursor.epoch, position, phase=cursor.phase)

    def issue(self, cursor: Cursor, layout: Layout, stop: int | None = None) -> Iterator[list[int]]:
        """Yield lists of `RowIndex`, some hundred rows planned at a time."""
        position, reader = cursor.position, _reader(cursor)
        ahead = 1  # doubled as the epoch goes on, so that the first batch comes at once
        while True:
            target = position + ahead * layout.round_size
            end = self.reach(cursor, position, reader, target).stop if stop is None else stop
            num_full, rest = divmod(end - position, layout.round_size)
            if num_full == 0:
                break
            ahead = min(ahead, num_full)
            block = self._rows(cursor, position, reader, ahead * layout.round_size)
            for round_ in range(ahead):
                first = layout.first_of_rank(0, round_)
                yield _indices(block, cursor.epoch, position, first, layout.batch_size)
            position, reader = position + ahead * layout.round_size, block.reader
            ahead = min(2 * ahead, max(1, _MAX_ROWS_AHEAD // layout.round_size))
        if rest > 0 and not layout.drop_last:
            yield self._last_round(cursor, position, reader, rest, layout)

    def digest_of(self, epoch: int, indices: Sequence[int]) -> bytes:
        """Return the digest of the spans of rows that `issue` yielded."""
        rows = [row.spans for row in indices if isinstance(row, RowIndex)]
        spans = np.concatenate(rows) if rows else np.empty((0, 3), dtype=np.int64)
        return _core.digest_spans(epoch, spans)

    def is_committed(self, cursor: Cursor, index: int) -> bool:
        """Return whether every token of a document was passed, deferred rows aside."""
        return self.plan.is_passed(cursor.epoch, _reader(cursor), index) and not any(
            self._holds(cursor, first, count, index) for first, count in cursor.deferred
        )

    def _holds(self, cursor: Cursor, first: int, count: int, document: int) -> bool:
        """Whether rows [first, first + count) hold tokens of a document."""
        reader = Reader(*self.reader_at(cursor, first))
        return document in self._rows(cursor, first, reader, count).spans[:, 0]

    def check_reader(self, cursor: Cursor) -> None:
        """Raise if the reader cannot stand where the position is.

        Raises:
            CursorMismatchError: Position and reader contradict each other.
        """
        reader = _reader(cursor)
        problem = self.plan.problem_with(cursor.epoch, cursor.position, reader, phase=cursor.phase)
        if problem is None:
            return
        raise CursorMismatchError(
            f"cursor contradicts itself: reader_position={reader.position}, "
            f"reader_offset={reader.offset} with {problem}; use seek() to move a packed cursor"
        )

    def rescale(self, cursor: Cursor) -> Cursor:
        """Return the cursor with this plan's seq_len, at the same token.

        Rows of L tokens start at token k * L - phase, so position and phase follow from the
        token the reader stands at.

        Raises:
            CursorMismatchError: Only concat cuts on anywhere; others change at an epoch's start.
        """
        if cursor.position == 0:
            return cursor.replace(seq_len=self.seq_len)
        if not self.plan.can_change_seq_len:
            return super().rescale(cursor)
        token = cursor.position * cursor.seq_len - cursor.phase
        position = -(-token // self.seq_len)
        return cursor.replace(
            seq_len=self.seq_len,
            position=position,
            digest_first=position,
            skipped=0,
            phase=position * self.seq_len - token,
        )

    def _rows(self, cursor: Cursor, position: int, reader: Reader, count: int) -> RowBlock:
        return self.plan.rows_from(cursor.epoch, reader, position, count, phase=cursor.phase)

    def _last_round(
        self, cursor: Cursor, position: int, reader: Reader, rest: int, layout: Layout
    ) -> list[int]:
        """Return this rank's share of the last rows, padded with rows of the epoch's start."""
        rows: list[int] = []
        # Padding repeats the epoch from its start, by a round at most.
        start = self.reach(cursor, 0, (0, 0), layout.round_size).stop
        for part in last_round_ranges(position, position + rest, start, layout):
            if part.is_padding:
                numbers = range(part.first, part.first + part.count)
                rows += [self._padding_row(cursor.epoch, number) for number in numbers]
            else:
                block = self._rows(cursor, position, reader, rest)
                skip = part.first - position
                rows += _indices(block, cursor.epoch, position, skip, part.count)
        return rows

    def _padding_row(self, epoch: int, number: int) -> RowIndex:
        # Its tokens only fill the tensor, so an epoch with a phase may repeat plain rows.
        row = number % self.plan.reach(epoch, (0, 0), 0, number + 1).stop
        block = self.plan.rows_from(epoch, self.plan.reader_of(epoch, row), row, 1)
        return RowIndex(row, epoch, block.spans, is_padding=True)


class PlannedRows(RowDataset):
    """The rows of a plan, counted when somebody asks for their number."""

    def __init__(self, plan: PackingPlan, corpus: TokenCorpus, **options: Any) -> None:
        """Take the options of a `RowDataset`."""
        super().__init__(corpus, seq_len=plan.seq_len, num_rows=0, **options)
        self._plan = plan

    def __len__(self) -> int:
        """Return the number of rows in epoch 0."""
        return len(self._plan)


class PackedSampler(CursorSampler):
    """Deals out packed rows of a token corpus and remembers which entered an update.

    A `CursorSampler` whose contributions are rows of `seq_len` tokens. The plan is computed
    while it is read, in every process alike, and resumes at any number of ranks and workers
    and any batch size. Use it with `rows.dataset`:

    Args:
        corpus: The documents.
        seq_len: Tokens a row, L.
        batch_size: Rows in a micro-batch of one rank.
        packing: "concat", "best_fit" or "chunk"; like long_documents, tail, item_order,
            max_documents, align, min_fragment and window_documents as in `PackingPlan`.
        long_documents: What happens to a document longer than a row; best_fit asks for it.
        num_replicas: As in `CursorSampler`, like rank, shuffle, seed, drop_last,
            accumulation_steps, order and on_skip; shuffle and order concern documents.
        rank: This process.
        shuffle: A new order of documents each epoch.
        seed: Key of all epochs.
        drop_last: Drop an incomplete last round of all ranks.
        accumulation_steps: Micro-batches in an update.
        order: An `Order` over the documents, or documents in the order to read them.
        tail: What becomes of an incomplete last row.
        bos: Token put before every document, or None.
        eos: Token put after every document, or None.
        pad_id: Token in padding; masked by place, so it may equal eos. None: eos, else 0.
        keep_empty: Whether an empty document still has its bos and eos.
        item_order: Order in which best_fit places documents.
        max_documents: Pieces a row of best_fit holds at most.
        align: Multiple to which best_fit pads each piece.
        min_fragment: Shortest piece of a split document that best_fit keeps.
        window_documents: Documents of a window of best_fit.
        labels: "shifted": the next token of the same document; "hf": not shifted; None: as the
            format has them, else shifted.
        positions: "segment" restarts position_ids per segment, "document" continues them.
        format: What a batch holds: None for everything, or what one consumer takes: "hf",
            "varlen", "flex" or "megatron".
        flash_attn_kwargs: With "hf", also cu_seq_lens_q and _k, max_length_q and _k.
        ids_dtype: "int64" or "int32", of the token ids alone.
        columns: `TokenColumn` objects by name: further fields, one value a token.
        on_skip: What `skip` does.

    Raises:
        ArgumentError: An argument is out of range, or there is no row to train on.
        TypeError: An argument has the wrong type.

    Attributes:
        dataset: The rows as a map-style data set for `CursorLoader` or `DataLoader`.
        plan: The `PackingPlan`.

    Example:
        >>> from datacursor import CursorLoader
        >>> corpus = TokenCorpus.open([[1, 2, 3], [4, 5], [6, 7, 8, 9, 10]])
        >>> rows = PackedSampler(corpus, seq_len=4, batch_size=2, shuffle=False)
        >>> batch = next(iter(CursorLoader(rows.dataset, sampler=rows)))
        >>> batch["input_ids"].tolist()
        [[1, 2, 3, 4], [5, 6, 7, 8]]
        >>> batch["cu_seqlens"].tolist()
        [0, 3, 4, 5, 8]
    """

    def __init__(
        self,
        corpus: TokenCorpus,
        *,
        seq_len: int,
        batch_size: int,
        packing: str = "concat",
        long_documents: str | None = None,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        accumulation_steps: int = 1,
        order: Order | ArrayLike | None = None,
        tail: str = "pad",
        bos: int | None = None,
        eos: int | None = None,
        pad_id: int | None = None,
        keep_empty: bool = False,
        item_order: str | None = None,
        max_documents: int | None = None,
        align: int = 1,
        min_fragment: int = 1,
        window_documents: int | None = None,
        labels: str | None = None,
        positions: str = "segment",
        format: str | None = None,
        flash_attn_kwargs: bool = False,
        ids_dtype: str = "int64",
        columns: Mapping[str, TokenColumn] | None = None,
        on_skip: str = "advance",
    ) -> None:
        if not isinstance(corpus, TokenCorpus):
            raise TypeError(
                f"corpus must be a TokenCorpus, got {type(corpus).__name__}; "
                "use TokenCorpus.open(...)"
            )
        self.plan = PackingPlan(
            corpus,
            seq_len=seq_len,
            packing=packing,
            long_documents=long_documents,
            seed=seed,
            shuffle=shuffle,
            order=order,
            tail=tail,
            bos=bos,
            eos=eos,
            keep_empty=keep_empty,
            item_order=item_order,
            max_documents=max_documents,
            align=align,
            min_fragment=min_fragment,
            window_documents=window_documents,
        )
        dataset = PlannedRows(
            self.plan,
            corpus,
            bos=bos,
            eos=eos,
            pad_id=pad_id,
            labels=labels,
            positions=positions,
            align=align,
            truncate=long_documents == "truncate",
            max_documents=max_documents,
            format=format,
            flash_attn_kwargs=flash_attn_kwargs,
            ids_dtype=ids_dtype,
            columns=columns,
        )
        layout = make_layout(num_replicas, rank, batch_size, accumulation_steps, drop_last)
        if layout.batch_size * self.plan.seq_len >= 2**31:
            raise ArgumentError(
                "batch_size * seq_len must be below 2**31, the range of cu_seqlens, got "
                f"batch_size={layout.batch_size}, seq_len={self.plan.seq_len}"
            )
        contributions = RowContributions(self.plan, corpus.fingerprint)
        self._set_up(dataset, contributions, layout, on_skip)

    def indices_of(self, epoch: int, update: int) -> NDArray[np.int64]:
        """Return the numbers of the rows in an update, over all ranks.

        Args:
            epoch: Pass over the data.
            update: Update within the epoch, counted from row 0, under the present layout.

        Returns:
            Row numbers, shape (m,), int64; `spans_of` says what they hold.

        Raises:
            ArgumentError: There is no such epoch or update.
        """
        first, count = self._range_of(epoch, update)
        return np.arange(first, first + count, dtype=np.int64)

    def spans_of(self, epoch: int, update: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the parts of documents in an update, over all ranks.

        Args:
            epoch: Pass over the data.
            update: Update within the epoch, counted from row 0, under the present layout.

        Returns:
            Spans (document, start, stop), shape (m, 3), and row_offsets, shape (rows + 1,);
            both int64.

        Raises:
            ArgumentError: There is no such epoch or update.
        """
        first, count = self._range_of(epoch, update)
        phase = self.cursor.phase if epoch == self.cursor.epoch else 0
        return self.plan.rows(epoch, first, count, phase=phase)


def _reader(cursor: Cursor) -> Reader:
    return Reader(cursor.reader_position, cursor.reader_offset)


def _indices(block: RowBlock, epoch: int, position: int, first: int, count: int) -> list[int]:
    """Return rows [first, first + count) of a block that begins at `position`."""
    offsets = block.row_offsets[first : first + count + 1].tolist()
    return [
        RowIndex(position + first + k, epoch, block.spans[offsets[k] : offsets[k + 1]])
        for k in range(count)
    ]
