"""A warning where persistent workers draw what no restart can repeat, and nowhere else."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from runs import Numbers
from torch.utils.data import Dataset, default_collate

import datacursor as dc

N = 8
DRAWS: dict[str, Callable[[], object]] = {
    "python": random.random,
    "numpy": np.random.rand,
    "torch": partial(torch.rand, 1),
}


class Drawing(Dataset[int]):
    def __init__(self, draw: Callable[[], object]) -> None:
        self.draw = draw

    def __len__(self) -> int:
        return N

    def __getitem__(self, index: int) -> int:
        self.draw()
        return int(index)


def deliver(
    dataset: Any,
    sampler: dc.CursorSampler | None = None,
    num_workers: int = 1,
    epochs: int = 2,
    **options: Any,
) -> list[str]:
    """Return the warnings of two epochs."""
    sampler = dc.CursorSampler(N, batch_size=2) if sampler is None else sampler
    if num_workers > 0:
        options = {"persistent_workers": True, "multiprocessing_context": "fork"} | options
    loader: dc.CursorLoader[Any] = dc.CursorLoader(
        dataset, sampler=sampler, num_workers=num_workers, **options
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(epochs):
            for _ in loader:
                sampler.commit()
    assert sampler.cursor.epoch == epochs
    assert all(warning.filename == __file__ for warning in caught)
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("stream", DRAWS)
def test_persistent_workers_that_draw_are_warned_of_once(stream: str) -> None:
    [message] = deliver(Drawing(DRAWS[stream]), num_workers=2)
    assert "SampleSeeded(dataset, sampler)" in message


def test_workers_that_were_spawned_are_watched_too() -> None:
    dataset = Drawing(DRAWS["torch"])
    assert len(deliver(dataset, multiprocessing_context="spawn", epochs=1)) == 1


def test_a_collate_function_that_draws_is_warned_of() -> None:
    def collate(samples: list[int]) -> torch.Tensor:
        random.shuffle(samples)
        return torch.tensor(samples)

    assert len(deliver(Numbers(N), collate_fn=collate)) == 1


def test_a_data_set_that_does_not_draw_is_not_warned_of() -> None:
    assert deliver(Numbers(N)) == []


def test_what_worker_init_fn_draws_is_no_matter() -> None:
    def begin(worker_id: int) -> None:
        random.seed(worker_id)
        torch.rand(1)

    assert deliver(Numbers(N), worker_init_fn=begin) == []


@pytest.mark.parametrize("stream", DRAWS)
def test_a_seeded_data_set_is_not_warned_of(stream: str) -> None:
    sampler = dc.CursorSampler(N, batch_size=2)
    dataset = dc.SampleSeeded(Drawing(DRAWS[stream]), sampler)
    assert deliver(dataset, sampler) == []


def test_draws_in_the_main_process_are_not_warned_of() -> None:
    assert deliver(Drawing(DRAWS["python"]), num_workers=0) == []


def test_workers_that_start_anew_each_epoch_are_not_warned_of() -> None:
    assert deliver(Drawing(DRAWS["python"]), persistent_workers=False) == []


def test_a_worker_init_fn_and_a_collate_fn_of_the_user_still_run() -> None:
    def begin(_: int) -> None:
        random.seed(5)

    def collate(samples: list[int]) -> Any:
        return default_collate(samples) + 100

    sampler = dc.CursorSampler(N, batch_size=2, shuffle=False)
    loader: dc.CursorLoader[Any] = dc.CursorLoader(
        Numbers(N),
        sampler=sampler,
        num_workers=1,
        persistent_workers=True,
        multiprocessing_context="fork",
        worker_init_fn=begin,
        collate_fn=collate,
    )
    assert next(iter(loader)).tolist() == [100, 101]
