"""The runs of a training program in order: twice uninterrupted, then killed and resumed.

    uninterrupted   1 2 3 4 5 6 7 8        to the last update, twice; both must be equal
    killed          1 2 3 4 5 x            killed after the line of update 5
    resumed               4 5 6 7 8        a fresh process with the same run directory

The resumed run is compared with the killed one where both made an update (4 and 5), then with
the uninterrupted one. What the resumed run makes again may differ from the killed run only if
the program does not restore all that it depends on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from datacursor.recovery.determinism import compare_environment
from datacursor.recovery.trace import Orders
from datacursor.verify.compare import BITWISE, CLOSE, Tolerance, first_difference
from datacursor.verify.launch import ProgramError
from datacursor.verify.verdict import (
    DIFFERENT,
    EQUAL,
    KILLED,
    NOT_JUDGED,
    UNINTERRUPTED,
    Restart,
    Verdict,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from datacursor.verify.compare import Difference
    from datacursor.verify.launch import Program
    from datacursor.verify.log import Log


@dataclass(frozen=True, slots=True)
class Kill:
    """Where a process is killed: after an update's line, or before a file operation behind it.

    Attributes:
        update: The update.
        operation: Number of the file operation, from 1; 0 for the line itself.
    """

    update: int
    operation: int = 0

    def __str__(self) -> str:
        """Return a name for the run that is killed there."""
        return f"kill-{self.update}" + (f"-operation-{self.operation}" if self.operation else "")


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a program.

    Attributes:
        steps: Updates of a run.
        kills: Updates after which a process is killed.
        claim: "bitwise", "close" or "samples".
        tolerance: Of `close`.
        kill_during_save: Kill in the saves that follow these updates too.
    """

    steps: int
    kills: Sequence[int]
    claim: str
    tolerance: Tolerance
    kill_during_save: bool = False


class Harness:
    """Runs a program in a directory of its own.

    Args:
        program: What is killed.
        successor: What resumes it.
        question: What is asked.
        directory: Where runs and traces go; empty.
        say: Is told of every run as it ends.
    """

    def __init__(
        self,
        program: Program,
        successor: Program,
        question: Question,
        directory: Path,
        say: Callable[[str], None],
    ) -> None:
        self._program = program
        self._successor = successor
        self._question = question
        self._directory = directory
        self._say = say

    def judge(self) -> Verdict:
        """Run, kill, resume and compare."""
        try:
            whole, again = self.run_uninterrupted(1), self.run_uninterrupted(2)
            difference = self._compare(whole, again, range(1, whole.last + 1))
            if difference is not None:
                return self._not_reproducible(whole, difference)
            restarts = []
            for kill in self._kills(whole):
                killed = self.run_killed(kill, str(kill))
                difference = self._compare(whole, killed, range(1, killed.last + 1))
                if difference is not None:
                    return self._not_reproducible(whole, difference)
                restarts.append(self.judge_restart(whole, killed, self.resume(str(kill)), kill))
        except ProgramError as error:
            return self._verdict(NOT_JUDGED, reason=str(error))
        if all(restart.is_rerun for restart in restarts):
            reason = "nothing was resumed: every restarted run began again at update 1"
            return self._verdict(NOT_JUDGED, reason, whole, restarts)
        is_different = any(restart.difference is not None for restart in restarts)
        return self._verdict(DIFFERENT if is_different else EQUAL, "", whole, restarts)

    # -- runs ------------------------------------------------------------------------------

    def run_uninterrupted(self, number: int) -> Log:
        """Run the program to the last update; it must get behind the last kill."""
        name = f"{UNINTERRUPTED}-{number}"
        log = self._run(self._program, name, name, Kill(self._question.steps))
        if log.last <= max(self._question.kills):
            raise ProgramError(f"{name} ended after update {log.last}, before the last kill")
        return log

    def run_killed(self, kill: Kill, run: str) -> Log:
        """Run the program in a run's directory and kill it."""
        name = f"{run}-killed"
        log = self._run(self._program, run, name, kill)
        if log.last < kill.update or (kill.operation > 0 and not log.operation):
            raise ProgramError(f"{name} was not killed: it ended after update {log.last}")
        return log

    def resume(self, run: str, on_load: str = "") -> Log:
        """Run what resumes a killed run; `on_load` names what is done to the loaded state."""
        last = Kill(self._question.steps)
        return self._run(self._successor, run, f"{run}-resumed", last, on_load)

    def run_dir(self, run: str) -> Path:
        """Return where a run saves."""
        return self._directory / "runs" / run

    def _run(self, program: Program, run: str, name: str, kill: Kill, on_load: str = "") -> Log:
        run_dir = self.run_dir(run)
        run_dir.mkdir(parents=True, exist_ok=True)
        orders = Orders(kill.update, str(run_dir), kill.operation, on_load)
        log = program.run(orders, self._directory / "traces" / name)
        self._say(f"{name}: updates {log.first} to {log.last}")
        return log

    def _kills(self, whole: Log) -> Iterator[Kill]:
        for update in self._question.kills:
            yield Kill(update)
            if self._question.kill_during_save:
                yield from _kills_in_save(whole, update)

    # -- judgement -------------------------------------------------------------------------

    def judge_restart(self, whole: Log, killed: Log, resumed: Log, kill: Kill) -> Restart:
        """Compare what resumed a killed run with that run and with the uninterrupted one."""
        changes = compare_environment(dict(whole.environment), dict(resumed.environment))
        claim = self._question.claim
        if claim == BITWISE and changes:
            claim = CLOSE
        versus = KILLED
        difference = self._compare(killed, resumed, range(resumed.first, killed.last + 1), claim)
        if difference is None:
            versus = UNINTERRUPTED
            updates = range(resumed.first, whole.last + 1)
            difference = self._compare(whole, resumed, updates, claim)
        return Restart(
            kill.update, killed.operation, killed, resumed, claim, changes, difference, versus
        )

    def _compare(
        self, expected: Log, found: Log, updates: range, claim: str | None = None
    ) -> Difference | None:
        claim = claim or self._question.claim
        return first_difference(expected, found, updates, claim, self._question.tolerance)

    def _not_reproducible(self, whole: Log, difference: Difference) -> Verdict:
        reason = f"not reproducible, update {difference.update}: {difference.subject}"
        return self._verdict(NOT_JUDGED, reason, whole, (), difference)

    def _verdict(
        self,
        status: str,
        reason: str = "",
        whole: Log | None = None,
        restarts: Sequence[Restart] = (),
        difference: Difference | None = None,
    ) -> Verdict:
        question = self._question
        return Verdict(
            status, question.claim, str(question.tolerance), reason, whole, restarts, difference
        )


def _kills_in_save(whole: Log, update: int) -> Iterator[Kill]:
    """Yield three places in the first save after an update: its first operation, middle, last.

    The operations between two lines are counted in the second one.
    """
    for number in range(update, whole.last):
        count = whole.updates[number + 1].operations
        if count > 0:
            yield from (Kill(number, at) for at in sorted({1, (count + 1) // 2, count}))
            return
    raise ProgramError(f"no file was written after update {update}: nothing to kill a save of")
