"""The commit protocol: issued is not committed, and only commits move the cursor.

    issued     drawn from the sampler by a loader, perhaps far ahead
    delivered  handed to the training loop
    committed  part of an update that happened; the cursor stands behind these

Everything that moves a cursor is a pure function here; `CommitTracker` holds the
one cursor of a sampler and the session of its live iterator.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from datacursor._cursor_parts import DATA_UNVERIFIED, DROP_LAST
from datacursor.checks import MAX_EPOCH, require_integer
from datacursor.contributions import Contributions, Layout, add_digests
from datacursor.cursor import Cursor
from datacursor.errors import CommitError, StaleIteratorError
from datacursor.matching import match

_NO_DIGEST = bytes(16)
_NUM_SUSPICIOUS = 2  # passes; one may be a loop that was left while its loader had drawn ahead


def first_cursor(contributions: Contributions, layout: Layout) -> Cursor:
    """Return the cursor of a run that has committed nothing."""
    return Cursor(
        order_id=contributions.order.order_id,
        packing_id=contributions.packing_id,
        data_fingerprint=contributions.fingerprint,
        plan_digest=contributions.plan_digest,
        base_size=contributions.base_size,
        seed=contributions.order.seed,
        seq_len=contributions.seq_len,
        replicas=layout.num_replicas,
        critical_flags=DROP_LAST if layout.drop_last else 0,
        optional_flags=DATA_UNVERIFIED if contributions.data_unverified else 0,
    )


def next_epoch(epoch: int, digest: bytes = _NO_DIGEST) -> dict[str, int | bytes]:
    """Return the fields of a cursor at the start of the epoch after `epoch`.

    The end of an epoch has no other form. `digest` is the identity digest it ended with.
    """
    return {
        "epoch": epoch + 1,
        "position": 0,
        "reader_position": 0,
        "reader_offset": 0,
        "identity_digest": _NO_DIGEST,
        "digest_first": 0,
        "last_digest": digest,
        "skipped": 0,
        "phase": 0,
    }


def settle(cursor: Cursor, contributions: Contributions, layout: Layout) -> Cursor:
    """Return where the next micro-batch comes from: past a rest that drop_last drops."""
    left = contributions.num_positions(cursor) - cursor.position
    if _is_over(left, layout):
        return cursor.replace(**next_epoch(cursor.epoch, cursor.identity_digest))
    return cursor


def advance(
    cursor: Cursor,
    contributions: Contributions,
    layout: Layout,
    micro_batches: int,
    **stamp: int,
) -> Cursor:
    """Return the settled cursor moved over the next micro-batches of one epoch.

    Args:
        cursor: Where the micro-batches begin.
        contributions: What they consist of.
        layout: How they are dealt out.
        micro_batches: How many, at most what is left in the epoch.
        stamp: Further fields to set, together with the position.
    """
    left = contributions.num_positions(cursor) - cursor.position
    count = min(micro_batches * layout.round_size, left)
    added = contributions.advance(cursor, count)
    tokens_committed = cursor.tokens_committed + added.num_tokens
    digest = add_digests(cursor.identity_digest, added.digest)
    if _is_over(left - count, layout):
        place = next_epoch(cursor.epoch, digest)
    else:
        place = {
            "position": cursor.position + count,
            "reader_position": added.reader[0],
            "reader_offset": added.reader[1],
            "identity_digest": digest,
        }
    return cursor.replace(tokens_committed=tokens_committed, **place, **stamp)


def _is_over(left: int, layout: Layout) -> bool:
    return left == 0 or (layout.drop_last and left < layout.round_size)


class Session:
    """One run of an iterator from a settled cursor towards its epoch's end.

    Attributes:
        start: The settled cursor the iterator began at.
        num_micro_batches: Micro-batches from there to the epoch's end.
        issued: Micro-batches drawn by the loader.
        delivered: Micro-batches handed to the training loop; None when nobody counts.
        committed: Micro-batches committed.
        chunk: The micro-batch being drawn right now.
    """

    def __init__(self, start: Cursor, num_positions: int, layout: Layout) -> None:
        """Begin at `start`, whose epoch has `num_positions` contributions."""
        self.start = start
        self.num_micro_batches = layout.num_micro_batches(num_positions - start.position)
        self.issued = 0
        self.delivered: int | None = None
        self.committed = 0
        self.chunk: list[int] = []
        self._num_positions = num_positions
        self._layout = layout
        self._ended_by: str | None = None

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

    @property
    def is_partly_committed(self) -> bool:
        """Whether all was issued to a loader that nobody counts, and not all committed."""
        is_issued = self.delivered is None and self.issued == self.num_micro_batches
        return is_issued and self.committed < self.issued

    def num_contributions(self, first: int, stop: int) -> int:
        """Return how many contributions of all ranks micro-batches [first, stop) hold."""
        left = self._num_positions - self.start.position
        round_size = self._layout.round_size
        return min(stop * round_size, left) - min(first * round_size, left)

    def num_real(self, micro_batch: int) -> int:
        """Return how many contributions of this rank's micro-batch are not padding."""
        first = self._layout.first_of_rank(self.start.position, micro_batch)
        return max(0, min(self._layout.batch_size, self._num_positions - first))


class Uncommitted(NamedTuple):
    """Contributions of all ranks that a live iterator gave out and no commit has passed.

    Attributes:
        issued: Drawn by the loader, the delivered ones included.
        delivered: Handed to the training loop; None where nobody counts (no `CursorLoader`).
    """

    issued: int
    delivered: int | None


class CommitTracker:
    """The cursor of one sampler and what may be committed next.

    Not thread safe: the loop that trains is the loop that commits.
    """

    def __init__(self, contributions: Contributions, layout: Layout) -> None:
        """Stand at (0, 0)."""
        self.contributions = contributions
        self.layout = layout
        self.cursor = first_cursor(contributions, layout)
        self.session: Session | None = None
        self.has_committed = False
        self._drawn_session: Session | None = None
        self._num_partial = 0
        self._is_fresh = True  # never committed, loaded or sought
        self._is_loaded = False  # loaded, and not committed since

    @property
    def is_fresh(self) -> bool:
        """Whether the cursor was never moved by a commit, a load or a seek."""
        return self._is_fresh

    def settled(self) -> Cursor:
        """Return where the next micro-batch comes from."""
        return settle(self.cursor, self.contributions, self.layout)

    def remaining(self) -> int:
        """Return the micro-batches per rank left in the epoch."""
        cursor = self.settled()
        left = self.contributions.num_positions(cursor) - cursor.position
        return self.layout.num_micro_batches(left)

    def uncommitted(self) -> Uncommitted:
        """Return what the live iterator gave out beyond the cursor; nothing without one."""
        session = self.session
        if session is None:
            return Uncommitted(0, None)
        delivered = session.delivered
        return Uncommitted(
            session.num_contributions(session.committed, session.issued),
            None if delivered is None else session.num_contributions(session.committed, delivered),
        )

    def begin_counted(self) -> Session:
        """Start a session that counts deliveries; the loader it is for draws it later."""
        session = self.begin()
        session.delivered = 0
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
        self._watch_for_misfit()
        self._end_session("the sampler was iterated again")
        cursor = self.settled()
        self.session = Session(cursor, self.contributions.num_positions(cursor), self.layout)
        return self.session

    def commit(self, micro_batches: int | None = None) -> None:
        """Move the cursor over micro-batches that entered an update.

        Args:
            micro_batches: How many; None means all delivered since the last commit where
                deliveries are counted, else accumulation_steps (fewer at an epoch's end).

        Raises:
            CommitError: More than was issued (or delivered), or nothing to commit.
            ArgumentError: micro_batches < 1.
        """
        session = self.session
        if session is None:
            raise CommitError(
                "nothing to commit: no batch was issued since the sampler was made, loaded or moved"
            )
        count = self._num_to_commit(session, micro_batches)
        start = self.settled()
        self.cursor = advance(
            start,
            self.contributions,
            self.layout,
            count,
            updates_committed=start.updates_committed + 1,
            attempt=start.attempt + self._is_loaded,
            replicas=self.layout.num_replicas,
        )
        session.committed += count
        self.has_committed = True
        self._is_fresh = self._is_loaded = False

    def load(self, cursor: Cursor, allow_changed: Collection[str] = ()) -> None:
        """Continue from a saved cursor.

        Raises:
            CursorMismatchError: It belongs to other data, another seed or another plan.
        """
        self.cursor = match(cursor, self.contributions, self.layout, allow_changed)
        self._end_session("the sampler was loaded")
        self._is_fresh = False
        self._is_loaded = True

    def adopt(self, cursor: Cursor) -> Session:
        """Load a cursor and start a session at it in one step, for a stateful iterator."""
        self.load(cursor)
        return self.begin()

    def seek(self, epoch: int, position: int) -> None:
        """Move to any place; the identity digest counts from there.

        Raises:
            ArgumentError: There is no such epoch or position.
        """
        epoch = require_integer("epoch", epoch, 0, MAX_EPOCH - 1)
        start = self._start_of(epoch)
        if epoch == self.cursor.epoch and position != 0:
            # Its rows were cut anew in mid-epoch and stay as they are.
            start = start.replace(phase=self.cursor.phase, last_digest=self.cursor.last_digest)
        num_positions = self.contributions.num_positions(start)
        position = require_integer("position", position, 0, num_positions + 1)
        if position == num_positions:
            self.cursor = self._start_of(epoch + 1)
        else:
            reader = self.contributions.reader_at(start, position)
            self.cursor = start.replace(
                position=position,
                digest_first=position,
                reader_position=reader[0],
                reader_offset=reader[1],
            )
        self._end_session("the sampler was moved by seek()")
        self._is_fresh = False

    def set_epoch(self, epoch: int) -> bool:
        """Move a fresh tracker to an epoch's start; return whether it now stands in `epoch`."""
        epoch = require_integer("epoch", epoch, 0, MAX_EPOCH)
        if self._is_fresh and epoch != self.cursor.epoch:
            self.cursor = self._start_of(epoch)
            self._end_session("the sampler was moved by set_epoch()")
        return epoch in (self.cursor.epoch, self.settled().epoch)

    def _start_of(self, epoch: int) -> Cursor:
        return self.cursor.replace(**next_epoch(epoch - 1))

    def _num_to_commit(self, session: Session, micro_batches: int | None) -> int:
        counted = session.delivered is not None
        open_batches = (session.delivered or 0) - session.committed
        if not counted:
            open_batches = session.issued - session.committed
        if micro_batches is not None:
            count = require_integer("micro_batches", micro_batches, 1, 2**31)
        elif counted:
            count = max(1, open_batches)
        else:
            left = session.num_micro_batches - session.committed
            count = max(1, min(self.layout.accumulation_steps, left))
        if count > open_batches:
            word = "delivered" if counted else "issued"
            raise CommitError(
                f"cannot commit {count} micro-batch(es): {open_batches} {word} and not committed "
                f"in epoch {session.start.epoch} since position {session.start.position}"
            )
        return count

    def _watch_for_misfit(self) -> None:
        """Warn if two passes to an epoch's end, one after the other, left something uncommitted."""
        session = self.session
        if session is None or not self.has_committed:
            return
        self._num_partial = self._num_partial + 1 if session.is_partly_committed else 0
        if self._num_partial == _NUM_SUSPICIOUS:
            warnings.warn(
                f"epoch {session.start.epoch} was issued to its end again, and {session.committed} "
                f"of {session.issued} micro-batches were committed; the rest is delivered again. "
                "Does the loader have the sampler's batch_size, and is drop_last left to the "
                "sampler? sampler.check(loader) tells",
                stacklevel=5,
            )

    def _end_session(self, reason: str) -> None:
        if self.session is not None:
            self.session.end(reason)
            self.session = None
