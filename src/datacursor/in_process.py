"""Batches read by the training process itself: `DataLoader` without workers, and less around it.

What `DataLoader` does for a batch besides reading it costs about as much as to gather 16,000
tokens. Micro-batches come here as the sampler made them, and the data set is asked as
`DataLoader` asks it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.autograd.profiler import record_function

_NAME = "enumerate(DataLoader)#CursorLoader.__next__"  # in profiles, where torch has its own name


class InProcessBatches:
    """An iterator of batches.

    Args:
        micro_batches: Indices of each batch.
        dataset: A map-style data set; `__getitems__` reads a whole batch, if it has that.
        collate: Makes a batch of what was read.
    """

    def __init__(
        self,
        micro_batches: Iterator[Sequence[int]],
        dataset: Any,
        collate: Callable[[Any], Any],
    ) -> None:
        """Read nothing yet."""
        self._micro_batches = micro_batches
        self._read = getattr(dataset, "__getitems__", None) or _one_by_one(dataset)
        self._collate = collate

    def __iter__(self) -> InProcessBatches:
        """Return itself."""
        return self

    def __next__(self) -> Any:
        """Read a batch, as an event of its own where a profiler runs."""
        if torch.autograd._profiler_enabled():  # type: ignore[attr-defined]  # dear to ask for more
            with record_function(_NAME):
                return self._next()
        return self._next()

    def _next(self) -> Any:
        return self._collate(self._read(next(self._micro_batches)))


def _one_by_one(dataset: Any) -> Callable[[Sequence[int]], list[Any]]:
    def read(indices: Sequence[int]) -> list[Any]:
        return [dataset[index] for index in indices]

    return read
