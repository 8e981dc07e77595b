"""Random access to a stream of joined documents: one number for many of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from datacursor import _core
from datacursor.errors import ArgumentError
from datacursor.fork_lock import ForkLock

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from datacursor.order import Order

_STRIDE = 1024
_MAX_DOCUMENTS = 65536  # summed in one call, or as many as one entry has


@dataclass(frozen=True, slots=True)
class Lengths:
    """Document lengths and the tokens that packing adds to them.

    Attributes:
        index: Real lengths.
        num_virtual: Tokens added to a document: bos and eos.
        keep_empty: Whether an empty document gets them too.
    """

    index: _core.LengthIndex
    num_virtual: int
    keep_empty: bool

    @property
    def num_empty(self) -> int:
        """Documents without any token, added ones included."""
        return 0 if self.keep_empty and self.num_virtual > 0 else self.index.num_empty

    @property
    def longest(self) -> int:
        """Tokens of the longest document, added ones included."""
        longest = self.index.longest
        return longest + self.num_virtual if longest > 0 or self.keep_empty else 0

    @property
    def num_tokens(self) -> int:
        """Tokens of all documents, added ones included."""
        num_with_tokens = self.index.num_documents - self.num_empty
        return self.index.num_tokens + self.num_virtual * num_with_tokens


class SkipTable:
    """Tokens up to every so many documents of one epoch's order, filled as far as needed.

    Costs 8 bytes an entry, and one pass over the lengths up to the place asked for.

    Args:
        lengths: Of all documents.
        order: In which they are joined.
        epoch: Of that order.
        stride: Documents an entry; to find a token, up to so many lengths are read.
    """

    def __init__(
        self, lengths: Lengths, order: Order, epoch: int, *, stride: int = _STRIDE
    ) -> None:
        """Begin an empty table for one epoch."""
        self.epoch = epoch
        self.stride = stride
        self._lengths = lengths
        self._order = order
        self._num_documents = order.num_positions(epoch)
        self._totals = np.zeros(0, dtype=np.int64)
        self._num_known = 0
        self._lock = ForkLock()

    def num_tokens(self) -> int:
        """Return the tokens of the whole epoch."""
        return int(self.totals()[-1])

    def totals(self) -> NDArray[np.int64]:
        """Return the tokens up to the end of every `stride` documents, int64."""
        with self._lock:
            while self._num_known * self.stride < self._num_documents:
                self._extend()
            return self._totals[: self._num_known]

    def find(self, token: int) -> tuple[int, int]:
        """Return where a reader stands that has read `token` tokens, 0 < token <= all.

        Returns:
            Place in the order and tokens of that document read; (place + 1, 0) right after the
            end of a document.
        """
        with self._lock:
            while self._num_known == 0 or self._totals[self._num_known - 1] < token:
                self._extend()
            totals = self._totals[: self._num_known]
        entry = int(np.searchsorted(totals, token))
        before = int(totals[entry - 1]) if entry > 0 else 0
        first = entry * self.stride
        count = min(self.stride, self._num_documents - first)
        place, offset = _core.locate_token(
            self._lengths.index,
            self._order.indices(self.epoch, first, count),
            num_virtual=self._lengths.num_virtual,
            keep_empty=self._lengths.keep_empty,
            target=token - before,
        )
        return first + place, offset

    def _extend(self) -> None:
        first = self._num_known * self.stride
        if first >= self._num_documents:
            raise ArgumentError(
                f"order must hold every document once: {self._order!r} gave documents of "
                f"{int(self._totals[-1])} tokens in epoch {self.epoch}, there are "
                f"{self._lengths.num_tokens}"
            )
        whole = max(1, _MAX_DOCUMENTS // self.stride) * self.stride
        count = min(whole, self._num_documents - first)
        stop = self._num_known + -(-count // self.stride)
        if stop > len(self._totals):
            most = -(-self._num_documents // self.stride)
            longer = np.empty(min(max(stop, 2 * len(self._totals)), most), dtype=np.int64)
            longer[: self._num_known] = self._totals[: self._num_known]
            self._totals = longer
        _core.count_tokens(
            self._lengths.index,
            self._order.indices(self.epoch, first, count),
            num_virtual=self._lengths.num_virtual,
            keep_empty=self._lengths.keep_empty,
            stride=self.stride,
            before=int(self._totals[self._num_known - 1]) if self._num_known else 0,
            totals=self._totals[self._num_known : stop],
        )
        self._num_known = stop
