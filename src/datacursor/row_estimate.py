"""How many rows best_fit will make of documents, estimated from their lengths alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from datacursor.skip_table import Lengths

_MAX_DOCUMENTS = 2**20  # looked at
_BLOCK = 2**10  # neighbours; evenly spaced blocks are looked at


def estimate_rows(lengths: Lengths, num_documents: int, seq_len: int, **rule: Any) -> int:
    """Return the rows that so many documents need at least, if they are like those looked at.

    Rows are as many as the tokens fill; more if a row holds a limited number of pieces, or if
    many pieces are longer than half a row.

    Args:
        lengths: Of all documents.
        num_documents: Documents of an epoch.
        seq_len: Tokens a row.
        **rule: long_documents, min_fragment, max_documents and align, as `BestFitPlan` has them.
    """
    sample = _sample(lengths)
    pieces = _pieces(sample, seq_len, rule["long_documents"], rule["min_fragment"])
    places = -(-pieces // rule["align"]) * rule["align"]
    num_rows = max(-(-int(places.sum()) // seq_len), int(np.count_nonzero(2 * places > seq_len)))
    if rule["max_documents"] is not None:
        num_rows = max(num_rows, -(-len(pieces) // rule["max_documents"]))
    return num_rows * num_documents // len(sample)


def _sample(lengths: Lengths) -> NDArray[np.int64]:
    """Return the lengths of a million documents at most, their bos and eos included."""
    num_documents = lengths.index.num_documents
    step = _BLOCK * -(-num_documents // _MAX_DOCUMENTS)
    blocks = [
        lengths.index.lengths(first, min(_BLOCK, num_documents - first))
        for first in range(0, num_documents, step)
    ]
    found = np.concatenate(blocks)
    return found + lengths.num_virtual * ((found > 0) | lengths.keep_empty)


def _pieces(
    lengths: NDArray[np.int64], seq_len: int, long_documents: str, min_fragment: int
) -> NDArray[np.int64]:
    """Return the sizes of the pieces that documents are cut into, in any order."""
    short = lengths[(lengths > 0) & (lengths <= seq_len)]
    long = lengths[lengths > seq_len]
    if long_documents == "truncate":
        return np.concatenate((short, np.full(len(long), seq_len)))
    if long_documents == "drop":
        return short
    rests = long % seq_len
    whole = np.full(int((long // seq_len).sum()), seq_len)
    return np.concatenate((short, whole, rests[rests >= min_fragment]))
