"""The iterator of a sampler: indices as a loader draws them, far ahead of any commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from operator import length_hint
from typing import TYPE_CHECKING, Any, cast

from datacursor import moves
from datacursor.commits import CommitTracker
from datacursor.errors import StaleIteratorError
from datacursor.session import Session
from datacursor.state import cursor_of, state_of

if TYPE_CHECKING:
    import torch
    from typing_extensions import Self

    from datacursor.contributions import Layout
    from datacursor.cursor import Cursor


class IssuedIndex(int):
    """The index of a sample that knows where in which epoch it was issued.

    An int to samplers, loaders and data sets. The place travels with the index, so that a worker
    knows it whatever was prefetched, put off or begun anew since.

    Attributes:
        epoch: Pass over the data.
        position: In the epoch's order; past its end where the sample only fills the last round.
    """

    epoch: int
    position: int

    def __new__(cls, index: int, epoch: int, position: int) -> Self:
        """Take the values as they are."""
        self = super().__new__(cls, index)
        self.epoch = epoch
        self.position = position
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return IssuedIndex, (int(self), self.epoch, self.position)


class Issue:
    """What a session of the tracker gives out, from its cursor on."""

    def __init__(self, tracker: CommitTracker) -> None:
        """Begin a session, or the one that is to be drawn."""
        self.tracker = tracker
        self.is_exhausted = False
        self.restart(tracker.begin())

    def restart(self, session: Session) -> None:
        """Give out another session."""
        self.session = session
        self.current: Iterator[int] = iter(session.chunk)
        self._batches: Iterator[Sequence[int]] = iter(())
        self._is_short = False
        self._indices_of, session.indices_of = session.indices_of, list

    def indices(self) -> Iterator[Iterator[int]]:
        """Yield this rank's indices, an iterator a micro-batch."""
        for batch in self.micro_batches():
            # Ending the session empties this very list, and with it the running iterator.
            self.session.chunk = self._indices_of(batch)
            self.current = iter(self.session.chunk)
            yield self.current

    def micro_batches(self) -> Iterator[Sequence[int]]:
        """Yield this rank's indices, up to a micro-batch that is short or the epoch's end."""
        while True:
            self.session.require_live()
            batch = next(self._batches, None)
            if batch is None:
                # A loader cuts the indices every batch_size, so a short batch ends the iterator.
                if self._is_short or not self._begin_stretch():
                    self.is_exhausted = True
                    return
                continue
            self._is_short = len(batch) < self.tracker.layout.batch_size
            self.session.record(batch)
            yield batch

    def _begin_stretch(self) -> bool:
        session, tracker = self.session, self.tracker
        num_behind = session.num_behind
        part = session.next_stretch()
        if part is None:
            return False
        batches = moves.issue(session.start, tracker.contributions, tracker.layout, part)
        if tracker.marks_places and tracker.contributions.packing_id == 0:  # rows know theirs
            batches = _with_places(batches, session.start.epoch, part.first, tracker.layout)
        self._batches = islice(batches, num_behind, None)
        return True

    def drawn(self) -> Cursor:
        """Return the cursor as if every micro-batch drawn whole were committed."""
        self.session.require_live()
        open_batches = 1 if length_hint(self.current) > 0 else 0
        return moves.pass_all(
            self.session.start,
            self.tracker.contributions,
            self.tracker.layout,
            self.session.parts(self.session.issued - open_batches),
        )


def _with_places(
    batches: Iterator[Sequence[int]], epoch: int, position: int, layout: Layout
) -> Iterator[Sequence[int]]:
    """Mark the batches of a stretch that begins at `position`."""
    for number, batch in enumerate(batches):
        places = enumerate(batch, layout.first_of_rank(position, number))
        yield [IssuedIndex(index, epoch, place) for place, index in places]


class SamplerIterator(chain[int]):
    """This rank's indices, from the cursor to the end of its epoch.

    A chain over micro-batches, so that drawing an index runs no Python code. Its state
    is the *drawn* position, which is what torchdata's StatefulDataLoader saves.
    """

    _issue: Issue

    @classmethod
    def begin(cls, tracker: CommitTracker) -> SamplerIterator:
        """Start a session of the tracker at its cursor."""
        issue = Issue(tracker)
        iterator = cast("SamplerIterator", cls.from_iterable(issue.indices()))
        iterator._issue = issue
        return iterator

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return the drawn position: one uint8 tensor of shape (512,).

        Raises:
            StaleIteratorError: The sampler was loaded, moved or iterated again.
        """
        return state_of(self._issue.drawn())

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a drawn position; the sampler's commits go on from there too.

        Raises:
            CursorFormatError: Not such a state, or a damaged one.
            CursorMismatchError: It belongs to other data or another plan.
            StaleIteratorError: The sampler was loaded, moved or iterated again, or this iterator
                has ended; begin a new one with iter().
        """
        self._issue.session.require_live()
        if self._issue.is_exhausted:
            raise StaleIteratorError("this iterator has ended; load into a new one from iter()")
        self._issue.tracker.load(cursor_of(state_dict))
        self._issue.restart(self._issue.tracker.begin())
