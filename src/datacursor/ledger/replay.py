"""A run followed through the rows of its ledger, as its cursor must have moved."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from datacursor.contributions import add_digests
from datacursor.errors import LedgerError

if TYPE_CHECKING:
    from datacursor.cursor import Cursor

_NO_DIGEST = bytes(16)


def round_size_of(row: dict[str, Any]) -> int:
    """Return the contributions of all ranks in a micro-batch of a row; 0 if it has none."""
    return (row["stop"] - row["first"]) // row["micro_batches"] if row["micro_batches"] else 0


class Replay:
    """Where the run stands after some rows.

    The end of an epoch is the start of the next, but a row does not say that its epoch ended; the
    next row or cursor does, so a replay stands at (e, n) until it is seen in (e + 1, 0).

        row   [first, stop)            must begin where the one before ended,
        or    in a range put off earlier in the epoch,
        or    at 0 of the next epoch, if this one is complete.

    Args:
        start: The cursor to begin at.
    """

    def __init__(self, start: Cursor) -> None:
        self.updates = start.updates_committed
        self.epoch = start.epoch
        self.position = start.position
        self.tokens = start.tokens_committed
        self.digest = start.identity_digest
        self.last_digest = start.last_digest
        self.skipped = start.skipped
        self.deferred = [(first, first + count) for first, count in start.deferred]
        self._drop_last = start.drop_last
        self._num_positions: int | None = None
        self._round_size = 0  # of the last update

    def plan(self, start: Cursor, num_positions: int | None) -> None:
        """Take over what a cursor knows of the epochs from here on.

        Args:
            start: The cursor an attempt began at.
            num_positions: Contributions of an epoch; None if unknown.
        """
        self._drop_last = start.drop_last
        self._num_positions = num_positions

    def apply(self, row: dict[str, Any]) -> None:
        """Move over a row.

        Raises:
            LedgerError: The run cannot have moved so.
        """
        is_commit = row["outcome"] == "committed"
        expected = self.updates + is_commit
        if row["update"] != expected:
            raise LedgerError(f"has update {row['update']:,}, expected {expected:,}")
        first, stop = row["first"], row["stop"]
        if stop < first:
            raise LedgerError(f"ends at position {stop:,} before it begins at {first:,}")
        round_size = round_size_of(row)
        if not self._take_deferred(row["epoch"], first, stop):
            self._move(row["epoch"], first, stop, round_size)
        self._round_size = round_size or self._round_size
        self.updates = expected
        if is_commit:
            self.tokens += row["num_tokens"]
            self.digest = add_digests(self.digest, row["ids_digest"])
        elif row["outcome"] == "deferred":
            self.deferred.append((first, stop))
        else:
            self.skipped += stop - first
        if row["outcome"] == "user_skipped":
            self.digest = _NO_DIGEST  # it counts from here

    def why_not_at(self, cursor: Cursor, round_size: int = 0) -> str:
        """Return in which fields a cursor is elsewhere, with both values of each; else nothing.

        Args:
            cursor: Where the run says it is.
            round_size: Contributions of a round there, which may leave less than that behind; 0
                if there is none yet.
        """
        here = copy(self)
        if (cursor.epoch, cursor.position) == (self.epoch + 1, 0):
            try:
                here._finish_epoch(round_size)
            except LedgerError as error:
                return str(error)
        deferred = [(first, first + count) for first, count in cursor.deferred]
        pairs = {
            "updates_committed": (here.updates, cursor.updates_committed),
            "epoch": (here.epoch, cursor.epoch),
            "position": (here.position, cursor.position),
            "tokens_committed": (here.tokens, cursor.tokens_committed),
            "skipped": (here.skipped, cursor.skipped),
            "deferred": (sorted(here.deferred), deferred),
            "identity_digest": (here.digest.hex(), cursor.identity_digest.hex()),
            "last_digest": (here.last_digest.hex(), cursor.last_digest.hex()),
        }
        differing = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
        if not differing:
            return ""
        lines = [", ".join(differing)]
        for name, (in_ledger, in_cursor) in differing.items():
            label = "" if len(differing) == 1 else f"{name} "
            lines += [f"  {label}in ledger: {in_ledger}", f"  {label}in cursor: {in_cursor}"]
        return "\n".join(lines)

    def _move(self, epoch: int, first: int, stop: int, round_size: int) -> None:
        if epoch == self.epoch + 1:
            self._finish_epoch(round_size)
        if epoch != self.epoch:
            raise LedgerError(f"is in epoch {epoch:,}, expected {self.epoch:,}")
        if first < self.position:
            last = min(stop, self.position)
            raise LedgerError(f"repeats positions [{first:,}, {last:,}) of epoch {epoch:,}")
        if first > self.position:
            raise LedgerError(
                f"leaves out positions [{self.position:,}, {first:,}) of epoch {epoch:,}"
            )
        if self._num_positions is not None and stop > self._num_positions:
            raise LedgerError(
                f"ends at position {stop:,} of an epoch that has {self._num_positions:,}"
            )
        self.position = stop

    def _take_deferred(self, epoch: int, first: int, stop: int) -> bool:
        """Return whether a range was put off before, and take it out of those."""
        if epoch != self.epoch:
            return False
        for number, (start, end) in enumerate(self.deferred):
            if start <= first and stop <= end:
                rest = [(start, first), (stop, end)]
                self.deferred[number : number + 1] = [(a, b) for a, b in rest if a < b]
                return True
        return False

    def _finish_epoch(self, round_size: int) -> None:
        """Stand at the start of the next epoch, if this one is complete."""
        stretches = list(self.deferred)
        if self._num_positions is not None and self.position < self._num_positions:
            stretches.append((self.position, self._num_positions))
        # A layout decides which rests are dropped: the one before them or the one after.
        limit = max(round_size, self._round_size) if self._drop_last else 0
        for first, stop in stretches:
            if stop - first >= limit:
                raise LedgerError(
                    f"leaves out positions [{first:,}, {stop:,}) of epoch {self.epoch:,}"
                )
        self.deferred = []
        self.epoch, self.position, self.skipped = self.epoch + 1, 0, 0
        self.digest, self.last_digest = _NO_DIGEST, self.digest
