"""The shuffles inside other orders, each seen as an order of its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import datacursor as dc
from datacursor import _core
from quality.suite import Filled

NUM_BLOCKS = 8
"""Blocks of a mixture's epoch, and samples of each of its sources."""
SOURCE = _core.Sequential(NUM_BLOCKS)


class Window:
    """The samples inside one window of a block shuffle, ranked by index.

    Ranks join the window's permutation with an arrangement of its blocks that has nothing to
    do with it, so they are as uniform as the permutation is.
    """

    def __init__(self, num_samples: int, seed: int, *, block_size: int, number: int) -> None:
        window_blocks = num_samples // block_size
        assert window_blocks * block_size == num_samples
        self._order = dc.BlockShuffle(6 * num_samples + 1, block_size, window_blocks, seed)
        self._size = num_samples
        self._number = number

    def fill(self, epoch: int, first: int, out: NDArray[np.int64]) -> None:
        indices = self._order.indices(epoch, self._number * self._size, self._size)
        ranks = np.empty(self._size, dtype=np.int64)
        ranks[np.argsort(indices)] = np.arange(self._size)
        out[:] = ranks[first : first + len(out)]


class Blocks:
    """The order of the blocks of a block shuffle, in windows of one block."""

    def __init__(self, num_blocks: int, seed: int) -> None:
        self._order = dc.BlockShuffle(3 * num_blocks + 2, 3, 1, seed)

    def fill(self, epoch: int, first: int, out: NDArray[np.int64]) -> None:
        out[:] = self._order.indices(epoch, 3 * first, 3 * len(out))[::3] // 3


class Slots:
    """Where the positions of one block of a mixture come from, each slot a source of its own."""

    def __init__(self, block: int, seed: int, *, number: int) -> None:
        sources: list[_core.Order] = [SOURCE] * block
        quotas = [(0, [1] * block)]
        self._mixture = _core.Mixture(sources, quotas, block, "first_exhausted", seed)
        self._first = number * block

    def fill(self, epoch: int, first: int, out: NDArray[np.int64]) -> None:
        self._mixture.fill(epoch, self._first + first, out)
        out //= NUM_BLOCKS


def subset(num_samples: int, seed: int) -> Filled:
    """Return the subset of all samples."""
    return dc.Subset(np.arange(num_samples), seed=seed)
