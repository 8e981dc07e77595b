"""Processes that are forked off to be killed at a random moment."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable


def kill(work: Callable[[int], object], *, after_bytes: int, and_turns: int) -> bytes:
    """Fork a process that works until it is killed, and return all that it wrote.

    Args:
        work: What it does; it is given a pipe to write into.
        after_bytes: The process is killed once it has written so many.
        and_turns: And once this process has turned a loop so often, which may be in the middle of
            whatever comes next.

    Raises:
        RuntimeError: It ended by itself.
    """
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        try:
            work(theirs)
        except BaseException:  # noqa: BLE001  # the parent sees the end of the pipe
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(theirs)
    done = b""
    while len(done) < after_bytes:
        read = os.read(ours, after_bytes - len(done))
        if not read:
            os.waitpid(child, 0)
            raise RuntimeError("the process ended by itself")
        done += read
    for _ in range(and_turns):
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while read := os.read(ours, 4096):
        done += read
    os.close(ours)
    return done
