"""Judges a run that was killed and resumed by its logs, against one that never was."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from datacursor.cursor import Cursor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from datacursor.demo.records import AttemptLog, Row, Update

    History: TypeAlias = Mapping[int, Update]  # by number, counted from 1
    Rows: TypeAlias = Counter[tuple[int, Row]]  # how often (epoch, row) occurs


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the verdict.

    Attributes:
        name: What was looked at.
        text: What was found; where something differs, the first difference.
        holds: Whether it is as it must be.
    """

    name: str
    text: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Closeness:
    """How far the parameters at a run's end are from those of another.

    Attributes:
        difference: The largest absolute difference.
        tolerance: The largest that passes.
    """

    difference: float
    tolerance: float


def effective_history(attempts: Iterable[AttemptLog]) -> dict[int, Update]:
    """Return the updates that the last parameters descend from, by number.

    What an attempt did after the state that its successor loaded died with its weights:

        attempt 0   1 2 3 4 5 6 7 x      killed; the state of update 4 was saved
        attempt 1           5 6 7 8 9    loaded it
        effective   1 2 3 4 5 6 7 8 9    5 to 7 are attempt 1's
    """
    history: dict[int, Update] = {}
    for attempt in attempts:
        kept = range(attempt.start.update + 1)
        history = {number: update for number, update in history.items() if number in kept}
        history |= attempt.updates
    return history


def rows_of(updates: Iterable[Update]) -> Rows:
    """Return how often each row entered an update."""
    return Counter((update.epoch, row) for update in updates for row in update.rows)


def judge_restart(
    uninterrupted: History, attempts: Sequence[AttemptLog], closeness: Closeness | None = None
) -> list[Finding]:
    """Judge the last of some attempts, up to its last update.

    Args:
        uninterrupted: Every update of the run that was never killed.
        attempts: The attempts so far, the last one a restart.
        closeness: How close the parameters came, where another number of replicas sums in
            another order; None asks for equality of every bit after every update.
    """
    attempt = attempts[-1]
    history = effective_history(attempts)
    last = max(history, default=0)
    numbers = range(attempt.start.update + 1, last + 1)
    due = [update for number, update in uninterrupted.items() if number <= last]
    if closeness is None:
        parameters = _judge_parameters(uninterrupted, history, numbers)
    else:
        parameters = _judge_closeness(uninterrupted, attempt, closeness)
    return [
        _judge_cursor(uninterrupted, attempt),
        _judge_state(effective_history(attempts[:-1]), attempt),
        *judge_rows(rows_of(due), rows_of(history.values()), rows_of(uninterrupted.values())),
        _judge_identities(uninterrupted, history, numbers),
        parameters,
    ]


def judge_rows(due: Rows, found: Rows, planned: Rows) -> list[Finding]:
    """Name the rows that are missing and those that occur too often.

    Args:
        due: The rows that must have entered an update by now.
        found: The rows that did.
        planned: The rows of the whole run; a row that only came too early is not doubled.
    """
    return [
        _judge_surplus("rows lost", due - found, due.total()),
        _judge_surplus("rows doubled", found - planned, due.total()),
    ]


def _judge_surplus(name: str, surplus: Rows, total: int) -> Finding:
    text = f"{surplus.total()} of {total:,}"
    if surplus:
        epoch, row = min(surplus)
        text += f"; the first: epoch {epoch}, {_describe([row])}"
    return Finding(name, text, not surplus)


def _judge_cursor(uninterrupted: History, attempt: AttemptLog) -> Finding:
    cursor = Cursor.from_token(attempt.start.cursor)
    saved = uninterrupted.get(attempt.start.update)
    if saved is None:
        return Finding("cursor", f"of update {attempt.start.update}, which is missing", holds=False)
    expected = Cursor.from_token(saved.cursor)
    if not cursor.same_position(expected):
        return Finding("cursor", _difference("cursor", str(expected), str(cursor)), holds=False)
    return Finding("cursor", str(cursor), holds=True)


def _judge_state(before: History, attempt: AttemptLog) -> Finding:
    number = attempt.start.update
    saved = before[number].parameters if number in before else "missing"
    if attempt.start.parameters != saved:
        text = _difference(f"parameters of update {number}", saved, attempt.start.parameters)
        return Finding("loaded", text, holds=False)
    return Finding("loaded", f"the parameters of update {number}, every bit", holds=True)


def _judge_identities(uninterrupted: History, history: History, numbers: range) -> Finding:
    difference = _first_difference(
        uninterrupted,
        history,
        numbers,
        {
            "epoch": lambda update: str(update.epoch),
            "rows": lambda update: _describe(sorted(update.rows)),
            "identity digest": lambda update: update.digest,
            "cursor": lambda update: _position_of(update.cursor),
        },
    )
    same = f"equal: {len(numbers)} updates, each with the same rows, digest and cursor"
    return Finding("identities", difference or same, difference is None)


def _judge_parameters(uninterrupted: History, history: History, numbers: range) -> Finding:
    difference = _first_difference(
        uninterrupted,
        history,
        numbers,
        {"loss": lambda update: update.loss, "parameters": lambda update: update.parameters},
    )
    same = f"bitwise equal after each of {len(numbers)} updates, losses too"
    return Finding("parameters", difference or same, difference is None)


def _judge_closeness(uninterrupted: History, attempt: AttemptLog, closeness: Closeness) -> Finding:
    if attempt.ranks_differ is not None:
        text = f"the replicas differ from each other after update {attempt.ranks_differ}"
        return Finding("parameters", text, holds=False)
    loss_difference = max(
        abs(float.fromhex(update.loss) - float.fromhex(uninterrupted[number].loss))
        for number, update in attempt.updates.items()
        if number in uninterrupted
    )
    holds = max(closeness.difference, loss_difference) <= closeness.tolerance
    text = (
        f"{'close' if holds else 'not close'}: largest difference {closeness.difference:.1e}, "
        f"of the losses {loss_difference:.1e}; tolerance {closeness.tolerance:.0e}"
    )
    return Finding("parameters", text, holds)


def _first_difference(
    uninterrupted: History,
    history: History,
    numbers: range,
    aspects: Mapping[str, Callable[[Update], str]],
) -> str | None:
    for number in numbers:
        for run, name in ((uninterrupted, "uninterrupted"), (history, "restarted")):
            if number not in run:
                return f"update {number} is missing in the {name} run"
        for name, value_of in aspects.items():
            expected, found = value_of(uninterrupted[number]), value_of(history[number])
            if expected != found:
                return _difference(f"{name} of update {number}", expected, found)
    return None


def _difference(name: str, expected: str, found: str) -> str:
    return f"first difference: {name}\n  uninterrupted: {expected}\n  restarted:     {found}"


def _position_of(token: str) -> str:
    """Return a cursor's text without what may change at a restart."""
    return Cursor.from_token(token).replace(attempt=0, replicas=0).to_json()


def _describe(rows: Sequence[Row]) -> str:
    """Return rows as text: [12: 0-256] is a row of tokens 0 to 255 of document 12."""
    return " ".join(
        "[" + ", ".join(f"{document}: {start}-{stop}" for document, start, stop in row) + "]"
        for row in rows
    )
