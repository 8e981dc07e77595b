"""`PackedSampler` over best_fit and chunk: right values, exact resume, every layout and order."""

from __future__ import annotations

import copy
import pickle
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import chain, islice, pairwise
from typing import Any

import laws
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packed import IGNORE, commit_from, counted, deliver, field, make
from runs import fresh

import datacursor as dc

BEST_FIT: dict[str, Any] = {"packing": "best_fit", "long_documents": "split"}
CHUNK: dict[str, Any] = {"packing": "chunk"}
PLANS = {
    "concat": {"packing": "concat"},
    "best_fit": BEST_FIT | {"window_documents": 16},
    "best_fit limited": BEST_FIT
    | {"window_documents": 7, "max_documents": 3, "align": 4, "min_fragment": 5},
    "best_fit truncated": BEST_FIT | {"long_documents": "truncate", "window_documents": 9},
    "chunk": CHUNK,
    "chunk dropped": CHUNK | {"tail": "drop"},
}
EVERY_PLAN = pytest.mark.parametrize("name", PLANS)
IG = IGNORE


# -- Right values ----------------------------------------------------------------------------------

CASES: dict[str, tuple[dict[str, Any], dict[str, list[list[int]]]]] = {
    "8 split": (
        {"documents": counted(14, 7, 5, 2, 3), "seq_len": 8},
        {
            "spans": [[0, 0, 8], [1, 0, 7], [0, 8, 14, 3, 0, 2], [2, 0, 5, 4, 0, 3]],
            "input_ids": [
                [1, 2, 3, 4, 5, 6, 7, 8],
                [15, 16, 17, 18, 19, 20, 21, 0],
                [9, 10, 11, 12, 13, 14, 27, 28],
                [22, 23, 24, 25, 26, 29, 30, 31],
            ],
            "labels": [
                [2, 3, 4, 5, 6, 7, 8, 9],
                [16, 17, 18, 19, 20, 21, IG, IG],
                [10, 11, 12, 13, 14, IG, 28, IG],
                [23, 24, 25, 26, IG, 30, 31, IG],
            ],
            "position_ids": [
                [0, 1, 2, 3, 4, 5, 6, 7],
                [0, 1, 2, 3, 4, 5, 6, 0],
                [0, 1, 2, 3, 4, 5, 0, 1],
                [0, 1, 2, 3, 4, 0, 1, 2],
            ],
            "cu_seqlens": [[0, 8], [0, 7, 8], [0, 6, 8], [0, 5, 8]],
        },
    ),
    "8 positions of the document": (
        {"documents": counted(14, 7, 5, 2, 3), "seq_len": 8, "positions": "document"},
        {
            "position_ids": [
                [0, 1, 2, 3, 4, 5, 6, 7],
                [0, 1, 2, 3, 4, 5, 6, 0],
                [8, 9, 10, 11, 12, 13, 0, 1],
                [0, 1, 2, 3, 4, 0, 1, 2],
            ]
        },
    ),
    "9 split": (
        {"documents": counted(5, 2, 3, 1), "seq_len": 4},
        {
            "input_ids": [[1, 2, 3, 4], [5, 8, 9, 10], [6, 7, 11, 0]],
            "labels": [[2, 3, 4, 5], [IG, 9, 10, IG], [7, IG, IG, IG]],
        },
    ),
    "9 truncate": (
        {"documents": counted(5, 2, 3, 1), "seq_len": 4, "long_documents": "truncate"},
        {
            "input_ids": [[1, 2, 3, 4], [8, 9, 10, 11], [6, 7, 0, 0]],
            "labels": [[2, 3, 4, IG], [9, 10, IG, IG], [7, IG, IG, IG]],
            "loss_mask": [[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0]],
        },
    ),
    "9 drop": (
        {"documents": counted(5, 2, 3, 1), "seq_len": 4, "long_documents": "drop"},
        {"input_ids": [[8, 9, 10, 11], [6, 7, 0, 0]]},
    ),
    "10 ties": (
        {"documents": counted(3, 3, 1, 1), "seq_len": 4},
        {"input_ids": [[1, 2, 3, 7], [4, 5, 6, 8]]},
    ),
    "11 decreasing": (
        {"documents": counted(2, 2, 4, 4), "seq_len": 6},
        {"input_ids": [[1, 2, 5, 6, 7, 8], [3, 4, 9, 10, 11, 12]]},
    ),
    "11 arrival": (
        {"documents": counted(2, 2, 4, 4), "seq_len": 6, "item_order": "arrival"},
        {"input_ids": [[1, 2, 3, 4, 0, 0], [5, 6, 7, 8, 0, 0], [9, 10, 11, 12, 0, 0]]},
    ),
    "12 order inside a row": (
        {"documents": counted(4, 4, 5, 5), "seq_len": 9},
        {"input_ids": [[1, 2, 3, 4, *range(9, 14)], [5, 6, 7, 8, *range(14, 19)]]},
    ),
    "14 max_documents": (
        {"documents": counted(1, 1, 1, 1, 1), "seq_len": 8, "max_documents": 2},
        {"input_ids": [[1, 2, *[0] * 6], [3, 4, *[0] * 6], [5, *[0] * 7]]},
    ),
    "15 align": (
        {"documents": counted(3, 5, 2), "seq_len": 12, "align": 4},
        {
            "input_ids": [[1, 2, 3, 0, 4, 5, 6, 7, 8, 0, 0, 0], [9, 10, *[0] * 10]],
            "labels": [[2, 3, IG, IG, 5, 6, 7, 8, *[IG] * 4], [10, *[IG] * 11]],
            "segment_ids": [[0] * 4 + [1] * 8, [0] * 4 + [-1] * 8],
            "cu_seqlens": [[0, 4, 12], [0, 4, 12]],
            "max_seqlen": [[8], [8]],
            "spans": [[0, 0, 3, 1, 0, 5], [2, 0, 2]],
        },
    ),
    "16 windows": (
        {"documents": counted(3, 1, 2, 2, 4, 1), "seq_len": 4, "window_documents": 2},
        {"input_ids": [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 0, 0, 0]]},
    ),
    "D21 whole documents": (
        {"documents": counted(6, 6, 6, 6), "seq_len": 8},
        {"segment_ids": [[0] * 6 + [-1] * 2] * 4, "cu_seqlens": [[0, 6, 8]] * 4},
    ),
    "D22 split": (
        {"documents": counted(13, 11), "seq_len": 10},
        {"cu_seqlens": [[0, 10], [0, 10], [0, 3, 4, 10]], "max_seqlen": [[10], [10], [6]]},
    ),
    "D22 truncate": (
        {"documents": counted(13, 11), "seq_len": 10, "long_documents": "truncate"},
        {"cu_seqlens": [[0, 10], [0, 10]], "num_targets": [[9], [9]]},
    ),
    "D23": (
        {"documents": counted(3, 2), "seq_len": 5},
        {"position_ids": [[0, 1, 2, 0, 1]], "num_targets": [[3]]},
    ),
    "D23 with padding": (
        {"documents": counted(3, 2), "seq_len": 8},
        {
            "num_targets": [[3]],
            "loss_mask": [[1, 1, 0, 1, 0, 0, 0, 0]],
            "segment_ids": [[0, 0, 0, 1, 1, -1, -1, -1]],
            "cu_seqlens": [[0, 3, 5, 8]],
        },
    ),
}


@pytest.mark.parametrize("num_workers", [0, 2])
def test_rows_of_a_small_corpus(num_workers: int) -> None:
    # With workers one case is enough: they gather and never plan.
    names = CASES if num_workers == 0 else ["15 align"]
    for name in names:
        arguments, expected = CASES[name]
        batches = list(deliver(make(**(BEST_FIT | arguments)), num_workers))
        for key, values in expected.items():
            if isinstance(batches[0][key], int):
                assert [[batch[key]] for batch in batches] == values, (name, key)
            else:
                assert field(batches, key) == values, (name, key)


def test_unshuffled_chunks_are_the_rows_of_concat() -> None:
    for lengths in ((3, 2, 5), (5, 3, 0, 7, 1), (13, 11), (1, 0, 2, 0, 1)):
        for tail in ("pad", "drop"):
            chunks, joined = (
                list(deliver(make(counted(*lengths), 4, eos=99, tail=tail, packing=packing)))
                for packing in ("chunk", "concat")
            )
            for name in ("input_ids", "labels", "position_ids", "cu_seqlens", "spans"):
                assert field(chunks, name) == field(joined, name)


def test_case_16_the_cursor_names_the_window_and_the_row_in_it() -> None:
    rows = make(counted(3, 1, 2, 2, 4, 1), 4, window_documents=2, **BEST_FIT)
    seen = []
    for _ in deliver(rows):
        rows.commit()
        seen.append((rows.cursor.epoch, rows.cursor.reader_position, rows.cursor.reader_offset))
    assert seen == [(0, 1, 0), (0, 2, 0), (0, 2, 1), (1, 0, 0)]
    assert rows.cursor.tokens_committed == 13
    rows.seek(0, 3)
    assert "row 3 \u00b7 window 2 + 1 rows" in str(rows.cursor)


def test_d21_whole_documents_resume_at_the_next_document() -> None:
    rows = make(counted(6, 6, 6, 6), 8, **BEST_FIT)
    list(islice(deliver(rows), 2))  # one of them only issued
    rows.commit(1)
    resumed = make(counted(6, 6, 6, 6), 8, **BEST_FIT)
    resumed.load_state_dict(rows.state_dict())
    assert field(deliver(resumed), "spans") == [[1, 0, 6], [2, 0, 6], [3, 0, 6]]


@pytest.mark.parametrize(
    ("long_documents", "lengths", "seq_len", "num_left"),
    [("truncate", (13, 11), 10, 4), ("truncate", (5, 2, 3, 1), 4, 1), ("drop", (5, 2, 3, 1), 4, 5)],
)
def test_what_is_left_out_is_reported(
    long_documents: str, lengths: tuple[int, ...], seq_len: int, num_left: int
) -> None:
    options = BEST_FIT | {"long_documents": long_documents}
    stats = make(counted(*lengths), seq_len, **options).plan.stats(0)
    assert stats.num_left == num_left
    assert stats.num_truncated + stats.num_dropped == (2 if lengths == (13, 11) else 1)


@pytest.mark.parametrize("packing", [BEST_FIT, CHUNK])
def test_case_23_row_starts_are_always_boundaries(packing: dict[str, Any]) -> None:
    batch = next(deliver(make([[1, 2, 3, 4], [5], [6, 7, 8]], 4, batch_size=2, **packing)))
    assert batch["cu_seqlens"].tolist() == [0, 4, 5, 8]


# -- Exact resume ----------------------------------------------------------------------------------


def corpus() -> dc.TokenCorpus:
    generator = np.random.default_rng(0)
    lengths = generator.integers(0, 40, 60)
    return dc.TokenCorpus.open([generator.integers(1, 1000, length) for length in lengths])


def make_shuffled(name: str, batch_size: int = 2, **options: Any) -> dc.PackedSampler:
    defaults = PLANS[name] | {"seq_len": 32, "seed": 3}
    return dc.PackedSampler(corpus(), batch_size=batch_size, **(defaults | options))


class WithSpans:
    """A sampler that yields what is in a row beside its number, for the laws to compare."""

    def __init__(self, rows: dc.PackedSampler, epoch: int = 0) -> None:
        self.batch_size = rows.batch_size
        self.commit, self.state_dict = rows.commit, rows.state_dict
        self.load_state_dict = rows.load_state_dict
        self.plan = rows.plan
        self._rows = rows
        if epoch > 0:
            rows.set_epoch(epoch)

    def __iter__(self) -> Iterator[Any]:
        for row in self._rows:
            yield int(row), row.spans.tolist()  # type: ignore[attr-defined]


@EVERY_PLAN
def test_any_state_is_resumed_exactly_on_both_sides_of_an_epoch_s_end(name: str) -> None:
    def make_late() -> WithSpans:
        return WithSpans(make_shuffled(name, batch_size=4), epoch=1)

    num_batches = -(-make_late().plan.num_rows(1) // 4) + 3
    laws.restore_at_every_step(make_late, num_batches)
    laws.restore_after_every_step(make_late, num_batches)


@settings(max_examples=25)
@given(
    lengths=st.lists(st.integers(0, 30), min_size=1, max_size=12).filter(any),
    align=st.integers(1, 3),
    packing=st.sampled_from(["best_fit", "chunk"]),
    long_documents=st.sampled_from(["split", "truncate"]),
    max_documents=st.sampled_from([None, 1, 3]),
    window_documents=st.integers(1, 5),
    batch_size=st.integers(1, 3),
    eos=st.sampled_from([None, 7]),
)
def test_any_state_is_resumed_exactly_whatever_the_options(
    lengths: list[int],
    align: int,
    packing: str,
    long_documents: str,
    max_documents: int | None,
    window_documents: int,
    batch_size: int,
    eos: int | None,
) -> None:
    options: dict[str, Any] = {"packing": packing, "eos": eos, "shuffle": True}
    if packing == "best_fit":
        options |= {"long_documents": long_documents, "max_documents": max_documents}
        options |= {"align": align, "window_documents": window_documents}
    documents = counted(*lengths)

    def make_late() -> WithSpans:
        return WithSpans(make(documents, 6 * align, batch_size, **options), epoch=1)

    num_rounds = -(-make_late().plan.num_rows(1) // batch_size)
    laws.restore_at_every_step(make_late, num_rounds + 2)


def train(
    name: str, state: dict[str, Any] | None, num_updates: int, num_workers: int, **options: Any
) -> tuple[list[list[int]], dict[str, Any]]:
    """Commit some updates from a state; return the spans of each row and the new state."""
    return commit_from(make_shuffled(name, **options), state, num_updates, num_workers)


@pytest.mark.parametrize(("name", "num_workers"), [("best_fit", 2), ("chunk", 0)])
def test_fresh_processes_resume_twice_in_later_epochs(name: str, num_workers: int) -> None:
    num_rows = len(make_shuffled(name))
    whole, _ = train(name, None, num_rows + 30, 0)
    first, state = fresh(train, name, None, num_rows // 2 + 10, num_workers)
    second, state = fresh(train, name, state, 7, num_workers, batch_size=5)
    third, _ = fresh(train, name, state, 9, num_workers, batch_size=1)
    seen = first + second + third
    assert seen == whole[: len(seen)]
    assert len(first) > num_rows


@EVERY_PLAN
@pytest.mark.parametrize("num_replicas", [1, 2, 4])
def test_case_24_every_layout_deals_out_the_same_rows(name: str, num_replicas: int) -> None:
    plan = make_shuffled(name).plan
    spans, offsets = plan.rows(1, 0, plan.num_rows(1))
    expected = [spans[a:b].tolist() for a, b in pairwise(offsets)]
    seen: dict[int, list[list[int]]] = {}
    for rank in range(num_replicas):
        rows = make_shuffled(name, batch_size=3, num_replicas=num_replicas, rank=rank)
        rows.set_epoch(1)
        for row in rows:
            if not row.is_padding:  # type: ignore[attr-defined]
                assert int(row) not in seen
                seen[int(row)] = row.spans.tolist()  # type: ignore[attr-defined]
    assert [seen[row] for row in sorted(seen)] == expected


@pytest.mark.parametrize("name", ["concat", "best_fit", "chunk"])
def test_case_24_every_token_comes_once_and_all_but_the_first_are_targets(name: str) -> None:
    documents = [corpus().document(i).tolist() for i in range(corpus().num_documents)]
    tokens: list[int] = []
    targets: list[int] = []
    for batch in deliver(make_shuffled(name, batch_size=4)):
        tokens += batch["input_ids"][batch["segment_ids"] >= 0].tolist()
        targets += batch["labels"][batch["loss_mask"]].tolist()
    assert sorted(tokens) == sorted(chain.from_iterable(documents))
    assert sorted(targets) == sorted(chain.from_iterable(document[1:] for document in documents))


def test_the_length_of_an_epoch_is_its_own_with_best_fit() -> None:
    rows = make_shuffled("best_fit", batch_size=1)
    lengths = []
    for epoch in range(4):
        assert rows.cursor.epoch == epoch
        batches = deliver(rows)
        assert len(rows) == rows.remaining() == rows.plan.num_rows(epoch)
        for _ in batches:
            rows.commit()
        lengths.append(rows.plan.num_rows(epoch))
    assert len(set(lengths)) > 1
    assert rows.cursor.updates_committed == sum(lengths)


@EVERY_PLAN
def test_seek_reaches_any_row_and_spans_of_says_what_it_holds(name: str) -> None:
    rows = make_shuffled(name, batch_size=3)
    for epoch, row in ((0, 0), (0, 1), (1, 6), (1, 21)):
        expected, _ = rows.spans_of(epoch, row // 3)
        rows.seek(epoch, row // 3 * 3)
        assert next(deliver(rows))["spans"].tolist() == expected.tolist()
        twin = make_shuffled(name, batch_size=3)
        twin.load_cursor(rows.cursor)
        assert next(deliver(twin))["spans"].tolist() == expected.tolist()


@EVERY_PLAN
def test_samplers_can_be_copied(name: str) -> None:
    rows = make_shuffled(name)
    list(islice(deliver(rows), 3))
    rows.commit(2)
    for twin in (pickle.loads(pickle.dumps(rows)), copy.deepcopy(rows)):
        assert twin.cursor == rows.cursor
        assert next(deliver(twin))["spans"].tolist() == next(deliver(rows))["spans"].tolist()


def test_committed_tells_which_documents_are_done() -> None:
    rows = make_shuffled("best_fit", batch_size=1, seed=5)
    rows.set_epoch(1)
    left = Counter(
        document for spans in rows_of_epoch(rows, 1) for document in {span[0] for span in spans}
    )
    with_tokens = set(left)
    for batch in deliver(rows):
        rows.commit()
        if rows.cursor.epoch != 1:
            break
        left -= Counter(set(batch["spans"][:, 0].tolist()))
        assert {d for d in with_tokens if rows.committed(d)} == with_tokens - set(left)
    assert not left - Counter(set(batch["spans"][:, 0].tolist()))


def rows_of_epoch(rows: dc.PackedSampler, epoch: int) -> laws.Rows:
    return laws.planned(rows.plan, epoch, 0, rows.plan.num_rows(epoch))


def test_chunk_does_not_know_which_documents_are_done() -> None:
    with pytest.raises(ValueError, match="whether all of document 2 was committed is not known"):
        make_shuffled("chunk").committed(2)


# -- Orders ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "order",
    [
        dc.BlockShuffle(60, 5, 3, seed=3),
        dc.Subset(list(range(0, 60, 2)), num_samples=60, seed=3),
        dc.Mixture([dc.Shuffle(20), dc.Shuffle(40)], [0.5, 0.5], seed=3, block=4),
        dc.Mixture(
            [dc.Shuffle(20), dc.Shuffle(40)], [0.5, 0.5], seed=3, block=4, stopping="forever"
        ),
    ],
    ids=["BlockShuffle", "Subset", "Mixture", "Mixture-forever"],
)
def test_best_fit_resumes_over_any_order(order: dc.Order) -> None:
    make_ordered = partial(make_shuffled, "best_fit", batch_size=3, order=order)
    laws.restore_at_every_step(lambda: WithSpans(make_ordered(seed=0)), 20)


# -- What is refused -------------------------------------------------------------------------------


def state_after(name: str, num_updates: int, **options: Any) -> dict[str, Any]:
    rows = make_shuffled(name, **options)
    list(islice(deliver(rows), num_updates))
    if num_updates > 0:
        rows.commit(num_updates)
    return rows.state_dict()


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("best_fit", {"long_documents": "drop"}),
        ("best_fit", {"window_documents": 17}),
        ("best_fit", {"max_documents": 9}),
        ("best_fit", {"item_order": "arrival"}),
        ("best_fit", {"align": 2}),
        ("best_fit", {"min_fragment": 2}),
        ("best_fit", {"order": dc.Shuffle(60, 3), "shuffle": False}),
        ("chunk", {"tail": "drop"}),
        ("chunk", {"shuffle": False}),
        ("chunk", {"eos": 7}),
    ],
)
def test_another_plan_is_refused(name: str, changed: dict[str, Any]) -> None:
    other = make_shuffled(name, **({"seed": 0} if "order" in changed else {}), **changed)
    with pytest.raises(dc.CursorMismatchError, match="plan") as error:
        other.load_state_dict(state_after(name, 2))
    option, value = next(item for item in changed.items() if item[0] != "order")
    shown = {"shuffle": ("shuffle_rows", value)}.get(option, (option, value))
    assert f"{shown[0]!r}: {shown[1]!r}" in str(error.value)


@pytest.mark.parametrize(("old", "new"), [("concat", "best_fit"), ("best_fit", "chunk")])
def test_another_packing_is_refused(old: str, new: str) -> None:
    with pytest.raises(dc.CursorMismatchError, match="packing") as error:
        make_shuffled(new).load_state_dict(state_after(old, 2))
    assert f"in cursor:  {old}" in str(error.value)
    assert f"in sampler: {new}" in str(error.value)


@pytest.mark.parametrize("name", ["best_fit", "chunk"])
def test_case_21_another_seq_len_is_refused_inside_an_epoch(name: str) -> None:
    state = state_after(name, 2)
    with pytest.raises(dc.CursorMismatchError, match="seq_len\n  in cursor:  32\n  in sampler: 64"):
        make_shuffled(name, seq_len=64).load_state_dict(state)
    with pytest.raises(dc.CursorMismatchError, match="seq_len cannot change inside an epoch") as e:
        make_shuffled(name, seq_len=64).load_state_dict(state, allow_changed={"seq_len"})
    assert all(text in str(e.value) for text in ("seq_len=32", "position 4", "seq_len=64"))


@pytest.mark.parametrize("name", ["concat", "best_fit", "chunk"])
def test_another_seq_len_is_accepted_at_the_start_of_an_epoch(name: str) -> None:
    rows = make_shuffled(name, seq_len=64)
    rows.load_state_dict(state_after(name, 0), allow_changed={"seq_len"})
    expected = make_shuffled(name, seq_len=64)
    assert next(deliver(rows))["spans"].tolist() == next(deliver(expected))["spans"].tolist()
    assert rows.cursor.accepted == ("seq_len",)


@EVERY_PLAN
def test_an_epoch_is_resumed_at_its_end_while_rows_are_deferred(name: str) -> None:
    rows = make_shuffled(name, on_skip="defer")
    rows.seek(1, 0)
    for number, _ in enumerate(islice(deliver(rows), rows.remaining())):
        rows.skip() if number == 1 else rows.commit()
    assert rows.cursor.deferred == ((2, 2),)
    resumed = make_shuffled(name)
    resumed.load_state_dict(rows.state_dict())
    (batch,) = deliver(resumed)
    assert batch["spans"].tolist() == resumed.plan.rows(1, 2, 2)[0].tolist()
    resumed.commit()
    assert (resumed.cursor.epoch, resumed.cursor.position) == (2, 0)


@pytest.mark.parametrize(
    "changes",
    [
        {"position": 0},
        {"reader_position": 0, "reader_offset": 0},
        {"reader_offset": 9},
        {"reader_position": 3},
        {"reader_position": 2, "reader_offset": 1},
    ],
)
def test_a_cursor_that_contradicts_itself_is_refused(changes: dict[str, int]) -> None:
    options = BEST_FIT | {"window_documents": 2}
    rows = make(counted(3, 1, 2, 2, 4), 4, **options)
    list(islice(deliver(rows), 1))
    rows.commit(1)
    bent = rows.cursor.replace(**changes)
    with pytest.raises(dc.CursorMismatchError, match="contradicts itself"):
        make(counted(3, 1, 2, 2, 4), 4, **options).load_cursor(bent)


def test_a_reader_of_chunk_is_refused() -> None:
    cursor = make_shuffled("chunk").cursor.replace(position=1, reader_position=1)
    with pytest.raises(dc.CursorMismatchError, match="contradicts itself"):
        make_shuffled("chunk").load_cursor(cursor)


@pytest.mark.parametrize(
    ("documents", "options"),
    [
        ([[], []], BEST_FIT),
        (counted(9, 8), BEST_FIT | {"long_documents": "drop"}),
        ([[], []], CHUNK),
        (counted(1, 2), CHUNK | {"tail": "drop"}),
    ],
)
def test_an_epoch_without_a_row_is_nothing_to_train_on(
    documents: list[list[int]], options: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match="num_rows=0"):
        make(documents, 4, **options)


def test_a_document_that_is_too_long_is_named() -> None:
    with pytest.raises(dc.CorpusError, match="document 1 has 6 tokens, more than seq_len=4"):
        make(counted(3, 5), 4, eos=1, packing="best_fit", long_documents="error")


def test_numpy_options_make_the_plan_of_plain_ones() -> None:
    plain = make_shuffled("best_fit", max_documents=3, align=4)
    rows = make_shuffled("best_fit", max_documents=np.int64(3), align=np.int32(4))
    rows.load_state_dict(plain.state_dict())
