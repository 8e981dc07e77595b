"""Packed rows as a data set: a row's spans in, the tensors of a batch out.

The sampler decides which spans make a row and sends them along with the row's number, so a
worker process plans nothing and needs no state:

    sampler                           worker                       training loop
    RowIndex(17, spans=[[4, 0, 5],    RowDataset.__getitems__      batch["input_ids"]  [B, L]
                        [9, 2, 5]])   one gather a batch           batch["cu_seqlens"] [k + 1]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset, get_worker_info
from torch.utils.data._utils.collate import default_collate_fn_map

from datacursor._core import ColumnTable, TokenTable
from datacursor.checks import optional_integer, require_bool, require_choice, require_integer
from datacursor.errors import ArgumentError
from datacursor.row_buffers import RowBuffers
from datacursor.row_fields import Buffers, RowFields
from datacursor.row_format import (
    Batch,
    RowFormat,
    choose_labels,
    choose_positions,
    row_format,
)
from datacursor.row_index import RowIndex, RowIndices, rows_of
from datacursor.shared_batch import share
from datacursor.shared_slots import attached
from datacursor.token_column import TokenColumn
from datacursor.tokens import TokenCorpus

PADDING_SEGMENT = -1

# Fields of shape [B, L]; ids_dtype and the format may say otherwise.
_DTYPES: dict[str, type[np.generic]] = {
    "input_ids": np.int64,
    "labels": np.int64,
    "position_ids": np.int64,
    "segment_ids": np.int32,
    "loss_mask": np.bool_,
}
_ARRAYS = (*_DTYPES, "cu_seqlens")
_IDS_DTYPES: dict[str, type[np.signedinteger[Any]]] = {"int64": np.int64, "int32": np.int32}


class RowBatch(Batch):
    """A collated batch; torch's default collate returns it, in a list of one, as a plain dict."""


def _collate_row_batch(
    batch: Sequence[RowBatch],
    *,
    collate_fn_map: Any = None,  # noqa: ARG001  # torch passes it
) -> Batch:
    if len(batch) != 1:
        raise TypeError(f"a RowBatch is collated already, got {len(batch)} of them to collate")
    return dict(batch[0])


default_collate_fn_map[RowBatch] = _collate_row_batch


class RowDataset(Dataset[Batch]):
    """Map-style data set of packed rows; its indices are `RowIndex` objects from a sampler.

    A batch of B rows of L tokens is a dict with

        input_ids, labels, position_ids   int64 [B, L]
        segment_ids                       int32 [B, L]: 0.. in each row, padding -1
        loss_mask                         bool [B, L]: where a label is a target
        cu_seqlens                        int32 [k + 1]: 0, each segment's end, at last B * L
        max_seqlen, num_targets           int: longest segment, number of targets
        spans, row_offsets                int64 [m, 3] and [B + 1]: spans of row r are
                                          spans[row_offsets[r]:row_offsets[r + 1]]

    or, with `format`, what `row_format` lists. A column is a field of the same shape.

    A batch is the caller's for good; memory is used again only once nobody holds it. Padding,
    also a whole padding row, is marked by place, never by token: label -100, segment -1,
    loss_mask False, one last segment of its row.

    Example:
        >>> corpus = TokenCorpus.open([[1, 2, 3], [4, 5]])
        >>> rows = RowDataset(corpus, seq_len=4, num_rows=1)
        >>> batch = rows[RowIndex(0, 0, np.array([[0, 0, 3], [1, 0, 1]]))]
        >>> batch["input_ids"].tolist(), batch["labels"].tolist()
        ([1, 2, 3, 4], [2, 3, -100, 5])
    """

    def __init__(
        self,
        corpus: TokenCorpus,
        *,
        seq_len: int,
        num_rows: int,
        bos: int | None = None,
        eos: int | None = None,
        pad_id: int | None = None,
        labels: str | None = None,
        positions: str = "segment",
        align: int = 1,
        truncate: bool = False,
        max_documents: int | None = None,
        format: str | None = None,
        flash_attn_kwargs: bool = False,
        ids_dtype: str = "int64",
        columns: Mapping[str, TokenColumn] | None = None,
    ) -> None:
        """Describe the rows.

        Args:
            corpus: The documents that spans refer to.
            seq_len: Tokens a row, 1 <= seq_len < 2**31.
            num_rows: Rows in epoch 0, for `len`.
            bos: Token before every document, or None.
            eos: Token after every document, or None.
            pad_id: Token in padding; eos by default, or 0.
            labels: "shifted": the next token of the same document, also when it lies in
                another row. "hf": the token itself, none at each segment's first token. None:
                what the format takes, else "shifted".
            positions: "segment" restarts position_ids at each segment, "document" goes on
                where the row before left the document.
            align: Each segment is padded to a multiple, inside itself; divides seq_len.
            truncate: Whether a document ends after seq_len tokens.
            max_documents: Most spans a row has. cu_seqlens then has one size for each B, of
                B * (max_documents + 1) + 1, and repeats its last entry to fill it.
            format: None, "hf", "varlen", "flex" or "megatron".
            flash_attn_kwargs: With "hf", also cu_seq_lens_q and _k, max_length_q and _k.
            ids_dtype: "int64" or "int32", of input_ids alone.
            columns: Further fields by name, one value a token.

        Raises:
            ArgumentError: An argument is out of range, or contradicts the format.
            TypeError: An argument has the wrong type.
        """
        self.corpus = corpus
        self.seq_len = require_integer("seq_len", seq_len, 1, 2**31)
        self.bos = optional_integer("bos", bos, 0, 2**63)
        self.eos = optional_integer("eos", eos, 0, 2**63)
        default_pad_id = 0 if eos is None else eos
        self.pad_id = require_integer(
            "pad_id", default_pad_id if pad_id is None else pad_id, 0, 2**63
        )
        self.format = row_format(format, flash_attn_kwargs=flash_attn_kwargs)
        self.labels = choose_labels(labels, format, self.format.labels)
        self.positions = choose_positions(positions, format, self.format.positions)
        self.align = require_integer("align", align, 1, self.seq_len + 1)
        self.truncate = require_bool("truncate", truncate)
        self.max_documents = optional_integer("max_documents", max_documents, 1, 2**31)
        self.ids_dtype = require_choice("ids_dtype", ids_dtype, tuple(_IDS_DTYPES))
        self._check_special_ids()
        self.columns = _checked_columns({} if columns is None else columns, self.format)
        self._num_rows = require_integer("num_rows", num_rows, 0, 2**63)
        self._fields = RowFields(self._dtypes(), self.format, self.seq_len)
        dtypes = {name: column.dtype for name, column in self.columns.items()}
        self._column_fields = RowFields(dtypes, self.format, self.seq_len)
        self._buffers = RowBuffers()
        self._table: TokenTable | None = None
        self._column_tables = self._make_column_tables()

    @property
    def fingerprint(self) -> bytes | None:
        """The corpus's fingerprint, 16 bytes."""
        return self.corpus.fingerprint

    def __len__(self) -> int:
        """Return the number of rows in epoch 0."""
        return self._num_rows

    def __getitem__(self, row: RowIndex) -> Batch:
        """Return one row: a batch of one, its fields of shape [L] instead of [1, L].

        Raises:
            TypeError: row is a plain int.
            CorpusError: A token is not a token id, or a file changed since it was opened.
        """
        batch = self._gather([row], self._buffers)
        names = [name for field in self._fields.names for name in self.format.fields[field]]
        for name in [*names, *self.columns]:
            batch[name] = batch[name].view(-1)
        return dict(batch)

    def __getitems__(self, rows: Sequence[RowIndex]) -> list[RowBatch]:
        """Return the batch of these rows, collated, in a list of one for torch's collate.

        Raises:
            TypeError: A row is a plain int.
            CorpusError: A token is not a token id, or a file changed since it was opened.
        """
        if get_worker_info() is None:
            return [self._gather(rows, self._buffers)]
        slots = attached()
        if slots is None:
            return [RowBatch(share(self._gather(rows, self._buffers)))]
        slots.open(rows)
        return [self._gather(rows_of(rows), slots.or_else(self._buffers))]

    def num_bytes(self, num_rows: int) -> int:
        """Return the bytes of a batch's fields with a value for every token."""
        return self._fields.num_bytes(num_rows) + self._column_fields.num_bytes(num_rows)

    def _gather(self, rows: Sequence[RowIndex], buffers: Buffers) -> RowBatch:
        spans, row_offsets = _spans_of(rows)
        table, places = self._open(rows, spans)
        tensors, arrays = self._fields.empty(len(rows), buffers)
        if "cu_seqlens" in self.format.fields:
            # A segment a span, one of padding a row, and the leading 0.
            arrays["cu_seqlens"] = np.empty(len(spans) + len(rows) + 1, dtype=np.int32)
        num_boundaries, max_seqlen, num_targets = table.gather(
            places, row_offsets, **self._options, **arrays
        )
        batch: Batch = {**tensors, "max_seqlen": max_seqlen, "num_targets": num_targets}
        columns, column_arrays = self._gather_columns(spans, row_offsets, buffers)
        ends = arrays["cu_seqlens"][:num_boundaries] if "cu_seqlens" in arrays else None
        is_padding = _is_padding(rows)
        if is_padding is not None:
            self._mask_padding_rows(batch, arrays, column_arrays, is_padding)
            ends = None if ends is None else self._ends_of_segments(ends, is_padding)
        if ends is not None:
            batch["cu_seqlens"] = torch.from_numpy(self._in_fixed_size(ends, len(rows)))
        if "spans" in self.format.fields:
            # The sampler's own may count towards a digest yet.
            batch["spans"] = torch.from_numpy(spans.copy())
            batch["row_offsets"] = torch.from_numpy(row_offsets.copy())
        return RowBatch(self.format.present(batch) | columns)

    def _gather_columns(
        self, spans: NDArray[np.int64], row_offsets: NDArray[np.int64], buffers: Buffers
    ) -> tuple[dict[str, torch.Tensor], dict[str, NDArray[Any]]]:
        if not self.columns:
            return {}, {}
        if not self._column_tables:  # in a new process
            self._column_tables = self._make_column_tables()
        tensors, arrays = self._column_fields.empty(len(row_offsets) - 1, buffers)
        for name, column in self.columns.items():
            column.gather(
                self._column_tables[name],
                spans,
                row_offsets,
                arrays[name],
                bos=self.bos is not None,
                eos=self.eos is not None,
                align=self.align,
                longest=self._longest,
            )
        return tensors, arrays

    def _mask_padding_rows(
        self,
        batch: Batch,
        arrays: dict[str, NDArray[Any]],
        columns: dict[str, NDArray[Any]],
        is_padding: NDArray[np.bool_],
    ) -> None:
        """Turn whole rows into padding: one segment, no targets, tokens as they are."""
        marks: dict[str, Any] = {
            "labels": self.format.no_label,
            "position_ids": np.arange(self.seq_len),
            "segment_ids": PADDING_SEGMENT,
            "loss_mask": 0,
        }
        for name in arrays.keys() & marks.keys():
            arrays[name][is_padding] = marks[name]
        for name, array in columns.items():
            array[is_padding] = self.columns[name].fill
        batch["max_seqlen"] = self.seq_len
        if "loss_mask" in arrays:
            batch["num_targets"] = int(arrays["loss_mask"].sum())

    def _ends_of_segments(
        self, ends: NDArray[np.int32], is_padding: NDArray[np.bool_]
    ) -> NDArray[np.int32]:
        """Return the boundaries without those inside a padding row."""
        row_of_end = np.minimum(ends // self.seq_len, len(is_padding) - 1)
        kept: NDArray[np.int32] = ends[(ends % self.seq_len == 0) | ~is_padding[row_of_end]]
        return kept

    def _in_fixed_size(self, ends: NDArray[np.int32], num_rows: int) -> NDArray[np.int32]:
        """Return boundaries; under max_documents filled up by empty segments at the batch's end."""
        if self.max_documents is None:
            return ends
        filled = np.full(num_rows * (self.max_documents + 1) + 1, ends[-1], dtype=np.int32)
        filled[: len(ends)] = ends
        return filled

    @cached_property
    def _options(self) -> dict[str, Any]:
        """What of a gather is the same for all batches."""
        absent = [name for name in _ARRAYS if name not in self.format.fields]
        return {
            "bos": self.bos,
            "eos": self.eos,
            "pad": self.pad_id,
            "shifted": self.labels == "shifted",
            "no_label": self.format.no_label,
            "continued": self.positions == "document",
            "align": self.align,
            "longest": self._longest,
            **dict.fromkeys(absent),
        }

    def _dtypes(self) -> dict[str, np.dtype[Any]]:
        """Return the dtypes of the format's fields that have a value for every token."""
        dtypes = _DTYPES | {
            "input_ids": _IDS_DTYPES[self.ids_dtype],
            "loss_mask": self.format.mask_dtype,
        }
        return {name: np.dtype(dtypes[name]) for name in dtypes if name in self.format.fields}

    def _check_special_ids(self) -> None:
        largest = np.iinfo(_IDS_DTYPES[self.ids_dtype]).max
        for name in ("bos", "eos", "pad_id"):
            token = getattr(self, name)
            if token is not None and token > largest:
                raise ArgumentError(
                    f"{name} must be in [0, 2**31) with ids_dtype={self.ids_dtype!r}, "
                    f"got {name}={token}"
                )

    @property
    def _longest(self) -> int | None:
        return self.seq_len if self.truncate else None

    def _open(
        self,
        rows: Sequence[RowIndex],
        spans: NDArray[np.int64],
    ) -> tuple[TokenTable, NDArray[np.int64]]:
        """Return a table of the rows' documents, and their spans by its numbers."""
        self.corpus.check_unchanged(spans[:, 0])
        if self._table is None:
            self._table = TokenTable(list(self.corpus.shards))
        return self._table, spans

    def _make_column_tables(self) -> dict[str, ColumnTable]:
        return {
            name: column.table(f"columns[{name!r}]", self.corpus)
            for name, column in self.columns.items()
        }

    def __getstate__(self) -> dict[str, Any]:
        # Tables view this process's memory.
        return self.__dict__ | {"_table": None, "_column_tables": {}}


def _checked_columns(
    columns: Mapping[str, TokenColumn], format: RowFormat
) -> dict[str, TokenColumn]:
    taken = {name for names in format.fields.values() for name in names}
    if not isinstance(columns, Mapping):
        raise TypeError(f"columns must be TokenColumn objects by name, got columns={columns!r}")
    for name, column in columns.items():
        if not isinstance(column, TokenColumn):
            raise TypeError(
                f"columns must be TokenColumn objects, got columns[{name!r}]={column!r}"
            )
        if name in taken:
            raise ArgumentError(f"a column must have a name of its own, got the field {name!r}")
    return dict(columns)


def takes_rows(dataset: Any) -> bool:
    """Whether a data set is packed rows that nobody reads but `RowDataset` itself."""
    own = RowDataset.__getitems__
    return isinstance(dataset, RowDataset) and type(dataset).__getitems__ is own


def _spans_of(rows: Sequence[RowIndex]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the spans of all rows and where in them each row begins."""
    if isinstance(rows, RowIndices):
        return rows.spans, rows.row_offsets
    for row in rows:
        if not isinstance(row, RowIndex):
            raise TypeError(
                f"a row is known by its spans, not by its number alone: index RowDataset with "
                f"the RowIndex objects that its sampler yields, got {type(row).__name__} {row}"
            )
    num_spans = (len(row.spans) for row in rows)
    row_offsets = np.fromiter(accumulate(num_spans, initial=0), np.int64, len(rows) + 1)
    return np.concatenate([row.spans for row in rows]), row_offsets


def _is_padding(rows: Sequence[RowIndex]) -> NDArray[np.bool_] | None:
    """Return which rows are padding; None if none is."""
    if isinstance(rows, RowIndices) or not any(row.is_padding for row in rows):
        return None
    return np.array([row.is_padding for row in rows])
