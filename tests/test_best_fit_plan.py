"""best_fit plans: rows and readers against right values, the reference and the laws."""

from __future__ import annotations

import multiprocessing
import pickle
import tracemalloc
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
from datacursor.errors import ArgumentError, CorpusError
from datacursor.plan import PackingPlan
from datacursor.row_block import Reader

Span = tuple[int, int, int]
FORK = multiprocessing.get_context("fork")
TIMEOUT_SECONDS = 60


def best_fit(lengths: Any, seq_len: int, **options: Any) -> PackingPlan:
    defaults: dict[str, Any] = {
        "packing": "best_fit",
        "long_documents": "split",
        "window_documents": 3,
    }
    return PackingPlan(lengths, seq_len=seq_len, **(defaults | options))


def natural(lengths: Any, seq_len: int, **options: Any) -> PackingPlan:
    """All documents in one window, nothing shuffled."""
    defaults: dict[str, Any] = {"shuffle": False, "window_documents": None}
    return best_fit(lengths, seq_len, **(defaults | options))


def all_rows(plan: PackingPlan, epoch: int = 0) -> laws.Rows:
    return laws.planned(plan, epoch, 0, plan.num_rows(epoch))


def readers_of(plan: PackingPlan, epoch: int = 0) -> list[tuple[int, int]]:
    """The reader behind every row, row by row."""
    readers: list[tuple[int, int]] = [(0, 0)]
    for row in range(plan.num_rows(epoch)):
        readers.append(plan.rows_from(epoch, readers[-1], row, 1).reader)
    return readers[1:]


def as_lists(rows: list[list[Span]]) -> laws.Rows:
    return [[list(span) for span in row] for row in rows]


# -- Right values ----------------------------------------------------------------------------------

CASES: dict[str, tuple[list[int], int, dict[str, Any], list[list[Span]]]] = {
    "8 split": (
        [14, 7, 5, 2, 3],
        8,
        {},
        [[(0, 0, 8)], [(1, 0, 7)], [(0, 8, 14), (3, 0, 2)], [(2, 0, 5), (4, 0, 3)]],
    ),
    "9 split": ([5, 2, 3, 1], 4, {}, [[(0, 0, 4)], [(0, 4, 5), (2, 0, 3)], [(1, 0, 2), (3, 0, 1)]]),
    "10 ties": ([3, 3, 1, 1], 4, {}, [[(0, 0, 3), (2, 0, 1)], [(1, 0, 3), (3, 0, 1)]]),
    "11 decreasing": ([2, 2, 4, 4], 6, {}, [[(0, 0, 2), (2, 0, 4)], [(1, 0, 2), (3, 0, 4)]]),
    "11 arrival": (
        [2, 2, 4, 4],
        6,
        {"item_order": "arrival"},
        [[(0, 0, 2), (1, 0, 2)], [(2, 0, 4)], [(3, 0, 4)]],
    ),
    "12 stream order": ([4, 4, 5, 5], 9, {}, [[(0, 0, 4), (2, 0, 5)], [(1, 0, 4), (3, 0, 5)]]),
    "14 max_documents": (
        [1] * 5,
        8,
        {"max_documents": 2},
        [[(0, 0, 1), (1, 0, 1)], [(2, 0, 1), (3, 0, 1)], [(4, 0, 1)]],
    ),
    "15 align": ([3, 5, 2], 12, {"align": 4}, [[(0, 0, 3), (1, 0, 5)], [(2, 0, 2)]]),
    "16 windows": (
        [3, 1, 2, 2, 4, 1],
        4,
        {"window_documents": 2},
        [[(0, 0, 3), (1, 0, 1)], [(2, 0, 2), (3, 0, 2)], [(4, 0, 4)], [(5, 0, 1)]],
    ),
    "D21": ([6, 6, 6, 6], 8, {}, [[(document, 0, 6)] for document in range(4)]),
    "D22": ([13, 11], 10, {}, [[(0, 0, 10)], [(1, 0, 10)], [(0, 10, 13), (1, 10, 11)]]),
    "D22 truncated": (
        [13, 11],
        10,
        {"long_documents": "truncate"},
        [[(0, 0, 10)], [(1, 0, 10)]],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_rows_of_a_small_corpus(name: str) -> None:
    lengths, seq_len, options, rows = CASES[name]
    plan = natural(lengths, seq_len, **options)
    assert all_rows(plan) == as_lists(rows)
    assert len(plan) == len(rows)


def test_case_16_the_reader_names_the_window_and_the_row_in_it() -> None:
    plan = natural([3, 1, 2, 2, 4, 1], 4, window_documents=2)
    assert readers_of(plan) == [(1, 0), (2, 0), (2, 1), (3, 0)]


def golden_cases() -> dict[str, dict[str, Any]]:
    cases: dict[str, dict[str, Any]] = {}
    for keyword, *words in make_vectors.read("best_fit.txt"):
        if keyword == "case":
            case = cases[words[0]] = {"rows": []}
        elif keyword == "rule":
            case["rule"] = words
        elif keyword == "row":
            case["rows"].append([int(word) for word in words])
        else:
            case[keyword] = [int(word) for word in words]
    return cases


@pytest.mark.parametrize("name", golden_cases())
def test_known_answers(name: str) -> None:
    case = golden_cases()[name]
    seq_len, long_documents, item_order, *numbers = case["rule"]
    max_documents, align, min_fragment = map(int, numbers)
    index = dc._core.LengthIndex([(None, np.array(case["lengths"], dtype=np.int64))])
    rule = dc._core.BestFitRule(
        seq_len=int(seq_len),
        long_documents=long_documents,
        decreasing=item_order == "decreasing",
        max_documents=max_documents,
        align=align,
        min_fragment=min_fragment,
    )
    documents = np.array(case["documents"], dtype=np.int64)
    num_virtual, keep_empty = case["virtual"]
    virtual = {"num_virtual": num_virtual, "keep_empty": bool(keep_empty)}
    key, groups = (tuple(case["key"][:3]), case["key"][3:]) if "key" in case else (None, [])
    counts = dc._core.count_best_fit(index, documents, rule, **virtual)
    assert list(counts.values()) == case["counts"]
    packed = dc._core.best_fit(index, documents, rule, **virtual, key=key, cost_groups=sum(groups))
    rows = laws.split_rows(*packed)
    assert [list(chain.from_iterable(row)) for row in rows] == case["rows"]


def test_a_rule_packs_windows_of_any_size_by_several_threads_and_after_an_error() -> None:
    lengths = np.random.default_rng(3).integers(0, 65, 3000)
    index = dc._core.LengthIndex([(None, lengths)])
    rule = dc._core.BestFitRule(
        seq_len=64,
        long_documents="error",
        decreasing=True,
        max_documents=0,
        align=1,
        min_fragment=1,
    )

    def packed(count: int) -> tuple[list[Any], dict[str, int]]:
        documents = np.arange(count)
        options: dict[str, Any] = {"num_virtual": 0, "keep_empty": False}
        spans, offsets = dc._core.best_fit(index, documents, rule, **options, key=(1, 2, 3))
        with pytest.raises(ArgumentError, match="document=3000"):
            dc._core.count_best_fit(index, np.arange(count, 3001), rule, **options)
        counts = dc._core.count_best_fit(index, documents, rule, **options)
        return [spans.tolist(), offsets.tolist()], counts

    sizes = [3000, 1, 0, 700, 2999, 64] * 2
    expected = {count: packed(count) for count in reversed(sizes)}
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(packed, sizes)) == [expected[count] for count in sizes]


# -- The reference and the laws --------------------------------------------------------------------

LENGTHS = st.lists(st.integers(0, 25), min_size=1, max_size=14)


@st.composite
def rules(draw: st.DrawFn) -> reference.Rule:
    align = draw(st.integers(1, 4))
    seq_len = align * draw(st.integers(1, 5))
    return reference.Rule(
        seq_len,
        draw(st.sampled_from(["split", "truncate", "drop"])),
        draw(st.sampled_from(["decreasing", "arrival"])),
        draw(st.integers(0, 3)),
        align,
        draw(st.integers(1, seq_len)),
    )


def planned_by(rule: reference.Rule, lengths: list[int], **options: Any) -> PackingPlan:
    return best_fit(
        lengths,
        rule.seq_len,
        long_documents=rule.long_documents,
        item_order=rule.item_order,
        max_documents=rule.max_documents or None,
        align=rule.align,
        min_fragment=rule.min_fragment,
        **options,
    )


@given(
    lengths=LENGTHS,
    rule=rules(),
    window=st.integers(1, 6),
    epoch=st.sampled_from([0, 1, 2**40 - 1]),
    seed=st.integers(0, 3),
    shuffle=st.booleans(),
    virtual=st.sampled_from([(None, None), (1, None), (None, 2), (1, 2)]),
    keep_empty=st.booleans(),
    cost_groups=st.integers(0, 4),
)
def test_rows_readers_and_stats_are_the_reference_s(
    lengths: list[int],
    rule: reference.Rule,
    window: int,
    epoch: int,
    seed: int,
    shuffle: bool,
    virtual: tuple[int | None, int | None],
    keep_empty: bool,
    cost_groups: int,
) -> None:
    bos, eos = virtual
    options: dict[str, Any] = {"seed": seed, "shuffle": shuffle, "keep_empty": keep_empty}
    if shuffle and cost_groups:
        options["cost_groups"] = cost_groups
    plan = planned_by(rule, lengths, bos=bos, eos=eos, window_documents=window, **options)
    order = plan.order.indices(epoch, 0, len(lengths)).tolist()
    num_virtual = (bos is not None) + (eos is not None)
    sizes = reference.sizes_of(lengths, num_virtual, keep_empty)
    key = (seed, epoch) if shuffle else None
    windows = reference.best_fit(sizes, order, rule, window, key, cost_groups)
    assert all_rows(plan, epoch) == as_lists(list(chain.from_iterable(windows)))
    assert readers_of(plan, epoch) == reference.best_fit_readers(windows)
    stats = plan.stats(epoch)
    assert stats.num_left == reference.cut(sizes, order, rule)[1].num_tokens_dropped
    assert stats.num_tokens + stats.num_left == sum(sizes)
    assert stats.num_tokens + stats.num_padding == rule.seq_len * stats.num_rows
    laws.rows_hold(plan, epoch, sizes, stats.num_left, align=rule.align, most=rule.max_documents)


@given(lengths=LENGTHS, rule=rules(), epoch=st.integers(0, 3), data=st.data())
def test_planning_in_pieces_changes_nothing(
    lengths: list[int], rule: reference.Rule, epoch: int, data: st.DataObject
) -> None:
    plan = planned_by(rule, lengths)
    num_rows = plan.num_rows(epoch)
    edges = data.draw(st.lists(st.integers(0, num_rows), min_size=2, max_size=5).map(sorted))
    laws.rows_split_invariance(plan, epoch, edges[0], np.diff(edges).tolist())


@given(lengths=LENGTHS, rule=rules(), epoch=st.integers(0, 3))
def test_every_reader_resumes(lengths: list[int], rule: reference.Rule, epoch: int) -> None:
    laws.every_reader_resumes(partial(planned_by, rule, lengths), epoch)


def test_many_rows_of_a_window_are_permuted_by_the_network() -> None:
    num_rows = 5000
    plan = best_fit([1] * num_rows, 1, window_documents=num_rows, seed=9)
    documents = plan.rows(2, 0, num_rows)[0][:, 0]
    order = plan.order.indices(2, 0, num_rows)
    permutation = reference.row_permutation(num_rows, 9, 2, 0)
    assert documents.tolist() == [order[permutation.index_at(row)] for row in range(num_rows)]


@pytest.mark.parametrize(
    "rule",
    [
        reference.Rule(512),
        reference.Rule(512, item_order="arrival"),
        reference.Rule(512, max_documents=3, align=16),
        reference.Rule(512, "truncate", "arrival", 3, 8),
    ],
    ids=["plain", "arrival", "max-documents", "all"],
)
def test_rows_of_windows_of_thousands_of_documents_are_the_reference_s(
    rule: reference.Rule,
) -> None:
    lengths = np.random.default_rng(0).lognormal(4, 1.3, 4000).astype(np.int64).tolist()
    plan = planned_by(rule, lengths, window_documents=1500, seed=4)
    order = plan.order.indices(1, 0, len(lengths)).tolist()
    windows = reference.best_fit(lengths, order, rule, 1500, (4, 1))
    assert all_rows(plan, 1) == as_lists(list(chain.from_iterable(windows)))


def test_cost_groups_bring_rows_of_like_costs_together() -> None:
    lengths = np.random.default_rng(0).lognormal(4, 1.3, 4000).astype(np.int64)
    plain, grouped = (
        best_fit(lengths, 512, window_documents=4000, cost_groups=groups) for groups in (None, 16)
    )
    assert plain.parameters | {"cost_groups": 16} == grouped.parameters
    assert sorted(all_rows(plain)) == sorted(all_rows(grouped))
    costs = [sum((stop - start) ** 2 for _, start, stop in row) for row in all_rows(grouped)]
    short = len(costs) % 16
    low, high = min(costs), max(costs)
    for offset in (0, short):  # the short group may come before or after
        groups = [costs[first : first + 16] for first in range(offset, len(costs), 16)]
        spreads = [max(group) - min(group) for group in groups if len(group) == 16]
        if np.median(spreads) < (high - low) / 20:
            return
    raise AssertionError("no groups of like costs")


# -- Sizes at the limits ---------------------------------------------------------------------------


def test_windows_without_a_row_are_stepped_over() -> None:
    lengths = [0, 0, 0, 9, 9, 0, 2, 3, 0, 0, 0, 1, 9, 0]
    options = {"long_documents": "drop", "window_documents": 2, "shuffle": False}
    plan = best_fit(lengths, 4, **options)
    assert all_rows(plan) == [[[7, 0, 3]], [[6, 0, 2]], [[11, 0, 1]]]
    assert readers_of(plan) == [(3, 1), (4, 0), (6, 0)]
    laws.every_reader_resumes(partial(best_fit, lengths, 4, **options), 0)
    for position, row, first in [(1, 0, [7, 0, 3]), (3, 0, [7, 0, 3]), (5, 2, [11, 0, 1])]:
        assert plan.rows_from(0, (position, 0), row, 1).spans.tolist() == [first]


@pytest.mark.parametrize(
    ("lengths", "long_documents"), [([0, 0, 0, 0], "split"), ([9, 8, 7], "drop")]
)
def test_an_epoch_without_a_row_has_length_zero(lengths: list[int], long_documents: str) -> None:
    plan = best_fit(lengths, 4, window_documents=1, long_documents=long_documents)
    assert len(plan) == 0
    assert plan.rows(0, 0, 0)[1].tolist() == [0]
    assert plan.stats(0).num_left == sum(lengths)
    assert plan.stats(0).density == 1.0


def test_a_document_of_many_rows_is_cut_into_all_of_them() -> None:
    plan = natural([10**6 + 1, 3], 4)
    assert len(plan) == 250_001
    assert plan.rows(0, 249_999, 2)[0].tolist() == [
        [0, 999_996, 1_000_000],
        [0, 1_000_000, 1_000_001],
        [1, 0, 3],
    ]


@pytest.mark.parametrize("seq_len", [1, 2**24])
def test_the_shortest_and_the_longest_rows(seq_len: int) -> None:
    assert all_rows(natural([1], seq_len)) == [[[0, 0, 1]]]
    assert all_rows(natural([seq_len + 1], seq_len)) == [
        [[0, 0, seq_len]],
        [[0, seq_len, seq_len + 1]],
    ]


def test_more_tokens_than_can_be_counted_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"fewer than 2\*\*32 pieces"):
        len(natural([2**40], 1))
    with pytest.raises(ArgumentError, match="a window must hold at most"):
        len(natural([2**62], 8, long_documents="drop"))


def test_the_number_of_rows_differs_from_epoch_to_epoch() -> None:
    plan = best_fit([3, 3, 1, 1, 4, 2, 2], 4, window_documents=2)
    numbers = [plan.num_rows(epoch) for epoch in range(20)]
    assert len(set(numbers)) > 1
    assert len(plan) == numbers[0]
    assert [len(all_rows(plan, epoch)) for epoch in range(20)] == numbers


# -- Orders ----------------------------------------------------------------------------------------


def test_rows_keep_their_order_where_documents_do() -> None:
    lengths = [2] * 50
    for options in ({"shuffle": False}, {"order": range_of(50)}, {"order": dc.Sequential(50)}):
        documents = best_fit(lengths, 2, window_documents=20, **options).rows(0, 0, 50)[0][:, 0]
        assert documents.tolist() == list(range(50))


def range_of(n: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.arange(n)


@pytest.mark.parametrize(
    "order",
    [
        dc.BlockShuffle(40, 5, 2, seed=3),
        dc.Subset(list(range(0, 40, 3)), num_samples=40, seed=3),
        dc.Mixture([dc.Shuffle(10), dc.Shuffle(30)], [0.5, 0.5], seed=3, block=4),
        dc.Weighted(np.arange(40.0), num_positions=60, seed=3),
    ],
    ids=lambda order: type(order).__name__,
)
def test_windows_follow_any_order(order: dc.Order) -> None:
    lengths = [(7 * n) % 13 for n in range(40)]
    plan = best_fit(lengths, 8, order=order, window_documents=7)
    for epoch in (0, 2):
        documents = order.indices(epoch, 0, order.num_positions(epoch)).tolist()
        windows = reference.best_fit(lengths, documents, reference.Rule(8), 7, (3, epoch))
        assert all_rows(plan, epoch) == as_lists(list(chain.from_iterable(windows)))
        assert plan.stats(epoch).num_documents == len(documents)
    laws.every_reader_resumes(partial(best_fit, lengths, 8, order=order, window_documents=7), 1)


def test_an_endless_mixture_is_packed_from_any_window() -> None:
    lengths = [(7 * n) % 13 for n in range(40)]
    order = dc.Mixture(
        [dc.Shuffle(10), dc.Shuffle(30)], [0.5, 0.5], seed=3, block=4, stopping="forever"
    )
    plan = best_fit(lengths, 8, order=order, window_documents=7)
    documents = order.indices(0, 0, 7 * 30).tolist()
    windows = reference.best_fit(lengths, documents, reference.Rule(8), 7, (3, 0))
    rows = as_lists(list(chain.from_iterable(windows)))
    assert laws.planned(plan, 0, 0, len(rows)) == rows
    readers = reference.best_fit_readers(windows)
    for row in (5, len(rows) // 2):
        fresh = best_fit(lengths, 8, order=order, window_documents=7)
        assert fresh.reader_of(0, row) == readers[row - 1]
        block = fresh.rows_from(0, readers[row - 1], row, 3)
        assert laws.split_rows(block.spans, block.row_offsets) == rows[row : row + 3]
    with pytest.raises(ArgumentError, match="stats need an epoch that ends"):
        plan.stats(0)


@pytest.mark.parametrize("packing", ["concat", "best_fit"])
def test_an_endless_mixture_of_empty_documents_has_no_rows(packing: str) -> None:
    order = dc.Mixture([dc.Shuffle(2)], [1.0], stopping="forever")
    options: dict[str, Any] = {"packing": packing, "long_documents": "split", "order": order}
    plan = PackingPlan([0, 0], seq_len=4, **options)
    assert len(plan) == 0


# -- One plan in many hands ------------------------------------------------------------------------


def busy_plan() -> PackingPlan:
    lengths = np.random.default_rng(1).integers(0, 900, 20_000)
    return best_fit(lengths, 512, window_documents=1000, seed=2)


def rows_of_epoch(plan: PackingPlan, epoch: int, row: int) -> laws.Rows:
    return laws.planned(plan, epoch, row, 5)


def test_a_plan_can_be_pickled() -> None:
    plan = busy_plan()
    expected = rows_of_epoch(plan, 1, 700)
    assert rows_of_epoch(pickle.loads(pickle.dumps(plan)), 1, 700) == expected


def test_several_threads_may_use_one_plan() -> None:
    calls = [(epoch, row) for row in range(0, 15_000, 500) for epoch in (0, 1)]
    plan = busy_plan()
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda call: rows_of_epoch(plan, *call), calls))
    alone = busy_plan()
    assert answers[::2] == [rows_of_epoch(alone, *call) for call in calls[::2]]
    assert answers[1::2] == [rows_of_epoch(alone, *call) for call in calls[1::2]]


def sum_of_rows(plan: PackingPlan, row: int) -> int:
    return int(plan.rows_from(0, plan.reader_of(0, row), row, 2000).spans.sum())


def _send_sum(plan: PackingPlan, row: int, pipe: Any) -> None:
    pipe.send(sum_of_rows(plan, row))


def sum_in_a_fork(plan: PackingPlan, row: int) -> int:
    ours, theirs = FORK.Pipe(duplex=False)
    child = FORK.Process(target=_send_sum, args=(plan, row, theirs))
    child.start()
    theirs.close()
    try:
        if not ours.poll(TIMEOUT_SECONDS):
            raise TimeoutError(f"no answer from a fork in {TIMEOUT_SECONDS} s")
        answer: int = ours.recv()
        child.join(TIMEOUT_SECONDS)
        assert child.exitcode == 0
        return answer
    finally:
        child.kill()
        child.join()
        ours.close()


def test_a_fork_plans_on_while_its_parent_packs_ahead() -> None:
    plan = busy_plan()
    rows = range(0, 6000, 600)
    sums = []
    for row in rows:
        plan.rows(0, row, 1)  # packs another window, and starts to pack the next
        sums.append(sum_in_a_fork(plan, row))
    alone = busy_plan()
    assert sums == [sum_of_rows(alone, row) for row in rows]


def test_counting_many_windows_keeps_few_of_them_in_memory() -> None:
    plan = best_fit([1] * 8192, 4, window_documents=1)
    tracemalloc.start()
    try:
        assert len(plan) == 8192
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 6 * 2**20  # 16 MB if all windows were asked for at once


# -- Documents passed ------------------------------------------------------------------------------


@given(lengths=LENGTHS, rule=rules(), epoch=st.integers(0, 2))
def test_a_document_is_passed_with_the_last_row_that_holds_it(
    lengths: list[int], rule: reference.Rule, epoch: int
) -> None:
    plan = planned_by(rule, lengths)
    reader = Reader(0, 0)
    rows = all_rows(plan, epoch)
    for row in range(len(rows)):
        later = {document for spans in rows[row:] for document, _, _ in spans}
        before = {document for spans in rows[:row] for document, _, _ in spans}
        for document in range(len(lengths)):
            if document in before | later:
                assert plan.is_passed(epoch, reader, document) == (document not in later)
        reader = plan.rows_from(epoch, reader, row, 1).reader


# -- Wrong arguments -------------------------------------------------------------------------------


def test_a_document_that_is_too_long_is_named() -> None:
    plan = best_fit([3, 0, 9, 2], 4, long_documents="error")
    with pytest.raises(CorpusError, match="document 2 has 9 tokens, more than seq_len=4; choose"):
        len(plan)


@pytest.mark.parametrize(
    ("reader", "message"),
    [
        ((-1, 0), r"reader.position must be in \[0, 4\), got reader.position=-1"),
        ((4, 0), "got reader.position=4"),
        ((0, -1), "reader.offset=-1"),
        ((0, 9), "got reader.offset=9"),
        ((3, 0), r"reader.position must be in \[0, 3\), got reader.position=3"),
    ],
)
def test_readers_that_cannot_be_right_are_refused(reader: tuple[int, int], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        best_fit([3, 1, 2, 2, 4, 1], 4, window_documents=2).rows_from(0, reader, 1, 1)
