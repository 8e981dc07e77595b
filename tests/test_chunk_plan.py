"""chunk plans: rows against right values, the reference and the laws."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any

import laws
import make_vectors
import numpy as np
import pytest
import reference_packing_plans as reference
from hypothesis import given
from hypothesis import strategies as st

import datacursor as dc
from datacursor.errors import ArgumentError
from datacursor.plan import PackingPlan


def chunk(lengths: Any, seq_len: int, **options: Any) -> PackingPlan:
    return PackingPlan(lengths, seq_len=seq_len, packing="chunk", **options)


def all_rows(plan: PackingPlan, epoch: int = 0) -> laws.Rows:
    return laws.planned(plan, epoch, 0, plan.num_rows(epoch))


def golden_cases() -> dict[str, dict[str, Any]]:
    cases: dict[str, dict[str, Any]] = {}
    for keyword, *words in make_vectors.read("chunk.txt"):
        if keyword == "case":
            case = cases[words[0]] = {"rows": []}
        elif keyword == "row":
            case["rows"].append([int(word) for word in words])
        elif keyword in ("parameters", "lengths"):
            case[keyword] = [int(word) for word in words]
    return cases


@pytest.mark.parametrize("name", golden_cases())
def test_known_answers(name: str) -> None:
    case = golden_cases()[name]
    seq_len, pad_tail, num_virtual, keep_empty, seed, epoch = case["parameters"]
    plan = chunk(
        case["lengths"],
        seq_len,
        seed=seed,
        tail="pad" if pad_tail else "drop",
        bos=1 if num_virtual > 1 else None,
        eos=2 if num_virtual > 0 else None,
        keep_empty=bool(keep_empty),
    )
    rows = [list(chain.from_iterable(row)) for row in all_rows(plan, epoch)]
    assert rows == case["rows"]


# -- Right values, not shuffled: as concat cuts ----------------------------------------------------


def test_without_shuffling_rows_begin_at_the_first_token() -> None:
    for tail in ("pad", "drop"):
        for lengths in ([3, 2, 5], [5, 3, 0, 7, 1], [13, 11], [4, 4], [1, 0, 2, 0, 1]):
            plan = chunk(lengths, 4, shuffle=False, tail=tail)
            joined = PackingPlan(lengths, seq_len=4, shuffle=False, tail=tail)
            assert all_rows(plan) == all_rows(plan, 3) == all_rows(joined)


def test_case_13_too_few_tokens_make_no_row() -> None:
    plan = chunk([5, 6], 12, tail="drop", shuffle=False)
    assert len(plan) == 0
    assert plan.rows(0, 0, 0)[1].tolist() == [0]
    assert plan.stats(0).num_left == 11


# -- The reference and the laws --------------------------------------------------------------------

LENGTHS = st.lists(st.integers(0, 20), min_size=1, max_size=12)
TAILS = st.sampled_from(["pad", "drop"])


@given(
    lengths=LENGTHS,
    seq_len=st.integers(1, 30),
    tail=TAILS,
    seed=st.integers(0, 3),
    epoch=st.sampled_from([0, 1, 2**40 - 1]),
    shuffle=st.booleans(),
    eos=st.sampled_from([None, 9]),
    keep_empty=st.booleans(),
)
def test_rows_and_stats_are_the_reference_s(
    lengths: list[int],
    seq_len: int,
    tail: Any,
    seed: int,
    epoch: int,
    shuffle: bool,
    eos: int | None,
    keep_empty: bool,
) -> None:
    options = {"seed": seed, "shuffle": shuffle, "keep_empty": keep_empty}
    plan = chunk(lengths, seq_len, tail=tail, eos=eos, **options)
    sizes = reference.sizes_of(lengths, int(eos is not None), keep_empty)
    key = (seed, epoch) if shuffle else None
    rows = [
        [list(span) for span in row] for row in reference.chunk(sizes, seq_len, tail=tail, key=key)
    ]
    assert all_rows(plan, epoch) == rows
    stats = plan.stats(epoch)
    spans = [span for row in rows for span in row]
    num_spans_of = [sum(span[0] == document for span in spans) for document in range(len(sizes))]
    assert stats.num_rows == len(rows)
    assert stats.num_tokens == sum(stop - start for _, start, stop in spans)
    assert stats.num_tokens + stats.num_left == sum(sizes)
    assert stats.num_left == 0 or tail == "drop"
    assert stats.num_tokens + stats.num_padding == seq_len * stats.num_rows
    assert stats.num_split == sum(number > 1 for number in num_spans_of)
    assert stats.num_empty == sizes.count(0)
    assert stats.sum_squares == sum((stop - start) ** 2 for _, start, stop in spans)
    laws.rows_hold(plan, epoch, sizes, stats.num_left)


@given(
    lengths=LENGTHS, seq_len=st.integers(1, 30), tail=TAILS, epoch=st.integers(0, 3), data=st.data()
)
def test_planning_in_pieces_changes_nothing(
    lengths: list[int], seq_len: int, tail: str, epoch: int, data: st.DataObject
) -> None:
    plan = chunk(lengths, seq_len, tail=tail)
    num_rows = plan.num_rows(epoch)
    edges = data.draw(st.lists(st.integers(0, num_rows), min_size=2, max_size=5).map(sorted))
    laws.rows_split_invariance(plan, epoch, edges[0], np.diff(edges).tolist())


@given(lengths=LENGTHS, seq_len=st.integers(1, 30), tail=TAILS, epoch=st.integers(0, 3))
def test_every_row_is_found_without_a_reader(
    lengths: list[int], seq_len: int, tail: str, epoch: int
) -> None:
    laws.every_reader_resumes(partial(chunk, lengths, seq_len, tail=tail), epoch)


def test_rows_of_many_documents_are_the_reference_s() -> None:
    lengths = np.random.default_rng(0).integers(0, 9, 5000).tolist()  # five entries of the table
    for tail in ("pad", "drop"):
        expected = reference.chunk(lengths, 4, tail=tail, key=(7, 1))  # more rows than a table has
        rows = all_rows(chunk(lengths, 4, tail=tail, seed=7), 1)
        assert rows == [[list(span) for span in row] for row in expected]


@pytest.mark.parametrize("mean", [2, 30, 100, 900])  # table entries of 32, 17, 5 and 1 documents
def test_rows_of_a_table_that_is_filled_in_pieces_are_those_of_concat(mean: int) -> None:
    lengths = np.random.default_rng(mean).poisson(mean, 70_000)
    lengths[::3] = 0
    lengths[12_345] = 100_000
    plan, joined = (
        PackingPlan(lengths, seq_len=64, packing=packing, shuffle=False)
        for packing in ("chunk", "concat")
    )
    num_rows = len(plan)
    for first in (0, num_rows // 2, num_rows - 500):
        spans, offsets = plan.rows(0, first, 500)
        expected, expected_offsets = joined.rows(0, first, 500)
        assert (spans.tolist(), offsets.tolist()) == (expected.tolist(), expected_offsets.tolist())


def test_cuts_and_orders_change_with_the_epoch() -> None:
    plan = chunk([1000], 10)
    firsts = {plan.rows(epoch, 0, 1)[0].tolist()[0][1] for epoch in range(30)}
    assert len(firsts) > 20
    assert len({first % 10 for first in firsts}) > 5


@pytest.mark.parametrize("lengths", [[0, 0], [0]])
def test_without_tokens_there_is_no_row(lengths: list[int]) -> None:
    for tail in ("pad", "drop"):
        assert [chunk(lengths, 4, tail=tail).num_rows(epoch) for epoch in range(8)] == [0] * 8


def test_long_rows_and_long_documents() -> None:
    assert all_rows(chunk([3, 2], 2**31 - 1, shuffle=False)) == [[[0, 0, 3], [1, 0, 2]]]
    plan = chunk([10**6, 1], 4, shuffle=False)
    assert laws.planned(plan, 0, 249_999, 2) == [[[0, 999_996, 10**6]], [[1, 0, 1]]]
    assert len(chunk([2**62], 2**20, tail="drop")) in (2**42 - 1, 2**42)


def test_a_plan_can_be_pickled_and_used_by_several_threads() -> None:
    lengths = np.random.default_rng(1).integers(0, 90, 100_000)
    expected = [laws.planned(chunk(lengths, 64), 1, row, 3) for row in range(0, 40_000, 1000)]
    plan = pickle.loads(pickle.dumps(chunk(lengths, 64)))
    with ThreadPoolExecutor(4) as pool:
        rows = pool.map(lambda row: laws.planned(plan, 1, row, 3), range(0, 40_000, 1000))
        assert list(rows) == expected


def test_an_order_of_documents_is_refused() -> None:
    for order in (dc.Shuffle(2), [1, 0]):
        with pytest.raises(ArgumentError, match="order must be None with packing='chunk'"):
            chunk([3, 2], 4, order=order)


def test_which_documents_are_done_is_not_known() -> None:
    plan = chunk([3, 2], 4)
    with pytest.raises(ArgumentError, match="whether all of document 1 was committed"):
        plan.is_passed(0, plan.reader_of(0, 0), 1)


def test_a_row_at_the_very_end_of_2_63_tokens() -> None:
    num_tokens, seq_len = 2**63 - 3, 2**31 - 100
    plan = chunk([num_tokens], seq_len, shuffle=False)
    spans, _ = plan.rows(0, plan.num_rows(0) - 1, 1)
    assert spans.tolist() == [[0, num_tokens // seq_len * seq_len, num_tokens]]


@pytest.mark.parametrize("packing", ["concat", "chunk"])
def test_the_sum_of_squares_may_pass_2_63(packing: str) -> None:
    plan = PackingPlan([2**40], seq_len=2**30, packing=packing, shuffle=False)
    assert plan.stats(0).sum_squares == 2**10 * 2**60
