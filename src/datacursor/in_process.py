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

from datacursor.rows import takes_rows

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
        self._read = _reader_of(dataset)
        self._collate = collate

    def __iter__(self) -> InProcessBatches:
        """Return itself."""
        return self

    def __next__(self) -> Any:
        """Read a batch, as an event of its own where a profiler runs."""
        if torch.autograd._profiler_enabled():  # type: ignore[attr-defined]  # torch's own, and cheap
            with record_function(_NAME):
                return self._next()
        return self._next()

    def _next(self) -> Any:
        return self._collate(self._read(next(self._micro_batches)))


def _reader_of(dataset: Any) -> Callable[[Sequence[int]], Any]:
    read: Callable[[Sequence[int]], Any] | None = getattr(dataset, "__getitems__", None)
    if read is None:
        return lambda indices: [dataset[index] for index in indices]
    if takes_rows(dataset):
        return read
    return lambda indices: read([*indices])  # a list of the data set's own
