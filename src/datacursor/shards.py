"""Token shards: documents as extents of one flat array, and shards made from sequences.

A shard is three arrays. Document i of the shard is ``tokens[begins[i]:ends[i]]``:

    tokens   7 8 9 | 4 4 | 1 2 3 5        begins  0 3 5
                                          ends    3 5 9

Arrow's list layout is exactly this (begins = offsets[:-1], ends = offsets[1:]), so Arrow data
becomes shards without a copy. Extents may leave gaps, overlap or run backwards in the array.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from datacursor.errors import CorpusError
from datacursor.mapped_file import MappedFile

IntArray: TypeAlias = NDArray[np.integer[Any]]

NO_NULLS: NDArray[np.int64] = np.empty(0, dtype=np.int64)


class TokenShard(NamedTuple):
    """Documents over one flat token array.

    Attributes:
        tokens: Shape (tokens,), any integer dtype, C-contiguous and aligned.
        begins: Shape (documents,), int32 or int64: where each document starts in ``tokens``.
        ends: Shape (documents,), as ``begins``: where each document stops.
    """

    tokens: IntArray
    begins: IntArray
    ends: IntArray

    def lengths(self) -> NDArray[np.int64]:
        """Return the number of tokens of each document, as a fresh int64 array."""
        return np.subtract(self.ends, self.begins, dtype=np.int64)


class SourceShards(NamedTuple):
    """The documents of one file or object.

    Attributes:
        shards: In order; stretches without documents are left out.
        nulls: Numbers of the null documents within the source, rising; they count as empty ones.
        column: Name of the column that was read, None where there are no columns.
        files: Every file that was read, that of the tokens last; none for an object.
    """

    shards: list[TokenShard]
    nulls: NDArray[np.int64] = NO_NULLS
    column: str | None = None
    files: tuple[MappedFile, ...] = ()


def shard_from_offsets(tokens: IntArray, offsets: NDArray[np.int64]) -> TokenShard:
    """Return documents that follow one another: number i is ``tokens[offsets[i]:offsets[i + 1]]``.

    Args:
        tokens: Copied if they are not aligned, which a file may decide.
        offsets: Shape (documents + 1,).
    """
    aligned = tokens if tokens.flags.aligned else tokens.copy()
    return TokenShard(aligned, offsets[:-1], offsets[1:])


def join_documents(
    tokens: IntArray, begins: NDArray[np.int64], ends: NDArray[np.int64]
) -> IntArray:
    """Return ``tokens[begins[i]:ends[i]]`` for every i, one after another; viewed if they are."""
    if len(begins) == 0:
        return tokens[:0]
    if np.array_equal(begins[1:], ends[:-1]):
        return tokens[begins[0] : ends[-1]]
    lengths = ends - begins
    places = np.repeat(ends - np.cumsum(lengths), lengths)
    places += np.arange(len(places))
    return tokens[places]


def check_extents(shard: TokenShard, where: str, first_row: int = 0) -> None:
    """Raise unless every document lies inside the tokens and none has a negative length.

    Args:
        shard: The documents; read once, nothing is copied.
        where: Names the data in the error.
        first_row: Number of the shard's first document within ``where``.

    Raises:
        CorpusError: An extent is reversed or leaves the tokens; names row and both values.
    """
    tokens, begins, ends = shard
    bad = (begins < 0) | (begins > ends) | (ends > len(tokens))
    if not bad.any():
        return
    row = int(bad.argmax())
    begin, end = int(begins[row]), int(ends[row])
    if begin > end:
        problem = f"offset {begin} is past the offset after it, {end}"
    elif begin < 0:
        problem = f"offset {begin} is negative, the offset after it is {end}"
    else:
        problem = f"offset {end} is past the last value, there are {len(tokens)}"
    raise CorpusError(f"{where}: row {first_row + row}: {problem}")


def shard_from_sequences(documents: Iterable[Any], first: int = 0) -> tuple[TokenShard, int]:
    """Join token sequences into one shard.

    Args:
        documents: One-dimensional integer sequences or arrays; None is a null document, which
            is empty and counted. Mixed widths take the widest; copied once.
        first: Number of the first document, for errors.

    Returns:
        The shard and the number of null documents.

    Raises:
        CorpusError: A document is not a flat sequence of integers; names the document.
    """
    num_null = 0
    arrays: list[IntArray] = []
    for row, document in enumerate(documents, first):
        num_null += document is None
        arrays.append(_token_array(() if document is None else document, row))
    offsets = np.zeros(len(arrays) + 1, dtype=np.int64)
    np.cumsum([len(array) for array in arrays], out=offsets[1:])
    tokens = np.empty(int(offsets[-1]), dtype=_common_dtype(arrays))
    if arrays:
        np.concatenate(arrays, out=tokens, casting="same_kind")
    return TokenShard(tokens, offsets[:-1], offsets[1:]), num_null


def _token_array(document: Any, row: int) -> IntArray:
    try:
        array = np.asarray(document)
    except (TypeError, ValueError, OverflowError) as error:
        raise CorpusError(f"document {row} is not a sequence of integers: {error}") from error
    if array.ndim != 1:
        kind = type(document).__name__
        raise CorpusError(
            f"document {row} must be one flat sequence of integers, got {kind} "
            f"with {array.ndim} dimensions"
        )
    if array.size == 0:
        return np.empty(0, dtype=np.uint8)  # narrowest: an empty document decides no dtype
    if array.dtype.kind not in "iu":
        raise CorpusError(f"document {row} must hold integers, got dtype {array.dtype}")
    return array


def _common_dtype(arrays: list[IntArray]) -> np.dtype[np.integer[Any]]:
    dtypes = {array.dtype for array in arrays if array.size}
    if not dtypes:
        return np.dtype(np.int64)
    common = np.result_type(*dtypes)
    # NumPy joins uint64 with a signed type to float64; every legal token fits int64.
    return common.newbyteorder("=") if common.kind in "iu" else np.dtype(np.int64)
