"""Differences that a user accepts by name, and which of them there were."""

from __future__ import annotations

from collections.abc import Collection


class Allowance:
    """Names of differences to accept.

    Raises:
        TypeError: A string instead of names.
    """

    def __init__(self, names: Collection[str] = ()) -> None:
        if isinstance(names, str):
            raise TypeError(f"allow_changed must be a set of names, got {names!r}")
        self.names = frozenset(names)
        self._used: set[str] = set()

    @property
    def used(self) -> frozenset[str]:
        """The names that were needed so far."""
        return frozenset(self._used)

    def accepts(self, name: str) -> bool:
        """Return whether a difference is accepted, and remember that there was one."""
        if name in self.names:
            self._used.add(name)
        return name in self.names
