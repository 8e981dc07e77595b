"""Lengths as a plan is given them: plain numbers, or the offsets of a corpus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from datacursor import _core
from datacursor.errors import ArgumentError
from datacursor.skip_table import Lengths

if TYPE_CHECKING:
    from numpy.typing import NDArray


def make_lengths(source: Any, *, num_virtual: int, keep_empty: bool) -> Lengths:
    """Return the lengths of a corpus, whose offsets are borrowed, or of an array of lengths."""
    shards: list[tuple[NDArray[Any] | None, NDArray[Any]]] = [(None, source)]
    if hasattr(source, "shards"):
        shards = [(shard.begins, shard.ends) for shard in source.shards]
    return Lengths(_core.LengthIndex(shards), num_virtual=num_virtual, keep_empty=keep_empty)


def own_lengths(lengths: Any) -> NDArray[Any]:
    """Return plain lengths as an array of our own: the plan must not change with the caller's.

    In 4 bytes each if they fit: a shuffled order reads them at random, from memory.
    """
    if not (isinstance(lengths, Sequence) or hasattr(lengths, "__array__")):
        raise TypeError(f"lengths must be integers or a TokenCorpus, got {type(lengths).__name__}")
    try:
        array = np.asarray(lengths)
    except (ValueError, OverflowError) as error:
        raise TypeError(f"lengths must be one-dimensional integers: {error}") from error
    if array.ndim != 1 or (array.dtype.kind not in "iu" and len(array) > 0):
        raise TypeError(
            f"lengths must be one-dimensional integers, got {array.dtype} of shape {array.shape}"
        )
    if len(array) > 0 and int(array.min()) < 0:
        document = int(np.argmin(array))
        raise ArgumentError(
            f"lengths must not be negative, got lengths[{document}]={int(array[document])}"
        )
    fits = len(array) == 0 or int(array.max()) < 2**32
    return np.array(array, dtype=np.uint32 if fits else np.uint64, order="C")
