"""Packed rows as a data set: a row's spans in, the tensors of a batch out.

The sampler decides which spans make a row and sends them along with the row's number, so a
worker process plans nothing and needs no state:

    sampler                           worker                       training loop
    RowIndex(17, spans=[[4, 0, 5],    RowDataset.__getitems__      batch["input_ids"]  [B, L]
                        [9, 2, 5]])   one gather a batch           batch["cu_seqlens"] [k + 1]
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset
from torch.utils.data._utils.collate import default_collate_fn_map

from datacursor._core import TokenTable
from datacursor.checks import optional_integer, require_bool, require_choice, require_integer
from datacursor.tokens import TokenCorpus

if TYPE_CHECKING:
    from typing_extensions import Self

LABELS = ("shifted", "hf")
POSITIONS = ("segment", "document")
IGNORE_LABEL = -100  # ignore_index of torch.nn.CrossEntropyLoss
PADDING_SEGMENT = -1

Batch = dict[str, Any]


class RowIndex(int):
    """The number of a row in its epoch, with the spans that make the row.

    An int to samplers and loaders; pickles by its values (about 150 bytes with two spans).

    Attributes:
        epoch: Pass over the data.
        spans: int64 [m, 3], rows (document, start, stop): start < stop in the document's tokens,
            its bos and eos counted.
        is_padding: The row only fills up the last round; it has no targets.
    """

    epoch: int
    spans: NDArray[np.int64]
    is_padding: bool

    def __new__(
        cls, row: int, epoch: int, spans: NDArray[np.int64], *, is_padding: bool = False
    ) -> Self:
        """Take the values as they are; the gather checks the spans."""
        self = super().__new__(cls, row)
        self.epoch = epoch
        self.spans = spans
        self.is_padding = is_padding
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # Bytes pickle several times faster and smaller than an array.
        marks = {"is_padding": True} if self.is_padding else {}
        return _row_index, (int(self), self.epoch, self.spans.tobytes(), marks)

    def __repr__(self) -> str:
        padding = ", is_padding=True" if self.is_padding else ""
        return f"RowIndex({int(self)}, epoch={self.epoch}, spans={self.spans.tolist()}{padding})"


def _row_index(row: int, epoch: int, spans: bytes, marks: dict[str, bool]) -> RowIndex:
    array = np.frombuffer(spans, dtype=np.int64).reshape(-1, 3)
    return RowIndex(row, epoch, array, **marks)


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

    Every batch has tensors of its own. Padding, also a whole padding row, is marked by place,
    never by token: label -100, segment -1, loss_mask False, one last segment of its row.

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
        labels: str = "shifted",
        positions: str = "segment",
        align: int = 1,
        truncate: bool = False,
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
                another row. "hf": the token itself, none at each segment's first token.
            positions: "segment" restarts position_ids at each segment, "document" goes on
                where the row before left the document.
            align: Each segment is padded to a multiple, inside itself; divides seq_len.
            truncate: Whether a document ends after seq_len tokens.

        Raises:
            ArgumentError: An argument is out of range.
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
        self.labels = require_choice("labels", labels, LABELS)
        self.positions = require_choice("positions", positions, POSITIONS)
        self.align = require_integer("align", align, 1, self.seq_len + 1)
        self.truncate = require_bool("truncate", truncate)
        self._num_rows = require_integer("num_rows", num_rows, 0, 2**63)
        self._table: TokenTable | None = None

    @property
    def fingerprint(self) -> bytes:
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
        for name in ("input_ids", "labels", "position_ids", "segment_ids", "loss_mask"):
            batch[name] = batch[name][0]
        return dict(batch)

    def __getitems__(self, rows: list[RowIndex]) -> list[RowBatch]:
        """Return the batch of these rows, collated, in a list of one for torch's collate.

        Raises:
            TypeError: A row is a plain int.
            CorpusError: A token is not a token id, or a file changed since it was opened.
        """
        return [self._gather(rows)]

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
        shape = (len(rows), self.seq_len)
        batch = RowBatch(
            input_ids=torch.empty(shape, dtype=torch.int64),
            labels=torch.empty(shape, dtype=torch.int64),
            position_ids=torch.empty(shape, dtype=torch.int64),
            segment_ids=torch.empty(shape, dtype=torch.int32),
            loss_mask=torch.empty(shape, dtype=torch.bool),
            # A segment a span, one of padding a row, and the leading 0.
            cu_seqlens=torch.empty(len(spans) + len(rows) + 1, dtype=torch.int32),
        )
        self.corpus.check_unchanged(spans[:, 0])
        num_boundaries, max_seqlen, num_targets = self._token_table().gather(
            spans,
            row_offsets,
            bos=self.bos,
            eos=self.eos,
            pad=self.pad_id,
            shifted=self.labels == "shifted",
            continued=self.positions == "document",
            align=self.align,
            longest=self.seq_len if self.truncate else None,
            **{name: tensor.numpy() for name, tensor in batch.items()},
        )
        batch["cu_seqlens"] = batch["cu_seqlens"][:num_boundaries]
        batch["max_seqlen"] = max_seqlen
        batch["num_targets"] = num_targets
        batch["spans"] = torch.from_numpy(spans)
        batch["row_offsets"] = torch.from_numpy(row_offsets)
        if any(row.is_padding for row in rows):
            _mask_padding_rows(batch, [row.is_padding for row in rows])
        return batch

    def _token_table(self) -> TokenTable:
        if self._table is None:
            self._table = TokenTable(list(self.corpus.shards))
        return self._table

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_table": None}  # views this process's memory


def _mask_padding_rows(batch: RowBatch, is_padding: list[bool]) -> None:
    """Turn whole rows into padding: one segment, no targets, tokens as they are."""
    padding = torch.tensor(is_padding)
    seq_len = batch["input_ids"].shape[1]
    batch["labels"][padding] = IGNORE_LABEL
    batch["position_ids"][padding] = torch.arange(seq_len)
    batch["segment_ids"][padding] = PADDING_SEGMENT
    batch["loss_mask"][padding] = False
    ends = batch["cu_seqlens"]
    row_of_end = (ends // seq_len).clamp(max=len(is_padding) - 1)
    batch["cu_seqlens"] = ends[(ends % seq_len == 0) | ~padding[row_of_end]]
    batch["max_seqlen"] = seq_len
    batch["num_targets"] = int(batch["loss_mask"].sum())
