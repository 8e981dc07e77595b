"""A lock for data that a forked process goes on with."""

from __future__ import annotations

import os
from threading import Lock
from weakref import WeakSet


class ForkLock:
    """A lock that a forked child finds free, whoever held it in the parent.

    The child has the data as they stood at the fork, so they must be right at every moment:
    a step adds to them before it says that there is more.
    """

    def __init__(self) -> None:
        """Make a free lock."""
        self._lock = Lock()
        _LOCKS.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Forget who holds the lock."""
        self._lock = Lock()


_LOCKS: WeakSet[ForkLock] = WeakSet()


def _renew_all() -> None:
    for lock in list(_LOCKS):
        lock.renew()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_renew_all)
