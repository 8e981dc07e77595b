"""CursorLoader without workers: the same batches as DataLoader's own iterator, without it."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader, Dataset

import datacursor as dc


class Squares(Dataset[int]):
    """Reads one sample at a time."""

    def __len__(self) -> int:
        return 23

    def __getitem__(self, index: int) -> int:
        return index * index


class BatchedSquares(Squares):
    """Reads a whole batch at a time, and keeps what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []

    def __getitems__(self, indices: Sequence[int]) -> list[int]:
        self.asked.append(list(indices))
        return [self[index] for index in indices]


def tagged(samples: list[int]) -> tuple[str, list[int]]:
    return "batch", samples


def loader_of(dataset: Any, **options: Any) -> dc.CursorLoader[Any]:
    sampler = dc.CursorSampler(dataset, batch_size=4, seed=5)
    return dc.CursorLoader(dataset, sampler=sampler, **options)


def as_lists(batches: Iterator[Any]) -> list[Any]:
    return [batch.tolist() if isinstance(batch, torch.Tensor) else batch for batch in batches]


@pytest.mark.parametrize("kind", [Squares, BatchedSquares])
@pytest.mark.parametrize("options", [{}, {"collate_fn": tagged}], ids=["default", "own"])
def test_batches_are_those_of_torchs_iterator(kind: type[Squares], options: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there may be nothing to pin for
        through_torch = as_lists(iter(loader_of(kind(), pin_memory=True, **options)))
    assert as_lists(iter(loader_of(kind(), **options))) == through_torch
    assert len(through_torch) == 6


def test_a_data_set_is_asked_for_whole_batches() -> None:
    dataset = BatchedSquares()
    loader = loader_of(dataset)
    batches = as_lists(iter(loader))
    assert [[i * i for i in asked] for asked in dataset.asked] == batches


class Doubling(dc.CursorSampler):
    """Gives every index to the log, too."""

    def __iter__(self) -> Any:
        self.log: list[int] = []
        for index in super().__iter__():
            self.log.append(index)
            yield index


def test_a_sampler_that_iterates_in_its_own_way_is_iterated() -> None:
    sampler = Doubling(23, batch_size=4, seed=5)
    loader: dc.CursorLoader[int] = dc.CursorLoader(range(23), sampler=sampler)
    batches = [index for batch in loader for index in batch.tolist()]
    assert sampler.log == batches
    assert sorted(batches) == list(range(23))


def test_a_generator_of_the_users_goes_on_as_torchs_loader_moves_it() -> None:
    ours, theirs = torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
    list(loader_of(Squares(), generator=ours))
    list(DataLoader(Squares(), batch_size=4, generator=theirs))
    assert torch.equal(ours.get_state(), theirs.get_state())
    assert not torch.equal(ours.get_state(), torch.Generator().manual_seed(1).get_state())


def test_nothing_is_drawn_from_the_default_stream() -> None:
    before = torch.get_rng_state()
    list(loader_of(Squares()))
    assert torch.equal(before, torch.get_rng_state())


def test_a_profile_shows_what_loading_takes() -> None:
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        list(loader_of(Squares()))
    events = {event.key: event.count for event in profiler.key_averages()}
    assert events["enumerate(DataLoader)#CursorLoader.__next__"] == 7  # the last finds the end


def test_what_a_loader_says_of_a_batch_is_of_that_batch_whatever_was_committed() -> None:
    sampler = dc.CursorSampler(11, batch_size=2, accumulation_steps=2, shuffle=False)
    loader: dc.CursorLoader[int] = dc.CursorLoader(range(11), sampler=sampler)
    said = []
    for _ in loader:
        before = loader.ends_update, loader.num_real, loader.padding_mask.tolist()
        if loader.ends_update:
            sampler.commit()
        assert (loader.ends_update, loader.num_real, loader.padding_mask.tolist()) == before
        said.append(before)
    assert [ends for ends, _, _ in said] == [False, True] * 3
    assert [real for _, real, _ in said] == [2, 2, 2, 2, 2, 1]
    assert said[-1][2] == [False]


def test_a_loader_that_delivered_nothing_says_so() -> None:
    loader = loader_of(Squares())
    assert (loader.num_real, loader.padding_mask.tolist(), loader.ends_update) == (0, [], False)


def test_a_copy_of_a_loader_in_use_begins_at_the_cursor() -> None:
    loader = loader_of(Squares())
    batches = iter(loader)
    first = next(batches).tolist()
    assert next(iter(copy.deepcopy(loader))).tolist() == first
    assert len(list(batches)) == 5
