"""Ranks that agree, and ranks that do not, over torch.distributed on one machine."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from ranks import run_ranks
from runs import Numbers

import datacursor as dc


def make(**options: Any) -> tuple[dc.CursorSampler, dc.CursorLoader[int]]:
    sampler = dc.CursorSampler(22, batch_size=2, seed=7, **options)
    return sampler, dc.CursorLoader(Numbers(22), sampler=sampler)


def complaint(sampler: dc.CursorSampler) -> str:
    try:
        sampler.agree()
    except dc.DivergenceError as error:
        return str(error)
    return ""


def train_and_diverge(rank: int) -> list[str]:
    complaints = []
    sampler, loader = make()
    for number, _ in enumerate(loader):  # with padding at the end
        sampler.commit()
        if number % 2 == 0:
            complaints.append(complaint(sampler))
    complaints.append(complaint(sampler))
    for _ in islice(loader, 1 + rank):
        sampler.commit()
    complaints.append(complaint(sampler))
    return complaints


def test_ranks_agree_until_one_is_ahead(tmp_path: Path) -> None:
    first, second = run_ranks(train_and_diverge, 2, tmp_path / "store")
    assert first == second
    assert first[:-1] == [""] * (len(first) - 1)
    lines = first[-1].splitlines()
    assert lines[0] == "ranks stand at different cursors"
    assert lines[1].startswith("  rank 0: epoch 1 \u00b7 sample 4 / 22")
    assert lines[3].startswith("  rank 1: epoch 1 \u00b7 sample 8 / 22")


class Observer:
    """Asks for every commit at once, as a ledger on rank 0 does."""

    def on_outcome(self, outcome: dc.Outcome) -> None:
        pass

    def on_state(self, cursor: dc.Cursor) -> None:
        pass


def rewind(rank: int) -> list[str]:
    sampler, loader = make()
    if rank == 0:
        sampler.add_observer(Observer())
    state = sampler.state_dict()
    for _ in islice(loader, 2 + rank):
        sampler.commit()
    sampler.load_state_dict(state)
    rewound = complaint(sampler)
    for _ in islice(loader, 2):
        sampler.commit()
    return [rewound, complaint(sampler)]


def test_ranks_agree_after_a_load_whatever_each_did_before(tmp_path: Path) -> None:
    assert run_ranks(rewind, 2, tmp_path / "store") == [["", ""]] * 2


def use_one_rank_twice(_rank: int) -> list[str]:
    sampler, loader = make(num_replicas=2, rank=0)
    agreed = complaint(sampler)
    next(iter(loader))
    sampler.commit()
    return [agreed, complaint(sampler)]


def test_a_rank_that_is_used_twice_is_found(tmp_path: Path) -> None:
    first, second = run_ranks(use_one_rank_twice, 2, tmp_path / "store")
    assert first == second
    assert first[0] == ""
    assert first[1].startswith("ranks were issued something else than they committed together")
    assert first[1].count("sampler rank 0, issued") == 2


def share_a_data_rank(rank: int) -> list[str]:
    complaints = []
    for options in ({"num_replicas": 1, "rank": 0}, {"num_replicas": 2, "rank": rank // 2}):
        sampler, loader = make(**options)
        for _ in islice(loader, 3):
            sampler.commit()
        complaints.append(complaint(sampler))
    sampler, _ = make(num_replicas=3, rank=0)
    with pytest.raises(dc.ArgumentError, match="multiple of num_replicas=3 ranks, got 4"):
        sampler.agree()
    return complaints


def test_ranks_that_share_their_data_agree(tmp_path: Path) -> None:
    assert run_ranks(share_a_data_rank, 4, tmp_path / "store") == [["", ""]] * 4


def test_without_a_process_group_there_is_nobody_to_ask() -> None:
    sampler, loader = make(num_replicas=2, rank=0)
    next(iter(loader))
    sampler.commit()
    sampler.agree()
