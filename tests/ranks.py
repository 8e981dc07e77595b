"""Functions run by several ranks at once, each in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch.distributed as dist
from runs import fresh_context

TIMEOUT_SECONDS = 120


def run_ranks(function: Callable[[int], Any], num_ranks: int, store: Path) -> list[Any]:
    """Return function(rank) for every rank of a gloo group in processes of its own."""
    context = fresh_context()
    answers = context.Queue()
    processes = [
        context.Process(target=_play, args=(function, rank, num_ranks, str(store), answers))
        for rank in range(num_ranks)
    ]
    for process in processes:
        process.start()
    try:
        found = dict(answers.get(timeout=TIMEOUT_SECONDS) for _ in processes)
    finally:
        for process in processes:
            process.join(TIMEOUT_SECONDS)
            if process.is_alive():
                process.kill()
    return [found[rank] for rank in range(num_ranks)]


def _play(
    function: Callable[[int], Any], rank: int, num_ranks: int, store: str, answers: Any
) -> None:
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=num_ranks)
    answers.put((rank, function(rank)))
    dist.barrier()
    dist.destroy_process_group()
