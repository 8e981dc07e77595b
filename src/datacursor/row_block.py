"""What a packing plan answers with: readers, blocks of rows, and what packing did."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Reader(NamedTuple):
    """Where a row begins: a place in the document order and tokens of that document read."""

    position: int
    offset: int


class Reach(NamedTuple):
    """How far an epoch is known to go.

    Attributes:
        stop: All positions below it exist.
        is_end: No others do.
    """

    stop: int
    is_end: bool


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Consecutive rows of an epoch.

    Attributes:
        spans: Parts of documents (document, start, stop), int64 of shape (m, 3); bos and eos
            count as tokens.
        row_offsets: Row r holds spans[row_offsets[r] : row_offsets[r + 1]]; int64.
        reader: Where the next row begins.
    """

    spans: NDArray[np.int64]
    row_offsets: NDArray[np.int64]
    reader: Reader


@dataclass(frozen=True, slots=True)
class PlanStats:
    """What packing does to one epoch; counts of tokens include bos and eos.

    Attributes:
        num_rows: Rows.
        num_tokens: Tokens of documents in them.
        num_padding: Padding tokens in them.
        num_left: Tokens in no row: after the last one, or of what is truncated or left out.
        num_documents: Documents, empty ones included.
        num_empty: Documents without a token, stepped over.
        num_split: Documents that continue in a further row; best_fit: that were cut.
        num_spans: Parts of documents in all rows.
        sum_squares: Sum of squared span lengths, the attention's work.
        num_truncated: Documents of which only the first tokens are in a row.
        num_dropped: Documents left out for their length.
        num_fragments_dropped: Pieces of documents left out for their shortness.
    """

    num_rows: int
    num_tokens: int
    num_padding: int
    num_left: int
    num_documents: int
    num_empty: int
    num_split: int
    num_spans: int
    sum_squares: int
    num_truncated: int = 0
    num_dropped: int = 0
    num_fragments_dropped: int = 0

    @property
    def density(self) -> float:
        """Share of the rows' places that hold tokens of documents; 1 for no rows."""
        places = self.num_tokens + self.num_padding
        return self.num_tokens / places if places else 1.0


class Sums(NamedTuple):
    """What rows hold, as in `PlanStats`."""

    num_tokens: int
    num_spans: int
    num_split: int
    sum_squares: int


def sum_up(blocks: Iterable[RowBlock]) -> Sums:
    """Return the sums over consecutive rows of a stream, from its start."""
    num_tokens = num_spans = num_split = sum_squares = 0
    last = False
    for block in blocks:
        sizes = block.spans[:, 2] - block.spans[:, 1]
        goes_on = block.spans[:, 1] > 0
        goes_on[0] &= num_spans > 0  # the first rows of chunk may begin inside a document
        before = np.concatenate(([last], goes_on[:-1]))
        last = bool(goes_on[-1])
        num_split += int(np.count_nonzero(goes_on & ~before))
        num_tokens += int(sizes.sum())
        num_spans += len(sizes)
        sum_squares += _sum_of_squares(sizes)
    return Sums(num_tokens, num_spans, num_split, sum_squares)


def _sum_of_squares(sizes: NDArray[np.int64]) -> int:
    """Return the sum, which may pass 2**63; a size is below 2**31."""
    high, low = np.divmod(sizes * sizes, 2**32)
    return int(high.sum()) * 2**32 + int(low.sum())
