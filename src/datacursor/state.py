"""A sampler's state: one cursor as one tensor under one key, equal on all ranks.

torch.distributed.checkpoint merges keys from different ranks and loads by the fresh
object's keys and sizes, so key and size never change.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from datacursor.cursor import STATE_NUM_BYTES, Cursor, pack_state, unpack_state
from datacursor.errors import CursorFormatError

# Part of the persistent format; add, never change.
STATE_KEY = "datacursor"


def state_of(cursor: Cursor) -> dict[str, torch.Tensor]:
    """Return a cursor as a sampler's state: a fresh uint8 tensor of shape (512,)."""
    return {STATE_KEY: torch.frombuffer(bytearray(pack_state(cursor)), dtype=torch.uint8)}


def cursor_of(state_dict: object) -> Cursor:
    """Return the cursor in a sampler's state.

    Raises:
        CursorFormatError: Not exactly the one tensor `state_of` makes, or damaged.
    """
    expected = f"not a sampler's state: expected a dict with the one key {STATE_KEY!r}, got"
    if not isinstance(state_dict, Mapping):
        raise CursorFormatError(f"{expected} {type(state_dict).__name__}")
    if list(state_dict) != [STATE_KEY]:
        raise CursorFormatError(f"{expected} the keys {sorted(map(str, state_dict))}")
    state = state_dict[STATE_KEY]
    if not isinstance(state, torch.Tensor):
        raise CursorFormatError(
            f"not a sampler's state: {STATE_KEY!r} must be a tensor, got {type(state).__name__}"
        )
    if state.dtype != torch.uint8 or tuple(state.shape) != (STATE_NUM_BYTES,):
        raise CursorFormatError(
            f"not a sampler's state: {STATE_KEY!r} must be uint8 of shape ({STATE_NUM_BYTES},), "
            f"got {state.dtype} of shape {tuple(state.shape)}"
        )
    if state.device.type == "meta":
        raise CursorFormatError(
            f"not a sampler's state: {STATE_KEY!r} must hold bytes, got a tensor on the meta device"
        )
    return unpack_state(bytes(state.detach().cpu().contiguous().numpy()))
