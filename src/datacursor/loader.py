"""`CursorLoader`: a DataLoader that counts what it delivers, so commits need no number."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, TypeVar

import torch
from torch.utils.data import DataLoader

from datacursor import _core
from datacursor.errors import ArgumentError, DeliveryError
from datacursor.in_process import InProcessBatches
from datacursor.issuing import Issue
from datacursor.sampler import CursorSampler
from datacursor.session import Session
from datacursor.worker_slots import LoaderSlots
from datacursor.worker_streams import (
    ComparingCollate,
    RememberingInit,
    WorkerStreams,
    warn_of_draws,
)

if TYPE_CHECKING:
    from datacursor.commits import CommitTracker

T = TypeVar("T")

# Second key word of Philox for worker seeds; the top bit keeps it apart from every epoch.
_WORKER_STREAM = 2**63 | int.from_bytes(hashlib.blake2b(b"loader", digest_size=8).digest(), "big")


class CursorLoader(DataLoader[T]):
    """A `DataLoader` over a `CursorSampler` that counts deliveries.

    With it `sampler.commit()` means: everything delivered since the last commit. It carries
    the sampler's state, says which part of a batch is padding, and owns its generator, so
    that iterating it draws nothing from torch's default stream. Workers are seeded by
    (seed, rank, epoch, position) when they start: each time it is iterated, or once where they are
    persistent. It warns if persistent ones then draw, which no restart can repeat.

    Args:
        dataset: A map-style data set, or `PackedSampler.dataset`.
        sampler: The sampler; it decides batch size, order and drop_last.
        batch_size: None, or the sampler's.
        **options: Any other argument of `DataLoader`: num_workers, collate_fn, pin_memory, ...

    Raises:
        ArgumentError: An option contradicts the sampler (batch_size, drop_last, shuffle,
            batch_sampler, in_order=False).
        TypeError: sampler is not a CursorSampler.

    Example:
        >>> sampler = CursorSampler(10, batch_size=4, shuffle=False)
        >>> loader = CursorLoader(range(10), sampler=sampler)
        >>> for batch in loader:
        ...     sampler.commit()
        >>> sampler.cursor.epoch, sampler.cursor.position
        (1, 0)
    """

    def __init__(
        self,
        dataset: Any,
        *,
        sampler: CursorSampler,
        batch_size: int | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(sampler, CursorSampler):
            raise TypeError(f"sampler must be a CursorSampler, got {type(sampler).__name__}")
        for name in ("batch_sampler", "shuffle"):
            if options.get(name):
                raise ArgumentError(
                    f"{name} must be left to the sampler, got {name}={options[name]!r}"
                )
        if dataset is not sampler.dataset and len(dataset) != sampler.dataset_size:
            raise ArgumentError(
                f"dataset must be the sampler's: len(dataset)={len(dataset)}, "
                f"len(sampler.dataset)={sampler.dataset_size}"
            )
        seeds_workers = options.get("generator") is None
        if seeds_workers:
            options["generator"] = torch.Generator()
        streams = WorkerStreams() if options.get("persistent_workers") else None
        if streams is not None:
            options["worker_init_fn"] = RememberingInit(streams, options.get("worker_init_fn"))
        super().__init__(
            dataset,
            batch_size=sampler.batch_size if batch_size is None else batch_size,
            sampler=sampler,
            **options,
        )
        if streams is not None:
            self.collate_fn = ComparingCollate(streams, self.collate_fn)
        sampler.check(self)
        self._cursor_sampler = sampler
        self._seeds_workers = seeds_workers
        self._streams = streams  # until they were warned of
        self._last: _Delivery | None = None
        self._slots: LoaderSlots | None = None  # of persistent workers

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # DataLoader names its own class
        """Deliver batches from the cursor to the end of its epoch, deferred ranges included."""
        session = self._cursor_sampler._tracker.begin_counted()
        return _Deliveries(self, session, self._draw(session))

    def _draw(self, session: Session) -> Iterator[Any]:
        """Begin to load what the session has not issued yet."""
        tracker = self._cursor_sampler._tracker
        if self._reads_in_process:
            if not self._seeds_workers:
                # As DataLoader does, with workers or without, so that a generator shared with the
                # training loop goes on alike.
                torch.empty((), dtype=torch.int64, device="cpu").random_(generator=self.generator)
            with tracker.drawing_for(session):
                micro_batches = Issue(tracker).micro_batches()
            return InProcessBatches(micro_batches, self.dataset, self.collate_fn)
        if self._seeds_workers:
            cursor = session.start
            counter = (tracker.layout.rank, session.issued, cursor.epoch, cursor.position)
            word = _core.philox(counter, (cursor.seed, _WORKER_STREAM))[0]
            self.generator.manual_seed(word >> 1)
        if self._iterator is None:  # else persistent workers go on
            self._slots = LoaderSlots.of(self, self._cursor_sampler)
        slots = self._slots
        if not self.persistent_workers:
            self._slots = None  # the iterator's
        with tracker.drawing_for(session):  # with workers, which are given batches at once
            if slots is None:
                batches = super().__iter__()
            else:
                with slots.given_to(self, session):
                    batches = super().__iter__()
        return _TorchBatches(session, tracker, batches)

    @property
    def _reads_in_process(self) -> bool:
        """Whether nothing is asked for that takes DataLoader's own iterator."""
        issues_itself = type(self._cursor_sampler).__iter__ is CursorSampler.__iter__
        return self.num_workers == 0 and not self.pin_memory and issues_itself

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return the sampler's state: the committed position."""
        return self._cursor_sampler.state_dict()

    def load_state_dict(
        self, state_dict: Mapping[str, Any], allow_changed: Collection[str] = ()
    ) -> None:
        """Load the sampler's state; live iterators become stale.

        Raises:
            CursorFormatError: Not such a state, or a damaged one. Nothing has changed.
            CursorMismatchError: It belongs to other data or another plan. Nothing has changed.
        """
        self._cursor_sampler.load_state_dict(state_dict, allow_changed)

    @property
    def num_real(self) -> int:
        """Contributions in the batch just delivered that are not padding."""
        return 0 if self._last is None else self._last.session.num_real(self._last.number)

    @property
    def padding_mask(self) -> torch.Tensor:
        """Where the batch just delivered is padding: bool, one entry a contribution."""
        sampler = self._cursor_sampler
        num_real = self.num_real
        is_short = sampler.num_replicas == 1 or self._last is None
        size = num_real if is_short else sampler.batch_size
        return torch.arange(size, device="cpu") >= num_real

    @property
    def ends_update(self) -> bool:
        """Whether the batch just delivered fills an update.

        That is, whether it is number accumulation_steps since the last commit before it, or the
        last of an epoch (or of a deferred range).
        """
        return self._last is not None and self._last.session.ends_update(
            self._last.number, self._last.first
        )

    def progress(self, desc: str | None = None, *, file: TextIO | None = None) -> Iterable[Any]:
        """Return the rest of the epoch behind a tqdm progress bar that starts at the cursor.

        Args:
            desc: Text before the bar.
            file: Where the bar is drawn; None is standard error.

        Raises:
            ImportError: tqdm is not installed (`pip install datacursor[cli]`).
        """
        from tqdm.auto import tqdm

        done = len(self) - self._cursor_sampler.remaining()
        bar: Iterable[Any] = tqdm(
            iter(self), desc=desc, total=len(self), initial=done, unit="batch", file=file
        )
        return bar


class _Delivery(NamedTuple):
    """A batch that was handed to the training loop.

    Attributes:
        session: What it belongs to.
        number: Of the micro-batch in its session.
        first: Number of the first micro-batch of its update.
    """

    session: Session
    number: int
    first: int


class _TorchBatches:
    """The batches of torch's iterator, which without workers first draws with the first of them."""

    def __init__(self, session: Session, tracker: CommitTracker, batches: Iterator[Any]) -> None:
        self._session = session
        self._tracker = tracker
        self._batches = batches

    def __iter__(self) -> _TorchBatches:
        return self

    def __next__(self) -> Any:
        with self._tracker.drawing_for(self._session):
            return next(self._batches)


class _Deliveries:
    """The batches of one session, counted as they are handed out."""

    def __init__(self, loader: CursorLoader[Any], session: Session, batches: Iterator[Any]) -> None:
        self._loader = loader
        self._session = session
        self._batches = batches
        self._tracker = loader._cursor_sampler._tracker
        self._num_loaded = session.num_pending
        self._window: deque[Any] = deque()  # the open window's batches, to be given again

    def __iter__(self) -> _Deliveries:
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def __next__(self) -> Any:
        session = self._session
        if self._tracker.on_skip != "advance":
            self._tracker.decide()  # what a device has yet to tell decides what comes next
        session.require_live()
        number = session.delivered or 0
        is_known = number < self._num_loaded
        batch = self._window[number - self._num_loaded] if is_known else self._load()
        loader = self._loader
        loader._last = _Delivery(session, number, session.committed + session.undecided)
        session.delivered = number + 1
        streams = loader._streams
        if streams is not None and streams.has_drawn:
            loader._streams = None
            warn_of_draws(stacklevel=2)
        return batch

    def _load(self) -> Any:
        session = self._session
        is_expected = False
        try:
            batch = self._draw()
            is_expected = True
        except StopIteration:
            self._require_all_delivered()
            is_expected = True
            raise
        finally:
            if not is_expected:
                # The batch that failed is gone, so no later one may be counted in its place.
                session.end("a batch could not be delivered")
        self._num_loaded += 1
        self._window.append(batch)
        is_kept = self._tracker.on_skip == "retry"
        while len(self._window) > is_kept * (self._num_loaded - session.committed):
            self._window.popleft()
        return batch

    def _draw(self) -> Any:
        session = self._session
        try:
            return next(self._batches)
        except StopIteration:
            if self._num_loaded != session.issued or session.has_all(session.issued):
                raise
        # Ranges were deferred after the sampler had issued everything it knew of.
        self._batches = self._loader._draw(session)
        return next(self._batches)

    def _require_all_delivered(self) -> None:
        if not self._session.has_all(self._num_loaded):
            raise DeliveryError(
                f"the loader ended after {self._num_loaded} micro-batches, before the end of its "
                "epoch: did the data set or collate_fn raise StopIteration?"
            )
