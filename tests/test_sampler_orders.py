"""`CursorSampler` over every order: exact resume, longer and shorter epochs, what is refused."""

from __future__ import annotations

import copy
import pickle
from functools import partial
from itertools import chain
from typing import Any

import laws
import numpy as np
import pytest
import torch
from reference import Layout
from runs import Numbers, fresh

import datacursor as dc
from datacursor.state import cursor_of

N = 24


def mixture(**options: Any) -> dc.Mixture:
    """Eight blocks of six positions: 48 over 24 samples, so a position may exceed them."""
    arguments: dict[str, Any] = {
        "orders": [dc.Shuffle(16, seed=1), dc.Sequential(8)],
        "weights": [2, 1],
        "seed": 3,
        "block": 6,
        "stopping": "all_exhausted",
        "stages": [(12, [1, 2]), (24, [1, 5])],
    }
    return dc.Mixture(**arguments | options)


ORDERS: dict[str, Any] = {
    "block-shuffle": dc.BlockShuffle(N, 5, 2, seed=7),
    "mixture": mixture(),
    "short mixture": mixture(stopping="first_exhausted", stages=()),
    "weighted": dc.Weighted(np.arange(N), seed=7, num_positions=35),
    "weighted, few": dc.Weighted(np.arange(N), seed=7, num_positions=10),
    "subset": dc.Subset(range(1, N, 2), num_samples=N, seed=7),
    "subset as given": dc.Subset([9, 2, 20, 5, 1], num_samples=N, shuffle=False),
    "list": [*range(N)][::-1],
    "array": np.arange(N, dtype=np.int32) * 5 % N,
}
SHAPES = [(1, 4, False), (1, 4, True), (3, 2, False), (3, 1, True)]


def make(
    order: Any, shape: tuple[int, int, bool] = (1, 4, False), rank: int = 0, n: int = N
) -> dc.CursorSampler:
    num_replicas, batch_size, drop_last = shape
    return dc.CursorSampler(
        n,
        batch_size=batch_size,
        num_replicas=num_replicas,
        rank=rank,
        drop_last=drop_last,
        order=order,
    )


def whole(order: Any, epoch: int) -> list[int]:
    if not isinstance(order, dc.Order):
        return [int(index) for index in order]
    return [int(index) for index in order.indices(epoch, 0, order.num_positions(epoch))]


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_any_state_is_resumed_exactly(name: str, shape: tuple[int, int, bool]) -> None:
    order = ORDERS[name]
    num_replicas, batch_size, drop_last = shape
    layout = Layout(len(whole(order, 0)), num_replicas, batch_size, drop_last=drop_last)
    for rank in range(num_replicas):
        laws.restore_at_every_step(partial(make, order, shape, rank), 2 * layout.num_rounds(0) + 2)
        laws.restore_after_every_step(partial(make, order, shape, rank), layout.num_rounds(0) + 1)


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_rank_gets_its_share(name: str, shape: tuple[int, int, bool]) -> None:
    order = ORDERS[name]
    num_replicas, batch_size, drop_last = shape
    layout = Layout(len(whole(order, 0)), num_replicas, batch_size, drop_last=drop_last)
    for rank in range(num_replicas):
        expected = [
            [whole(order, epoch)[slot] for slot, _ in ranks[rank]]
            for epoch in range(3)
            for ranks in layout.rounds(0)
        ]
        sampler = make(order, shape, rank)
        assert laws.run(sampler, len(expected))[0] == expected
        assert sampler.cursor.epoch == 3
        assert len(sampler) == (
            layout.num_samples
            if num_replicas == 1 and not drop_last
            else layout.num_rounds(0) * batch_size
        )


@pytest.mark.parametrize("name", ORDERS)
def test_an_update_can_be_looked_up(name: str) -> None:
    order = ORDERS[name]
    sampler = make(order, (2, 3, False))
    positions = len(whole(order, 0))
    for epoch in (0, 2):
        updates = [
            sampler.indices_of(epoch, update).tolist() for update in range(-(-positions // 6))
        ]
        assert [*chain(*updates)] == whole(order, epoch)
    with pytest.raises(ValueError, match="update must be"):
        sampler.indices_of(0, -(-positions // 6))


@pytest.mark.parametrize("name", ["block-shuffle", "list", "array", "subset", "subset as given"])
def test_committed_knows_what_was_passed(name: str) -> None:
    sampler = make(ORDERS[name])
    laws.run(sampler, 1)
    passed = set(whole(ORDERS[name], 0)[:4])
    held = set(whole(ORDERS[name], 0))
    assert {index for index in held if sampler.committed(index)} == passed
    for index in set(range(N)) - held:
        with pytest.raises(dc.ArgumentError, match=f"in the subset, got index={index}"):
            sampler.committed(index)


@pytest.mark.parametrize("name", ["mixture", "weighted"])
def test_committed_is_refused_where_an_index_may_come_often(name: str) -> None:
    sampler = make(ORDERS[name])
    laws.run(sampler, 1)
    with pytest.raises(dc.ArgumentError, match="has no position_of: index=3 may occur many times"):
        sampler.committed(3)


def test_a_position_may_exceed_the_number_of_samples() -> None:
    sampler = make(mixture())
    laws.run(sampler, 9)
    assert (sampler.cursor.epoch, sampler.cursor.position) == (0, 36)
    cursor = dc.Cursor.from_token(sampler.cursor.token())
    assert cursor == dc.Cursor.from_bytes(bytes(cursor)) == dc.Cursor.from_json(cursor.to_json())
    other = make(mixture())
    other.load_cursor(cursor)
    assert laws.run(other, 5)[0] == laws.run(sampler, 5)[0]
    assert other.cursor.epoch == 1
    other.seek(1, 47)
    with pytest.raises(dc.ArgumentError, match="position"):
        other.seek(1, 49)


# -- Workers ---------------------------------------------------------------------------------------


def train(
    num_workers: int, updates: int, state: dict[str, torch.Tensor] | None = None
) -> tuple[list[list[int]], dict[str, torch.Tensor]]:
    """Deliver and commit over the ends of epochs; what a fresh process can do too."""
    sampler = dc.CursorSampler(Numbers(N), batch_size=5, order=mixture(), accumulation_steps=2)
    if state is not None:
        sampler.load_state_dict(state)
    context = "fork" if num_workers > 0 else None
    loader: dc.CursorLoader[list[int]] = dc.CursorLoader(
        sampler.dataset,
        sampler=sampler,
        num_workers=num_workers,
        multiprocessing_context=context,
    )
    batches: list[list[int]] = []
    done = 0
    while done < updates:
        window = 0
        left = sampler.remaining()
        for batch in loader:
            batches.append([int(item) for item in batch])
            window, left = window + 1, left - 1
            if window == 2 or left == 0:
                sampler.commit()
                done, window = done + 1, 0
                if done == updates:
                    break
    return batches, sampler.state_dict()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_mixture_is_resumed_twice_in_later_epochs(num_workers: int) -> None:
    unbroken, last = train(0, 16)  # three epochs of five updates
    assert [*chain(*unbroken)][:96] == whole(mixture(), 0) + whole(mixture(), 1)
    first, state = train(num_workers, 6)
    second, state = fresh(train, num_workers, 3, state)
    third, state = fresh(train, 2 - num_workers, 7, state)
    assert first + second + third == unbroken
    assert cursor_of(state).attempt == 2
    assert cursor_of(state).replace(attempt=0) == cursor_of(last)


def test_samplers_and_their_orders_are_pickled() -> None:
    for order in ORDERS.values():
        sampler = make(order)
        laws.run(sampler, 2)
        for other in (pickle.loads(pickle.dumps(sampler)), copy.deepcopy(sampler)):
            assert other.cursor == sampler.cursor
            assert laws.run(other, 2)[0] == laws.run(copy.deepcopy(sampler), 2)[0]


# -- Another plan ----------------------------------------------------------------------------------

SUBSET = dc.Subset(range(10), num_samples=N, seed=7)


@pytest.mark.parametrize(
    ("saved", "present", "names"),
    [
        (mixture(), mixture(weights=[1, 1]), {"plan"}),
        (mixture(), mixture(block=12, stages=[]), {"plan"}),
        (mixture(), mixture(stages=[(12, [1, 2])]), {"plan"}),
        (mixture(), mixture(orders=[dc.Shuffle(16, seed=2), dc.Sequential(8)]), {"plan"}),
        (mixture(), mixture(orders=[dc.Shuffle(16, seed=1), dc.Shuffle(8)]), {"plan"}),
        (mixture(stages=()), mixture(stages=(), stopping="first_exhausted"), {"plan"}),
        (mixture(), mixture(seed=4), {"seed"}),
        (SUBSET, dc.Subset([0, *range(2, 11)], num_samples=N, seed=7), {"plan"}),
        (SUBSET, dc.Subset(range(10), num_samples=N, seed=7, shuffle=False), {"plan"}),
        (SUBSET, dc.Subset(range(10), num_samples=N, seed=8), {"seed"}),
        (dc.BlockShuffle(N, 5, 2), dc.BlockShuffle(N, 5, 3), {"plan"}),
        (dc.BlockShuffle(N, 5, 2), dc.BlockShuffle(N, 10, 1), {"plan"}),
        (dc.BlockShuffle(N, 5, 2), dc.Shuffle(N), {"order", "plan"}),
        (dc.Weighted([1, 2, 3] * 8), dc.Weighted([1, 2, 4] * 8), {"plan"}),
        (dc.Weighted([1] * N), dc.Weighted([1] * N, num_positions=30), {"plan"}),
        ([*range(N)], [*range(N)][::-1], {"plan"}),
        ([*range(N)], dc.Sequential(N), {"order", "plan"}),
    ],
)
def test_a_cursor_of_another_plan_is_refused_by_name(
    saved: Any, present: Any, names: set[str]
) -> None:
    sampler = make(saved, n=N)
    laws.run(sampler, 1)
    other = make(present, n=N)
    before = other.cursor
    with pytest.raises(dc.CursorMismatchError) as refused:
        other.load_state_dict(sampler.state_dict())
    ordered = [name for name in ("seed", "order", "plan") if name in names]
    first_line = str(refused.value).splitlines()[0]
    assert first_line == f"cursor does not match sampler: {', '.join(ordered)}"
    assert other.cursor == before
    other.load_state_dict(sampler.state_dict(), allow_changed=names)
    assert (other.cursor.epoch, other.cursor.position) == (0, 4)


def test_the_weights_of_a_later_stage_may_change_in_mid_epoch() -> None:
    old = mixture(weights=[1, 2], stages=[(24, [1, 2])])
    new = mixture(weights=[1, 2], stages=[(24, [1, 5])])
    sampler = make(old)
    laws.run(sampler, 3)
    other = make(new)
    other.load_state_dict(sampler.state_dict(), allow_changed={"plan"})
    assert (other.cursor.epoch, other.cursor.position) == (0, 12)
    rest = [index for batch in laws.epoch_batches(other) for index in batch]
    assert rest == new.indices(0, 12, new.num_positions(0) - 12).tolist()
    assert rest[:12] == old.indices(0, 12, 12).tolist()
    assert rest[12:24] != old.indices(0, 24, 12).tolist()
    resumed = make(new)
    resumed.load_state_dict(other.state_dict())
    assert resumed.cursor.accepted == ("plan",)


def test_an_epoch_that_became_shorter_than_the_cursor_is_over() -> None:
    sampler = make(dc.Weighted([1] * N, num_positions=40))
    laws.run(sampler, 9)
    other = make(dc.Weighted([1] * N, num_positions=36))
    other.load_state_dict(sampler.state_dict(), allow_changed={"plan"})
    assert (other.cursor.epoch, other.cursor.position) == (1, 0)


# -- Endless ---------------------------------------------------------------------------------------


def test_an_endless_mixture_is_one_long_epoch() -> None:
    endless = mixture(stopping="forever")
    sampler = make(endless)
    assert len(sampler) == endless.num_positions(0) == 2**55 * 6
    laws.restore_at_every_step(partial(make, endless), 20)
    batches, _ = laws.run(sampler, 30)
    assert [*chain(*batches)] == endless.indices(0, 0, 120).tolist()
    for num_replicas in (1, 4):
        far = make(endless, (num_replicas, 4, False))
        far.seek(0, 10**12 + 2)
        assert far.remaining() == -(-(len(far) * num_replicas - 10**12 - 2) // (4 * num_replicas))
        [batch], _ = laws.run(far, 1)
        assert batch == endless.indices(0, 10**12 + 2, 4).tolist()


# -- Refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "error", "message"),
    [
        ([*range(N - 1)], dc.ArgumentError, f"order must hold all num_samples={N} indices, got 23"),
        ([*range(N), 0], dc.ArgumentError, "0 twice"),
        ([*range(1, N + 1)], dc.ArgumentError, "24"),
        ([0] * N, dc.ArgumentError, "0 twice"),
        ([], dc.ArgumentError, r"shape \(0,\)"),
        (np.arange(N, dtype=float), TypeError, "float64"),
        (["a"] * N, TypeError, "<U1"),
        (np.arange(N).reshape(2, -1), dc.ArgumentError, r"shape \(2, 12\)"),
        (range(N), TypeError, "order must be .*got range"),
        ("order", TypeError, "order must be .*got str"),
        (dc.Mixture([dc.Sequential(N + 1)], [1], block=1), dc.ArgumentError, "num_samples=25"),
        (dc.Weighted([1] * (N + 1)), dc.ArgumentError, "order.num_samples=25"),
        (dc.BlockShuffle(N - 1, 2, 2), dc.ArgumentError, "order.num_samples=23"),
    ],
)
def test_an_order_that_does_not_fit_is_refused(
    order: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make(order)


def test_another_seed_than_the_orders_is_refused() -> None:
    with pytest.raises(dc.ArgumentError, match="seed must be left to the order, got seed=7"):
        dc.CursorSampler(N, batch_size=2, seed=7, order=mixture())
    assert make(mixture()).seed == 3


def test_an_order_of_fewer_positions_than_a_round_is_refused_with_drop_last() -> None:
    with pytest.raises(dc.ArgumentError, match="drop_last=True drops every batch: num_samples=5"):
        make(ORDERS["subset as given"], (3, 2, True))
