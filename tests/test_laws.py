"""The laws accept a right model and catch the faults that real samplers and orders have had."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import laws
import numpy as np
import pytest
from numpy.typing import NDArray
from reference import Layout, Shuffle


class ModelSampler:
    """The reference as a sampler: one rank of a layout over a reference shuffle."""

    def __init__(self, layout: Layout, rank: int = 0) -> None:
        self.layout = layout
        self.rank = rank
        self.batch_size = layout.batch_size
        self.order = Shuffle(layout.num_samples, seed=7)
        self.cursor = (0, 0)

    def __iter__(self) -> Iterator[int]:
        epoch, position = self.layout.start(*self.cursor)
        for micro_batches in self.layout.rounds(position):
            for slot, _ in micro_batches[self.rank]:
                self.on_issue()
                yield self.order.index_at(epoch, slot)

    def on_issue(self) -> None:
        """Hook for broken models."""

    def commit(self, micro_batches: int) -> None:
        self.cursor = self.layout.commit(*self.cursor, micro_batches)

    def state_dict(self) -> dict[str, NDArray[np.int64]]:
        return {"cursor": np.array(self.cursor)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        epoch, position = state_dict["cursor"].tolist()
        self.cursor = (epoch, position)


class SavesIssued(ModelSampler):
    """Counts what it hands out, so prefetched samples are lost at a restart."""

    def on_issue(self) -> None:
        epoch, position = self.cursor
        self.cursor = (epoch, position + 1)

    def commit(self, micro_batches: int) -> None:
        if self.cursor[1] == self.layout.num_samples:
            self.cursor = (self.cursor[0] + 1, 0)


class ForgetsPosition(ModelSampler):
    """Restarts the epoch at a load."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.cursor = (int(state_dict["cursor"][0]), 0)


LAYOUTS = [
    Layout(10, 1, 3),
    Layout(10, 1, 3, drop_last=True),
    Layout(10, 3, 2),
    Layout(10, 3, 2, drop_last=True),
    Layout(12, 2, 3, accumulation_steps=2),
    Layout(4, 9, 1),
]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_restore_laws_accept_the_model(layout: Layout) -> None:
    num_batches = 2 * layout.num_rounds(0) + 2
    for rank in range(layout.num_replicas):
        laws.restore_at_every_step(partial(ModelSampler, layout, rank), num_batches)
        laws.restore_after_every_step(partial(ModelSampler, layout, rank), num_batches)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_prefetch_safety_accepts_the_model(layout: Layout) -> None:
    num_rounds = layout.num_rounds(0)
    for committed in range(num_rounds):
        for ahead in range(num_rounds + 2):
            laws.prefetch_safety(partial(ModelSampler, layout), committed, ahead)


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if not layout.drop_last])
def test_rank_union_accepts_the_model(layout: Layout) -> None:
    ranks = [ModelSampler(layout, rank) for rank in range(layout.num_replicas)]
    laws.rank_union(ranks, Shuffle(layout.num_samples, seed=7).indices(0, 0, layout.num_samples))


def test_prefetch_safety_catches_a_state_of_issued_samples() -> None:
    make = partial(SavesIssued, Layout(10, 1, 2))
    laws.prefetch_safety(make, 2, 0)
    with pytest.raises(AssertionError):
        laws.prefetch_safety(make, 2, 1)


@pytest.mark.parametrize("law", [laws.restore_at_every_step, laws.restore_after_every_step])
def test_restore_laws_catch_an_epoch_that_begins_again(
    law: Callable[[Callable[[], laws.Sampler], int], None],
) -> None:
    with pytest.raises(AssertionError):
        law(partial(ForgetsPosition, Layout(10, 1, 2)), 7)


def test_rank_union_catches_ranks_with_different_batch_counts() -> None:
    ranks = [ModelSampler(Layout(10, 1, 2)), ModelSampler(Layout(8, 1, 2))]
    with pytest.raises(AssertionError):
        laws.rank_union(ranks, range(18))


class ShortStrideShuffle(Shuffle):
    """Repeats the first index at the last position: not a bijection."""

    def index_at(self, epoch: int, position: int) -> int:
        return super().index_at(epoch, 0 if position == self.num_samples - 1 else position)


class RelativeShuffle(Shuffle):
    """Orders each filled block by itself, so the result depends on the cuts."""

    def indices(self, epoch: int, first: int, count: int) -> list[int]:
        return sorted(super().indices(epoch, first, count))


def test_order_laws_accept_the_reference() -> None:
    order = Shuffle(37, seed=5)
    laws.bijection(order, 2)
    laws.round_trip(order, 2, range(37))
    laws.same_by_every_way(order, 2, 3, 30)
    laws.split_invariance(order, 2, 1, [5, 0, 1, 30])


def test_bijection_and_round_trip_catch_a_doubled_index() -> None:
    order = ShortStrideShuffle(37, seed=5)
    with pytest.raises(AssertionError):
        laws.bijection(order, 2)
    with pytest.raises(AssertionError):
        laws.round_trip(order, 2, range(37))


def test_split_invariance_and_agreement_catch_a_fill_that_depends_on_its_block() -> None:
    order = RelativeShuffle(37, seed=5)
    with pytest.raises(AssertionError):
        laws.split_invariance(order, 2, 0, [18, 19])
    with pytest.raises(AssertionError):
        laws.same_by_every_way(order, 2, 0, 37)
