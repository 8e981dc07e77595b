"""Orders: (epoch, position) -> index, pure functions in O(1) time and memory.

Nothing is advanced: an order has no state but its parameters, so any epoch and
position is reached at once, on any rank, in any process. A released order never
changes; a new one gets a new id.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from datacursor import _core
from datacursor.checks import MAX_COUNT, MAX_EPOCH, MAX_SEED, require_integer, to_json
from datacursor.errors import ArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAX_THREADS = 1024
_UNWRITTEN = -1

# Part of the persistent format; add, never change. 0x8000 and above are free for users.
SHUFFLE_ID = 1
SEQUENTIAL_ID = 2
BLOCK_SHUFFLE_ID = 3
MIXTURE_ID = 4
WEIGHTED_ID = 5
SUBSET_ID = 6


class Order(ABC):
    """Which index comes at each position, for every epoch.

    A subclass sets `order_id` (0x8000 to 0xFFFF for your own), passes its sizes to
    `__init__` and defines `fill` and `position_of`, both pure functions of their
    arguments. The cursor stores the id, the seed and a digest of `parameters`, so a
    change of any of them is noticed when a run is resumed.

    An order is a permutation of [0, num_samples) in every epoch unless it says
    `is_permutation = False`; then it defines `num_positions` too.

    Attributes:
        order_id: Names the order in every cursor, 1 <= order_id < 2**16.
        is_permutation: Whether every epoch holds every index exactly once.
        is_endless: Whether an epoch is longer than any run.
        num_samples: Number of indices, 1 <= num_samples < 2**63.
        seed: The user's number, 0 <= seed < 2**64.
    """

    order_id: int
    is_permutation: ClassVar[bool] = True
    is_endless: bool = False

    def __init__(self, num_samples: int, seed: int = 0) -> None:
        """Check and keep the two numbers every order has."""
        if not isinstance(self, CoreOrder):
            order_id = getattr(self, "order_id", None)
            if order_id is None:
                raise TypeError(f"{type(self).__name__} must set order_id, 0x8000 to 0xFFFF")
            require_integer("order_id", order_id, 0x8000, 0x10000)
        self.num_samples = require_integer("num_samples", num_samples, 1, MAX_COUNT)
        self.seed = require_integer("seed", seed, 0, MAX_SEED)

    @property
    def parameters(self) -> dict[str, Any]:
        """What decides the order besides its id, its size and its seed, as JSON values."""
        return {}

    @property
    def description(self) -> dict[str, Any]:
        """All that decides the order, as JSON values."""
        return {
            "order_id": self.order_id,
            "num_samples": self.num_samples,
            "seed": self.seed,
            "parameters": self.parameters,
        }

    @abstractmethod
    def fill(self, epoch: int, first: int, out: NDArray[np.int64]) -> None:
        """Write the indices at positions [first, first + len(out)) of one epoch.

        The same arguments give the same result on every platform and release.

        Args:
            epoch: Pass over the data, 0 <= epoch < 2**40.
            first: First position, in samples.
            out: Array of shape (count,), int64, C-contiguous; overwritten. Owned by the caller.

        Raises:
            ArgumentError: epoch is out of range, first + count exceeds num_positions, or out has
                another dtype, rank or layout, or is read-only.
            TypeError: out is no array.
        """

    @abstractmethod
    def position_of(self, epoch: int, index: int) -> int:
        """Return the position of one index: the inverse of `index_at`.

        Args:
            epoch: Pass over the data, 0 <= epoch < 2**40.
            index: Element of the data set, 0 <= index < num_samples.

        Raises:
            ArgumentError: An argument is out of range, or the order does not hold the index
                exactly once.
        """

    def index_at(self, epoch: int, position: int) -> int:
        """Return the index at one position.

        Args:
            epoch: Pass over the data, 0 <= epoch < 2**40.
            position: Place in the epoch's order, 0 <= position < num_positions(epoch).

        Raises:
            ArgumentError: An argument is out of range.
        """
        position = require_integer("position", position, 0, self.num_positions(epoch))
        return int(self.indices(epoch, position, 1)[0])

    def indices(self, epoch: int, first: int, count: int) -> NDArray[np.int64]:
        """Return the indices at positions [first, first + count) as a fresh array.

        Args:
            epoch: Pass over the data, 0 <= epoch < 2**40.
            first: First position, in samples.
            count: Number of positions.

        Returns:
            Array of shape (count,), int64.

        Raises:
            ArgumentError: An argument is out of range.
        """
        num_positions = self.num_positions(epoch)
        first = require_integer("first", first, 0, num_positions + 1)
        count = require_integer("count", count, 0, num_positions - first + 1)
        out = np.full(count, _UNWRITTEN, dtype=np.int64)
        self.fill(epoch, first, out)
        self._require_indices(first, out)
        return out

    def fill_blocks(
        self, epoch: int, first: int, block: int, stride: int, out: NDArray[np.int64]
    ) -> None:
        """Write equally spaced blocks of positions: what one rank issues.

        Block k of `out` holds the indices at positions
        [first + k * stride, first + k * stride + block).

        Args:
            epoch: Pass over the data, 0 <= epoch < 2**40.
            first: First position of block 0.
            block: Positions in a block, >= 1.
            stride: Distance of two blocks in positions, >= block.
            out: Array of shape (k * block,), int64, C-contiguous; overwritten.

        Raises:
            ArgumentError: A position lies outside the epoch, or out has another dtype, rank or
                layout, or is read-only.
            TypeError: out is no array.
        """
        block = require_integer("block", block, 1, MAX_COUNT)
        require_integer("stride", stride, block, MAX_COUNT)
        require_integer("len(out) % block", len(out) % block, 0, 1)
        for place in range(0, len(out), block):
            position = first + place // block * stride
            out[place : place + block] = self.indices(epoch, position, block)

    def num_positions(self, epoch: int) -> int:
        """Return the number of positions of one epoch.

        Args:
            epoch: Pass over the data, 0 <= epoch < 2**40.

        Returns:
            num_samples in every epoch, for a permutation.

        Raises:
            ArgumentError: epoch is out of range.
        """
        require_integer("epoch", epoch, 0, MAX_EPOCH)
        return self.num_samples

    def __eq__(self, other: object) -> bool:
        """Compare what decides the order."""
        if not isinstance(other, Order):
            return NotImplemented
        return self._identity == other._identity

    def __hash__(self) -> int:
        """Agree with `==`."""
        return hash(self._identity)

    @property
    def _identity(self) -> str:
        return to_json(f"parameters of {type(self).__name__}", self.description)

    def _require_indices(self, first: int, out: NDArray[np.int64]) -> None:
        """Raise unless `fill` wrote an index everywhere: it is not our own."""
        wrong = np.flatnonzero((out < 0) | (out >= self.num_samples))
        if len(wrong) > 0:
            raise ArgumentError(
                f"fill must write an index in [0, {self.num_samples}) at every position, got "
                f"{out[wrong[0]]} at position {first + wrong[0]} from {self!r}"
            )

    def __repr__(self) -> str:
        """Show the class and what decides the order."""
        shown = "".join(f", {name}={value!r}" for name, value in self.parameters.items())
        return f"{type(self).__name__}({self.num_samples}, seed={self.seed}{shown})"


class CoreOrder(Order):
    """An order computed by the C++ core."""

    def __init__(self, num_samples: int, seed: int = 0) -> None:
        super().__init__(num_samples, seed)
        self._core = self._make_core()
        self._num_positions = self._core.num_positions

    @abstractmethod
    def _make_core(self) -> _core.Order: ...

    def num_positions(self, epoch: int) -> int:
        """As `Order.num_positions`."""
        require_integer("epoch", epoch, 0, MAX_EPOCH)
        return self._num_positions

    def index_at(self, epoch: int, position: int) -> int:
        """As `Order.index_at`."""
        return self._core.index_at(
            require_integer("epoch", epoch, 0, MAX_EPOCH),
            require_integer("position", position, 0, self._num_positions),
        )

    def indices(self, epoch: int, first: int, count: int) -> NDArray[np.int64]:
        """As `Order.indices`."""
        first = require_integer("first", first, 0, self._num_positions + 1)
        count = require_integer("count", count, 0, self._num_positions - first + 1)
        out = np.empty(count, dtype=np.int64)
        self.fill(epoch, first, out)
        return out

    def position_of(self, epoch: int, index: int) -> int:
        """As `Order.position_of`."""
        return self._core.position_of(
            require_integer("epoch", epoch, 0, MAX_EPOCH),
            require_integer("index", index, 0, self.num_samples),
        )

    def fill(self, epoch: int, first: int, out: NDArray[np.int64], *, num_threads: int = 1) -> None:
        """As `Order.fill`, shared out among up to num_threads threads.

        A thread pays from about 10**6 indices on. The GIL is released.
        """
        _require_array(out)
        self._core.fill(
            require_integer("epoch", epoch, 0, MAX_EPOCH),
            require_integer("first", first, 0, self._num_positions + 1),
            out,
            require_integer("num_threads", num_threads, 1, _MAX_THREADS + 1),
        )

    def fill_blocks(
        self, epoch: int, first: int, block: int, stride: int, out: NDArray[np.int64]
    ) -> None:
        """As `Order.fill_blocks`."""
        _require_array(out)
        self._core.fill_blocks(
            require_integer("epoch", epoch, 0, MAX_EPOCH),
            require_integer("first", first, 0, self._num_positions + 1),
            require_integer("block", block, 1, MAX_COUNT),
            require_integer("stride", stride, 1, MAX_COUNT),
            out,
        )

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        del state["_core"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._core = self._make_core()


class Shuffle(CoreOrder):
    """A pseudo-random permutation of [0, num_samples), a new one each epoch.

    A Feistel network keyed by (seed, epoch): no table, no state, bijective for every
    size. Up to 4096 samples it is an exact shuffle from a table instead.

    Args:
        num_samples: Number of indices, 1 <= num_samples < 2**63.
        seed: Key of all epochs, 0 <= seed < 2**64. Seed and epoch are separate inputs:
            (seed 0, epoch 1) has nothing to do with (seed 1, epoch 0).

    Example:
        >>> order = Shuffle(10**12, seed=7)
        >>> index = order.index_at(3, 123_456_789_012)
        >>> order.position_of(3, index)
        123456789012
        >>> sorted(Shuffle(5, seed=1).indices(0, 0, 5).tolist())
        [0, 1, 2, 3, 4]

    Source:
        Feistel network: Luby and Rackoff 1988; Philox: Salmon et al., SC'11;
        the definition, with its deviations, in permutation.hpp.
    """

    order_id = SHUFFLE_ID

    def _make_core(self) -> _core.Order:
        return _core.Shuffle(self.num_samples, self.seed)


class Sequential(CoreOrder):
    """The natural order: index == position in every epoch.

    Args:
        num_samples: Number of indices, 1 <= num_samples < 2**63.
        seed: Kept for the cursor; it does not change the order.

    Example:
        >>> Sequential(5).indices(0, 1, 3).tolist()
        [1, 2, 3]
    """

    order_id = SEQUENTIAL_ID

    def _make_core(self) -> _core.Order:
        return _core.Sequential(self.num_samples)


def _require_array(out: object) -> None:
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out must be a numpy array of int64, got {type(out).__name__}")
