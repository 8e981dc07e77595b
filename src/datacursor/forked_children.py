"""Whether processes that were forked off are still there, and with them what they can read.

A forked child has every object of its parent, so memory that both of them map must stay as it is
while the child may look at it. The kernel tells when that is over:

    parent   reading end of a pipe   at its end: the child is gone, and all that it forked
    child    writing end             kept open as long as it lives

Nothing is locked over a fork: whoever waits for a lock may be waited for by a garbage collection
inside. What is given back while a fork is under way waits for its child instead.
"""

from __future__ import annotations

import os
import select
from threading import local
from typing import Protocol
from weakref import WeakSet

_NO_END = -1


class ForkedChild:
    """The processes that come of one fork."""

    def __init__(self) -> None:
        """Make ready for a fork that is about to be."""
        try:
            self._reading, self._writing = os.pipe()
        except OSError:  # too many files are open: it counts as there for good
            self._reading = self._writing = _NO_END

    @property
    def is_gone(self) -> bool:
        """Whether none of them lives any more, or all run other programs."""
        if self._reading == _NO_END:
            return False
        poll = select.poll()
        poll.register(self._reading, 0)  # the end is told unasked
        return bool(poll.poll(0))

    def begin(self) -> None:
        """Leave the writing end, in the parent, to the child."""
        if self._writing != _NO_END:
            os.close(self._writing)

    def __del__(self) -> None:
        if self._reading != _NO_END:  # in the child, the writing end stays open
            os.close(self._reading)


class Lender(Protocol):
    """What lends memory that a forked child maps too."""

    def share_with(self, child: ForkedChild) -> None:
        """Keep what is lent until the child is gone: it has all that was lent at the fork."""

    def end(self) -> None:
        """Lend nothing more and forget the children: this is a child, the memory its parent's."""


class _Forks:
    """The lenders of this process, and the forks that are under way."""

    def __init__(self) -> None:
        self.lenders: WeakSet[Lender] = WeakSet()
        self.reset()

    def reset(self) -> None:
        self.under_way: set[ForkedChild] = set()
        self._thread = local()  # several may fork at a time

    def before(self) -> None:
        self._thread.child = child = ForkedChild() if self.lenders else None
        if child is not None:
            self.under_way.add(child)

    def after_in_parent(self) -> None:
        child, self._thread.child = self._thread.child, None
        if child is None:
            return
        child.begin()
        for lender in list(self.lenders):
            lender.share_with(child)
        self.under_way.discard(child)

    def after_in_child(self) -> None:
        self.reset()
        for lender in list(self.lenders):
            lender.end()


_FORKS = _Forks()


def tell_of_forks(lender: Lender) -> None:
    """Tell a lender of each fork of this process, as long as it lives."""
    _FORKS.lenders.add(lender)


def is_forking() -> bool:
    """Return whether a fork is under way whose child no lender was told of."""
    return bool(_FORKS.under_way)


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(
        before=_FORKS.before,
        after_in_parent=_FORKS.after_in_parent,
        after_in_child=_FORKS.after_in_child,
    )
