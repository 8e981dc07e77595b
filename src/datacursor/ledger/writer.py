"""`Ledger`: written down by a sampler's commits, one row for every move of the cursor."""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from datacursor.checks import MAX_COUNT, require_integer
from datacursor.errors import ArgumentError, LedgerError
from datacursor.ledger import files
from datacursor.ledger.history import last_chain
from datacursor.ledger.identity import require_same_run
from datacursor.ledger.rows import (
    BODY,
    OUTCOMES,
    ROW,
    START,
    digest_of_cursor,
    next_chain,
)

if TYPE_CHECKING:
    import os
    from types import TracebackType
    from typing import SupportsFloat

    from typing_extensions import Self

    from datacursor.cursor import Cursor
    from datacursor.ledger.identity import Plan
    from datacursor.outcome import Outcome
    from datacursor.sampler import CursorSampler

_Notes: TypeAlias = "tuple[bytes, float, float]"  # tokens digest, learning rate, loss

_NAN = float("nan")
_NO_DIGEST = bytes(16)
_CODES = {word: code for code, word in enumerate(OUTCOMES)}


class Ledger:
    """A record of what entered every update, in a directory of Arrow files.

    Attach it to a sampler once it is made, before or after its state is loaded. Every commit,
    skip and deferral becomes a row; rows are written every `rows_per_part` rows and whenever the
    sampler's state is taken, so that no checkpoint is ahead of its ledger. A run that is restored
    continues in the same directory. The ledger is never needed to resume.

    Only rank 0 writes; on other ranks nothing happens. Not thread safe.

    Args:
        directory: Made at the first row if there is none.
        rows_per_part: Rows kept in memory at most, >= 1.

    Raises:
        ArgumentError: rows_per_part is out of range.

    Example:
        >>> import tempfile, datacursor as dc
        >>> sampler = dc.CursorSampler(10, batch_size=5)
        >>> with tempfile.TemporaryDirectory() as directory, dc.Ledger(directory) as ledger:
        ...     ledger.attach(sampler)
        ...     for batch in dc.CursorLoader(range(10), sampler=sampler):
        ...         ledger.note(loss=0.5)
        ...         sampler.commit()
        ...     ledger.attempt, ledger.num_rows
        (0, 3)
    """

    def __init__(self, directory: str | os.PathLike[str], *, rows_per_part: int = 1000) -> None:
        self.directory = Path(directory)
        self._rows_per_part = require_integer("rows_per_part", rows_per_part, 1, MAX_COUNT)
        self._attempt: int | None = None
        self._last: Cursor | None = None  # where the cursor stands, by what was told
        self._chain = _NO_DIGEST
        self._buffer = bytearray()
        self._num_written = 0  # rows of this attempt in parts
        self._notes: _Notes = (_NO_DIGEST, _NAN, _NAN)
        self._untaken: deque[tuple[Outcome, _Notes, int]] = deque()  # told, and no rows yet
        self._plan: Plan | None = None  # known once attached
        self._sampler: CursorSampler | None = None

    @property
    def attempt(self) -> int | None:
        """Number of the attempt, 0 for the first; None before the first row."""
        return self._attempt

    @property
    def num_rows(self) -> int:
        """Rows of this attempt, written and buffered, the start row included."""
        return self._num_written + len(self._buffer) // ROW.itemsize

    @property
    def chain(self) -> str:
        """Chain value of the last row in hexadecimal, for the checkpoint; "" before the first.

        `datacursor ledger verify --chain` proves with it that no row before it was changed.
        """
        return "" if self._attempt is None else self._chain.hex()

    def attach(self, sampler: CursorSampler) -> None:
        """Record the commits of a sampler from now on.

        Raises:
            ArgumentError: This ledger has a sampler already.
        """
        if self._sampler is not None:
            raise ArgumentError("a ledger records one sampler: make another for another directory")
        self._sampler = sampler
        if sampler.rank == 0:
            contributions = sampler._tracker.contributions
            self._plan = {
                "order": contributions.order.description,
                "packing": contributions.packing_parameters,
            }
            sampler.add_observer(self)

    def note(
        self,
        *,
        loss: SupportsFloat | None = None,
        learning_rate: SupportsFloat | None = None,
        tokens_digest: bytes | None = None,
    ) -> None:
        """Add to the next row, so call it before the commit; what is not noted is NaN or zero.

        Args:
            loss: A number; a tensor on a device is waited for.
            learning_rate: A number.
            tokens_digest: 16 bytes computed from the contents the update was made from. If two
                attempts note different ones for the same positions, `verify` says so.

        Raises:
            ArgumentError: tokens_digest has not 16 bytes.
        """
        if self._sampler is not None:
            if self._sampler.rank != 0:
                return
            _ = self._sampler.cursor  # an update that a device has yet to decide gets its row first
        old_digest, old_rate, old_loss = self._notes
        if tokens_digest is not None and len(tokens_digest) != len(_NO_DIGEST):
            raise ArgumentError(f"tokens_digest must be 16 bytes, got {len(tokens_digest)}")
        self._notes = (
            old_digest if tokens_digest is None else bytes(tokens_digest),
            old_rate if learning_rate is None else _number(learning_rate),
            old_loss if loss is None else _number(loss),
        )

    def on_outcome(self, outcome: Outcome) -> None:
        """Add a row. The sampler calls it after each move of its cursor.

        Raises:
            LedgerError: A later attempt has begun elsewhere, or the directory holds another run
                or is damaged.
            OSError: The file system refuses; rows stay buffered.
        """
        self._untaken.append((outcome, self._notes, time.time_ns()))
        self._notes = (_NO_DIGEST, _NAN, _NAN)
        self._take()
        if len(self._buffer) >= self._rows_per_part * ROW.itemsize:
            self._write()

    def on_state(self, cursor: Cursor) -> None:
        """Write all rows. The sampler calls it when its state is taken.

        Raises:
            LedgerError: A later attempt has begun elsewhere.
            OSError: The file system refuses; rows stay buffered.
        """
        self.flush()

    def flush(self) -> None:
        """Write the buffered rows as a new part; they are durable on return.

        Raises:
            LedgerError: A later attempt has begun elsewhere.
            OSError: The file system refuses; rows stay buffered.
        """
        self._take()
        self._write()

    def __enter__(self) -> Self:
        """Return the ledger."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Write all rows and record no more."""
        self.flush()
        if self._sampler is not None and self._sampler.rank == 0:
            self._sampler.remove_observer(self)

    def _take(self) -> None:
        """Make rows of what was told; what the file system refuses is taken the next time."""
        while self._untaken:
            outcome, notes, time_ns = self._untaken[0]
            before, after = outcome.before, outcome.after
            if before is not self._last and before != self._last:
                self._begin(before, time_ns)
            self._untaken.popleft()
            self._add(
                after.updates_committed,
                before.epoch,
                outcome.first,
                outcome.stop,
                _CODES[outcome.kind],
                outcome.micro_batches,
                outcome.num_tokens,
                outcome.digest,
                *notes,
                time_ns,
            )
            self._last = after

    def _write(self) -> None:
        """Write the buffered rows."""
        if self._attempt is None or not self._buffer:
            return
        self._require_latest(self._attempt)
        rows = np.frombuffer(self._buffer, ROW)
        try:
            files.write_part(self.directory, self._attempt, self._num_written, rows)
        except FileNotFoundError:  # a later attempt cleans up as it begins
            self._require_latest(self._attempt)
            raise
        self._num_written += len(rows)
        self._buffer = bytearray()

    def _begin(self, start: Cursor, time_ns: int) -> None:
        """Begin an attempt: the run was started, restored or moved."""
        self._write()
        self.directory.mkdir(parents=True, exist_ok=True)
        for number in reversed(files.claims(self.directory)):
            if (earlier := files.read_claim(self.directory, number)) is not None:
                require_same_run(earlier, start)
                break
        attempt = files.claim_next(self.directory, start)
        if self._plan is not None:
            files.write_plan(self.directory, attempt, self._plan)
        files.remove_leftovers(self.directory)
        chain = last_chain(self.directory)
        self._attempt, self._chain, self._num_written = attempt, chain, 0
        position = start.position
        place = (start.updates_committed, start.epoch, position, position, START, 0, 0)
        self._add(*place, chain, digest_of_cursor(bytes(start)), _NAN, _NAN, time_ns)
        self._last = start

    def _require_latest(self, attempt: int) -> None:
        if files.is_claimed(self.directory, attempt + 1):
            raise LedgerError(
                f"{self.directory}: attempt {attempt + 1} has begun elsewhere, and this process "
                f"still runs attempt {attempt}: two processes train one run"
            )

    def _add(self, *values: int | float | bytes) -> None:
        body = BODY.pack(self._attempt, *values)
        self._chain = next_chain(self._chain, body)
        self._buffer += body
        self._buffer += self._chain


def _number(value: SupportsFloat) -> float:
    detach = getattr(value, "detach", None)  # torch warns where a tensor asks for gradients
    return float(value if detach is None else detach())
