"""A ledger checked against itself, against the order and against a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from datacursor.contributions import SampleContributions
from datacursor.errors import ArgumentError, LedgerError
from datacursor.ledger.history import Attempt, History, name_row, read
from datacursor.ledger.identity import require_same_run, why_not_rebuilt
from datacursor.ledger.replay import Replay, round_size_of
from datacursor.ledger.rows import COMMITTED, values_of

if TYPE_CHECKING:
    from pathlib import Path

    from datacursor.cursor import Cursor
    from datacursor.order import Order

_NO_DIGEST = bytes(16)


@dataclass(frozen=True)
class Verification:
    """What held of an intact ledger.

    Attributes:
        history: The ledger.
        num_recomputed: Rows whose identity digest was computed again from the order.
        notes: Sentences on what was not checked and where the run was moved by hand.
    """

    history: History
    num_recomputed: int
    notes: tuple[str, ...]


def verify(
    directory: Path,
    *,
    cursor: Cursor | None = None,
    chain: str | None = None,
    order: Order | None = None,
) -> Verification:
    """Read a ledger and check all that can be checked.

    Args:
        directory: The ledger's.
        cursor: A cursor that the effective history must pass, of a checkpoint.
        chain: `Ledger.chain` of the same checkpoint; a row that lived must have it.
        order: The order of samples, where cursors do not decide it.

    Raises:
        LedgerError: Something does not hold; names the first bad row.
        FileNotFoundError: There is no such directory.
    """
    history = read(directory)
    for earlier, later in pairwise(history.attempts):
        with _naming(0, later):
            require_same_run(earlier.start, later.start)
    _check_contents(history)
    verifier = _Verifier(cursor, order)
    for attempt, mask in zip(history.attempts, history.lived, strict=True):
        if mask.any() or attempt is history.attempts[-1]:
            verifier.follow(attempt, np.flatnonzero(mask).tolist())
    verifier.require_met()
    chains = (value.hex() for value in history.effective["chain"].tolist())
    if chain is not None and chain not in chains:
        raise LedgerError(f"no row that lived has the chain value {chain}")
    return Verification(history, verifier.num_recomputed, tuple(verifier.notes))


class _Verifier:
    """Follows the rows that lived, and looks out for a checkpoint's cursor."""

    def __init__(self, cursor: Cursor | None, order: Order | None) -> None:
        self.num_recomputed = 0
        self.notes: list[str] = []
        self._cursor = cursor
        self._given_order = order
        self._contributions: SampleContributions | None = None
        self._replay: Replay | None = None
        self._is_met = cursor is None
        self._reason = ""  # why the cursor was not met where it should have been

    def follow(self, attempt: Attempt, lived: list[int]) -> None:
        """Move over an attempt's start and those of its rows that lived."""
        with _naming(0, attempt):
            replay = self._begin(attempt)
        self._look_out(attempt, replay)
        for number in lived:
            row = values_of(attempt.rows[number])
            with _naming(number, attempt):
                replay.apply(row)
                self._recompute(row, attempt.start)
            self._look_out(attempt, replay)

    def require_met(self) -> None:
        """Raise unless the history passed the checkpoint's cursor."""
        if not self._is_met:
            assert self._cursor is not None
            update = self._cursor.updates_committed
            reason = self._reason or "no row that lived leads there"
            raise LedgerError(
                f"history does not pass the checkpoint's cursor at update {update:,}: {reason}"
            )

    def _begin(self, attempt: Attempt) -> Replay:
        start, replay = attempt.start, self._replay
        order = attempt.order or (None if start.packing_id else self._given_order)
        self._set_order(order, attempt)
        if replay is None and start.updates_committed > 0:
            self._note(f"the updates up to {start.updates_committed:,} are not in this ledger")
        reason = "" if replay is None else replay.why_not_at(start, _first_round_size(attempt))
        if reason and not _was_moved(start):
            raise LedgerError(f"does not begin where the rows before it end: {reason}")
        if replay is None or reason:
            if replay is not None:
                self._note_move(attempt, replay)
            replay = self._replay = Replay(start)
        replay.plan(start, None if order is None else order.num_positions(start.epoch))
        return replay

    def _note_move(self, attempt: Attempt, before: Replay) -> None:
        start = attempt.start
        if start.updates_committed != before.updates:
            raise LedgerError(
                f"begins after update {start.updates_committed:,}, and the rows before it end at "
                f"update {before.updates:,}"
            )
        self._note(
            f"attempt {attempt.number} was moved by hand, from epoch {before.epoch:,}, position "
            f"{before.position:,}, to epoch {start.epoch:,}, position {start.position:,}"
        )

    def _set_order(self, order: Order | None, attempt: Attempt) -> None:
        start, self._contributions = attempt.start, None
        if order is None:
            reason = why_not_rebuilt(start, attempt.plan)
            self._note(f"identity digests and ends of epochs not checked: {reason}")
            return
        contributions = SampleContributions(
            order,
            start.base_size,
            start.data_fingerprint,
            data_unverified=start.data_unverified,
        )
        expected = (start.order_id, start.seed, start.plan_digest)
        if order is self._given_order and expected != (
            (order.order_id, order.seed, contributions.plan_digest)
        ):
            raise ArgumentError(f"order must be that of {start}, got {order!r}")
        self._contributions = contributions

    def _recompute(self, row: dict[str, Any], start: Cursor) -> None:
        if self._contributions is None or row["outcome"] != "committed":
            return
        place = start.replace(
            epoch=row["epoch"], position=row["first"], digest_first=0, skipped=0, deferred=()
        )
        digest = self._contributions.advance(place, row["stop"] - row["first"]).digest
        if digest != row["ids_digest"]:
            raise LedgerError(
                f"ids_digest is {row['ids_digest'].hex()}, and the order gives {digest.hex()}"
            )
        self.num_recomputed += 1

    def _look_out(self, attempt: Attempt, replay: Replay) -> None:
        cursor = self._cursor
        if self._is_met or cursor is None or cursor.updates_committed != replay.updates:
            return
        try:
            require_same_run(attempt.start, cursor)
        except LedgerError as error:
            self._reason = str(error)
            return
        self._reason = replay.why_not_at(cursor)
        self._is_met = not self._reason

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)


def _first_round_size(attempt: Attempt) -> int:
    sizes = (round_size_of(values_of(row)) for row in attempt.rows)
    return next((size for size in sizes if size > 0), 0)


def _was_moved(start: Cursor) -> bool:
    """Return whether a seek, or a load that accepted a difference, made this cursor."""
    counts_from_here = start.digest_first == start.position and start.identity_digest == _NO_DIGEST
    return counts_from_here and (start.position > 0 or start.last_digest == _NO_DIGEST)


def _check_contents(history: History) -> None:
    """Raise if two attempts noted different contents for the same contributions."""
    seen: dict[tuple[object, ...], tuple[str, bytes]] = {}
    for attempt in history.attempts:
        start, rows = attempt.start, attempt.rows
        plan = (start.data_fingerprint, start.order_id, start.seed, start.plan_digest)
        noted = rows["tokens_digest"] != np.void(_NO_DIGEST)
        for number in np.flatnonzero(noted & (rows["outcome"] == COMMITTED)).tolist():
            row = values_of(rows[number])
            key = (*plan, start.seq_len, row["epoch"], row["first"], row["stop"])
            name, digest = seen.setdefault(key, (name_row(number, attempt), row["tokens_digest"]))
            if digest != row["tokens_digest"]:
                raise LedgerError(
                    f"{name_row(number, attempt)}: other contents at the same positions than "
                    f"{name}: tokens_digest {row['tokens_digest'].hex()}, expected {digest.hex()}"
                )


@contextmanager
def _naming(number: int, attempt: Attempt) -> Iterator[None]:
    """Put a row's name before the message of an error."""
    try:
        yield
    except LedgerError as error:
        raise LedgerError(f"{name_row(number, attempt)}: {error}") from error
