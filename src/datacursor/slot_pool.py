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
from collections.abc import Iterable, Mapping
from itertools import count
from multiprocessing import reduction
from typing import TYPE_CHECKING, Any

import numpy as np

from datacursor.forked_children import ForkedChild, is_forking, tell_of_forks

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
        self._map = mmap.mmap(file, num_bytes)
        self._bytes = np.frombuffer(self._map, dtype=np.uint8)

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

    def clear(self, slots: Iterable[int]) -> None:
        """Give the memory of slots back to the system, for all processes; they then read as 0."""
        for number in slots:
            self._map.madvise(mmap.MADV_REMOVE, number * self.slot_bytes, self.slot_bytes)

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
        name: Names the pool among those of this process and its workers.
    """

    def __init__(self, memory: SlotMemory) -> None:
        """Hold all slots free."""
        self.memory = memory
        self.name = os.urandom(8)
        self._free = deque(reversed(range(memory.num_slots)))  # last in, first out
        self._loans: dict[int, _Loan] = {}
        self._left: deque[_Loan] = deque()  # of slots that nobody here holds, but children do
        self._taken: dict[int, int] = {}
        self._serials = count()
        self._is_over = False  # nothing is taken any more
        self._is_in_child = False
        _POOLS[self.name] = self
        tell_of_forks(self)

    @staticmethod
    def of(name: bytes) -> SlotPool:
        """Return the pool of a name, which lives."""
        return _POOLS[name]

    def take(self) -> int | None:
        """Return the number of a slot that is free, to be lent once; None if there is none."""
        if self._is_over:
            return None
        for _ in range(len(self._left)):
            self._give_back(self._left.popleft())
        try:
            slot = self._free.pop()
        except IndexError:
            return None
        self._taken[slot] = next(self._serials)
        return slot

    @property
    def taken(self) -> dict[int, int]:
        """Slots that were taken and not lent yet, each with a number that comes only once."""
        return dict(self._taken)

    def forgo(self, taken: Mapping[int, int]) -> None:
        """Make those of the slots free that have not been lent since, and will never be."""
        for slot, serial in taken.items():
            if self._taken.get(slot) == serial:
                del self._taken[slot]
                self._free.append(slot)

    def lend(self, slot: int) -> memoryview:
        """Return the memory of a slot that was taken; with the last view of it, it is free.

        Make arrays over it by np.frombuffer: what np.ndarray makes keeps no view of it.
        """
        self._taken.pop(slot, None)
        lent = self.memory.slot(slot)
        loan = _Loan(lent, self._take_back)
        loan.slot = slot
        loan.children = []
        self._loans[id(loan)] = loan
        return lent.data

    def retire(self) -> None:
        """Lend nothing more, and let go of the memory of all slots that nobody holds."""
        if not self._is_over:
            self._is_over = True
            held = {loan.slot for loan in self._held()}
            self.memory.clear(slot for slot in range(self.memory.num_slots) if slot not in held)

    def share_with(self, child: ForkedChild) -> None:
        """Keep what is lent until the child is gone, too."""
        for loan in self._held():
            loan.children = [each for each in loan.children if not each.is_gone] + [child]

    def end(self) -> None:
        """Give out nothing more: in a child, where the slots are the parent's."""
        self._is_over = self._is_in_child = True
        self._loans.clear()
        self._left.clear()

    def _held(self) -> list[_Loan]:
        # In this order: what is given back meanwhile goes from the first to the second.
        return [*self._loans.values(), *self._left]

    def _take_back(self, loan: weakref.ref[NDArray[np.uint8]]) -> None:
        if not self._is_in_child:
            self._give_back(self._loans.pop(id(loan)))

    def _give_back(self, loan: _Loan) -> None:
        if is_forking() or not all(child.is_gone for child in loan.children):
            self._left.append(loan)
        elif self._is_over:
            self.memory.clear([loan.slot])
        else:
            self._free.append(loan.slot)


_POOLS: weakref.WeakValueDictionary[bytes, SlotPool] = weakref.WeakValueDictionary()
