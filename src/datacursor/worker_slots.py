"""Which loaders have slots for the batches of their workers, and how the workers get them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

from torch.utils.data import default_collate

from datacursor.row_index import BatchIndex, RowIndex, RowIndices
from datacursor.rows import RowDataset, takes_rows
from datacursor.sampler import CursorSampler
from datacursor.shared_slots import WorkerSlots, attach, attached
from datacursor.slot_pool import SlotMemory, SlotPool
from datacursor.worker_streams import ComparingCollate

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

    from datacursor.session import Session

_NUM_SPARE = 4  # the batch in use, the one before it, one being pinned, and one more
_MAX_KEPT = 64  # micro-batches of an update that the loop may keep
_SPARE_BYTES = 2**20  # for spans and boundaries; memory that no batch needs is never touched


class SlotInit:
    """A worker_init_fn that gives the worker its slots after another one."""

    def __init__(
        self, pool: SlotPool, init: Callable[[int], None] | None, *, gathers: bool
    ) -> None:
        """Keep the pool: an iterator, which keeps its worker_init_fn, receives batches in it."""
        self._pool: SlotPool | None = pool
        self._name = pool.name
        self._memory = pool.memory
        self._init = init
        self._gathers = gathers

    def __call__(self, worker_id: int) -> None:
        """Begin a worker."""
        if self._init is not None:
            self._init(worker_id)
        attach(WorkerSlots(self._name, self._memory, gathers=self._gathers))
        self._memory.close()

    def __getstate__(self) -> dict[str, Any]:
        """Leave the lending to the main process."""
        return self.__dict__ | {"_pool": None}

    def __del__(self) -> None:
        if self._pool is not None:  # with the iterator, whose workers are gone
            self._pool.retire()


class SendingCollate:
    """A collate_fn of workers whose batch is sent by way of its slot."""

    def __init__(self, collate: Callable[[Any], Any]) -> None:
        """Take what makes the batch."""
        self._collate = collate

    def __call__(self, samples: Any) -> Any:
        """Return what a worker sends in place of the batch of these samples."""
        batch = self._collate(samples)
        slots = attached()
        return batch if slots is None or type(batch) is not dict else slots.send(batch)


class LoaderSlots:
    """The slots of the workers that an iterator starts.

    Args:
        pool: The slots.
        gathers: As of `WorkerSlots`.
    """

    def __init__(self, pool: SlotPool, *, gathers: bool) -> None:
        """Begin without a mark."""
        self._pool = pool
        self._gathers = gathers
        self._tickets = count(1)

    @classmethod
    def of(cls, loader: DataLoader[Any], sampler: CursorSampler) -> LoaderSlots | None:
        """Make the slots for workers that are about to start.

        None where there are no workers, where batches are other than packed rows that torch
        collates, and where the system has no such memory.
        """
        dataset: Any = loader.dataset
        collate = loader.collate_fn
        rows = dataset if isinstance(dataset, RowDataset) else getattr(dataset, "dataset", None)
        if isinstance(collate, ComparingCollate):
            collate = collate.inner
        is_plain = collate is default_collate and type(sampler).__iter__ is CursorSampler.__iter__
        if loader.num_workers == 0 or not is_plain or not isinstance(rows, RowDataset):
            return None
        num_kept = min(sampler.accumulation_steps, _MAX_KEPT)
        num_slots = loader.num_workers * (loader.prefetch_factor or 1) + num_kept + _NUM_SPARE
        try:
            memory = SlotMemory.create(
                num_slots, 2 * rows.num_bytes(sampler.batch_size) + _SPARE_BYTES
            )
        except OSError:  # not Linux, or a limit
            return None
        return cls(SlotPool(memory), gathers=takes_rows(dataset))

    def indices_of(self, rows: Sequence[int]) -> list[int]:
        """Return the indices of a micro-batch, the first one with a slot if one is free."""
        slot = self._pool.take()
        mark = None if slot is None else (self._pool.name, next(self._tickets), slot)
        if self._gathers and isinstance(rows, RowIndices):
            return [BatchIndex(rows, mark), *range(1, len(rows))]
        indices = [*rows]
        if isinstance(indices[0], RowIndex):
            indices[0].slot = mark
        return indices

    @contextmanager
    def given_to(self, loader: DataLoader[Any], session: Session) -> Iterator[None]:
        """Give them to the workers that the loader starts inside, marks to what it draws.

        A loader whose workers go on has received all of their batches when it is through.
        """
        session.indices_of = self.indices_of
        if loader._iterator is not None:
            lost = self._pool.taken
            yield
            self._pool.forgo(lost)
            return
        init, collate = loader.worker_init_fn, loader.collate_fn
        loader.worker_init_fn = SlotInit(self._pool, init, gathers=self._gathers)
        loader.collate_fn = SendingCollate(collate)
        try:
            yield
        finally:
            loader.worker_init_fn, loader.collate_fn = init, collate
            self._pool.memory.close()
