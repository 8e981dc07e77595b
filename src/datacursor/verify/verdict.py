"""What was found about restarts, and the words for it: lines of at most 100 columns."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from datacursor.cursor import Cursor
from datacursor.recovery.aspects import CURSOR
from datacursor.verify.compare import CLAIMS, MISSING, Difference

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from datacursor.recovery.determinism import EnvironmentDifference
    from datacursor.verify.log import Log

MAX_COLUMNS = 100
EQUAL, DIFFERENT, NOT_JUDGED = STATUSES = ("EQUAL", "DIFFERENT", "NOT JUDGED")
UNINTERRUPTED, KILLED = "uninterrupted", "killed"


@dataclass(frozen=True, slots=True)
class Restart:
    """One kill and what came of it.

    Attributes:
        kill: Update after which the process was killed.
        operation: The file operation of a save before which it was killed; empty for none.
        killed: What the killed process did.
        resumed: What the process after it did.
        claim: What was compared: the claim asked for, or less where the environments differ.
        changes: In what the environments differ.
        difference: The first difference, None if there is none.
        versus: The run it is a difference from.
    """

    kill: int
    operation: str
    killed: Log
    resumed: Log
    claim: str
    changes: Sequence[EnvironmentDifference]
    difference: Difference | None
    versus: str = UNINTERRUPTED

    @property
    def is_rerun(self) -> bool:
        """Whether nothing was restored: the second process began anew."""
        return self.resumed.first <= 1

    @property
    def place(self) -> str:
        """Where it was killed, in words."""
        return f"update {self.kill}" + (f", before {self.operation}" if self.operation else "")


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that the self-test planted, and what was found.

    Attributes:
        name: What was done.
        touched: What a difference must name; empty where the state has no such thing.
        difference: The first difference, None if there was none.
    """

    name: str
    touched: Sequence[str]
    difference: Difference | None

    @property
    def is_possible(self) -> bool:
        """Whether the program's state has what is to be damaged."""
        return bool(self.touched)

    @property
    def is_caught(self) -> bool:
        """Whether the first difference names what was touched."""
        if self.difference is None:
            return False
        subject = self.difference.subject
        return any(subject == name or subject.startswith(f"{name} ") for name in self.touched)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement on a program.

    Attributes:
        status: "EQUAL", "DIFFERENT" or "NOT JUDGED".
        asked: The claim asked for.
        tolerance: Of `close`, in words.
        reason: Why it could not be judged; else empty.
        uninterrupted: What the program does when nobody kills it.
        restarts: Every kill, in order.
        difference: Where it is the uninterrupted runs that differ.
        faults: What the self-test planted.
    """

    status: str
    asked: str
    tolerance: str
    reason: str = ""
    uninterrupted: Log | None = None
    restarts: Sequence[Restart] = ()
    difference: Difference | None = None
    faults: Sequence[Fault] = ()

    @property
    def claim(self) -> str:
        """The weakest claim of all restarts."""
        return min((r.claim for r in self.restarts), key=CLAIMS.index, default=self.asked)

    @property
    def exit_status(self) -> int:
        """0 equal, 1 a difference, 2 could not be judged."""
        return STATUSES.index(self.status)


def lines_of(verdict: Verdict) -> list[str]:
    """Return a verdict as lines, the first one with verdict, claim and first difference."""
    return [clip(line) for line in _lines(verdict)]


def facts_of(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict for programs."""
    return {
        "verdict": verdict.status.lower(),
        "claim": verdict.claim,
        "asked": verdict.asked,
        "tolerance": verdict.tolerance,
        "reason": verdict.reason,
        "restarts": [
            {
                "killed_at": restart.kill,
                "killed_before": restart.operation,
                "resumed_at": restart.resumed.first,
                "last_update": restart.resumed.last,
                "is_rerun": restart.is_rerun,
                "claim": restart.claim,
                "environment": {c.name: [c.saved, c.current] for c in restart.changes},
                "versus": restart.versus,
                "difference": _facts_of(restart.difference),
            }
            for restart in verdict.restarts
        ],
        "not_reproducible": _facts_of(verdict.difference),
        "faults": [
            {
                "name": fault.name,
                "is_possible": fault.is_possible,
                "is_caught": fault.is_caught,
                "difference": _facts_of(fault.difference),
            }
            for fault in verdict.faults
        ],
    }


def clip(line: str) -> str:
    """Return a line that fits, its middle left out where it is too long."""
    if len(line) <= MAX_COLUMNS:
        return line
    end = (MAX_COLUMNS - 3) // 2
    return f"{line[: MAX_COLUMNS - 3 - end]}...{line[-end:]}"


def difference_lines(difference: Difference, runs: tuple[str, str]) -> list[str]:
    """Return where two runs differ first, in values; `runs` names the expected and the other."""
    place = f" {list(difference.place)}" if difference.place else ""
    width = max(map(len, runs)) + 1
    texts = [difference.expected, difference.found]
    if difference.aspect == CURSOR and not difference.name and MISSING not in texts:
        texts = _cursors_in_words(texts)
    return [
        f"update {difference.update}: {difference.subject}{place}",
        *(f"  {name + ':':<{width}} {text}" for name, text in zip(runs, texts, strict=True)),
    ]


def _lines(verdict: Verdict) -> Iterator[str]:
    first = next((r for r in verdict.restarts if r.difference is not None), None)
    summary, *rest = _summary(verdict, first).split("\n")
    yield f"{verdict.status} ({_claim(verdict)}): {summary}"
    yield from rest
    if verdict.difference is not None:
        head, *values = difference_lines(verdict.difference, ("once", "once more"))
        yield from (f"two uninterrupted runs differ at {head}", *values)
    if first is not None and first.difference is not None:
        head, *values = difference_lines(first.difference, (first.versus, "restarted"))
        yield from (f"restart differs at {head}", *values)
    for restart in verdict.restarts:
        yield f"  {_describe(restart)}"
    yield from _environment_lines(verdict)
    for fault in verdict.faults:
        yield f"  {_describe_fault(fault)}"


def _environment_lines(verdict: Verdict) -> Iterator[str]:
    changes = {change.name: change for r in verdict.restarts for change in r.changes}
    if changes and verdict.claim != verdict.asked:
        yield f"the claim is {verdict.claim}, not {verdict.asked}: the environment differs"
    for name, change in changes.items():
        yield f"  {name}: {change.saved!r} uninterrupted, {change.current!r} restarted"


def _claim(verdict: Verdict) -> str:
    claim = verdict.claim
    return f"{claim}, {verdict.tolerance}" if claim == "close" else claim


def _summary(verdict: Verdict, first: Restart | None) -> str:
    if first is not None and first.difference is not None:
        difference = first.difference
        return f"killed at {first.kill}, update {difference.update}: {difference.subject}"
    if verdict.reason:
        return verdict.reason
    restarts = [restart for restart in verdict.restarts if not restart.is_rerun]
    last = max(restart.resumed.last for restart in restarts)
    noun = "restart" if len(restarts) == 1 else "restarts"
    text = f"{len(restarts)} {noun} up to update {last}; no difference"
    if verdict.faults:
        possible = [fault for fault in verdict.faults if fault.is_possible]
        text += f"; {len(possible)} planted faults caught"
    return text


def _describe(restart: Restart) -> str:
    log = restart.resumed
    if restart.is_rerun:
        return f"killed at {restart.place}: a rerun, not a restart: it began again at update 1"
    again = max(0, restart.killed.last - log.first + 1)
    verb = "equal" if restart.difference is None else "DIFFERENT"
    return (
        f"killed at {restart.place}: updates {log.first} to {log.last} {verb}, "
        f"{again} of them made again"
    )


def _facts_of(difference: Difference | None) -> dict[str, Any] | None:
    return None if difference is None else asdict(difference)


def _describe_fault(fault: Fault) -> str:
    if not fault.is_possible:
        return f"{fault.name}: not possible, this state has none"
    if fault.difference is None:
        return f"{fault.name}: NOT FOUND"
    verb = "caught" if fault.is_caught else "NOT NAMED"
    return f"{fault.name}: {verb}, update {fault.difference.update}: {fault.difference.subject}"


def _cursors_in_words(tokens: Sequence[str]) -> list[str]:
    """Return two cursors in words, or the fields that differ where the words do not."""
    cursors = [Cursor.from_token(token) for token in tokens]
    words = [str(cursor) for cursor in cursors]
    if len(set(words)) > 1:
        return words
    a, b = (json.loads(cursor.to_json()) for cursor in cursors)
    names = [name for name in a if a[name] != b[name] and name != "checksum"]
    return [", ".join(f"{name} {fields[name]}" for name in names) for fields in (a, b)]
