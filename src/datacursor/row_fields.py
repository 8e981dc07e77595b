"""The fields of a batch that have a value for every token, side by side in one memory."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import torch

if TYPE_CHECKING:
    from datacursor.row_format import RowFormat


class Buffers(Protocol):
    """Where the memory of batches comes from, as `RowBuffers`."""

    def lend(self, num_bytes: int) -> memoryview:
        """Return memory that nobody else has while it, or anything over it, lives."""


class _Field(NamedTuple):
    name: str
    dtype: np.dtype[Any]
    place: int  # bytes a token that lie before it


class RowFields:
    """Fields of rows, all in the shape of a format.

    Args:
        dtypes: By name.
        format: Says their shape.
        seq_len: Tokens a row.

    Attributes:
        names: The fields' names, in the order they were given in.
    """

    def __init__(
        self, dtypes: Mapping[str, np.dtype[Any]], format: RowFormat, seq_len: int
    ) -> None:
        """Lay out the fields, the widest first, so that all are aligned."""
        self.names = tuple(dtypes)
        names = sorted(dtypes, key=lambda name: -dtypes[name].itemsize)
        places = accumulate((dtypes[name].itemsize for name in names), initial=0)
        fields = zip(names, places, strict=False)
        self._fields = [_Field(name, dtypes[name], place) for name, place in fields]
        self._format = format
        self._seq_len = seq_len
        self._bytes_a_token = sum(dtype.itemsize for dtype in dtypes.values())

    def num_bytes(self, num_rows: int) -> int:
        """Return the memory of so many rows."""
        return num_rows * self._seq_len * self._bytes_a_token

    def empty(
        self, num_rows: int, buffers: Buffers
    ) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Return fields to be filled: as tensors for a batch, and the same as arrays [B, L]."""
        num_tokens = num_rows * self._seq_len
        shape, by_row = self._format.shape_of(num_rows, self._seq_len), (num_rows, self._seq_len)
        memory = buffers.lend(self.num_bytes(num_rows))
        tensors: dict[str, Any] = dict.fromkeys(self.names)  # in that order
        arrays: dict[str, Any] = {}
        for name, dtype, place in self._fields:
            array = np.frombuffer(memory, dtype, num_tokens, num_tokens * place)
            arrays[name] = array.reshape(by_row)
            tensors[name] = torch.from_numpy(
                arrays[name] if shape == by_row else array.reshape(shape)
            )
        return tensors, arrays
