"""Which share of the data this process has."""

from __future__ import annotations

import os

import torch
import torch.distributed

from datacursor.checks import require_integer
from datacursor.contributions import Layout
from datacursor.errors import ArgumentError


def make_layout(
    num_replicas: int | None,
    rank: int | None,
    batch_size: int,
    accumulation_steps: int,
    drop_last: bool,  # noqa: FBT001  # positional only inside the package
) -> Layout:
    """Return the layout of this process, asking torch.distributed where nothing is given.

    Raises:
        ArgumentError: A number is out of range, or only num_replicas > 1 is given.
    """
    is_distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    if rank is None and not is_distributed and num_replicas not in (None, 1):
        require_integer("num_replicas", num_replicas, 1, 2**20)
        raise ArgumentError(
            f"rank must be given with num_replicas={num_replicas}: torch.distributed is not "
            "initialised, so nothing else tells the processes apart"
        )
    launched = int(os.environ.get("WORLD_SIZE", "1") or "1")
    if rank is None and num_replicas is None and not is_distributed and launched > 1:
        raise ArgumentError(
            f"rank and num_replicas are unknown: WORLD_SIZE={launched} but torch.distributed is "
            "not initialised; call init_process_group() first, or pass both"
        )
    if num_replicas is None:
        num_replicas = torch.distributed.get_world_size() if is_distributed else 1
    if rank is None:
        rank = torch.distributed.get_rank() if is_distributed else 0
    return Layout(rank, num_replicas, batch_size, accumulation_steps, drop_last)
