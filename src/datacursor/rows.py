"""Packed rows as a data set: a row's spans in, the tensors of a batch out.

The sampler decides which spans make a row and sends them along with the row's number, so a
worker process plans nothing and needs no state:

    sampler                           worker                       training loop
    RowIndex(17, spans=[[4, 0, 5],    RowDataset.__getitems__      batch["input_ids"]  [B, L]
                        [9, 2, 5]])   one gather a batch           batch["cu_seqlens"] [k + 1]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from datacursor.row_buffers import Buffers, RowBuffers
from datacursor.row_format import (
    Batch,
    RowFormat,
    choose_labels,
    choose_positions,
    row_format,
)
from datacursor.row_index import RowIndex
from datacursor.shared_batch import share
from datacursor.shared_slots import SentBatch, attached
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
_NO_FIELDS: dict[str, Any] = dict.fromkeys([*_DTYPES, "cu_seqlens"])
_IDS_DTYPES: dict[str, type[np.signedinteger[Any]]] = {"int64": np.int64, "int32": np.int32}


class RowBatch(Batch):
    """A collated batch; torch's default collate returns it, in a list of one, as a plain dict."""


def _collate_row_batch(
    batch: Sequence[RowBatch],
    *,
    collate_fn_map: Any = None,  # noqa: ARG001  # torch passes it
) -> Batch | SentBatch:
    if len(batch) != 1:
        raise TypeError(f"a RowBatch is collated already, got {len(batch)} of them to collate")
    slots = attached()
    return dict(batch[0]) if slots is None else slots.send(batch[0])


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
        self._dtypes = self._dtypes_of_fields()
        self._buffers: Buffers = RowBuffers()
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
        batch = self._gather([row])
        names = [name for field in self._dtypes for name in self.format.fields[field]]
        for name in [*names, *self.columns]:
            batch[name] = batch[name].view(-1)
        return dict(batch)

    def __getitems__(self, rows: list[RowIndex]) -> list[RowBatch]:
        """Return the batch of these rows, collated, in a list of one for torch's collate.

        Raises:
            TypeError: A row is a plain int.
            CorpusError: A token is not a token id, or a file changed since it was opened.
        """
        if get_worker_info() is None:
            return [self._gather(rows)]
        slots = attached()
        if slots is None:
            return [RowBatch(share(self._gather(rows)))]
        self._buffers = slots.open(rows, self._buffers)
        return [self._gather(rows)]

    def num_bytes(self, num_rows: int) -> int:
        """Return the bytes of all fields of shape [B, L] of a batch of so many rows."""
        dtypes = [*self._dtypes.values(), *(column.dtype for column in self.columns.values())]
        return num_rows * self.seq_len * sum(dtype.itemsize for dtype in dtypes)

    def _gather(self, rows: Sequence[RowIndex]) -> RowBatch:
        for row in rows:
            if not isinstance(row, RowIndex):
                raise TypeError(
                    f"a row is known by its spans, not by its number alone: index RowDataset with "
                    f"the RowIndex objects that its sampler yields, got {type(row).__name__} {row}"
                )
        spans = np.concatenate([row.spans for row in rows])
        num_spans = (len(row.spans) for row in rows)
        row_offsets = np.fromiter(accumulate(num_spans, initial=0), np.int64, len(rows) + 1)
        gathered = self._gather_tokens(rows, spans, row_offsets)
        columns = self._gather_columns(spans, row_offsets)
        is_padding = [row.is_padding for row in rows]
        if any(is_padding):
            self._mask_padding_rows(gathered, columns, is_padding)
        if "cu_seqlens" in gathered and self.max_documents is not None:
            size = len(rows) * (self.max_documents + 1) + 1
            gathered["cu_seqlens"] = _with_size(gathered["cu_seqlens"], size)
        columns = {name: self.format.in_shape(field) for name, field in columns.items()}
        return RowBatch(self.format.present(gathered) | columns)

    def _gather_tokens(
        self,
        rows: Sequence[RowIndex],
        spans: NDArray[np.int64],
        row_offsets: NDArray[np.int64],
    ) -> dict[str, Any]:
        """Return the fields of the format, as they are gathered."""
        shape = (len(row_offsets) - 1, self.seq_len)
        gathered: dict[str, Any] = {
            name: self._buffers.empty(shape, dtype) for name, dtype in self._dtypes.items()
        }
        if "cu_seqlens" in self.format.fields:
            # A segment a span, one of padding a row, and the leading 0.
            size = len(spans) + len(row_offsets)
            gathered["cu_seqlens"] = torch.empty(size, dtype=torch.int32)
        table, places = self._open(rows, spans)
        num_boundaries, max_seqlen, num_targets = table.gather(
            places,
            row_offsets,
            bos=self.bos,
            eos=self.eos,
            pad=self.pad_id,
            shifted=self.labels == "shifted",
            no_label=self.format.no_label,
            continued=self.positions == "document",
            align=self.align,
            longest=self._longest,
            **(_NO_FIELDS | {name: tensor.numpy() for name, tensor in gathered.items()}),
        )
        if "cu_seqlens" in gathered:
            gathered["cu_seqlens"] = gathered["cu_seqlens"][:num_boundaries]
        gathered["max_seqlen"] = max_seqlen
        gathered["num_targets"] = num_targets
        gathered["spans"] = torch.from_numpy(spans)
        gathered["row_offsets"] = torch.from_numpy(row_offsets)
        return gathered

    def _gather_columns(
        self, spans: NDArray[np.int64], row_offsets: NDArray[np.int64]
    ) -> dict[str, torch.Tensor]:
        if not self._column_tables:  # in a new process
            self._column_tables = self._make_column_tables()
        gathered = {}
        for name, column in self.columns.items():
            gathered[name] = self._buffers.empty((len(row_offsets) - 1, self.seq_len), column.dtype)
            column.gather(
                self._column_tables[name],
                spans,
                row_offsets,
                gathered[name],
                bos=self.bos is not None,
                eos=self.eos is not None,
                align=self.align,
                longest=self._longest,
            )
        return gathered

    def _mask_padding_rows(
        self, gathered: dict[str, Any], columns: dict[str, torch.Tensor], is_padding: list[bool]
    ) -> None:
        """Turn whole rows into padding: one segment, no targets, tokens as they are."""
        padding = torch.tensor(is_padding)
        marks: dict[str, Any] = {
            "labels": self.format.no_label,
            "position_ids": torch.arange(self.seq_len),
            "segment_ids": PADDING_SEGMENT,
            "loss_mask": 0,
        }
        for name in self._dtypes.keys() & marks.keys():
            gathered[name][padding] = marks[name]
        for name, field in columns.items():
            field.numpy()[is_padding] = self.columns[name].fill  # torch fills no wide unsigned
        gathered["max_seqlen"] = self.seq_len
        if "cu_seqlens" in gathered:
            ends = gathered["cu_seqlens"]
            row_of_end = (ends // self.seq_len).clamp(max=len(is_padding) - 1)
            gathered["cu_seqlens"] = ends[(ends % self.seq_len == 0) | ~padding[row_of_end]]
        if "loss_mask" in gathered:
            gathered["num_targets"] = int(gathered["loss_mask"].sum())

    def _dtypes_of_fields(self) -> dict[str, np.dtype[Any]]:
        """Return the dtypes of the format's fields of shape [B, L]."""
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


def _with_size(ends: torch.Tensor, size: int) -> torch.Tensor:
    """Return boundaries followed by empty segments at the end of the batch."""
    filled = ends.new_full((size,), int(ends[-1]))
    filled[: len(ends)] = ends
    return filled
