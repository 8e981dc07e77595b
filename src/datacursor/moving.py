"""The one cursor of a sampler: where it stands, what moves it, and who is told."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Any

from datacursor import moves
from datacursor.checks import MAX_COUNT, MAX_EPOCH, require_integer
from datacursor.contributions import Contributions, Layout, add_digests
from datacursor.cursor import Cursor
from datacursor.errors import ArgumentError, CursorMismatchError, MidUpdateError
from datacursor.matching import match
from datacursor.moves import Stretch
from datacursor.outcome import COMMITTED, USER_SKIPPED, CommitObserver, Outcome

_NO_DIGEST = bytes(16)


def fit(
    cursor: Cursor, contributions: Contributions, layout: Layout, allow_changed: Collection[str]
) -> Cursor:
    """Return the cursor a sampler goes on with from a saved one.

    Raises:
        CursorMismatchError: It belongs to other data, another seed or another plan.
        MidUpdateError: It holds pending micro-batches of another number of ranks or batch size.
    """
    cursor = match(cursor, contributions, layout, allow_changed)
    if cursor.pending > 0:
        reach = moves.reach_of(cursor, contributions, layout, cursor.pending)
        parts = moves.stretches_of(cursor, layout, reach)
        left = sum(layout.num_micro_batches(part.stop - part.first) for part in parts[:1])
        if cursor.pending > left:
            raise CursorMismatchError(
                f"cursor contradicts itself: pending={cursor.pending} micro-batches of an open "
                f"update, and {left} are left up to the end of an epoch or of a deferred range"
            )
    return cursor


class MovingCursor:
    """A cursor that outcomes, loads and jumps move.

    Attributes:
        value: Where it stands.
        tally: Digests of what all ranks committed by the order, and of what this rank was
            issued of it; counted where there are several ranks.
        is_fresh: Never moved but by `set_epoch`.
    """

    def __init__(self, contributions: Contributions, layout: Layout) -> None:
        """Stand at (0, 0)."""
        self.value = moves.first_cursor(contributions, layout)
        self.tally = (_NO_DIGEST, _NO_DIGEST)
        self.is_fresh = True
        self.observers: tuple[CommitObserver, ...] = ()
        self._untold: deque[tuple[CommitObserver, Outcome]] = deque()
        self._contributions = contributions
        self._layout = layout
        self._is_loaded = False  # loaded, and not moved since

    def __getstate__(self) -> dict[str, Any]:
        """Leave the observers to the original."""
        return self.__dict__ | {"observers": (), "_untold": deque()}

    def settled(self) -> Cursor:
        """Return where the next micro-batch comes from."""
        return moves.settle(self.value, self._contributions, self._layout)

    def pass_over(
        self,
        part: Stretch,
        micro_batches: int,
        issued: list[int],
        *,
        kind: str = COMMITTED,
        num_updates: int = 0,
        reason: str = "",
    ) -> None:
        """Move over the contributions of updates, one or, if committed, several.

        Call `tell` once all that depends on the cursor is level with it.

        Args:
            part: Their positions, of one stretch.
            micro_batches: How many per rank they are.
            issued: What this rank was issued of them; empty for one rank alone.
            kind: What became of them.
            num_updates: Updates they are, of those that count.
            reason: Why they were not committed.
        """
        before = self.settled()
        reading = moves.stand_at(before, self._contributions, part.first)
        added = self._contributions.advance(reading, part.stop - part.first)
        stamp = self._stamp(before) | {"updates_committed": before.updates_committed + num_updates}
        self.value = moves.pass_over(
            before, self._contributions, self._layout, part, added, kind, **stamp
        )
        if kind == COMMITTED and self._layout.num_replicas > 1:
            whole, ours = self.tally
            share = self._contributions.digest_of(before.epoch, issued)
            self.tally = (add_digests(whole, added.digest), add_digests(ours, share))
        if self.observers:
            self._note(
                kind=kind,
                before=before,
                first=part.first,
                stop=part.stop,
                micro_batches=micro_batches,
                num_tokens=added.num_tokens,
                digest=added.digest,
                reason=reason,
            )

    def skip_range(self, first: int, stop: int, reason: str) -> None:
        """Pass over positions [first, stop) that nobody shall train on; `tell` is to follow.

        Raises:
            ArgumentError: first is not the cursor's position, or the epoch has no such positions.
            MidUpdateError: The cursor holds pending micro-batches.
        """
        before = self.settled()
        first = require_integer("first", first, 0, MAX_COUNT)
        stop = require_integer("stop", stop, 0, MAX_COUNT)
        if first != before.position:
            raise ArgumentError(
                f"first must be the cursor's position={before.position}, got first={first}"
            )
        reader = (before.reader_position, before.reader_offset)
        reach = self._contributions.reach(before, first, reader, stop)
        require_integer("stop", stop, first + 1, reach.stop + 1)
        if before.pending > 0:
            raise MidUpdateError(
                f"cursor holds pending={before.pending} micro-batches of an open update; commit "
                "it before you skip what follows"
            )
        stamp = self._stamp(before)
        self.value = moves.jump_over(before, self._contributions, self._layout, stop, **stamp)
        self.is_fresh = False
        if self.observers:
            added = self._contributions.advance(before, stop - first)
            self._note(
                kind=USER_SKIPPED,
                before=before,
                first=first,
                stop=stop,
                micro_batches=0,
                num_tokens=added.num_tokens,
                digest=added.digest,
                reason=reason,
            )

    def load(self, cursor: Cursor, allow_changed: Collection[str]) -> None:
        """Continue from a saved cursor; what was tallied since died with the run's weights.

        Raises:
            CursorMismatchError: It belongs to other data, another seed or another plan.
            MidUpdateError: It holds pending micro-batches of another number of ranks or batch size.
        """
        self.value = fit(cursor, self._contributions, self._layout, allow_changed)
        self.tally = (_NO_DIGEST, _NO_DIGEST)
        self.is_fresh = False
        self._is_loaded = True

    def seek(self, epoch: int, position: int) -> None:
        """Move to any place; the identity digest counts from there.

        Raises:
            ArgumentError: There is no such epoch or position.
        """
        epoch = require_integer("epoch", epoch, 0, MAX_EPOCH - 1)
        cursor = self.value
        start = self._start_of(epoch)
        if epoch == cursor.epoch and position != 0:
            # Its rows were cut anew in mid-epoch and stay as they are.
            start = start.replace(phase=cursor.phase, last_digest=cursor.last_digest)
        position = require_integer("position", position, 0, MAX_COUNT)
        reach = self._contributions.reach(start, 0, (0, 0), position + 1)
        require_integer("position", position, 0, reach.stop + 1)
        if position == reach.stop:
            start = self._start_of(epoch + 1)
        else:
            reader = self._contributions.reader_at(start, position)
            start = start.replace(
                position=position,
                digest_first=position,
                reader_position=reader[0],
                reader_offset=reader[1],
            )
        self.value = start
        self.is_fresh = False

    def set_epoch(self, epoch: int) -> None:
        """Move to an epoch's start, whatever it is now."""
        self.value = self._start_of(epoch)

    def add_observer(self, observer: CommitObserver) -> None:
        """Tell an observer of every move and every save from now on.

        Raises:
            ArgumentError: It was added before.
            TypeError: It lacks a method of a `CommitObserver`.
        """
        for name in ("on_outcome", "on_state"):
            if not callable(getattr(observer, name, None)):
                raise TypeError(f"observer must have a method {name}(), got {observer!r}")
        if observer in self.observers:
            raise ArgumentError(f"observer was added already: {observer!r}")
        self.observers += (observer,)

    def remove_observer(self, observer: CommitObserver) -> None:
        """Tell an observer nothing any more.

        Raises:
            ArgumentError: It was never added.
        """
        if observer not in self.observers:
            raise ArgumentError(f"observer was not added: {observer!r}")
        self.observers = tuple(other for other in self.observers if other is not observer)
        self._untold = deque(told for told in self._untold if told[0] is not observer)

    def tell(self) -> None:
        """Tell the observers of the moves they have not been told of.

        One may raise, or ask the sampler meanwhile; the others are told the next time, in order.
        """
        while self._untold:
            observer, outcome = self._untold.popleft()
            observer.on_outcome(outcome)

    def saved(self) -> Cursor:
        """Return the cursor to save, without pending micro-batches, and tell the observers."""
        self.tell()
        cursor = self.value
        if cursor.pending:
            cursor = cursor.replace(pending=0, window_batch_size=0)
        for observer in self.observers:
            observer.on_state(cursor)
        return cursor

    def _start_of(self, epoch: int) -> Cursor:
        return self.value.replace(**moves.next_epoch(epoch - 1))

    def _stamp(self, before: Cursor) -> dict[str, int]:
        """Return the fields that change at the first move after a load."""
        stamp = {
            "attempt": before.attempt + self._is_loaded,
            "replicas": self._layout.num_replicas,
        }
        self._is_loaded = False
        return stamp

    def _note(self, **what: Any) -> None:
        outcome = Outcome(after=self.value, **what)
        self._untold.extend((observer, outcome) for observer in self.observers)
