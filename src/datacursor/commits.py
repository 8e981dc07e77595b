"""The commit protocol: issued is not committed, and only commits move the cursor.

    issued     drawn from the sampler by a loader, perhaps far ahead
    delivered  handed to the training loop
    committed  part of an update that happened; the cursor stands behind these

`CommitTracker` holds the one cursor of a sampler and the session of its live iterator.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from datacursor import moves
from datacursor.checks import MAX_EPOCH, require_choice, require_integer
from datacursor.contributions import Contributions, Layout
from datacursor.cursor import Cursor
from datacursor.errors import CommitError, MidUpdateError
from datacursor.moves import Stretch
from datacursor.moving import MovingCursor
from datacursor.outcome import DEFERRED, SKIPPED
from datacursor.row_block import Reach
from datacursor.session import Session, Uncommitted

ON_SKIP = ("advance", "retry", "defer")
MAX_DEFERRED = 24  # ranges in a cursor
_NUM_SUSPICIOUS = 2  # passes; one may be a loop that was left while its loader had drawn ahead
_MAX_TRIES = 100  # of one update; a gradient scale halved that often is long gone
# Contributions committed before their digest is computed: one call for many small commits, and
# a millisecond at most at the one that fills it.
_MAX_UNCOUNTED = 65536


class CommitTracker:
    """The cursor of one sampler and what may be committed next.

    Commits are counted at once and worked into the cursor when it is asked for, many in one
    go. Not thread safe: the loop that trains is the loop that commits.
    """

    def __init__(
        self, contributions: Contributions, layout: Layout, on_skip: str = "advance"
    ) -> None:
        """Stand at (0, 0)."""
        self.contributions = contributions
        self.layout = layout
        self.on_skip = require_choice("on_skip", on_skip, ON_SKIP)
        self.session: Session | None = None
        self.has_concluded = False  # an update, by a commit or a skip
        self._moving = MovingCursor(contributions, layout)
        self._uncounted = 0  # micro-batches committed and not yet worked into the cursor
        self._uncounted_updates = 0
        self._max_uncounted = max(1, _MAX_UNCOUNTED // layout.round_size)
        self._undecided: tuple[int, Callable[[], bool]] | None = None
        self._drawn_session: Session | None = None
        self._num_partial = 0
        self._num_tries = 0

    def __getstate__(self) -> dict[str, Any]:
        """Leave what was issued and not committed to the original."""
        return self.__dict__ | {"_moving": self.moving, "session": None}

    @property
    def moving(self) -> MovingCursor:
        """The cursor with everything worked in that was committed."""
        self.decide()
        self._count()
        return self._moving

    @property
    def cursor(self) -> Cursor:
        """The position of the next contribution that no update has seen."""
        return self.moving.value

    def settled(self) -> Cursor:
        """Return where the next micro-batch comes from."""
        return self.moving.settled()

    def remaining(self) -> int:
        """Return the micro-batches per rank left in the epoch, deferred ones included."""
        cursor = self.settled()
        whole = Reach(self.contributions.num_positions(cursor), is_end=True)
        parts = moves.stretches_of(cursor, self.layout, whole)
        return sum(self.layout.num_micro_batches(part.stop - part.first) for part in parts)

    def uncommitted(self) -> Uncommitted:
        """Return what the live iterator gave out beyond the cursor; nothing without one."""
        self.decide()
        return Uncommitted(0, None) if self.session is None else self.session.uncommitted()

    # -- sessions --------------------------------------------------------------------------

    def begin_counted(self) -> Session:
        """Start a session that counts deliveries; the loader it is for draws it later."""
        session = self.begin()
        session.delivered = session.num_pending
        return session

    @contextmanager
    def drawing_for(self, session: Session) -> Iterator[None]:
        """Let an iterator that begins inside draw for a session that has begun already."""
        self._drawn_session = session
        try:
            yield
        finally:
            self._drawn_session = None

    def begin(self) -> Session:
        """Start a session at the cursor, unless one is waiting to be drawn; others become stale."""
        waiting, self._drawn_session = self._drawn_session, None
        if waiting is not None and waiting is self.session:
            return waiting
        cursor = self.settled()
        self._watch_for_misfit()
        self._end_session("the sampler was iterated again")
        session = Session(cursor, self.contributions, self.layout)
        if session.num_pending > 0:
            batches = moves.issue(cursor, self.contributions, self.layout, session.first_stretch)
            for batch in islice(batches, session.num_pending):
                session.record(batch)
        self.session = session
        return session

    # -- commits ---------------------------------------------------------------------------

    def commit(self, micro_batches: int | None = None) -> None:
        """Move the cursor over micro-batches that entered an update.

        Args:
            micro_batches: How many; None means all delivered since the last commit where
                deliveries are counted, else accumulation_steps (fewer at an epoch's end).

        Raises:
            CommitError: More than was issued (or delivered), or nothing to commit.
            ArgumentError: micro_batches < 1.
        """
        self.decide()
        session = self._require_session()
        count = self._num_to_take(session, micro_batches)
        ends_stretch = count == session.num_left(count + 1)
        session.committed += count
        self._uncounted += count
        self._uncounted_updates += 1
        self._num_tries = 0
        self.has_concluded = True
        self._moving.is_fresh = False
        if ends_stretch or self._moving.observers or self._uncounted >= self._max_uncounted:
            self._count()

    def skip(self, reason: str = "overflow", micro_batches: int | None = None) -> None:
        """Say that an update was attempted with these micro-batches and changed nothing.

        Args:
            reason: Why, for the record.
            micro_batches: As in `commit`.

        Raises:
            CommitError: As in `commit`; nobody counts deliveries, which "retry" and "defer" need;
                a 25th range would be deferred; or the same update was tried in vain for ever.
        """
        self.decide()
        session = self._require_session()
        count = self._num_to_take(session, micro_batches)
        if self.on_skip != "advance" and session.delivered is None:
            raise CommitError(
                f"on_skip={self.on_skip!r} needs a CursorLoader: a plain loader may have drawn "
                "the whole epoch already"
            )
        self.has_concluded = True
        if self.on_skip == "retry":
            self._give_again(session, count)
            return
        self._count()
        part = session.part(session.committed, session.committed + count)
        kind = SKIPPED
        if self.on_skip == "defer":
            self._require_room(part)
            kind = DEFERRED
        before = self._moving.value
        self._moving.is_fresh = False
        try:
            self._moving.pass_over(part, count, [], kind=kind, reason=reason)
        finally:  # the user may interrupt
            if self._moving.value is not before:
                session.committed += count
                session.take_issued(count)
                if kind == DEFERRED:
                    session.put_off(part)
        self._moving.tell()

    def decide_later(self, count: int, is_applied: Callable[[], bool]) -> None:
        """Take an update of `count` micro-batches whose outcome a device still holds.

        It is committed or skipped when the cursor is next asked for or moved.
        """
        self.decide()
        self._require_session().undecided = count
        self._undecided = (count, is_applied)

    def decide(self) -> None:
        """Commit or skip the update whose outcome a device held, if there is one."""
        if self._undecided is not None:
            count, is_applied = self._undecided
            was_applied = is_applied()  # the user may interrupt the wait, and ask again
            self._undecided = None
            self._require_session().undecided = 0
            if was_applied:
                self.commit(count)
            else:
                self.skip("overflow", count)

    def window(self) -> int:
        """Return the micro-batches of the update that an optimizer has just attempted.

        Raises:
            CommitError: None, or more than an update holds, were given out since the last one.
        """
        self.decide()
        session = self._require_session()
        count = self._num_to_take(session, None)
        if count > self.layout.accumulation_steps:
            raise CommitError(
                f"{count} micro-batches were delivered since the last commit, and an update holds "
                f"accumulation_steps={self.layout.accumulation_steps}: did a GradScaler skip a "
                "step that attach(optimizer, scaler) was not told of, or does the loop accumulate "
                "more?"
            )
        return count

    def pending_cursor(self) -> Cursor:
        """Return the cursor with the open window's micro-batches as pending.

        Raises:
            CommitError: Nobody counts deliveries, so the window is not known.
            MidUpdateError: It holds a range that was deferred again and has others before it.
        """
        cursor = self.cursor
        session = self.session
        if session is None:
            return cursor
        if session.delivered is None:
            raise CommitError("the open window is known only with a CursorLoader")
        if session.num_open == 0:
            return cursor
        part = session.part(session.committed, session.committed + 1)
        if part.first != Session(cursor, self.contributions, self.layout).first_stretch.first:
            raise MidUpdateError("an update of deferred ranges is open; save at its end")
        return cursor.replace(
            pending=session.num_open,
            replicas=self.layout.num_replicas,
            window_batch_size=self.layout.batch_size,
        )

    # -- places ----------------------------------------------------------------------------

    def load(self, cursor: Cursor, allow_changed: Collection[str] = ()) -> None:
        """Continue from a saved cursor.

        Raises:
            CursorMismatchError: It belongs to other data, another seed or another plan.
            MidUpdateError: It holds pending micro-batches of another number of ranks or batch size.
        """
        self._moving.load(cursor, allow_changed)
        self._end_session("the sampler was loaded")

    def seek(self, epoch: int, position: int) -> None:
        """Move to any place; the identity digest counts from there.

        Raises:
            ArgumentError: There is no such epoch or position.
        """
        self.moving.seek(epoch, position)
        self._end_session("the sampler was moved by seek()")

    def skip_range(self, first: int, stop: int, reason: str = "") -> None:
        """Pass over positions [first, stop) that nobody shall train on.

        Raises:
            ArgumentError: first is not the cursor's position, or the epoch has no such positions.
            MidUpdateError: The cursor holds pending micro-batches.
        """
        self.moving.skip_range(first, stop, reason)
        self._end_session("positions were passed by skip_range()")
        self._moving.tell()

    def set_epoch(self, epoch: int) -> bool:
        """Move a fresh tracker to an epoch's start; return whether it now stands in `epoch`."""
        epoch = require_integer("epoch", epoch, 0, MAX_EPOCH)
        moving = self.moving
        if moving.is_fresh and epoch != moving.value.epoch:
            moving.set_epoch(epoch)
            self._end_session("the sampler was moved by set_epoch()")
        return epoch in (moving.value.epoch, moving.settled().epoch)

    def _require_session(self) -> Session:
        if self.session is None:
            raise CommitError(
                "nothing to commit: no batch was issued since the sampler was made, loaded or moved"
            )
        return self.session

    def _num_to_take(self, session: Session, micro_batches: int | None) -> int:
        open_batches = session.num_open
        if micro_batches is not None:
            count = require_integer("micro_batches", micro_batches, 1, 2**31)
        elif session.delivered is None:
            count = max(1, session.num_left(self.layout.accumulation_steps))
        else:
            count = max(1, open_batches)
        if count > open_batches:
            word = "issued" if session.delivered is None else "delivered"
            raise CommitError(
                f"cannot commit {count} micro-batch(es): {open_batches} {word} and not committed "
                f"in epoch {session.start.epoch}; did attach() or a commit before take them?"
            )
        left = session.num_left(count)
        if left < count or count < session.num_pending - session.committed:
            raise CommitError(
                f"cannot commit {count} micro-batch(es) as one update: {left} are left "
                f"up to the end of an epoch or of a deferred range, and {session.num_pending} "
                "were pending when the iterator began"
            )
        return count

    def _give_again(self, session: Session, count: int) -> None:
        if count != session.num_open:
            raise CommitError(
                f"cannot give {count} of {session.num_open} delivered micro-batches again: the "
                "loop holds batches of a later update"
            )
        if session.num_pending > session.committed:
            raise CommitError(
                f"cannot give {session.num_pending} pending micro-batches again: they were "
                "delivered before the restart; load a state without them"
            )
        self._try_again()
        session.delivered = session.committed

    def _require_room(self, part: Stretch) -> None:
        deferred = self._moving.value.deferred
        if part.is_deferred:
            self._try_again()
        is_whole = (part.first, part.stop - part.first) in deferred
        if len(deferred) == MAX_DEFERRED and not is_whole:
            raise CommitError(
                f"cannot defer positions [{part.first}, {part.stop}): {MAX_DEFERRED} ranges are "
                "deferred already in this epoch"
            )

    def _try_again(self) -> None:
        if self._num_tries == _MAX_TRIES:
            raise CommitError(
                f"{_MAX_TRIES} updates in a row changed nothing, so trying again is in vain; "
                "use on_skip='advance', or skip_range() to leave these contributions out"
            )
        self._num_tries += 1

    def _count(self) -> None:
        """Work the commits since the last time into the cursor."""
        count = self._uncounted
        if count == 0:
            return
        session = self._require_session()
        part = session.part(session.committed - count, session.committed)
        before = self._moving.value
        try:
            issued = session.take_issued(count)
            self._moving.pass_over(part, count, issued, num_updates=self._uncounted_updates)
        finally:  # the user may interrupt
            if self._moving.value is not before:
                self._uncounted = self._uncounted_updates = 0
        self._moving.tell()

    def _watch_for_misfit(self) -> None:
        """Warn if two passes to an epoch's end, one after the other, left something uncommitted."""
        session = self.session
        if session is None or not self.has_concluded:
            return
        self._num_partial = self._num_partial + 1 if session.is_unfinished else 0
        if self._num_partial == _NUM_SUSPICIOUS:
            word = "issued" if session.delivered is None else "delivered"
            warnings.warn(
                f"epoch {session.start.epoch} was {word} to its end again, and {session.committed} "
                f"of {session.issued} micro-batches were committed; the rest is "
                "delivered again. Is the incomplete update at the end made (loader.ends_update "
                "tells), and does the loader fit, sharded by nobody else (sampler.check(loader) "
                "tells)?",
                stacklevel=5,
            )

    def _end_session(self, reason: str) -> None:
        self._uncounted = self._uncounted_updates = 0
        self._undecided = None
        if self.session is not None:
            self.session.end(reason)
            self.session = None
