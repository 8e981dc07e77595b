"""`Subset`: given indices only, shuffled or in the order given."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from datacursor import _core
from datacursor.checks import MAX_COUNT, require_bool, require_integer, require_vector
from datacursor.errors import ArgumentError
from datacursor.order import SUBSET_ID, CoreOrder

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_WHAT = "a non-empty 1-D array of integers or a mask with a True"


class Subset(CoreOrder):
    """A permutation of given indices, a new one each epoch, or the indices as they are given.

    Args:
        indices: Distinct indices, or a boolean mask over all samples.
        num_samples: Samples of the data set; None is the length of the mask, or the largest
            index + 1.
        seed: Key of all epochs, 0 <= seed < 2**64.
        shuffle: False keeps the order in which the indices are given, in every epoch.

    Raises:
        ArgumentError: No index, one that is out of range or given twice, or a mask of another
            length than num_samples.
        TypeError: An argument has the wrong type.

    Example:
        >>> order = Subset([7, 3, 5], num_samples=10, seed=1)
        >>> sorted(order.indices(0, 0, 3).tolist()), order.num_positions(0)
        ([3, 5, 7], 3)
        >>> Subset(np.array([True, False, True]), shuffle=False).indices(0, 0, 2).tolist()
        [0, 2]
    """

    order_id = SUBSET_ID
    is_permutation = False

    def __init__(
        self,
        indices: ArrayLike,
        *,
        num_samples: int | None = None,
        seed: int = 0,
        shuffle: bool = True,
    ) -> None:
        self.shuffle = require_bool("shuffle", shuffle)
        chosen = require_vector("indices", indices, "iub", _WHAT)
        if chosen.dtype == np.bool_:
            num_samples = _mask_length(chosen, num_samples)
            chosen = np.flatnonzero(chosen)
        self._indices = _as_indices(chosen)
        if num_samples is None:
            num_samples = int(self._indices.max()) + 1
        super().__init__(require_integer("num_samples", num_samples, 1, MAX_COUNT), seed)

    @property
    def parameters(self) -> dict[str, Any]:
        """A digest of the indices, their number, and whether they are shuffled."""
        little_endian = self._indices.astype("<i8", copy=False)
        digest = hashlib.blake2b(little_endian.tobytes(), digest_size=16).hexdigest()
        return {"indices": digest, "num_positions": len(self._indices), "shuffle": self.shuffle}

    def _make_core(self) -> _core.Order:
        return _core.Subset(self._indices, self.num_samples, self.seed, self.shuffle)


def _mask_length(mask: NDArray[np.bool_], num_samples: int | None) -> int:
    if num_samples not in (None, len(mask)):
        raise ArgumentError(
            f"a mask must be as long as the data: len(mask)={len(mask)}, num_samples={num_samples}"
        )
    return len(mask)


def _as_indices(indices: NDArray[Any]) -> NDArray[np.int64]:
    """Return indices as an array of our own, in its one form."""
    if len(indices) == 0:
        raise ArgumentError(f"indices must be {_WHAT}, got no True")
    if int(indices.min()) < 0 or int(indices.max()) >= MAX_COUNT - 1:
        raise ArgumentError(
            f"indices must be in [0, 2**63 - 1), got {indices.min()} to {indices.max()}"
        )
    return np.array(indices, dtype=np.int64)
