"""Masks of packed rows for flex_attention, from `segment_ids`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import Tensor

from datacursor.errors import ArgumentError

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask


def segment_mask(
    segment_ids: Tensor, *, causal: bool = True
) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """Return the mask_mod under which a token attends to its own segment alone.

    Padding is a segment of its own, so no row of the softmax is empty.

    Args:
        segment_ids: int32 [B, L], as in a batch; on the device of the queries.
        causal: Whether a token attends to no later token.

    Returns:
        mask_mod(batch, head, query, key), for `create_block_mask` and `and_masks`.
    """

    def mask_mod(
        batch: Tensor,
        head: Tensor,  # noqa: ARG001  # flex_attention passes it
        query: Tensor,
        key: Tensor,
    ) -> Tensor:
        is_same = segment_ids[batch, query] == segment_ids[batch, key]
        return is_same & (query >= key) if causal else is_same

    return mask_mod


def segment_block_mask(
    segment_ids: Tensor, *, causal: bool = True, block_size: int = 128
) -> BlockMask:
    """Return the BlockMask of `segment_mask`, to be made once a batch and used in every layer.

    Args:
        segment_ids: int32 [B, L], as in a batch; on the device of the queries.
        causal: Whether a token attends to no later token.
        block_size: Tokens of a block, a side of it.

    Returns:
        A mask of B rows, one for all heads, L queries and L keys.

    Raises:
        ArgumentError: segment_ids are not [B, L].
    """
    from torch.nn.attention.flex_attention import create_block_mask

    if segment_ids.ndim != 2:
        raise ArgumentError(
            f"segment_ids must have the shape [B, L], got {list(segment_ids.shape)}"
        )
    num_rows, seq_len = segment_ids.shape
    return create_block_mask(
        segment_mask(segment_ids, causal=causal),
        num_rows,
        None,
        seq_len,
        seq_len,
        device=segment_ids.device,
        BLOCK_SIZE=block_size,
    )
