"""Columns beside the tokens of a corpus: one value a token, gathered by the same spans."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from datacursor._core import ColumnTable
from datacursor.checks import require_bool
from datacursor.errors import ArgumentError
from datacursor.tokens import TokenCorpus

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

# Values, and where each document begins and ends.
_Extents: TypeAlias = tuple[NDArray[Any], NDArray[Any] | None, NDArray[Any]]


class TokenColumn:
    """One value for each token of a corpus: loss weights, masks, sources, rewards.

    Args:
        values: One of

            - an array of shape (num_tokens,): all documents one after another;
            - a sequence of arrays, one a document, of the documents' lengths;
            - a `TokenCorpus` of documents of these lengths, say another column of the same
              files: ``TokenCorpus.open(path, column="labels")``. Nothing is copied.

            Booleans, integers or floats of 1 to 8 bytes; a batch has them in the same dtype.
        fill: Value at bos and eos, in padding, and shifted at a document's last token.
        shifted: Whether a place has the value of the next token, like shifted labels: then a
            weight stands where its token is the target.

    Raises:
        ArgumentError: The values are not flat, or fill is not of their dtype.
        TypeError: The values are not numbers, or fill is none.

    Example:
        >>> from datacursor import PackedSampler
        >>> corpus = TokenCorpus.open([[1, 2, 3], [4, 5]])
        >>> weight = TokenColumn(np.array([0, 1, 1, 0, 1], np.float32))
        >>> rows = PackedSampler(
        ...     corpus, seq_len=6, batch_size=1, shuffle=False, columns={"weight": weight}
        ... )
        >>> rows.dataset[next(iter(rows))]["weight"]
        tensor([0., 1., 1., 0., 1., 0.])
    """

    def __init__(
        self,
        values: ArrayLike | Sequence[ArrayLike] | TokenCorpus,
        *,
        fill: float = 0,
        shifted: bool = False,
    ) -> None:
        self.values = values if isinstance(values, TokenCorpus) else _arrays(values)
        self.fill = fill
        self.shifted = require_bool("shifted", shifted)
        self.dtype = _dtype_of(self.values)
        self._fill_bits = _bits(fill, self.dtype)

    def table(self, name: str, corpus: TokenCorpus) -> ColumnTable:
        """Return the values, ready to be gathered by spans of a corpus.

        Args:
            name: Name of the column, for errors.
            corpus: The documents; one value is there for each token.

        Raises:
            ArgumentError: Documents differ in number or length; names the first one.
        """
        return ColumnTable(self._shards(name, corpus))

    def gather(
        self,
        table: ColumnTable,
        spans: NDArray[np.int64],
        row_offsets: NDArray[np.int64],
        out: NDArray[Any],
        **options: Any,
    ) -> None:
        """Write the values of rows of spans.

        Args:
            table: As `table` returned it.
            spans: int64 [m, 3].
            row_offsets: int64 [B + 1].
            out: [B, L], of the column's dtype; overwritten.
            **options: bos and eos, whether there are any; align and longest.

        Raises:
            CorpusError: A file of the values changed since it was opened.
        """
        if isinstance(self.values, TokenCorpus):
            self.values.check_unchanged(spans[:, 0])
        table.gather(
            spans,
            row_offsets,
            shifted=self.shifted,
            fill=self._fill_bits,
            out=out.view(_unsigned(self.dtype)),
            **options,
        )

    def _shards(self, name: str, corpus: TokenCorpus) -> list[_Extents]:
        unsigned = _unsigned(self.dtype)
        lengths = corpus.lengths
        if isinstance(self.values, TokenCorpus):
            _require_lengths(name, self.values.lengths, lengths)
            return [(s.tokens.view(unsigned), s.begins, s.ends) for s in self.values.shards]
        if isinstance(self.values, list):
            _require_lengths(name, np.array([len(v) for v in self.values], np.int64), lengths)
            # Parts without values decide no dtype: those of an empty list are float64.
            parts = [part for part in self.values if part.size]
            values = np.concatenate([np.empty(0, dtype=self.dtype), *parts])
        else:
            values = self.values
            if len(values) != corpus.num_tokens:
                raise ArgumentError(
                    f"{name} must have a value for each of the corpus's {corpus.num_tokens} "
                    f"tokens, got {len(values)}"
                )
        offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return [(values.view(unsigned), offsets[:-1], offsets[1:])]


def _arrays(values: Any) -> NDArray[Any] | list[NDArray[Any]]:
    """Return one flat array, or one of each document."""
    is_flat = isinstance(values, (np.ndarray, torch.Tensor)) or not any(
        hasattr(value, "__len__") for value in values
    )
    arrays = [np.ascontiguousarray(part) for part in ([values] if is_flat else values)]
    arrays = [array.astype(array.dtype.newbyteorder("="), copy=False) for array in arrays]
    for array in arrays:
        if array.ndim != 1:
            raise ArgumentError(f"values of a column must be flat, got shape {array.shape}")
    return arrays[0] if is_flat else arrays


def _dtype_of(values: TokenCorpus | NDArray[Any] | list[NDArray[Any]]) -> np.dtype[Any]:
    if isinstance(values, TokenCorpus):
        parts = [shard.tokens for shard in values.shards]
    else:
        parts = values if isinstance(values, list) else [values]
    dtypes = {part.dtype for part in parts if part.size}
    if len(dtypes) > 1:
        names = ", ".join(sorted(map(str, dtypes)))
        raise ArgumentError(f"values of a column must have one dtype, got {names}")
    dtype = dtypes.pop() if dtypes else np.dtype(np.int64)
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise TypeError(f"values of a column must be numbers of up to 8 bytes, got {dtype}")
    return dtype


def _unsigned(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(f"u{dtype.itemsize}")


def _bits(fill: Any, dtype: np.dtype[Any]) -> int:
    """Return the bytes of a value as an integer."""
    if not isinstance(fill, (Real, np.bool_)):
        raise TypeError(f"fill must be a number, got fill={fill!r}")
    with np.errstate(all="ignore"), suppress(OverflowError):
        filled = np.array([fill]).astype(dtype)
        if dtype.kind == "f":
            is_kept = bool(np.isfinite(filled[0])) or not math.isfinite(fill)
        else:
            is_kept = filled[0] == fill
        if is_kept:
            return int(filled.view(_unsigned(dtype))[0])
    raise ArgumentError(f"fill must be a value of dtype {dtype}, got fill={fill!r}")


def _require_lengths(name: str, got: NDArray[np.int64], wanted: NDArray[np.int64]) -> None:
    if len(got) != len(wanted):
        raise ArgumentError(
            f"{name} must have a part for each of the corpus's {len(wanted)} documents, "
            f"got {len(got)}"
        )
    different = np.flatnonzero(got != wanted)
    if len(different) > 0:
        document = int(different[0])
        raise ArgumentError(
            f"{name} must have as many values as each document has tokens: document {document} "
            f"has {wanted[document]}, got {got[document]} values"
        )
