"""What a packing plan answers with: readers, blocks of rows, and what packing did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Reader(NamedTuple):
    """Where a row begins: a place in the document order and tokens of that document read."""

    position: int
    offset: int


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
        num_left: Tokens after the last row, dropped by tail="drop".
        num_documents: Documents, empty ones included.
        num_empty: Documents without a token, stepped over.
        num_split: Documents that continue in a further row.
        num_spans: Parts of documents in all rows.
        sum_squares: Sum of squared span lengths, the attention's work.
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

    @property
    def density(self) -> float:
        """Share of the rows' places that hold tokens of documents; 1 for no rows."""
        places = self.num_tokens + self.num_padding
        return self.num_tokens / places if places else 1.0
