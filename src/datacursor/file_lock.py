"""One process at a time: a lock that the operating system drops with the process that held it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def _acquire(descriptor: int) -> None:
        while True:
            with suppress(OSError):  # it gives up after ten seconds
                msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
                return

else:
    import fcntl

    def _acquire(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Wait until no other process is inside, and keep all others out.

    A process that dies inside leaves an empty file, which the next one takes over.

    Args:
        path: The lock file, made here and removed at the end. Its directory must exist.

    Raises:
        OSError: The file system refuses, or knows no locks.
    """
    descriptor = _open_locked(path)
    try:
        yield
    finally:
        try:
            with suppress(PermissionError):  # Windows, while another process waits with it open
                path.unlink()
        finally:
            os.close(descriptor)


def _open_locked(path: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        is_ours = False
        try:
            _acquire(descriptor)
            is_ours = _is_at(descriptor, path)  # whoever held it may have removed it
        finally:
            if not is_ours:
                os.close(descriptor)
        if is_ours:
            return descriptor


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
