"""`CursorSampler` obeys the laws and the reference's layout in every shape."""

from __future__ import annotations

from functools import partial
from typing import Any

import laws
import pytest
import reference
from reference import Layout

from datacursor.sampler import CursorSampler

SEED = 7

LAYOUTS = [
    Layout(10, 1, 3),
    Layout(10, 1, 3, drop_last=True),
    Layout(12, 1, 3),
    Layout(10, 3, 2),
    Layout(10, 3, 2, drop_last=True),
    Layout(12, 2, 3),
    Layout(4, 9, 1),
    Layout(1, 1, 1),
    Layout(5000, 2, 700),
]


def make(layout: Layout, rank: int = 0, state: dict[str, Any] | None = None) -> CursorSampler:
    sampler = CursorSampler(
        layout.num_samples,
        batch_size=layout.batch_size,
        num_replicas=layout.num_replicas,
        rank=rank,
        drop_last=layout.drop_last,
        seed=SEED,
    )
    if state is not None:
        sampler.load_state_dict(state)
    return sampler


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_state_is_resumed_exactly(layout: Layout) -> None:
    num_batches = 2 * layout.num_rounds(0) + 2
    for rank in range(layout.num_replicas):
        laws.restore_at_every_step(partial(make, layout, rank), num_batches)
        laws.restore_after_every_step(partial(make, layout, rank), num_batches)


@pytest.mark.filterwarnings("ignore:.* none was committed:UserWarning")  # that is the case tested
@pytest.mark.parametrize("layout", LAYOUTS)
def test_batches_issued_ahead_leave_no_trace(layout: Layout) -> None:
    num_rounds = layout.num_rounds(0)
    _, states = laws.run(make(layout), num_rounds)
    for state in (states[0], states[-1]):  # the first epoch, and a loaded second one
        for num_committed in range(num_rounds):
            for num_ahead in (0, 1, num_rounds - num_committed, num_rounds + 1):
                laws.prefetch_safety(partial(make, layout, 0, state), num_committed, num_ahead)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_rank_gets_what_the_reference_gives_it(layout: Layout) -> None:
    order = reference.Shuffle(layout.num_samples, SEED)
    for rank in range(layout.num_replicas):
        expected = [
            [order.index_at(epoch, slot) for slot, _ in ranks[rank]]
            for epoch in (0, 1)
            for ranks in layout.rounds(0)
        ]
        assert laws.run(make(layout, rank), len(expected))[0] == expected


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if not layout.drop_last])
def test_ranks_together_deliver_the_whole_order(layout: Layout) -> None:
    ranks = [make(layout, rank) for rank in range(layout.num_replicas)]
    whole = reference.Shuffle(layout.num_samples, SEED).indices(0, 0, layout.num_samples)
    laws.rank_union(ranks, whole)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_commits_move_the_cursor_as_the_reference_counts(layout: Layout) -> None:
    for micro_batches in range(1, layout.num_rounds(0) + 1):
        sampler = make(layout)
        issued = laws.epoch_batches(sampler)
        expected = (0, 0)
        while expected[0] == 0:
            step = min(micro_batches, layout.num_rounds(expected[1]))
            for _ in range(step):
                next(issued)
            sampler.commit(step)
            expected = layout.commit(*expected, step)
            assert (sampler.cursor.epoch, sampler.cursor.position) == expected
