"""`Weighted`: draws with replacement, in proportion to weights."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from datacursor import _core
from datacursor.checks import MAX_COUNT, require_integer, require_vector
from datacursor.order import WEIGHTED_ID, CoreOrder

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class Weighted(CoreOrder):
    """Samples drawn with replacement, each in proportion to its weight.

    The draw at a position depends on (seed, epoch, position) alone, so a weighted run
    seeks and resumes like any other. An index may come many times in an epoch or not at
    all: there is no `position_of`.

    Args:
        weights: One number for each sample, finite, >= 0, not all 0; kept as float64.
        seed: Key of all epochs, 0 <= seed < 2**64.
        num_positions: Draws in an epoch; None is as many as weights.

    Raises:
        ArgumentError: A weight or a number is out of range.
        TypeError: weights are not numbers.

    Example:
        >>> order = Weighted([1.0, 0.0, 3.0], seed=1, num_positions=1000)
        >>> np.bincount(order.indices(0, 0, 1000)).tolist()
        [273, 0, 727]

    Source:
        Alias method: Walker 1977, Vose 1991; in integers, as weighted.hpp defines it.
    """

    order_id = WEIGHTED_ID
    is_permutation = False

    def __init__(
        self, weights: ArrayLike, seed: int = 0, *, num_positions: int | None = None
    ) -> None:
        self._weights = _as_weights(weights)
        if num_positions is None:
            num_positions = len(self._weights)
        self._num_positions = require_integer("num_positions", num_positions, 1, MAX_COUNT)
        super().__init__(len(self._weights), seed)

    @property
    def parameters(self) -> dict[str, Any]:
        """A digest of the weights, and the draws in an epoch."""
        little_endian = self._weights.astype("<f8", copy=False)
        digest = hashlib.blake2b(little_endian.tobytes(), digest_size=16).hexdigest()
        return {"weights": digest, "num_positions": self._num_positions}

    def _make_core(self) -> _core.Order:
        return _core.Weighted(self._weights, self._num_positions, self.seed)


def _as_weights(weights: ArrayLike) -> NDArray[np.float64]:
    """Return weights as an array of our own."""
    numbers = require_vector("weights", weights, "iuf", "a non-empty 1-D array of numbers")
    return np.array(numbers, dtype=np.float64, order="C")
