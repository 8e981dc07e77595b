"""Memory of batches that nobody holds any more, used again for the next ones.

A fresh tensor of a megabyte costs the pages the system must clear for it, about a third of a
gather. Memory goes back only when nothing over it is left:

    batch    tensor -> array -> memoryview -> array that is lent -> memory
    view     tensor ------------^             when it dies, the memory is free again

Every view, slice, NumPy array or saved tensor of a batch keeps the array that was lent, so a
batch that is kept, wholly or in part, is never written over.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAX_FREE = 4  # batches


class _Loan(weakref.ref["NDArray[np.uint8]"]):
    """Watches what was lent and holds the memory below it."""

    __slots__ = ("memory",)
    memory: NDArray[np.uint8]


class RowBuffers:
    """Lends memory for batches. Thread safe; pickles as an empty one."""

    def __init__(self) -> None:
        self._free: deque[NDArray[np.uint8]] = deque(maxlen=_MAX_FREE)
        self._loans: dict[int, _Loan] = {}

    def lend(self, num_bytes: int) -> memoryview:
        """Return memory that nobody else has while it, or an array or tensor over it, lives.

        Make arrays over it by np.frombuffer: what np.ndarray makes keeps the memory itself only.
        """
        memory = self._take(num_bytes)
        lent = memory[:]
        loan = _Loan(lent, self._take_back)
        loan.memory = memory
        self._loans[id(loan)] = loan
        return lent.data

    def _take_back(self, loan: weakref.ref[NDArray[Any]]) -> None:
        self._free.append(self._loans.pop(id(loan)).memory)

    def _take(self, num_bytes: int) -> NDArray[np.uint8]:
        for _ in range(len(self._free)):
            try:
                memory = self._free.popleft()
            except IndexError:  # another thread took it
                break
            if memory.nbytes == num_bytes:
                return memory
            self._free.append(memory)
        return _fresh(num_bytes)

    def __reduce__(self) -> tuple[Any, ...]:
        return RowBuffers, ()


def _fresh(num_bytes: int) -> NDArray[np.uint8]:
    memory: NDArray[np.uint8] = torch.empty(num_bytes, dtype=torch.uint8, device="cpu").numpy()
    return memory  # by torch, which aligns to cache lines
