"""`CursorSampler`: a PyTorch sampler whose saved position moves by commits only."""

from __future__ import annotations

import warnings
from collections.abc import Sized
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import DataLoader, DistributedSampler

from datacursor import moves
from datacursor.checks import MAX_COUNT, MAX_EPOCH, require_integer
from datacursor.choose_order import choose_order
from datacursor.commits import CommitTracker
from datacursor.committing import Committing
from datacursor.contributions import Contributions, Layout, SampleContributions
from datacursor.datasets import as_dataset, fingerprint_of
from datacursor.errors import ArgumentError
from datacursor.issuing import SamplerIterator
from datacursor.layout import make_layout
from datacursor.order import Order, Sequential

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class CursorSampler(Committing, DistributedSampler[int]):
    """Deals out a data set's samples and remembers what entered an update.

    Give it to a `DataLoader` (or `CursorLoader`) with the same batch size, and call
    `commit()` after each optimizer step, or `attach(optimizer)` once. The saved state then
    names the next sample no update has seen, whatever workers prefetched, and resumes at any
    number of ranks, workers and any batch size. Epochs follow one another by commits alone.

    With a plain `DataLoader` nobody counts deliveries, so call `check(loader)` once: a
    loader with another batch size or a `drop_last` of its own would lose or repeat samples.

    It is a `DistributedSampler` so that frameworks leave it in place; it shares no
    behaviour with one. Not thread safe.

    Args:
        dataset_or_num_samples: A map-style data set, or its length, 1 <= n < 2**63.
        batch_size: Samples in a micro-batch of one rank.
        num_replicas: Processes that share the data; None asks torch.distributed, else 1.
        rank: This process; None asks torch.distributed, else 0.
        shuffle: A new permutation each epoch; False keeps the natural order.
        seed: Key of all epochs, 0 <= seed < 2**64.
        drop_last: Drop an incomplete last round of all ranks; else it is filled with marked
            repeats (with one rank: a short batch).
        accumulation_steps: Micro-batches in an update.
        order: An `Order` over the samples, or indices in the order in which they come, instead
            of shuffle and seed.
        fingerprint: Names the content of the data, so that other data is refused at resume:
            text or bytes. None takes the data set's own (`fingerprint`, `_fingerprint`), else
            only its length is compared.
        on_skip: What `skip` does: "advance" goes on and records the samples as skipped; with a
            `CursorLoader`, "retry" gives the same batches again and "defer" delivers them after
            the epoch's last.

    Raises:
        ArgumentError: An argument is out of range, or drop_last leaves no round at all.
        TypeError: An argument has the wrong type.

    Example:
        >>> sampler = CursorSampler(10, batch_size=4, seed=3)
        >>> batches = iter(DataLoader(range(10), batch_size=4, sampler=sampler))
        >>> first = next(batches)
        >>> sampler.commit()
        >>> sampler.cursor.position, sampler.remaining()
        (4, 2)
    """

    def __init__(
        self,
        dataset_or_num_samples: Sized | int,
        *,
        batch_size: int,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        accumulation_steps: int = 1,
        order: Order | ArrayLike | None = None,
        fingerprint: str | bytes | None = None,
        on_skip: str = "advance",
    ) -> None:
        dataset = as_dataset(dataset_or_num_samples)
        order = choose_order(order, len(dataset), shuffle=shuffle, seed=seed, noun="samples")
        identity = fingerprint_of(dataset, fingerprint)
        contributions = SampleContributions(
            order, len(dataset), identity or bytes(16), data_unverified=identity is None
        )
        layout = make_layout(num_replicas, rank, batch_size, accumulation_steps, drop_last)
        self._set_up(dataset, contributions, layout, on_skip)

    def _set_up(
        self, dataset: Sized, contributions: Contributions, layout: Layout, on_skip: str
    ) -> None:
        self.dataset = dataset  # type: ignore[assignment]  # any Sized, as DataLoader takes it
        self._tracker = CommitTracker(contributions, layout, on_skip)
        num_contributions = moves.reach_of(self.cursor, contributions, layout).stop
        noun = "rows" if contributions.packing_id else "samples"
        if num_contributions == 0:
            raise ArgumentError(f"nothing to train on: num_{noun}=0")
        if layout.num_micro_batches(num_contributions) == 0:
            raise ArgumentError(
                f"drop_last=True drops every batch: num_{noun}={num_contributions} is less than "
                f"num_replicas * batch_size = {layout.num_replicas} * {layout.batch_size} = "
                f"{layout.round_size}"
            )

    # -- the torch sampler -----------------------------------------------------------------

    @property
    def dataset_size(self) -> int:
        """Elements of the data set; rows of epoch 0."""
        return len(self.dataset)  # type: ignore[arg-type]  # as it was given

    def __iter__(self) -> SamplerIterator:
        """Issue this rank's indices from the cursor to the end of its epoch.

        An older iterator becomes stale. The iterator's own `state_dict()` holds how far it
        was drawn, the sampler's how far was committed.
        """
        return SamplerIterator.begin(self._tracker)

    def __len__(self) -> int:
        """Return the samples per rank of a full epoch, padding included."""
        layout = self._tracker.layout
        num_contributions = self._tracker.contributions.num_positions(self._tracker.settled())
        if layout.num_replicas == 1 and not layout.drop_last:
            return num_contributions
        return layout.num_micro_batches(num_contributions) * layout.batch_size

    @property
    def num_replicas(self) -> int:  # type: ignore[override]  # DistributedSampler's is an attribute
        """Processes that share the data."""
        return self._tracker.layout.num_replicas

    @property
    def rank(self) -> int:  # type: ignore[override]  # DistributedSampler's is an attribute
        """This process."""
        return self._tracker.layout.rank

    @property
    def batch_size(self) -> int:
        """Contributions in a micro-batch of one rank."""
        return self._tracker.layout.batch_size

    @property
    def accumulation_steps(self) -> int:
        """Micro-batches in an update."""
        return self._tracker.layout.accumulation_steps

    @property
    def drop_last(self) -> bool:  # type: ignore[override]  # DistributedSampler's is an attribute
        """Whether an incomplete last round is dropped instead of padded."""
        return self._tracker.layout.drop_last

    @property
    def shuffle(self) -> bool:  # type: ignore[override]  # DistributedSampler's is an attribute
        """Whether the order is another than the natural one."""
        return not isinstance(self._tracker.contributions.order, Sequential)

    @property
    def seed(self) -> int:  # type: ignore[override]  # DistributedSampler's is an attribute
        """Key of all epochs."""
        return self._tracker.contributions.order.seed

    @property
    def epoch(self) -> int:  # type: ignore[override]  # DistributedSampler's is an attribute
        """The epoch of the cursor."""
        return self.cursor.epoch

    @property
    def num_samples(self) -> int:  # type: ignore[override]  # torch's name for len(self)
        """Samples per rank of a full epoch, padding included."""
        return len(self)

    @property
    def total_size(self) -> int:  # type: ignore[override]  # DistributedSampler's is an attribute
        """Samples of a full epoch over all ranks, padding included."""
        return len(self) * self.num_replicas

    def set_epoch(self, epoch: int) -> None:
        """Move to (epoch, 0) if this sampler never committed, loaded or sought; else nothing.

        Nobody has to call it: epochs advance by commits.

        Raises:
            ArgumentError: epoch is out of range.
        """
        if not self._tracker.set_epoch(epoch):
            warnings.warn(
                f"set_epoch({epoch}) ignored: the cursor stands in epoch {self.cursor.epoch} and "
                "only commits move it; remove the call, or use seek() to go elsewhere",
                stacklevel=2,
            )

    # -- contents --------------------------------------------------------------------------

    def indices_of(self, epoch: int, update: int) -> NDArray[np.int64]:
        """Return what an update holds, over all ranks, under the present layout.

        Args:
            epoch: Pass over the data.
            update: Update within the epoch, counted from position 0.

        Returns:
            Indices in the order of their positions, shape (m,), int64; without padding.

        Raises:
            ArgumentError: There is no such epoch or update.
        """
        first, count = self._range_of(epoch, update)
        return self._tracker.contributions.order.indices(epoch, first, count)

    def committed(self, index: int) -> bool:
        """Return whether a sample was passed already in the cursor's epoch, in O(1).

        Raises:
            ArgumentError: There is no such sample.
        """
        size = self._tracker.contributions.base_size
        index = require_integer("index", index, 0, size)
        return self._tracker.contributions.is_committed(self.cursor, index)

    def _range_of(self, epoch: int, update: int) -> tuple[int, int]:
        contributions, layout = self._tracker.contributions, self._tracker.layout
        epoch = require_integer("epoch", epoch, 0, MAX_EPOCH)
        start = self.cursor
        if epoch != start.epoch:
            start = start.replace(epoch=epoch, phase=0)
        first = require_integer("update", update, 0, MAX_COUNT) * layout.update_size
        # No further than needed: an epoch's end may be dear to know.
        known = contributions.reach(start, 0, (0, 0), first + layout.update_size).stop
        num_batches = layout.num_micro_batches(known)
        require_integer("update", update, 0, -(-num_batches // layout.accumulation_steps))
        stop = min(first + layout.update_size, num_batches * layout.round_size, known)
        return first, stop - first

    # -- loaders ---------------------------------------------------------------------------

    def check(self, loader: DataLoader[Any]) -> None:
        """Raise unless a loader delivers what this sampler issues, unchanged.

        Warn if it has no generator of its own: iterating it then moves torch's default stream, so
        that a restart inside an epoch draws otherwise than the unbroken run.

        Raises:
            ArgumentError: The loader has another sampler, batch size or order.
        """
        batch_sampler = loader.batch_sampler
        if loader.sampler is not self or getattr(batch_sampler, "sampler", None) is not self:
            raise ArgumentError(
                f"loader must be DataLoader(..., sampler=sampler), got a loader whose sampler is "
                f"{type(loader.sampler).__name__} in {type(batch_sampler).__name__}: was it "
                "given batch_sampler=, or sharded again by a framework?"
            )
        if loader.batch_size != self.batch_size:
            raise ArgumentError(
                f"loader and sampler must have one batch_size, got loader.batch_size="
                f"{loader.batch_size}, sampler.batch_size={self.batch_size}"
            )
        if not getattr(loader, "in_order", True):
            raise ArgumentError("in_order must be True: commits name batches by their order")
        if loader.drop_last:
            raise ArgumentError("drop_last=True must be given to the sampler, not to the loader")
        if loader.generator is None or loader.generator is torch.default_generator:
            warnings.warn(
                "iterating this loader draws from torch's default generator, and a restart "
                "iterates it once more: pass generator=torch.Generator() (to evaluation loaders "
                "too), or use CursorLoader",
                stacklevel=2,
            )

    def __repr__(self) -> str:
        """Show the layout and where the cursor stands."""
        layout = self._tracker.layout
        return (
            f"{type(self).__name__}({self._tracker.contributions.order!r}, rank={layout.rank}, "
            f"num_replicas={layout.num_replicas}, batch_size={layout.batch_size}, "
            f"accumulation_steps={layout.accumulation_steps}, drop_last={layout.drop_last}: "
            f"{self.cursor})"
        )
