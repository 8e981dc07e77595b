"""Starts the training program, kills it at a chosen update, or waits for its end."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from threading import Timer
from typing import IO, TYPE_CHECKING

from datacursor.demo.records import AttemptLog, Delivery, decode, read_log
from datacursor.demo.settings import Attempt, log_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LIMIT_SECONDS = 300.0  # for an attempt; far more than any needs
_ERROR_LINES = 12  # of a failed process, shown


def run_to_end(run: Path, attempt: Attempt) -> None:
    """Run all processes of an attempt until they end.

    Args:
        run: Directory of the run, in the demo's directory.
        attempt: What to start.

    Raises:
        ChildProcessError: A process failed; the message shows its last words.
        TimeoutError: A process did not end in time.
    """
    deadline = time.monotonic() + _LIMIT_SECONDS
    with _processes(run, attempt, subprocess.DEVNULL) as processes:
        for rank, process in enumerate(processes):
            try:
                status = process.wait(deadline - time.monotonic())
            except subprocess.TimeoutExpired as error:
                raise TimeoutError(
                    f"attempt {attempt.number} did not end in {_LIMIT_SECONDS:.0f} s"
                ) from error
            if status != 0:
                raise ChildProcessError(_failure(run, attempt, rank, status))


def run_and_kill(run: Path, attempt: Attempt, update: int) -> None:
    """Run the one process of an attempt and kill it in the middle of an update.

    The kill comes when the update's first micro-batch was delivered to the training loop,
    which logs it just before; nothing of the update is committed then.

    Args:
        run: Directory of the run, in the demo's directory.
        attempt: What to start, one replica.
        update: Number of the update to kill it in.

    Raises:
        ChildProcessError: The process ended before; the message shows its last words.
    """
    with _processes(run, attempt, subprocess.PIPE) as (process,):
        watchdog = Timer(_LIMIT_SECONDS, process.kill)
        watchdog.start()
        try:
            reached = _wait_for(process, update)
            process.kill()
            status = process.wait()
        finally:
            watchdog.cancel()
        if not reached or status == 0:
            raise ChildProcessError(_failure(run, attempt, 0, status))


def read_attempt(run: Path, attempt: Attempt) -> AttemptLog:
    """Return what the processes of an attempt logged."""
    ranks = range(attempt.replicas)
    return AttemptLog.of(read_log(run / log_name(attempt.number, rank)) for rank in ranks)


def _wait_for(process: subprocess.Popen[str], update: int) -> bool:
    assert process.stdout is not None
    for line in process.stdout:
        record = decode(line)
        if isinstance(record, Delivery) and record.update == update:
            return True
    return False


@contextmanager
def _processes(
    run: Path, attempt: Attempt, output: int
) -> Iterator[tuple[subprocess.Popen[str], ...]]:
    """Start a process for each rank; none outlives the context."""
    with ExitStack() as stack:
        processes = []
        for rank in range(attempt.replicas):
            errors = stack.enter_context(_error_path(run, attempt, rank).open("w"))
            processes.append(_start(run, attempt, rank, output, errors))
            stack.callback(_end, processes[-1])
        yield tuple(processes)


def _start(
    run: Path, attempt: Attempt, rank: int, output: int, errors: IO[str]
) -> subprocess.Popen[str]:
    arguments = [str(run.parent), run.name, "--rank", str(rank)]
    arguments += ["--attempt", str(attempt.number), "--replicas", str(attempt.replicas)]
    arguments += ["--workers", str(attempt.workers)]
    return subprocess.Popen(
        [sys.executable, "-m", "datacursor.demo.train", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=errors,
        env=_environment(),
        text=True,
    )


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _environment() -> dict[str, str]:
    """Return this process's environment, with gloo held to the loopback interface."""
    loopback = [name for _, name in socket.if_nameindex() if name in ("lo", "lo0")]
    return {"GLOO_SOCKET_IFNAME": loopback[0], **os.environ} if loopback else dict(os.environ)


def _failure(run: Path, attempt: Attempt, rank: int, status: int) -> str:
    path = _error_path(run, attempt, rank)
    last_words = path.read_text(encoding="utf-8", errors="replace").splitlines()[-_ERROR_LINES:]
    lines = [f"attempt {attempt.number}, rank {rank} ended with status {status}; from {path}:"]
    return "\n  ".join(lines + last_words)


def _error_path(run: Path, attempt: Attempt, rank: int) -> Path:
    return (run / log_name(attempt.number, rank)).with_suffix(".stderr")
