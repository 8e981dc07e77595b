"""A run followed through the rows of its ledger, as its cursor must have moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from datacursor.contributions import add_digests
from datacursor.errors import LedgerError
from datacursor.ledger.rows import COMMITTED, DEFERRED, OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from datacursor.cursor import Cursor

_NO_DIGEST = bytes(16)


class Replay:
    """Where the run stands after some rows.

    The end of an epoch is the start of the next, but a row does not say that its epoch ended; the
    next row or cursor does, so a replay stands at (e, n) until it is seen in (e + 1, 0).

        row   [first, stop)            must begin where the one before ended,
        or    in a range put off earlier in the epoch,
        or    at 0 of the next epoch, if this one is complete.

    Args:
        start: The cursor to begin at.
        num_positions: Contributions of an epoch; None if unknown.
    """

    def __init__(self, start: Cursor, num_positions: int | None) -> None:
        self.drop_last = start.drop_last
        self.num_positions = num_positions
        self.updates = start.updates_committed
        self.epoch = start.epoch
        self.position = start.position
        self.tokens = start.tokens_committed
        self.digest = start.identity_digest
        self.last_digest = start.last_digest
        self.skipped = start.skipped
        self.deferred = [(first, first + count) for first, count in start.deferred]
        self._round_size = 0  # of the last full update

    def apply(self, row: dict[str, Any]) -> None:
        """Move over a row.

        Raises:
            LedgerError: The run cannot have moved so.
        """
        code = OUTCOMES.index(row["outcome"])
        expected = self.updates + (code == COMMITTED)
        if row["update"] != expected:
            raise LedgerError(f"has update {row['update']:,}, expected {expected:,}")
        first, stop = row["first"], row["stop"]
        if stop < first:
            raise LedgerError(f"ends at position {stop:,} before it begins at {first:,}")
        round_size = (stop - first) // max(1, row["micro_batches"])
        if not self._take_deferred(row["epoch"], first, stop):
            self._move(row["epoch"], first, stop, round_size)
        self._round_size = round_size
        self.updates = expected
        if code == COMMITTED:
            self.tokens += row["num_tokens"]
            self.digest = add_digests(self.digest, row["ids_digest"])
        elif code == DEFERRED:
            self.deferred.append((first, stop))
        else:
            self.skipped += stop - first

    def differences(self, cursor: Cursor) -> Iterator[tuple[str, str, str]]:
        """Yield each field in which a cursor is elsewhere: its name, the value here, the cursor's.

        Raises:
            LedgerError: The cursor is in the next epoch, and this one is not complete.
        """
        if (cursor.epoch, cursor.position) == (self.epoch + 1, 0):
            self._finish_epoch(0)
        deferred = [(first, first + count) for first, count in cursor.deferred]
        for name, here, there in (
            ("updates_committed", self.updates, cursor.updates_committed),
            ("epoch", self.epoch, cursor.epoch),
            ("position", self.position, cursor.position),
            ("tokens_committed", self.tokens, cursor.tokens_committed),
            ("skipped", self.skipped, cursor.skipped),
            ("deferred", sorted(self.deferred), deferred),
            ("identity_digest", self.digest.hex(), cursor.identity_digest.hex()),
            ("last_digest", self.last_digest.hex(), cursor.last_digest.hex()),
        ):
            if here != there:
                yield name, str(here), str(there)

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
        if self.num_positions is not None and stop > self.num_positions:
            raise LedgerError(
                f"ends at position {stop:,} of an epoch that has {self.num_positions:,}"
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
        if self.deferred:
            raise LedgerError(f"leaves the deferred ranges {self.deferred} of epoch {self.epoch:,}")
        if self.num_positions is not None:
            rest = self.num_positions - self.position
            # A layout decides which rest is dropped: the one before it or the one after.
            may_drop = self.drop_last and rest < max(round_size, self._round_size)
            if rest != 0 and not may_drop:
                raise LedgerError(
                    f"leaves out positions [{self.position:,}, {self.num_positions:,}) of epoch "
                    f"{self.epoch:,}"
                )
        self.epoch, self.position, self.skipped = self.epoch + 1, 0, 0
        self.digest, self.last_digest = _NO_DIGEST, self.digest
