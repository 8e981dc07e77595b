"""Memory that a loader and its workers map once, lent out batch by batch.

The file has no name and no bounds but the machine's memory; a slot takes memory from its first
use on. One process lends, so no message is needed to get a slot back:

    main     takes slot 3 ---> index queue          ---> lends slot 3 ... nobody holds it: free
    worker                     writes to slot 3 ---> data queue

A slot is free again when the last view of it is gone, here and in every child that was forked
meanwhile.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections import deque
from multiprocessing import reduction
from typing import TYPE_CHECKING, Any

import numpy as np

from datacursor.forked_children import ForkedChild, tell_of_forks, without_forks

if TYPE_CHECKING:
    from numpy.typing import NDArray


class SlotMemory:
    """Slots of one size in one mapped file; pickles, for a process that starts, as the same file.

    Args:
        file: Descriptor of the file; owned from now on.
        num_slots: Slots in it.
        slot_bytes: Bytes of each.
    """

    def __init__(self, file: int, num_slots: int, slot_bytes: int) -> None:
        """Map the file."""
        self._file: int | None = file
        self.num_slots = num_slots
        self.slot_bytes = slot_bytes
        num_bytes = num_slots * slot_bytes
        os.ftruncate(file, num_bytes)  # which has that size already where it is mapped again
        self._bytes = np.frombuffer(mmap.mmap(file, num_bytes), dtype=np.uint8)

    @classmethod
    def create(cls, num_slots: int, slot_bytes: int) -> SlotMemory:
        """Make a file and map it.

        Args:
            num_slots: Slots in it.
            slot_bytes: Bytes of each, rounded up to pages.

        Raises:
            OSError: The system refuses.
        """
        if not hasattr(os, "memfd_create"):
            raise OSError("files without a name are Linux's")
        slot_bytes = -(-slot_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        return cls(os.memfd_create("datacursor"), num_slots, slot_bytes)

    def slot(self, number: int) -> NDArray[np.uint8]:
        """Return the memory of a slot."""
        return self._bytes[number * self.slot_bytes : (number + 1) * self.slot_bytes]

    def close(self) -> None:
        """Give the file to no further process; what is mapped stays."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __del__(self) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        assert self._file is not None
        return _map, (reduction.DupFd(self._file), self.num_slots, self.slot_bytes)


def _map(file: Any, num_slots: int, slot_bytes: int) -> SlotMemory:
    return SlotMemory(file.detach(), num_slots, slot_bytes)


class _Loan(weakref.ref["NDArray[np.uint8]"]):
    """Watches the array over a slot that was lent."""

    __slots__ = ("children", "slot")
    slot: int
    children: list[ForkedChild]


class SlotPool:
    """Takes slots for batches to come, lends them when these have come. Thread safe.

    Args:
        memory: The slots.

    Attributes:
        key: Names the pool among those of this process and its workers.
    """

    def __init__(self, memory: SlotMemory) -> None:
        """Hold all slots free."""
        self.memory = memory
        self.key = os.urandom(8)
        self._free = deque(reversed(range(memory.num_slots)))  # last in, first out
        self._loans: dict[int, _Loan] = {}
        self._left: deque[_Loan] = deque()  # of slots that nobody here holds, but children do
        self._is_parents = False
        _POOLS[self.key] = self
        tell_of_forks(self)

    @staticmethod
    def of(key: bytes) -> SlotPool:
        """Return the pool of a key, which lives."""
        return _POOLS[key]

    def take(self) -> int | None:
        """Return the number of a slot that is free, to be lent once; None if there is none."""
        if self._is_parents:
            return None
        for _ in range(len(self._left)):
            self._give_back(self._left.popleft())
        try:
            return self._free.pop()
        except IndexError:
            return None

    def lend(self, slot: int) -> memoryview:
        """Return the memory of a slot that was taken; with the last view of it, it is free.

        A view, for a NumPy array over it keeps it, where an array over an array may not.
        """
        lent = self.memory.slot(slot)
        with without_forks():
            loan = _Loan(lent, self._take_back)
            loan.slot = slot
            loan.children = []
            self._loans[id(loan)] = loan
        return lent.data

    def loans(self) -> list[list[ForkedChild]]:
        """Return, for each slot that is lent, the children that have it too."""
        loans = list(self._loans.values())
        for loan in loans:
            loan.children = [child for child in loan.children if not child.is_gone]
        return [loan.children for loan in loans]

    def end(self) -> None:
        """Give out nothing more: in a child, where the slots are the parent's."""
        self._is_parents = True
        self._loans.clear()
        self._left.clear()

    def _take_back(self, loan: weakref.ref[NDArray[np.uint8]]) -> None:
        self._give_back(self._loans.pop(id(loan)))

    def _give_back(self, loan: _Loan) -> None:
        if all(child.is_gone for child in loan.children):
            self._free.append(loan.slot)
        else:
            self._left.append(loan)


_POOLS: weakref.WeakValueDictionary[bytes, SlotPool] = weakref.WeakValueDictionary()
