"""What a batch of packed rows holds: the fields of each format, as its consumer names them.

Every format is made from the same gathered fields, and no field is gathered that its format
does not hold:

    gathered       hf               varlen        flex           megatron
    input_ids      input_ids        input_ids     input_ids      tokens
    labels         labels           labels        labels         labels, 0 for no target
    position_ids   position_ids     position_ids  position_ids   position_ids
    segment_ids                                   segment_ids
    loss_mask                                                    loss_mask, float32
    cu_seqlens     cu_seq_lens_q, _k  cu_seqlens
    max_seqlen     max_length_q, _k   max_seqlen
    shape          [1, B * L]       [B * L]       [B, L]         [B, L]
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from datacursor.checks import require_choice
from datacursor.errors import ArgumentError

LABELS = ("shifted", "hf")
POSITIONS = ("segment", "document")
IGNORE_LABEL = -100  # ignore_index of torch.nn.CrossEntropyLoss

Batch = dict[str, Any]

_FLASH_KWARGS = {
    "cu_seqlens": ("cu_seq_lens_q", "cu_seq_lens_k"),
    "max_seqlen": ("max_length_q", "max_length_k"),
}


@dataclass(frozen=True, slots=True)
class RowFormat:
    """The fields of a batch, and how its consumer wants them.

    Attributes:
        fields: Gathered field -> its names in the batch, in order.
        shape: Shape of a field with a value for every token, -1 for B * L; None: [B, L].
        labels: "shifted" or "hf", where the consumer takes one alone.
        positions: "segment", where the consumer takes that alone.
        no_label: The label of a place without a target.
        mask_dtype: Dtype of loss_mask.
    """

    fields: dict[str, tuple[str, ...]]
    shape: tuple[int, ...] | None = None
    labels: str | None = None
    positions: str | None = None
    no_label: int = IGNORE_LABEL
    mask_dtype: type[np.generic] = np.bool_

    def present(self, gathered: Batch) -> Batch:
        """Return the fields under their names; they share memory."""
        return {name: gathered[field] for field, names in self.fields.items() for name in names}

    def shape_of(self, num_rows: int, seq_len: int) -> tuple[int, ...]:
        """Return the shape of a field that has a value for every token."""
        if self.shape is None:
            return num_rows, seq_len
        return *self.shape[:-1], num_rows * seq_len


def _named_as_gathered(*fields: str) -> dict[str, tuple[str, ...]]:
    return {field: (field,) for field in fields}


_TOKENS = ("input_ids", "labels", "position_ids")
ALL_FIELDS = RowFormat(
    _named_as_gathered(
        *_TOKENS,
        "segment_ids",
        "loss_mask",
        "cu_seqlens",
        "max_seqlen",
        "num_targets",
        "spans",
        "row_offsets",
    )
)
FORMATS = {
    "hf": RowFormat(_named_as_gathered(*_TOKENS), (1, -1), labels="hf", positions="segment"),
    "varlen": RowFormat(_named_as_gathered(*_TOKENS, "cu_seqlens", "max_seqlen"), (-1,)),
    "flex": RowFormat(_named_as_gathered(*_TOKENS, "segment_ids")),
    "megatron": RowFormat(
        {"input_ids": ("tokens",)} | _named_as_gathered("labels", "loss_mask", "position_ids"),
        labels="shifted",
        no_label=0,
        mask_dtype=np.float32,
    ),
}


def row_format(name: str | None, *, flash_attn_kwargs: bool) -> RowFormat:
    """Return a format by its name; None has every field.

    Raises:
        ArgumentError: There is no such format, or it takes no flash_attn_kwargs.
    """
    if name is not None:
        require_choice("format", name, tuple(FORMATS))
    if flash_attn_kwargs and name != "hf":
        raise ArgumentError(f"flash_attn_kwargs=True needs format='hf', got format={name!r}")
    found = ALL_FIELDS if name is None else FORMATS[name]
    return replace(found, fields=found.fields | _FLASH_KWARGS) if flash_attn_kwargs else found


def choose_labels(labels: str | None, name: str | None, only: str | None) -> str:
    """Return the labels asked for: by default the only ones of a format, else "shifted".

    Raises:
        ArgumentError: There are no such labels, or the format has others.
    """
    chosen = require_choice("labels", (only or LABELS[0]) if labels is None else labels, LABELS)
    if only not in {None, chosen}:
        raise ArgumentError(
            f"labels must be {only!r} with format={name!r}, as its consumer expects them, "
            f"got labels={labels!r}"
        )
    return chosen


def choose_positions(positions: str, name: str | None, only: str | None) -> str:
    """Return the positions asked for.

    Raises:
        ArgumentError: There are no such positions, or the format has others.
    """
    chosen = require_choice("positions", positions, POSITIONS)
    if only not in {None, chosen}:
        raise ArgumentError(
            f"positions must be {only!r} with format={name!r}, whose consumer finds the segments "
            f"where position_ids restart, got positions={positions!r}"
        )
    return chosen
