"""A small causal transformer over packed rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  # torch's own name for it

if TYPE_CHECKING:
    from collections.abc import Sequence

_IGNORED = -100  # the label of a place without a target


class PackedModel(nn.Module):
    """A language model that keeps the documents of a row apart.

    A token attends to earlier tokens of its own segment only, and its position counts from
    the segment's first token, so a document is read as if it were alone in its row.

    Args:
        vocabulary_size: Number of token ids.
        seq_len: Tokens a row, at most.
        width: Model width, a multiple of num_heads.
        num_layers: Transformer blocks.
        num_heads: Attention heads.
    """

    def __init__(
        self, *, vocabulary_size: int, seq_len: int, width: int, num_layers: int, num_heads: int
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary_size, width)
        self.positions = nn.Embedding(seq_len, width)
        self.blocks = nn.ModuleList(_Block(width, num_heads) for _ in range(num_layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary_size)

    def forward(self, batch: dict[str, Any], kept: Sequence[bool]) -> Tensor:
        """Return the sum of the losses over a batch's targets.

        Args:
            batch: A batch of packed rows.
            kept: For each block, whether it runs; the others are passed by (stochastic depth).
        """
        segments = batch["segment_ids"]
        visible = (segments[:, None, :, None] == segments[:, None, None, :]).tril()
        x = self.tokens(batch["input_ids"]) + self.positions(batch["position_ids"])
        for block, is_kept in zip(self.blocks, kept, strict=True):
            if is_kept:
                x = block(x, visible)
        logits = self.head(self.norm(x))
        return F.cross_entropy(
            logits.flatten(0, 1), batch["labels"].flatten(), ignore_index=_IGNORED, reduction="sum"
        )

    def draw_kept(self, probability: float = 0.9) -> list[bool]:
        """Draw which blocks an update trains, from torch's default generator.

        Source:
            Stochastic depth: Huang et al., ECCV 2016.
        """
        kept: list[bool] = (torch.rand(len(self.blocks)) < probability).tolist()
        return kept


class _Block(nn.Module):
    def __init__(self, width: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.attention_norm = nn.LayerNorm(width)
        # No bias: a key's has no gradient but rounding errors, which Adam would scale up.
        self.attention_in = nn.Linear(width, 3 * width, bias=False)
        self.attention_out = nn.Linear(width, width)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor, visible: Tensor) -> Tensor:
        x = x + self._attend(self.attention_norm(x), visible)
        y: Tensor = x + self.feed_forward(x)
        return y

    def _attend(self, x: Tensor, visible: Tensor) -> Tensor:
        heads = self.attention_in(x).unflatten(-1, (3, self.num_heads, -1))
        queries, keys, values = heads.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(queries, keys, values, attn_mask=visible)
        joined: Tensor = self.attention_out(mixed.transpose(1, 2).flatten(2))
        return joined
