"""The lines a training process logs, and the logs of a whole attempt read back.

A process writes one JSON object a line and flushes it, so that a kill cuts off at most
the line being written. The log says what happened; it is never read by the run itself.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

from datacursor.contributions import add_digests

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path
    from types import TracebackType

    from typing_extensions import Self

Row: TypeAlias = tuple[tuple[int, int, int], ...]  # the spans (document, start, stop) of a row


def split_rows(spans: Sequence[Sequence[int]], row_offsets: Sequence[int]) -> list[Row]:
    """Return the rows of a batch or plan, whose row r holds row_offsets[r : r + 2]'s spans."""
    return [
        tuple((span[0], span[1], span[2]) for span in spans[first:stop])
        for first, stop in pairwise(row_offsets)
    ]


@dataclass(frozen=True, slots=True)
class Start:
    """A process has loaded its state, or has none and begins.

    Attributes:
        update: Updates in the parameters it begins with.
        parameters: SHA-256 of these parameters.
        cursor: Token of the cursor it begins at.
    """

    update: int
    parameters: str
    cursor: str
    seconds: float = field(default_factory=time.time)


@dataclass(frozen=True, slots=True)
class Delivery:
    """The loader has handed a micro-batch to the loop.

    Attributes:
        update: The update it is part of, counted from 1 over the whole run.
        epoch: Its epoch.
        committed: Rows of the epoch, over all replicas, that are committed.
        delivered: Rows of the epoch, over all replicas, that are delivered.
        issued: Rows of the epoch, over all replicas, that are issued.
    """

    update: int
    epoch: int
    committed: int
    delivered: int
    issued: int
    seconds: float = field(default_factory=time.time)


@dataclass(frozen=True, slots=True)
class Update:
    """An optimizer update was made and committed.

    Attributes:
        attempt: Number of the attempt.
        update: Number of the update, counted from 1 over the whole run.
        epoch: Epoch of its rows.
        rows: The rows it was made from, as they were delivered, without padding.
        digest: Hexadecimal identity digest of these rows.
        loss: Mean loss over all targets of all replicas, in hexadecimal: every bit.
        parameters: SHA-256 of the parameters after the update.
        cursor: Token of the cursor after the commit.
    """

    attempt: int
    update: int
    epoch: int
    rows: tuple[Row, ...]
    digest: str
    loss: str
    parameters: str
    cursor: str
    seconds: float = field(default_factory=time.time)


@dataclass(frozen=True, slots=True)
class Saved:
    """The state of an update is durable."""

    update: int
    seconds: float = field(default_factory=time.time)


Record: TypeAlias = "Start | Delivery | Update | Saved"
_KINDS: dict[str, type[Record]] = {kind.__name__: kind for kind in (Start, Delivery, Update, Saved)}


class LogWriter:
    """Writes the log of one process, and repeats each line for whoever watches it.

    Args:
        path: The log file; it must not exist.
        echo: Where the lines are repeated.
    """

    def __init__(self, path: Path, echo: TextIO) -> None:
        self._file = path.open("x", encoding="utf-8", buffering=1)
        self._echo = echo

    def write(self, record: Record) -> None:
        """Append a record; it survives a kill of this process from then on."""
        line = json.dumps({"kind": type(record).__name__, **asdict(record)})
        self._file.write(line + "\n")
        self._echo.write(line + "\n")
        self._echo.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()


def decode(line: str) -> Record:
    """Return the record in a line."""
    values: dict[str, Any] = json.loads(line)
    kind = _KINDS[values.pop("kind")]
    if kind is Update:
        values["rows"] = tuple(tuple(map(tuple, row)) for row in values["rows"])
    return kind(**values)


def read_log(path: Path) -> list[Record]:
    """Return the records of one process, but for a last line that a kill cut off."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return [decode(line) for line in lines if line.endswith("\n")]


@dataclass(frozen=True)
class AttemptLog:
    """What the processes of one attempt logged, rank 0 first.

    Attributes:
        start: How the attempt began.
        deliveries: Deliveries to rank 0, in order.
        saved: Updates that became durable, in order.
        updates: The updates by number, each with the rows of all ranks.
        ranks_differ: Number of the first update after which the replicas' parameters were
            not all the same; None if there was none.
    """

    start: Start
    deliveries: tuple[Delivery, ...]
    saved: tuple[int, ...]
    updates: dict[int, Update]
    ranks_differ: int | None = None

    @property
    def committed(self) -> int:
        """Rows of its last epoch that were committed when the attempt ended."""
        last = self.deliveries[-1]
        return last.delivered if last.update in self.updates else last.committed

    @property
    def durable(self) -> int:
        """The last update whose state is durable."""
        return self.saved[-1] if self.saved else self.start.update

    @classmethod
    def of(cls, ranks: Iterable[Iterable[Record]]) -> AttemptLog:
        """Join the records of all ranks.

        Raises:
            ValueError: Rank 0 logged no start.
        """
        logs = [list(records) for records in ranks]
        start = next((record for record in logs[0] if isinstance(record, Start)), None)
        if start is None:
            raise ValueError("the log of rank 0 has no start")
        updates: dict[int, Update] = {}
        differing: list[int] = []
        for update in (record for log in logs for record in log if isinstance(record, Update)):
            first = updates.setdefault(update.update, update)
            if first is not update:
                updates[update.update] = _join(first, update)
                differing += [update.update] * (first.parameters != update.parameters)
        return cls(
            start,
            tuple(record for record in logs[0] if isinstance(record, Delivery)),
            tuple(record.update for record in logs[0] if isinstance(record, Saved)),
            updates,
            min(differing, default=None),
        )


def _join(a: Update, b: Update) -> Update:
    digest = add_digests(bytes.fromhex(a.digest), bytes.fromhex(b.digest))
    return replace(a, rows=a.rows + b.rows, digest=digest.hex())
