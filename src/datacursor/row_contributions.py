"""The packed rows of a plan as contributions: what the commit protocol counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from datacursor import _core
from datacursor.contributions import Advance, Contributions, Layout, last_round_ranges
from datacursor.errors import CursorMismatchError
from datacursor.row_block import Reach, Reader, RowBlock
from datacursor.row_index import RowIndex, RowIndices

if TYPE_CHECKING:
    from datacursor.cursor import Cursor
    from datacursor.plan import PackingPlan

_MAX_ROWS_AHEAD = 256  # rows planned ahead of the loader


class RowContributions(Contributions):
    """The packed rows of a plan: planned for all ranks, handed out for one."""

    base_noun = "documents"

    def __init__(self, plan: PackingPlan, fingerprint: bytes | None) -> None:
        """Take the plan and the fingerprint of its documents, if anything names them."""
        super().__init__(
            plan.order,
            plan.base_size,
            fingerprint or bytes(16),
            data_unverified=fingerprint is None,
        )
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
        start = self.reach(cursor, 0, (0, 0), position + 1)
        if position >= start.stop:
            return 0, 0
        return self.plan.reader_of(cursor.epoch, position, phase=cursor.phase)

    def issue(
        self, cursor: Cursor, layout: Layout, stop: int | None = None
    ) -> Iterator[Sequence[int]]:
        """Yield `RowIndex` objects, some hundred rows planned at a time."""
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
                yield self._rows_of(block, cursor.epoch, position, first, layout.batch_size)
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
                rows += self._rows_of(block, cursor.epoch, position, skip, part.count)
        return rows

    def _padding_row(self, epoch: int, number: int) -> RowIndex:
        # Its tokens only fill the tensor, so an epoch with a phase may repeat plain rows.
        row = number % self.plan.reach(epoch, (0, 0), 0, number + 1).stop
        block = self.plan.rows_from(epoch, self.plan.reader_of(epoch, row), row, 1)
        [index] = self._rows_of(block, epoch, row, 0, 1)
        index.is_padding = True
        return index

    def _rows_of(
        self, block: RowBlock, epoch: int, position: int, first: int, count: int
    ) -> Sequence[RowIndex]:
        """Return rows [first, first + count) of a block that begins at `position`."""
        offsets = block.row_offsets[first : first + count + 1]
        begin, end = offsets[0], offsets[-1]
        return RowIndices(position + first, epoch, block.spans[begin:end], offsets - begin)


def _reader(cursor: Cursor) -> Reader:
    return Reader(cursor.reader_position, cursor.reader_offset)
