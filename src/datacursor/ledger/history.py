"""All attempts of a run read back from its ledger, and which of their rows lived.

An attempt begins with a start row, at the cursor it was restored to. Rows of earlier attempts past
that cursor died with their weights; what is left of all attempts is the effective history:

    attempt 0   start  1  2  3  4  5            restored from the checkpoint of update 3:
    attempt 1                start  4  5  6     4 and 5 of attempt 0 died; restored from 5:
    attempt 2                         start  6  7
    effective          1  2  3      4  5     6  7
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from datacursor.cursor import Cursor
from datacursor.errors import LedgerError
from datacursor.ledger import files
from datacursor.ledger.identity import rebuild_order
from datacursor.ledger.rows import (
    COMMITTED,
    DEFERRED,
    GENESIS,
    OUTCOMES,
    ROW,
    START,
    chains,
    digest_of_cursor,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from datacursor.ledger.identity import Plan
    from datacursor.ledger.rows import Rows
    from datacursor.order import Order

Progress: TypeAlias = tuple[int, int, int]  # updates, epoch, position
_NUM_TRIES = 5  # a compaction may remove files between their listing and their reading


@dataclass(frozen=True)
class Attempt:
    """What one attempt wrote.

    Attributes:
        number: Its number; the first is 0, as in cursors.
        start: The cursor it began at.
        plan: The description of its order and packing, if there is one.
        rows: Its rows, the start row first.
    """

    number: int
    start: Cursor
    plan: Plan | None
    rows: Rows

    @cached_property
    def order(self) -> Order | None:
        """Its order of samples, where start and plan decide it."""
        return rebuild_order(self.start, self.plan)

    @property
    def began_at(self) -> Progress:
        """How far the run was when it began."""
        start = self.start
        return start.updates_committed, start.epoch, start.position


class _Piece(NamedTuple):
    """Rows of one attempt from one file; `first` is the number of the first of them."""

    first: int
    rows: Rows
    path: Path


@dataclass(frozen=True)
class History:
    """Everything a ledger holds; reading it has checked every file and every chain value.

    Attributes:
        directory: Where it was read.
        attempts: The attempts that wrote rows, rising.
        idle: Numbers of attempts that began and wrote none, rising.
    """

    directory: Path
    attempts: tuple[Attempt, ...]
    idle: tuple[int, ...]

    @cached_property
    def lived(self) -> tuple[NDArray[np.bool_], ...]:
        """Of each attempt, which rows no later attempt was rewound past; no start row is."""
        masks = []
        earliest: list[Attempt] = []  # of the later ones, those rewound furthest
        for attempt in reversed(self.attempts):
            alive = attempt.rows["outcome"] != START
            for later in earliest:
                alive &= _is_alive(attempt.rows, later)
            masks.append(alive)
            candidates = [*earliest, attempt]
            furthest = min(later.began_at for later in candidates)
            earliest = [later for later in candidates if later.began_at == furthest]
        return tuple(reversed(masks))

    @cached_property
    def effective(self) -> Rows:
        """The rows that lived, in order."""
        parts = [a.rows[mask] for a, mask in zip(self.attempts, self.lived, strict=True)]
        return np.concatenate(parts) if parts else np.empty(0, ROW)

    @property
    def num_rows(self) -> int:
        """The rows of all attempts, start rows included."""
        return sum(len(attempt.rows) for attempt in self.attempts)


def read(directory: Path) -> History:
    """Read a whole ledger and check its files, their completeness and its chains.

    Raises:
        LedgerError: Damaged, incomplete or foreign; names the file or the first bad row.
        FileNotFoundError: There is no such directory.
    """
    pieces: dict[int, list[_Piece]] = {}
    for file, rows in _read_files(directory):
        for number in np.unique(rows["attempt"]).tolist():
            piece = rows[rows["attempt"] == number]
            first = file.row if file.is_part else 0
            pieces.setdefault(number, []).append(_Piece(first, piece, directory / file.name))
    attempts: list[Attempt] = []
    for number in sorted(pieces):
        rows = _join(number, pieces[number])
        start = files.read_claim(directory, number)
        if start is None:
            raise LedgerError(f"attempt {number}, row 0: the file of its first cursor is lost")
        attempt = Attempt(number, start, files.read_plan(directory, number), rows)
        _check_start(attempt, attempts)
        _check_chain(attempt)
        attempts.append(attempt)
    idle = (number for number in files.claims(directory) if number not in pieces)
    return History(directory, tuple(attempts), tuple(idle))


def last_chain(directory: Path) -> bytes:
    """Return the chain value of the last row, reading no more than its file.

    Raises:
        LedgerError: That file is damaged or foreign.
        FileNotFoundError: There is no such directory.
    """
    for _ in range(_NUM_TRIES):
        found = files.data_files(directory)
        if not found:
            return GENESIS
        try:
            rows = files.read_rows(directory, found[-1])
        except FileNotFoundError:
            continue
        if (
            found[-1].is_part
            and _first_difference(rows["chain"][0].tobytes(), rows[1:]) is not None
        ):
            raise LedgerError(f"{directory / found[-1].name}: its chain is broken")
        return bytes(rows["chain"][-1].tobytes())
    raise LedgerError(f"{directory}: its files change all the time")


def name_row(number: int, attempt: Attempt) -> str:
    """Return how messages name a row."""
    row = attempt.rows[number]
    return f"attempt {attempt.number}, row {number} (update {row['update']:,})"


def _read_files(directory: Path) -> list[tuple[files.DataFile, Rows]]:
    for _ in range(_NUM_TRIES):
        found = sorted(files.data_files(directory), key=lambda file: file.is_part)
        try:
            return [(file, files.read_rows(directory, file)) for file in found]
        except FileNotFoundError:
            continue
    raise LedgerError(f"{directory}: its files change all the time")


def _join(number: int, pieces: list[_Piece]) -> Rows:
    """Return the rows of an attempt; a compaction that was cut short leaves pieces twice."""
    fresh, end = [], 0
    for piece in sorted(pieces, key=lambda piece: (piece.first, -len(piece.rows))):
        if piece.first > end:
            raise LedgerError(
                f"attempt {number}, row {end}: missing; the next that there is stands in "
                f"{piece.path}"
            )
        fresh.append(piece.rows[end - piece.first :])
        end += len(fresh[-1])
    rows = np.concatenate(fresh)
    for piece in pieces:
        same = rows[piece.first : piece.first + len(piece.rows)]
        if same.tobytes() != piece.rows.tobytes():
            raise LedgerError(f"{piece.path}: contradicts another file with the same rows")
    return rows


def _check_start(attempt: Attempt, earlier: list[Attempt]) -> None:
    row, start = attempt.rows[0], attempt.start
    place = (*attempt.began_at, start.position, START)
    names = ("update", "epoch", "first", "stop", "outcome")
    if tuple(row[name] for name in names) != place or (
        row["tokens_digest"].tobytes() != digest_of_cursor(bytes(start))
    ):
        raise LedgerError(f"{name_row(0, attempt)}: is no start at the attempt's cursor, {start}")
    link = row["ids_digest"].tobytes()
    chained = (link in other.rows["chain"].tolist() for other in reversed(earlier))
    if link != GENESIS and not any(chained):
        raise LedgerError(
            f"{name_row(0, attempt)}: continues the chain value {link.hex()}, which no row of an "
            "earlier attempt has: rows are missing"
        )


def _check_chain(attempt: Attempt) -> None:
    rows = attempt.rows
    number = _first_difference(rows["ids_digest"][0].tobytes(), rows)
    if number is not None:
        raise LedgerError(
            f"{name_row(number, attempt)}: bad chain ({rows['chain'][number].tobytes().hex()})"
        )
    bad = np.flatnonzero((rows["outcome"] >= len(OUTCOMES)) | (rows["outcome"] == START))
    if len(bad) > 1:
        raise LedgerError(
            f"{name_row(int(bad[1]), attempt)}: has the outcome {rows['outcome'][bad[1]]}"
        )


def _first_difference(previous: bytes, rows: Rows) -> int | None:
    """Return the number of the first row whose chain value is not what it should be."""
    pairs = zip(chains(previous, rows), rows["chain"].tolist(), strict=True)
    return next((n for n, (expected, chain) in enumerate(pairs) if chain != expected), None)


def _is_alive(rows: Rows, later: Attempt) -> NDArray[np.bool_]:
    """Return which rows are not past the place where a later attempt began.

    Updates alone do not tell: a skip moves the position and makes no update. Nor do positions
    where deferred ranges are delivered again, so of those that were still deferred at that place
    only the deferral itself lives.
    """
    updates, epoch, position = later.began_at
    is_before = (rows["epoch"] < epoch) | ((rows["epoch"] == epoch) & (rows["stop"] <= position))
    for first, count in later.start.deferred:
        is_inside = (rows["first"] >= first) & (rows["stop"] <= first + count)
        is_it = (rows["stop"] - rows["first"] == count) & (rows["outcome"] == DEFERRED)
        is_before &= (rows["epoch"] != epoch) | ~is_inside | is_it
    is_last = (rows["update"] == updates) & ((rows["outcome"] == COMMITTED) | is_before)
    return np.asarray((rows["update"] < updates) | is_last)
