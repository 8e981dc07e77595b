"""Starts the training program under a trace, and waits until it ends or is killed."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from datacursor.errors import DataCursorError
from datacursor.recovery.trace import TRACE_VARIABLE, Orders
from datacursor.verify.log import Log, read_log

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

RUN_DIR_WORD = "{run_dir}"
RUN_DIR_VARIABLE = "DATACURSOR_RUN_DIR"
_OUTPUT_NAME = "output.txt"
_NUM_LAST_WORDS = 8  # lines of a failed program, shown


class ProgramError(DataCursorError, RuntimeError):
    """The training program failed, hung, or did not trace what it was to trace."""


@dataclass(frozen=True, slots=True)
class Program:
    """A training program's command.

    Attributes:
        words: Program and arguments; `{run_dir}` in them stands for the run's directory, which
            is in the environment variable `DATACURSOR_RUN_DIR` too.
        timeout_seconds: For one process; one that takes longer is killed.
    """

    words: Sequence[str]
    timeout_seconds: float

    def run(self, orders: Orders, directory: Path) -> Log:
        """Run one process to its end, or until it is killed as ordered.

        Args:
            orders: What is wanted of it.
            directory: Of its trace, which is made; it gets the program's output too.

        Raises:
            ProgramError: It failed, hung or wrote no trace; shows its last words.
        """
        directory.mkdir(parents=True)
        orders.write(directory)
        status = self._wait(orders, directory)
        log = read_log(directory)
        reached = log.operation if orders.stop_at_operation else log.last >= orders.stop_at
        if status != 0 and not reached:
            raise ProgramError(_failure(directory, f"ended with status {status}"))
        if not log.updates and not log.operation:
            reason = "traced no update: does it call Trace.commit()?"
            raise ProgramError(_failure(directory, reason))
        return log

    def _wait(self, orders: Orders, directory: Path) -> int:
        environment = {
            **os.environ,
            TRACE_VARIABLE: str(directory),
            RUN_DIR_VARIABLE: orders.run_dir,
        }
        with (directory / _OUTPUT_NAME).open("wb") as output:
            process = subprocess.Popen(
                [word.replace(RUN_DIR_WORD, orders.run_dir) for word in self.words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,  # what it starts is in its group, and ends with it
            )
        try:
            return process.wait(self.timeout_seconds)
        except subprocess.TimeoutExpired as error:
            reason = f"did not end in {self.timeout_seconds:g} s"
            raise ProgramError(_failure(directory, reason)) from error
        finally:
            _end_group(process)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of a program and of all it started."""
    with suppress(ProcessLookupError):  # nothing is left
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _failure(directory: Path, reason: str) -> str:
    text = (directory / _OUTPUT_NAME).read_text(encoding="utf-8", errors="replace")
    last_words = text.splitlines()[-_NUM_LAST_WORDS:]
    head = f"{directory.name} {reason}" + (", its last words:" if last_words else "")
    return "\n  ".join([head, *last_words])
