"""One run of an iterator: what was issued, delivered and committed since it began."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import NamedTuple

from datacursor import moves
from datacursor.contributions import Contributions, Layout
from datacursor.cursor import Cursor
from datacursor.errors import StaleIteratorError
from datacursor.moves import Stretch


class Uncommitted(NamedTuple):
    """Contributions of all ranks that a live iterator gave out and no commit has passed.

    Attributes:
        issued: Drawn by the loader, the delivered ones included.
        delivered: Handed to the training loop; None where nobody counts (no `CursorLoader`).
    """

    issued: int
    delivered: int | None


class Session:
    """One run of an iterator from a settled cursor towards its epoch's end.

    Where the end is dear to know, it is looked for no further ahead than an answer needs.

    Args:
        start: The settled cursor the iterator begins at.
        contributions: What its epoch consists of.
        layout: How that is dealt out.

    Attributes:
        start: The settled cursor the iterator began at.
        issued: Micro-batches drawn by the loader.
        delivered: Micro-batches handed to the training loop; None when nobody counts.
        committed: Micro-batches committed or skipped.
        undecided: Micro-batches after these, of an update whose outcome a device still holds.
        chunk: The micro-batch being drawn right now.
        num_pending: Micro-batches whose gradients the run began with; they count as delivered.
        indices_of: What makes the indices a loader is given of a micro-batch that is issued.
    """

    def __init__(self, start: Cursor, contributions: Contributions, layout: Layout) -> None:
        self.start = start
        self.issued = 0
        self.delivered: int | None = None
        self.committed = self.undecided = 0
        self.chunk: list[int] = []
        self.num_pending = start.pending
        self.indices_of: Callable[[Sequence[int]], list[int]] = list
        self._layout = layout
        self._look = partial(moves.reach_of, start, contributions, layout)
        self._stretches = moves.stretches_of(start, layout, self._look(1))
        self._num_begun = 0  # stretches
        self._kept: deque[Sequence[int]] | None = deque() if layout.num_replicas > 1 else None
        self._ended_by: str | None = None
        self._count()

    def _count(self) -> None:
        sizes = (self._layout.num_micro_batches(part.stop - part.first) for part in self._stretches)
        self._ends = list(accumulate(sizes))

    def num_up_to(self, most: int) -> int:
        """Return the micro-batches of the whole run, or `most` if there are more."""
        while self._stretches and self._stretches[0].is_open and self._ends[0] < most:
            reach = self._look(most)
            self._stretches[0] = moves.open_stretch(self.start.position, self._layout, reach)
            self._count()
        return min(self._ends[-1], most) if self._ends else 0

    def require_live(self) -> None:
        """Raise unless this is still the sampler's current session.

        Raises:
            StaleIteratorError: The sampler was loaded, moved or iterated again.
        """
        if self._ended_by is not None:
            raise StaleIteratorError(
                f"this iterator is stale: {self._ended_by} since it began at epoch "
                f"{self.start.epoch}, position {self.start.position}; call iter() again"
            )

    def end(self, reason: str) -> None:
        """Make the iterator stale, the rest of a half-drawn micro-batch included."""
        self._ended_by = reason
        self.chunk.clear()

    # -- issuing ---------------------------------------------------------------------------

    @property
    def num_behind(self) -> int:
        """Micro-batches at the front of the next stretch that are pending, so not to be issued."""
        return self.num_pending if self._num_begun == 0 else 0

    @property
    def first_stretch(self) -> Stretch:
        """The stretch that the run begins in."""
        return self._stretches[0]

    def next_stretch(self) -> Stretch | None:
        """Return the stretch to issue next and count it as begun; None if there is none."""
        if self._num_begun == len(self._stretches):
            return None
        self._num_begun += 1
        return self._stretches[self._num_begun - 1]

    def record(self, batch: Sequence[int]) -> None:
        """Count a micro-batch as issued; where there are several ranks, keep what it holds."""
        self.issued += 1
        if self._kept is not None:
            self._kept.append(batch)

    def take_issued(self, micro_batches: int) -> list[int]:
        """Return what the last committed micro-batches held on this rank, without padding.

        Every one is taken once; nothing for one rank alone.
        """
        if self._kept is None:
            return []
        first = self.committed - micro_batches
        count = min(micro_batches, len(self._kept))
        batches = [self._kept.popleft() for _ in range(count)]
        return [
            index
            for number, batch in enumerate(batches, first)
            for index in batch[: self.num_real(number)]
        ]

    def put_off(self, part: Stretch) -> None:
        """Issue a part again after everything else."""
        self._stretches.append(Stretch(part.first, part.stop, is_deferred=True))
        self._count()

    # -- counting --------------------------------------------------------------------------

    @property
    def num_open(self) -> int:
        """Micro-batches that may be committed."""
        given = self.issued if self.delivered is None else self.delivered
        return given - self.committed

    def num_left(self, most: int) -> int:
        """Return the micro-batches from the last committed one to the end of its stretch.

        If there are more than `most`, then `most`.
        """
        return self._num_left_from(self.committed, most)

    def _num_left_from(self, micro_batch: int, most: int) -> int:
        self.num_up_to(micro_batch + most)
        number = bisect_right(self._ends, micro_batch)
        left = self._ends[number] - micro_batch if number < len(self._ends) else 0
        return min(left, most)

    def has_all(self, micro_batches: int) -> bool:
        """Whether so many micro-batches are the whole run."""
        return self.num_up_to(micro_batches + 1) == micro_batches

    @property
    def is_unfinished(self) -> bool:
        """Whether all was given out and not all committed."""
        given = self.issued if self.delivered is None else self.delivered
        return self.committed < given and self.has_all(given)

    def ends_update(self, micro_batch: int, first: int) -> bool:
        """Whether a micro-batch fills an update begun with `first`, or ends its stretch."""
        count = micro_batch + 1 - first
        if count >= self._layout.accumulation_steps:
            return True
        return count == self._num_left_from(first, count + 1)

    def part(self, first: int, stop: int) -> Stretch:
        """Return the positions of micro-batches [first, stop), which lie in one stretch."""
        self.num_up_to(stop)
        number = bisect_right(self._ends, first)
        stretch = self._stretches[number]
        before = self._ends[number - 1] if number else 0
        round_size = self._layout.round_size
        start = stretch.first + (first - before) * round_size
        end = min(stretch.first + (stop - before) * round_size, stretch.stop)
        return Stretch(start, end, stretch.is_deferred)

    def parts(self, stop: int, first: int = 0) -> Iterator[Stretch]:
        """Yield the positions of micro-batches [first, stop), stretch by stretch."""
        self.num_up_to(stop)
        for end in self._ends:
            if first < min(end, stop):
                yield self.part(first, min(end, stop))
                first = end

    def num_contributions(self, first: int, stop: int) -> int:
        """Return how many contributions of all ranks micro-batches [first, stop) hold."""
        return sum(part.stop - part.first for part in self.parts(stop, first))

    def num_real(self, micro_batch: int) -> int:
        """Return how many contributions of this rank's micro-batch are not padding."""
        part = self.part(micro_batch, micro_batch + 1)
        first = self._layout.first_of_rank(part.first, 0)
        return max(0, min(self._layout.batch_size, part.stop - first))

    def uncommitted(self) -> Uncommitted:
        """Return what was given out and not committed."""
        delivered = self.delivered
        return Uncommitted(
            self.num_contributions(self.committed, self.issued),
            None if delivered is None else self.num_contributions(self.committed, delivered),
        )
