"""`Mixture`: several orders drawn from in exact proportion."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import accumulate
from numbers import Rational, Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from datacursor import _core
from datacursor._core import Mixture as CoreMixture
from datacursor.checks import MAX_COUNT, MAX_EPOCH, require_choice, require_integer
from datacursor.errors import ArgumentError
from datacursor.order import MIXTURE_ID, CoreOrder, Order

if TYPE_CHECKING:
    from numpy.typing import NDArray

STOPPINGS = ("first_exhausted", "all_exhausted", "forever")
_MAX_BLOCK = 2**16
_MAX_POSITION = 2**62


class Stage(NamedTuple):
    """The quotas from one position of every epoch on.

    Attributes:
        first: Position, a multiple of the block.
        quotas: Positions of each block that an order gets, by order.
    """

    first: int
    quotas: tuple[int, ...]


class Mixture(CoreOrder):
    """Several orders drawn from in exact proportion, as if their data were joined end to end.

    Every block of `block` positions draws from each order exactly its quota, in places of the
    block that are shuffled anew. Each order is drawn from in its own order and repeats in
    epochs of its own; a new epoch of the mixture goes on where the last one left off. So the
    whole state is (epoch, position), and the cursor holds nothing else.

    Index i of order s is index i + (num_samples of the orders before s), as in
    `torch.utils.data.ConcatDataset`.

    Args:
        orders: What to draw from. Give each a seed of its own.
        weights: One number for each order, >= 0; rounded once to quotas of a block by largest
            remainder, ties to the lower order. `repr` shows the quotas.
        seed: Key of the shuffled places, 0 <= seed < 2**64.
        block: Positions in a block, 1 <= block <= 65536.
        stopping: Where an epoch ends, in whole blocks: "first_exhausted" before a block that
            would draw more from an order than it holds, "all_exhausted" once every order has
            given all it holds, "forever" never (after 2**48 positions).
        stages: (position, weights) pairs: other weights from a position of every epoch on, a
            multiple of block. What lies before is not touched.

    Raises:
        ArgumentError: An argument is out of range, a weight is too small for a place in a block,
            or an epoch would hold no block, or never end.
        TypeError: An argument has the wrong type.

    Example:
        >>> from datacursor.order import Shuffle
        >>> web, code = Shuffle(1000, seed=1), Shuffle(50, seed=2)
        >>> mixture = Mixture([web, code], weights=[0.9, 0.1], seed=3, block=10)
        >>> mixture.num_positions(0), mixture.counts(0, 500).tolist()
        (500, [450, 50])
        >>> source, index = mixture.draw_at(epoch=0, position=123)
        >>> mixture.index_at(0, 123) == index + 1000 * source
        True

    Source:
        Largest remainder: Hamilton's method of apportionment. The definition is in mixture.hpp.
    """

    order_id = MIXTURE_ID
    is_permutation = False
    _core: CoreMixture

    def __init__(
        self,
        orders: Sequence[Order],
        weights: Sequence[float],
        seed: int = 0,
        *,
        block: int = 1000,
        stopping: str = "first_exhausted",
        stages: Sequence[tuple[int, Sequence[float]]] = (),
    ) -> None:
        self.orders = _as_orders(orders)
        self.block = require_integer("block", block, 1, _MAX_BLOCK + 1)
        self.stopping = require_choice("stopping", stopping, STOPPINGS)
        self.is_endless = stopping == "forever"
        self.stages = (
            Stage(0, quotas_of(weights, len(self.orders), self.block)),
            *_later_stages(stages, len(self.orders), self.block),
        )
        self._offsets = [0, *accumulate(order.num_samples for order in self.orders)]
        super().__init__(self._offsets[-1], seed)

    @property
    def parameters(self) -> dict[str, Any]:
        """The orders, the quotas and the end of an epoch."""
        return {
            "orders": [order.description for order in self.orders],
            "block": self.block,
            "stopping": self.stopping,
            "stages": [[first, list(quotas)] for first, quotas in self.stages],
        }

    def draw_at(self, epoch: int, position: int) -> tuple[int, int]:
        """Return the number of the order drawn from at a position, and the index in it.

        Args:
            epoch: Pass over the mixture, 0 <= epoch < 2**40.
            position: Place in the epoch, 0 <= position < num_positions(epoch).

        Raises:
            ArgumentError: An argument is out of range.
        """
        return self._core.draw_at(
            require_integer("epoch", epoch, 0, MAX_EPOCH),
            require_integer("position", position, 0, self._num_positions),
        )

    def counts(self, epoch: int, position: int) -> NDArray[np.int64]:
        """Return how often each order is drawn from before a position of an epoch, in O(1).

        Args:
            epoch: Pass over the mixture, 0 <= epoch < 2**40.
            position: Place in the epoch, 0 <= position <= num_positions(epoch).

        Returns:
            int64 array of shape (number of orders,).

        Raises:
            ArgumentError: An argument is out of range.
        """
        counts = np.empty(len(self.orders), dtype=np.int64)
        self._core.count_draws(
            require_integer("epoch", epoch, 0, MAX_EPOCH),
            require_integer("position", position, 0, self._num_positions + 1),
            counts,
        )
        return counts

    def source_of(self, index: int) -> tuple[int, int]:
        """Return the number of the order that an index of the mixture belongs to, and its index.

        Raises:
            ArgumentError: index is out of range.
        """
        index = require_integer("index", index, 0, self.num_samples)
        source = bisect_right(self._offsets, index) - 1
        return source, index - self._offsets[source]

    def __repr__(self) -> str:
        """Show the orders and the quotas of each stage."""
        stages = ", ".join(f"{first}: {list(quotas)}" for first, quotas in self.stages)
        return (
            f"Mixture({list(self.orders)}, quotas={{{stages}}} of {self.block}, "
            f"seed={self.seed}, stopping={self.stopping!r})"
        )

    def _make_core(self) -> CoreMixture:
        return CoreMixture(
            [_core_of(order) for order in self.orders],
            [(first, list(quotas)) for first, quotas in self.stages],
            self.block,
            self.stopping,
            self.seed,
        )


def quotas_of(weights: Any, num_orders: int, block: int) -> tuple[int, ...]:
    """Return the positions of a block that each order gets, by largest remainder.

    Raises:
        ArgumentError: Not one finite weight >= 0 for each order, all are 0, or a weight above 0
            gets no position.
        TypeError: A weight is not a number.
    """
    if isinstance(weights, str) or not isinstance(weights, (Sequence, np.ndarray)):
        raise TypeError(f"weights must be a list of numbers, got {weights!r}")
    if len(weights) != num_orders:
        raise ArgumentError(
            f"weights must be one for each order, got {len(weights)} weights, {num_orders} orders"
        )
    exact = [_as_fraction(weight) for weight in weights]
    total = sum(exact)
    if total == 0:
        raise ArgumentError(f"weights must not all be 0, got {list(weights)}")
    shares = [weight * block / total for weight in exact]
    quotas = [int(share) for share in shares]
    by_remainder = sorted(range(num_orders), key=lambda i: (quotas[i] - shares[i], i))
    for i in by_remainder[: block - sum(quotas)]:
        quotas[i] += 1
    for i, weight in enumerate(exact):
        if weight > 0 and quotas[i] == 0:
            raise ArgumentError(
                f"block must be large enough for every weight above 0: weights[{i}]={weights[i]} "
                f"of {float(total)} gets no position of block={block}"
            )
    return tuple(quotas)


def _later_stages(stages: Any, num_orders: int, block: int) -> Iterator[Stage]:
    if not isinstance(stages, Sequence):
        raise TypeError(f"stages must hold (position, weights) pairs, got {stages!r}")
    after = 0
    for number, stage in enumerate(stages):
        if not isinstance(stage, (tuple, list)) or len(stage) != 2:
            raise TypeError(f"stages must hold (position, weights) pairs, got {stage!r}")
        first = require_integer(f"position of stages[{number}]", stage[0], after + 1, _MAX_POSITION)
        if first % block != 0:
            raise ArgumentError(
                f"position of stages[{number}] must be a multiple of block={block}, got {first}"
            )
        yield Stage(first, quotas_of(stage[1], num_orders, block))
        after = first


def _as_fraction(weight: Any) -> Fraction:
    if isinstance(weight, bool) or not isinstance(weight, Real):
        raise TypeError(f"weights must be numbers, got {weight!r}")
    try:
        fraction = Fraction(weight if isinstance(weight, Rational) else float(weight))
    except (ValueError, OverflowError) as error:  # nan, inf
        raise ArgumentError(f"weights must be finite numbers, got {weight!r}") from error
    if fraction < 0:
        raise ArgumentError(f"weights must be at least 0, got {weight!r}")
    return fraction


def _as_orders(orders: Sequence[Order]) -> tuple[Order, ...]:
    if not isinstance(orders, Sequence):
        raise TypeError(f"orders must be a list of datacursor.Order objects, got {orders!r}")
    for order in orders:
        if not isinstance(order, Order):
            raise TypeError(
                f"orders must hold datacursor.Order objects, got {type(order).__name__}"
            )
    if len(orders) == 0:
        raise ArgumentError(f"orders must hold at least one order, got {orders!r}")
    return tuple(orders)


def _core_of(order: Order) -> _core.Order:
    if isinstance(order, CoreOrder):
        return order._core
    num_positions = require_integer("num_positions(0)", order.num_positions(0), 1, MAX_COUNT)
    return _core.PythonOrder(order.num_samples, num_positions, order)
