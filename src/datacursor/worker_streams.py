"""Whether a loader's workers draw from their global random streams, which nothing restores.

A persistent worker is seeded once and then draws through every epoch, so what it draws depends
on everything before; no main process can read or set it. Whether a data set draws is known only
in the worker, so each one compares its streams before and after its first batch:

    worker   seeded -> worker_init_fn -> remember -> first batch -> compare -> shared flag
    loader                                           delivers it -> warns if the flag is up
"""

from __future__ import annotations

import pickle
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch


class WorkerStreams:
    """A flag that workers share with their loader: some data set drew from a global stream."""

    def __init__(self) -> None:
        self._has_drawn = torch.zeros(1, dtype=torch.bool)
        self._has_drawn.share_memory_()  # type: ignore[no-untyped-call]
        self._before: bytes | None = None  # the worker's own

    def remember(self) -> None:
        """Take note, in a worker, where its streams stand."""
        self._before = _streams()

    def compare(self) -> None:
        """Raise the flag, in a worker, if its streams have moved since; only the first time."""
        if self._before is not None:
            self._has_drawn |= self._before != _streams()
            self._before = None

    @property
    def has_drawn(self) -> bool:
        """Whether the flag is up."""
        return bool(self._has_drawn)


class RememberingInit:
    """A worker_init_fn that remembers the streams after another one."""

    def __init__(self, streams: WorkerStreams, init: Callable[[int], None] | None) -> None:
        self._streams = streams
        self._init = init

    def __call__(self, worker_id: int) -> None:
        """Begin a worker."""
        if self._init is not None:
            self._init(worker_id)
        self._streams.remember()


class ComparingCollate:
    """A collate_fn that compares the streams after another one."""

    def __init__(self, streams: WorkerStreams, collate: Callable[[Any], Any]) -> None:
        self._streams = streams
        self.inner = collate

    def __call__(self, samples: Any) -> Any:
        """Return the batch of these samples."""
        batch = self.inner(samples)
        self._streams.compare()
        return batch


def warn_of_draws(stacklevel: int) -> None:
    """Say what to do about it."""
    warnings.warn(
        "the data set draws from the global random streams of persistent workers, which no "
        "restart can repeat: wrap it in SampleSeeded(dataset, sampler)",
        stacklevel=stacklevel + 1,
    )


def _streams() -> bytes:
    numpy = np.random.get_state(legacy=False)  # noqa: NPY002  # the stream that data sets use
    default = torch.default_generator.get_state().numpy().tobytes()
    return pickle.dumps((random.getstate(), numpy, default))
