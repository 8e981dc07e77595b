"""Batches that workers write where their loader reads them: in slots of a `SlotPool`.

    loader   marks the first row of a micro-batch with a slot, as it is issued
    worker   gathers into that slot, and sends where in it each field begins
    loader   makes tensors over the slot, which is free again when the last of them is gone

A batch without a slot, or too large for one, is sent as `share` does it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ctypes import memmove
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from datacursor.row_buffers import RowBuffers
from datacursor.row_fields import Buffers
from datacursor.shared_batch import ALIGNMENT, is_plain, share
from datacursor.slot_pool import SlotMemory, SlotPool

if TYPE_CHECKING:
    from numpy.typing import NDArray

# By NumPy's names, which pickle and make tensors sooner than torch's own; others, such as bfloat16,
# are sent as torch sends them.
_CODES = {
    torch.from_numpy(np.empty(0, code)).dtype: code
    for code in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
}

Field = tuple[str, str, tuple[int, ...], int]  # name, dtype, shape, first byte in the slot


class SentBatch:
    """A batch on its way out of a worker; a dict of tensors again where it is unpickled."""

    def __init__(
        self, name: bytes, slot: int, fields: Sequence[Field], batch: dict[str, Any]
    ) -> None:
        """Take the fields that lie in the slot, and the batch, where these are None."""
        self._parts = (name, slot, fields, batch)

    def __reduce__(self) -> tuple[Any, ...]:
        return _receive, self._parts


def _receive(
    pool: bytes, slot: int, fields: Iterable[Field], batch: dict[str, Any]
) -> dict[str, Any]:
    memory = SlotPool.of(pool).lend(slot)
    for name, code, shape, start in fields:
        array = np.frombuffer(memory, code, prod(shape), start)
        batch[name] = torch.from_numpy(array.reshape(shape))
    return batch


class _OpenSlot:
    """A slot that one batch is written to, field by field."""

    def __init__(self, number: int, memory: NDArray[np.uint8]) -> None:
        self.number = number
        self._memory = memory.data
        self._address = memory.ctypes.data
        self._size = 0

    def lend(self, num_bytes: int) -> memoryview | None:
        """Return memory in the slot, or None if there is no room."""
        start = -(-self._size // ALIGNMENT) * ALIGNMENT
        stop = start + num_bytes
        if stop > len(self._memory):
            return None
        self._size = stop
        return self._memory[start:stop]

    def start_of(self, tensor: torch.Tensor) -> int | None:
        """Return where a tensor lies; it is copied if it lies elsewhere. None: there is no room."""
        start = tensor.data_ptr() - self._address
        if 0 <= start < self._size and tensor.is_contiguous():
            return start
        if self.lend(tensor.nbytes) is None:
            return None
        start = self._size - tensor.nbytes
        source = tensor.resolve_conj().resolve_neg().contiguous()
        memmove(self._address + start, source.data_ptr(), source.nbytes)
        return start


class WorkerSlots:
    """The slots of a worker's loader, in the worker.

    Args:
        name: Of the pool.
        memory: The slots.
        gathers: Whether nobody but the loader sees a batch, so that it is gathered into its
            slot; else it is copied there when it is collated.
    """

    def __init__(self, name: bytes, memory: SlotMemory, *, gathers: bool) -> None:
        """Begin without a slot."""
        self._name = name
        self._memory = memory
        self._gathers = gathers
        self._last_ticket = 0
        self._open: _OpenSlot | None = None
        self._buffers = RowBuffers()

    def open(self, rows: Sequence[int]) -> None:
        """Take the slot that rows are marked with, for their batch; the one before is passed."""
        name, ticket, number = getattr(rows[0], "slot", None) or (b"", 0, 0)
        # Once a ticket: rows that a data set reads again later are another batch.
        if name == self._name and ticket > self._last_ticket:
            self._last_ticket = ticket
            self._open = _OpenSlot(number, self._memory.slot(number))

    def or_else(self, buffers: Buffers) -> Buffers:
        """Return where batches are gathered: here, or in `buffers` of the data set."""
        return self if self._gathers else buffers

    def lend(self, num_bytes: int) -> memoryview:
        """Return memory in the open slot, or elsewhere if there is none or it is full."""
        memory = None if self._open is None else self._open.lend(num_bytes)
        return self._buffers.lend(num_bytes) if memory is None else memory

    def send(self, batch: Mapping[str, Any]) -> dict[str, Any] | SentBatch:
        """Return what a worker sends in place of a batch."""
        slot, self._open = self._open, None
        if slot is None:
            return share(batch)
        fields: list[Field] = []
        rest = dict(batch)
        for name, value in batch.items():
            code = _CODES.get(value.dtype) if is_plain(value) else None
            if code is None:
                continue
            start = slot.start_of(value)
            if start is None:
                return SentBatch(self._name, slot.number, (), share(batch))
            fields.append((name, code, tuple(value.shape), start))
            rest[name] = None
        return SentBatch(self._name, slot.number, fields, rest)


_attached: WorkerSlots | None = None


def attached() -> WorkerSlots | None:
    """Return the slots of this process's loader, if this is a worker that has some."""
    return _attached


def attach(slots: WorkerSlots) -> None:
    """Make this process a worker that has slots."""
    global _attached
    _attached = slots
