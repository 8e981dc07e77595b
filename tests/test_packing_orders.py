"""Packing over every order: rows as the reference cuts them, and exact resume."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import laws
import numpy as np
import pytest
import torch
from reference import concat
from runs import fresh

import datacursor as dc
from datacursor.row_index import RowIndex
from datacursor.state import cursor_of

LENGTHS = [3, 0, 7, 1, 12, 5, 0, 2, 9, 4, 6, 1]
N = len(LENGTHS)
EPOCHS = (0, 1, 3)


def mixture(stopping: str = "all_exhausted", **options: Any) -> dc.Mixture:
    orders = [dc.Shuffle(8, seed=1), dc.Subset([3, 0, 2], num_samples=4, seed=2)]
    arguments: dict[str, Any] = {"seed": 3, "block": 4, "stages": [(8, [1, 3])]}
    return dc.Mixture(orders, [3, 1], stopping=stopping, **arguments | options)


ORDERS: dict[str, dc.Order] = {
    "block-shuffle": dc.BlockShuffle(N, 5, 2, seed=7),
    "mixture": mixture(),
    "short mixture": mixture("first_exhausted"),
    "weighted": dc.Weighted(range(N), seed=7, num_positions=31),
    "subset": dc.Subset([2, 4, 1, 8, 10], num_samples=N, seed=7),
    "subset as given": dc.Subset([2, 6, 4, 1, 8, 10], num_samples=N, shuffle=False),
}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"tail": "drop"},
    {"eos": 1},
    {"bos": 2, "eos": 1},
    {"bos": 2, "eos": 1, "keep_empty": True},
]


def expected_rows(
    documents: list[int], seq_len: int, options: dict[str, Any]
) -> list[list[list[int]]]:
    rows = concat(
        LENGTHS,
        documents,
        seq_len,
        tail=options.get("tail", "pad"),
        num_virtual=("bos" in options) + ("eos" in options),
        keep_empty=options.get("keep_empty", False),
    )
    return [[list(span) for span in row.spans] for row in rows]


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("seq_len", [1, 4, 13])
def test_rows_are_those_of_the_reference(name: str, options: dict[str, Any], seq_len: int) -> None:
    order = ORDERS[name]

    def make() -> dc.PackingPlan:
        return dc.PackingPlan(LENGTHS, seq_len=seq_len, order=order, **options)

    plan = make()
    for epoch in EPOCHS:
        documents = order.indices(epoch, 0, order.num_positions(epoch)).tolist()
        expected = expected_rows(documents, seq_len, options)
        assert plan.num_rows(epoch) == len(expected)
        assert laws.planned(plan, epoch, 0, len(expected)) == expected
        laws.every_reader_resumes(make, epoch)
        stats = plan.stats(epoch)
        assert stats.num_documents == len(documents)
        assert stats.num_spans == sum(map(len, expected))
        with_nothing = [d for d in documents if LENGTHS[d] == 0]
        assert stats.num_empty == (0 if options.get("keep_empty") else len(with_nothing))


def test_an_endless_mixture_has_rows_without_end() -> None:
    order = mixture("forever")
    for options in OPTIONS:
        plan = dc.PackingPlan(LENGTHS, seq_len=7, order=order, **options)
        assert len(plan) >= 2**59
        head = expected_rows(order.indices(0, 0, 2000).tolist(), 7, options)
        assert laws.planned(plan, 0, 0, 300) == head[:300]
        assert laws.planned(plan, 0, 700, 20) == head[700:720]
        laws.rows_split_invariance(plan, 0, 690, [0, 1, 30, 2])
        block = plan.rows_from(0, plan.reader_of(0, 650), 650, 20)
        assert laws.split_rows(block.spans, block.row_offsets) == head[650:670]


def test_an_endless_epoch_has_no_stats() -> None:
    plan = dc.PackingPlan(LENGTHS, seq_len=7, order=mixture("forever"))
    with pytest.raises(dc.ArgumentError, match=r"an epoch that ends, got Mixture"):
        plan.stats(0)


def test_an_endless_mixture_of_empty_documents_has_no_rows() -> None:
    plan = dc.PackingPlan([0] * N, seq_len=7, order=mixture("forever"))
    assert plan.num_rows(0) == 0
    kept = dc.PackingPlan([0] * N, seq_len=7, order=mixture("forever"), eos=1, keep_empty=True)
    assert laws.planned(kept, 0, 5, 1) == [
        [[d, 0, 1] for d in mixture("forever").indices(0, 35, 7)]
    ]


# -- Samplers --------------------------------------------------------------------------------------


class Rows(dc.PackedSampler):
    """Yields what rows hold, so that equal batches are equal spans."""

    def __iter__(self) -> Any:
        for row in super().__iter__():
            assert isinstance(row, RowIndex)
            yield int(row), row.epoch, row.spans.tolist()


def corpus() -> dc.TokenCorpus:
    tokens = iter(range(3, 1000))
    return dc.TokenCorpus.open([[next(tokens) for _ in range(length)] for length in LENGTHS])


def make(order: dc.Order, rank: int = 0, num_replicas: int = 1, **options: Any) -> Rows:
    arguments: dict[str, Any] = {"seq_len": 7, "batch_size": 2, "order": order}
    return Rows(corpus(), rank=rank, num_replicas=num_replicas, **arguments | options)


@pytest.mark.parametrize("name", [*ORDERS, "endless"])
@pytest.mark.parametrize("num_replicas", [1, 2])
def test_any_state_is_resumed_exactly(name: str, num_replicas: int) -> None:
    order = ORDERS[name] if name in ORDERS else mixture("forever")
    for rank in range(num_replicas):
        factory = partial(make, order, rank, num_replicas)
        num_batches = min(2 * factory().remaining() + 2, 20)
        laws.restore_at_every_step(factory, num_batches)
        laws.restore_after_every_step(factory, num_batches)


def test_a_far_row_is_sought_and_resumed() -> None:
    rows = make(mixture("forever"))
    rows.seek(0, 3000)
    state = rows.state_dict()
    expected: list[Any] = laws.run(rows, 5)[0]
    plan = dc.PackingPlan(LENGTHS, seq_len=7, order=mixture("forever"))
    assert [spans for batch in expected for _, _, spans in batch] == laws.planned(plan, 0, 3000, 10)
    other = make(mixture("forever"))
    other.load_state_dict(state)
    assert laws.run(other, 5)[0] == expected


def test_what_an_update_holds_is_the_rows_of_the_plan() -> None:
    rows = make(mixture())
    plan = dc.PackingPlan(LENGTHS, seq_len=7, order=mixture())
    for epoch in EPOCHS:
        num_rows = plan.num_rows(epoch)
        assert rows.indices_of(epoch, 1).tolist() == [2, 3]
        assert laws.split_rows(*rows.spans_of(epoch, 1)) == laws.planned(plan, epoch, 2, 2)
        with pytest.raises(dc.ArgumentError, match="update"):
            rows.indices_of(epoch, -(-num_rows // 2))


def test_committed_is_refused_where_a_document_may_come_often() -> None:
    for order, message in (
        (mixture(), "a mixture has no position_of: index=3"),
        (ORDERS["weighted"], "a weighted order has no position_of: index=3"),
        (ORDERS["subset"], "index must be in the subset, got index=3"),
    ):
        rows = make(order)
        laws.run(rows, 1)
        with pytest.raises(dc.ArgumentError, match=message):
            rows.committed(3)
    subset = make(ORDERS["subset as given"])
    laws.run(subset, 1)  # rows 0 and 1: 14 tokens, of documents 2, 6 and 4: 7, 0 and 12
    assert [subset.committed(document) for document in (2, 6, 4, 1)] == [True, True, False, False]


def test_a_cursor_of_another_plan_is_refused_by_name() -> None:
    rows = make(mixture())
    laws.run(rows, 2)
    for other in (mixture(block=8), mixture(stages=[]), mixture("first_exhausted", stages=[])):
        with pytest.raises(dc.CursorMismatchError, match="does not match sampler: plan\n"):
            make(other).load_state_dict(rows.state_dict())
    with pytest.raises(dc.CursorMismatchError, match="does not match sampler: seed\n"):
        make(mixture(seed=4)).load_state_dict(rows.state_dict())


def test_the_weights_of_a_later_stage_may_change_in_mid_epoch() -> None:
    old, new = mixture("forever"), mixture("forever", stages=[(8, [3, 1])])
    rows = make(old, batch_size=1)
    laws.run(rows, 2)
    other = make(new, batch_size=1)
    other.load_state_dict(rows.state_dict(), allow_changed={"plan"})
    reader = (other.cursor.reader_position, other.cursor.reader_offset)
    assert reader == (rows.cursor.reader_position, rows.cursor.reader_offset)
    assert reader[0] < 8
    plan = dc.PackingPlan(LENGTHS, seq_len=7, order=new)
    batches: list[Any] = laws.run(other, 6)[0]
    assert [spans for [(_, _, spans)] in batches] == laws.planned(plan, 0, 2, 6)


# -- Loaders ---------------------------------------------------------------------------------------


def train(
    num_workers: int,
    updates: int,
    state: dict[str, torch.Tensor] | None = None,
) -> tuple[list[list[int]], dict[str, torch.Tensor]]:
    """Deliver and commit rows over the ends of epochs; what a fresh process can do too."""
    rows = dc.PackedSampler(corpus(), seq_len=7, batch_size=2, order=mixture())
    if state is not None:
        rows.load_state_dict(state)
    loader: dc.CursorLoader[Any] = dc.CursorLoader(
        rows.dataset,
        sampler=rows,
        num_workers=num_workers,
        multiprocessing_context="fork" if num_workers > 0 else None,
    )
    delivered: list[list[int]] = []
    while len(delivered) < updates:
        for batch in loader:
            delivered.append(batch["input_ids"].flatten().tolist())
            rows.commit()
            if len(delivered) == updates:
                break
    return delivered, rows.state_dict()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_rows_of_a_mixture_are_resumed_twice_in_later_epochs(num_workers: int) -> None:
    unbroken, last = train(0, 17)
    first, state = train(num_workers, 7)
    second, state = fresh(train, num_workers, 2, state)
    third, state = fresh(train, 2 - num_workers, 8, state)
    assert first + second + third == unbroken
    assert cursor_of(state).attempt == 2
    assert cursor_of(state).replace(attempt=0) == cursor_of(last)
    assert cursor_of(last).epoch >= 1


def test_spawned_workers_deliver_the_same() -> None:
    rows = dc.PackedSampler(corpus(), seq_len=7, batch_size=2, order=mixture())
    processes: list[dict[str, Any]] = [{}, {"num_workers": 1, "multiprocessing_context": "spawn"}]
    ours, theirs = (
        [
            batch["input_ids"].tolist()
            for batch in dc.CursorLoader(rows.dataset, sampler=rows, **options)
        ]
        for options in processes
    )
    assert ours == theirs
    assert len(ours) == rows.remaining()


def test_plans_and_samplers_are_pickled() -> None:
    for order in ORDERS.values():
        plan = dc.PackingPlan(LENGTHS, seq_len=7, order=order)
        other = pickle.loads(pickle.dumps(plan))
        assert laws.planned(other, 1, 0, 3) == laws.planned(plan, 1, 0, 3)
        assert repr(other) == repr(plan)


def test_documents_may_be_listed_in_order() -> None:
    listed = [*range(N)][::-1]
    for order in (listed, tuple(listed), np.array(listed, dtype=np.uint16)):
        plan = dc.PackingPlan(LENGTHS, seq_len=5, order=order)
        for epoch in EPOCHS:
            assert laws.planned(plan, epoch, 0, len(plan)) == expected_rows(listed, 5, {})
    with pytest.raises(dc.ArgumentError, match=f"order must hold all num_documents={N} indices"):
        dc.PackingPlan(LENGTHS, seq_len=5, order=listed[:-1])


def test_tensors_are_arrays_of_lengths_and_of_indices() -> None:
    order = torch.tensor([2, 0, 3, 1])
    plan = dc.PackingPlan(torch.tensor([3, 1, 2, 2]), seq_len=4, order=order)
    same = dc.PackingPlan([3, 1, 2, 2], seq_len=4, order=order.tolist())
    assert laws.planned(plan, 0, 0, 2) == laws.planned(same, 0, 0, 2)
    assert list(dc.CursorSampler(4, batch_size=2, order=order)) == [2, 0, 3, 1]
