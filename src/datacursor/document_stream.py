"""The documents of every epoch in their order, joined end to end."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from datacursor import _core
from datacursor.skip_table import Lengths, SkipTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from datacursor.order import Order

_ENDLESS_TOKENS = 2**62
_NUM_PROBED = 2**16  # documents of an endless order that must not all be empty


class Documents(NamedTuple):
    """Some documents of a stream, as best_fit packs them.

    Attributes:
        lengths: What their numbers refer to.
        numbers: The documents in the order in which they come, int64.
        first: Number in the stream of the document that `lengths` calls 0.
    """

    lengths: Lengths
    numbers: NDArray[np.int64]
    first: int


class DocumentStream:
    """Document lengths in an order: how many tokens an epoch has and where each one is.

    An epoch of a permutation has the tokens of all documents. Of another order they are
    counted: one pass over the epoch, kept for the epoch in use.

    Args:
        lengths: Of all documents.
        order: Which of them come, and when.

    Attributes:
        has_lengths: Whether lengths are known before documents are read.
    """

    has_lengths: ClassVar[bool] = True

    def __init__(self, lengths: Lengths, order: Order) -> None:
        """Count nothing yet."""
        self.lengths = lengths
        self.order = order
        self._table: SkipTable | None = None

    @property
    def mean_length(self) -> int:
        """Mean tokens of a document, rounded down, at least 1."""
        return max(1, self.lengths.num_tokens // self.lengths.index.num_documents)

    def num_documents(self, epoch: int) -> int:
        """Return how many documents an epoch reads, empty ones included."""
        return self.order.num_positions(epoch)

    def num_tokens(self, epoch: int) -> int:
        """Return the tokens of an epoch, bos and eos included; 2**62 if it never ends.

        An endless order whose first 65,536 documents are empty counts as one without tokens.
        """
        if self.order.is_permutation or self.lengths.num_tokens == 0:
            return self.lengths.num_tokens
        if self.order.is_endless:
            return self._endless_tokens
        return self._table_of(epoch).num_tokens()

    def num_empty(self, epoch: int) -> int:
        """Return how many documents of an epoch are stepped over, by a pass if need be."""
        if self.order.is_permutation or self.lengths.num_empty == 0:
            return self.lengths.num_empty
        # One token more in every document that has any: as many tokens more as such documents.
        plain, longer = (
            SkipTable(Lengths(self.lengths.index, num_virtual, keep_empty=False), self.order, epoch)
            for num_virtual in (0, 1)
        )
        return self.num_documents(epoch) - (longer.num_tokens() - plain.num_tokens())

    def documents(self, epoch: int, position: int, count: int) -> NDArray[np.int64]:
        """Return up to `count` documents from a place on; fewer at the epoch's end."""
        return self.order.indices(epoch, position, min(count, self.num_documents(epoch) - position))

    def part(self, epoch: int, position: int, count: int) -> Documents:
        """Return up to `count` documents from a place on, with their lengths."""
        return Documents(self.lengths, self.documents(epoch, position, count), 0)

    def locate(self, epoch: int, token: int) -> tuple[int, int]:
        """Return where a reader stands that has read `token` tokens, 0 < token <= all."""
        return self._table_of(epoch).find(token)

    def is_inside(self, epoch: int, position: int, offset: int) -> bool:
        """Return whether the document at a place is longer than `offset`, in O(1)."""
        if position >= self.num_documents(epoch):
            return False
        document = self.order.index_at(epoch, position)
        length = int(self.lengths.index.lengths(document, 1)[0])
        has_virtual = length > 0 or self.lengths.keep_empty
        return offset < length + (self.lengths.num_virtual if has_virtual else 0)

    def __repr__(self) -> str:
        return repr(self.order)

    @cached_property
    def _endless_tokens(self) -> int:
        """2**62, or 0 if the documents that come first have no token: the rest has none either."""
        first = self.order.indices(0, 0, _NUM_PROBED)
        total = np.zeros(1, dtype=np.int64)
        _core.count_tokens(
            self.lengths.index,
            first,
            num_virtual=self.lengths.num_virtual,
            keep_empty=self.lengths.keep_empty,
            stride=len(first),
            before=0,
            totals=total,
        )
        return _ENDLESS_TOKENS if total[0] > 0 else 0

    def _table_of(self, epoch: int) -> SkipTable:
        if self._table is None or self._table.epoch != epoch:
            self._table = SkipTable(self.lengths, self.order, epoch)
        return self._table
