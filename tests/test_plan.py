"""`PackingPlan`: rows and readers against right values, the reference and the laws."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import laws
import make_vectors
import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

import datacursor as dc
from datacursor.errors import ArgumentError
from datacursor.order import Sequential, Shuffle
from datacursor.plan import PackingPlan
from datacursor.row_block import Reader, RowBlock

Span = tuple[int, int, int]


class Listed(dc.Order):
    """The same given order in every epoch."""

    order_id = 0x8002

    def __init__(self, indices: list[int]) -> None:
        super().__init__(len(indices))
        self._listed = np.array(indices, dtype=np.int64)

    def fill(self, epoch: int, first: int, out: Any) -> None:
        out[:] = self._listed[first : first + len(out)]

    def position_of(self, epoch: int, index: int) -> int:
        return int(np.flatnonzero(self._listed == index)[0])


def natural(lengths: list[int], seq_len: int, **options: Any) -> PackingPlan:
    return PackingPlan(lengths, seq_len=seq_len, **({"shuffle": False} | options))


def whole_epoch(plan: PackingPlan, phase: int = 0) -> RowBlock:
    return plan.rows_from(0, (0, 0), 0, plan.num_rows(0, phase=phase), phase=phase)


def rows_of(block: RowBlock) -> laws.Rows:
    return laws.split_rows(block.spans, block.row_offsets)


def readers_of(plan: PackingPlan, phase: int = 0) -> list[Reader]:
    """The reader behind every row, row by row."""
    readers = [Reader(0, 0)]
    for row in range(plan.num_rows(0, phase=phase)):
        readers.append(plan.rows_from(0, readers[-1], row, 1, phase=phase).reader)
    return readers[1:]


# -- Right values ----------------------------------------------------------------------------------


class Case(NamedTuple):
    lengths: list[int]
    seq_len: int
    options: dict[str, Any]
    rows: list[list[Span]]
    readers: list[tuple[int, int]]


CASES = {
    "1 joined and cut": Case(
        [3, 2, 5],
        4,
        {"tail": "drop"},
        [[(0, 0, 3), (1, 0, 1)], [(1, 1, 2), (2, 0, 3)]],
        [(1, 1), (2, 3)],
    ),
    "2 padded tail": Case(
        [3, 2, 5],
        4,
        {"tail": "pad"},
        [[(0, 0, 3), (1, 0, 1)], [(1, 1, 2), (2, 0, 3)], [(2, 3, 5)]],
        [(1, 1), (2, 3), (3, 0)],
    ),
    "3 row that ends with a document": Case(
        [4, 4], 4, {}, [[(0, 0, 4)], [(1, 0, 4)]], [(1, 0), (2, 0)]
    ),
    "4 empty documents": Case(
        [1, 0, 2, 0, 1], 4, {}, [[(0, 0, 1), (2, 0, 2), (4, 0, 1)]], [(5, 0)]
    ),
    "5 long document": Case(
        [11, 1],
        4,
        {},
        [[(0, 0, 4)], [(0, 4, 8)], [(0, 8, 11), (1, 0, 1)]],
        [(0, 4), (0, 8), (2, 0)],
    ),
    "7 eos counts": Case(
        [2, 1, 3],
        4,
        {"eos": 99},
        [[(0, 0, 3), (1, 0, 1)], [(1, 1, 2), (2, 0, 3)], [(2, 3, 4)]],
        [(1, 1), (2, 3), (3, 0)],
    ),
    "13 no rows": Case([5, 6], 12, {"tail": "drop"}, [], []),
    "17 given order": Case(
        [3, 2, 5],
        4,
        {"tail": "drop", "order": Listed([2, 0, 1])},
        [[(2, 0, 4)], [(2, 4, 5), (0, 0, 3)]],
        [(0, 4), (2, 0)],
    ),
    "D20 concatenate and cut": Case(
        [5, 3, 0, 7, 1],
        4,
        {},
        [
            [(0, 0, 4)],
            [(0, 4, 5), (1, 0, 3)],
            [(3, 0, 4)],
            [(3, 4, 7), (4, 0, 1)],
        ],
        [(0, 4), (2, 0), (3, 4), (5, 0)],
    ),
    "D21 resume": Case(
        [6, 6, 6, 6],
        8,
        {},
        [
            [(0, 0, 6), (1, 0, 2)],
            [(1, 2, 6), (2, 0, 4)],
            [(2, 4, 6), (3, 0, 6)],
        ],
        [(1, 2), (2, 4), (4, 0)],
    ),
    "D22 long documents": Case(
        [13, 11],
        10,
        {"long_documents": "split"},
        [[(0, 0, 10)], [(0, 10, 13), (1, 0, 7)], [(1, 7, 11)]],
        [(0, 10), (1, 7), (2, 0)],
    ),
    "D23 one row": Case([3, 2], 5, {}, [[(0, 0, 3), (1, 0, 2)]], [(2, 0)]),
}


@pytest.mark.parametrize("name", CASES)
def test_rows_and_readers_of_a_small_corpus(name: str) -> None:
    case = CASES[name]
    plan = natural(case.lengths, case.seq_len, **case.options)
    spans, row_offsets = plan.rows(0, 0, len(plan))
    assert laws.split_rows(spans, row_offsets) == [[list(span) for span in r] for r in case.rows]
    assert readers_of(plan) == case.readers
    assert len(plan) == len(case.rows)


def golden_cases() -> dict[str, dict[str, Any]]:
    cases: dict[str, dict[str, Any]] = {}
    for keyword, *words in make_vectors.read("concat.txt"):
        if keyword == "case":
            case = cases[words[0]] = {"rows": []}
        elif keyword == "row":
            case["rows"].append([int(word) for word in words])
        else:
            case[keyword] = [int(word) for word in words]
    return cases


@pytest.mark.parametrize("name", golden_cases())
def test_known_answers(name: str) -> None:
    case = golden_cases()[name]
    seq_len, pad_tail, num_virtual, keep_empty, phase = case["parameters"]
    plan = PackingPlan(
        case["lengths"],
        seq_len=seq_len,
        order=Listed(case["order"]),
        tail="pad" if pad_tail else "drop",
        bos=1 if num_virtual > 1 else None,
        eos=2 if num_virtual > 0 else None,
        keep_empty=bool(keep_empty),
    )
    rows = rows_of(whole_epoch(plan, phase))
    assert [list(chain.from_iterable(row)) for row in rows] == [row[2:] for row in case["rows"]]
    # Behind a padded last row the reader is left open: the epoch is over.
    readers = readers_of(plan, phase)[:-1]
    assert [list(reader) for reader in readers] == [row[:2] for row in case["rows"][:-1]]


# -- The reference and the laws --------------------------------------------------------------------

LENGTHS = st.lists(st.integers(0, 9), min_size=1, max_size=10)


@given(
    lengths=LENGTHS,
    seed=st.integers(0, 3),
    seq_len=st.integers(1, 12),
    tail=st.sampled_from(["pad", "drop"]),
    virtual=st.sampled_from([(None, None), (1, None), (None, 2), (1, 2)]),
    keep_empty=st.booleans(),
    data=st.data(),
)
def test_rows_are_the_reference_s(
    lengths: list[int],
    seed: int,
    seq_len: int,
    tail: Any,
    virtual: tuple[int | None, int | None],
    keep_empty: bool,
    data: st.DataObject,
) -> None:
    phase = data.draw(st.integers(0, seq_len - 1)) if any(lengths) else 0
    bos, eos = virtual
    plan = PackingPlan(
        lengths, seq_len=seq_len, seed=seed, tail=tail, bos=bos, eos=eos, keep_empty=keep_empty
    )
    order = Shuffle(len(lengths), seed).indices(0, 0, len(lengths)).tolist()
    expected = reference.concat(
        lengths,
        order,
        seq_len,
        tail=tail,
        num_virtual=(bos is not None) + (eos is not None),
        keep_empty=keep_empty,
        phase=phase,
    )
    block = whole_epoch(plan, phase)
    assert rows_of(block) == [[list(span) for span in row.spans] for row in expected]
    for row, after in enumerate(expected[:-1], start=1):
        assert plan.reader_of(0, row, phase=phase) == after.reader
        rest = plan.rows_from(0, after.reader, row, len(expected) - row, phase=phase)
        assert rows_of(rest) == rows_of(block)[row:]


@given(lengths=LENGTHS, seq_len=st.integers(1, 12), epoch=st.integers(0, 3), data=st.data())
def test_planning_in_pieces_changes_nothing(
    lengths: list[int], seq_len: int, epoch: int, data: st.DataObject
) -> None:
    plan = PackingPlan(lengths, seq_len=seq_len)
    edges = data.draw(st.lists(st.integers(0, len(plan)), min_size=2, max_size=5).map(sorted))
    laws.rows_split_invariance(plan, epoch, edges[0], np.diff(edges).tolist())


@given(lengths=LENGTHS, seq_len=st.integers(1, 12), epoch=st.integers(0, 3))
def test_every_reader_resumes(lengths: list[int], seq_len: int, epoch: int) -> None:
    laws.every_reader_resumes(partial(PackingPlan, lengths, seq_len=seq_len), epoch)


@given(
    lengths=LENGTHS,
    seq_len=st.integers(1, 12),
    epoch=st.integers(0, 3),
    eos=st.sampled_from([None, 9]),
    keep_empty=st.booleans(),
)
def test_every_token_comes_once(
    lengths: list[int], seq_len: int, epoch: int, eos: int | None, keep_empty: bool
) -> None:
    sizes = [n + (eos is not None and (n > 0 or keep_empty)) for n in lengths]
    plan = PackingPlan(lengths, seq_len=seq_len, eos=eos, keep_empty=keep_empty)
    laws.every_token_once(plan, epoch, sizes)


def many_lengths(num_documents: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Mostly short, one in ten empty, some longer than many rows."""
    random = np.random.default_rng(0)
    lengths = random.geometric(0.05, num_documents)
    lengths[random.random(num_documents) < 0.1] = 0
    lengths[::997] = 20_000
    return lengths.astype(np.int64)


def test_any_row_of_many_documents_is_found_without_those_before_it() -> None:
    lengths = many_lengths(70_000)  # more than the skip table sums at once
    plan = PackingPlan(lengths, seq_len=300, seed=5)
    rows = rows_of(plan.rows_from(2, (0, 0), 0, plan.num_rows(2)))
    laws.every_token_once(plan, 2, lengths.tolist())
    for row in [len(rows) - 1, 0, 1, 7, *range(2, len(rows), 311)]:
        count = min(3, len(rows) - row)
        assert laws.planned(plan, 2, row, count) == rows[row : row + count]
    assert laws.planned(plan, 1, 100, 1) != laws.planned(plan, 2, 100, 1)
    assert laws.planned(plan, 2, 100, 1) == rows[100:101]


def test_the_skip_table_takes_less_than_a_hundredth_of_a_byte_a_document() -> None:
    num_documents = 70_000 * 3
    plan = natural([1] * num_documents, 100)
    plan.reader_of(0, len(plan) - 1)
    stream = plan._plan.stream
    assert stream._table is not None
    totals = stream._table._totals
    assert totals.base is None
    assert totals.nbytes <= 8 * -(-num_documents // 1024)


def test_several_threads_may_use_one_plan() -> None:
    calls = [(epoch, row) for row in range(0, 7000, 250) for epoch in (0, 1)]
    lengths = many_lengths(150_000)
    plan = PackingPlan(lengths, seq_len=300, seed=5)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda call: laws.planned(plan, call[0], call[1], 3), calls))
    alone = PackingPlan(lengths, seq_len=300, seed=5)
    for epoch in (0, 1):
        rows = [laws.planned(alone, epoch, row, 3) for _, row in calls[epoch::2]]
        assert answers[epoch::2] == rows


def test_empty_documents_at_an_entry_of_the_skip_table_are_stepped_over_by_the_next_row() -> None:
    lengths = [1] * 1000 + [0] * 100 + [1] * 1000
    laws.every_reader_resumes(partial(natural, lengths, 100), 0)
    assert natural(lengths, 100).reader_of(0, 10) == (1000, 0)


def test_long_runs_of_empty_documents_are_stepped_over() -> None:
    plan = natural([0] * 5000 + [3] + [0] * 5000 + [2], 4)
    assert laws.planned(plan, 0, 0, 2) == [[[5000, 0, 3], [10_001, 0, 1]], [[10_001, 1, 2]]]


# -- Counts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seq_len", "tail", "expected"),
    [(4, "drop", 2), (4, "pad", 3), (5, "drop", 2), (5, "pad", 2), (11, "drop", 0), (11, "pad", 1)],
)
def test_the_number_of_rows_follows_from_the_tokens(seq_len: int, tail: str, expected: int) -> None:
    plan = PackingPlan([3, 2, 5], seq_len=seq_len, tail=tail)
    assert len(plan) == plan.num_rows(0) == plan.num_rows(7) == expected


def test_without_tokens_there_are_no_rows() -> None:
    plan = PackingPlan([0, 0], seq_len=4)
    assert len(plan) == 0
    spans, row_offsets = plan.rows(0, 0, 0)
    assert spans.shape == (0, 3)
    assert row_offsets.tolist() == [0]


def test_too_few_tokens_for_a_row_are_counted_as_left() -> None:
    stats = natural([5, 6], 12, tail="drop").stats(0)
    assert (stats.num_rows, stats.num_tokens, stats.num_left) == (0, 0, 11)
    assert stats.density == 1.0


def test_stats_count_what_packing_does() -> None:
    stats = natural([3, 0, 9, 5], 4).stats(0)
    assert stats.num_rows == 5
    assert stats.num_tokens == 17
    assert stats.num_padding == 3
    assert stats.num_left == 0
    assert stats.num_documents == 4
    assert stats.num_empty == 1
    assert stats.num_split == 2
    assert stats.num_spans == 6
    assert stats.sum_squares == 3**2 + 1 + 4**2 + 4**2 + 4**2 + 1
    assert stats.density == 17 / 20


@pytest.mark.parametrize("tail", ["pad", "drop"])
def test_stats_add_up_over_many_blocks_of_rows(tail: str) -> None:
    lengths = many_lengths(3000)
    plan = PackingPlan(lengths, seq_len=7, tail=tail, eos=1)
    spans, _ = plan.rows(1, 0, len(plan))
    sizes = spans[:, 2] - spans[:, 1]
    stats = plan.stats(1)
    assert stats.num_tokens == sizes.sum()
    assert stats.num_tokens + stats.num_padding == 7 * len(plan)
    assert stats.num_tokens + stats.num_left == lengths.sum() + (lengths > 0).sum()
    assert stats.num_split == len({document for document, start, _ in spans.tolist() if start > 0})
    assert stats.sum_squares == (sizes**2).sum()
    assert stats.num_empty == (lengths == 0).sum()


# -- Another seq_len -------------------------------------------------------------------------------


@pytest.mark.parametrize("tail", ["pad", "drop"])
def test_rows_of_another_seq_len_go_on_at_any_token(tail: str) -> None:
    lengths = [3, 0, 9, 5, 1]
    tokens = [(d, place) for d, length in enumerate(lengths) for place in range(length)]
    for seq_len in (1, 2, 5, 7, 30):
        plan = natural(lengths, seq_len, tail=tail)
        for token in range(1, len(tokens)):
            row = -(-token // seq_len)
            phase = row * seq_len - token
            reader = natural(lengths, 1).reader_of(0, token)
            num_rows = plan.num_rows(0, phase=phase) - row
            if num_rows > 0:
                assert plan.reader_of(0, row, phase=phase) == reader
            block = plan.rows_from(0, reader, row, max(num_rows, 0), phase=phase)
            read = [(d, place) for d, start, stop in block.spans for place in range(start, stop)]
            expected = tokens[token:]
            assert read == expected[: len(read)]
            assert len(expected) - len(read) == (len(expected) % seq_len if tail == "drop" else 0)


# -- Inputs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i8"])
def test_lengths_may_have_any_integer_dtype(dtype: str) -> None:
    lengths: Any = np.array([3, 2, 5], dtype=dtype)
    assert laws.planned(natural(lengths, 4), 0, 1, 1) == [[[1, 1, 2], [2, 0, 3]]]


def test_lengths_may_be_strided() -> None:
    lengths: Any = np.array([3, 9, 2, 9, 5, 9], dtype=np.int64)[::2]
    assert laws.planned(natural(lengths, 4), 0, 1, 1) == [[[1, 1, 2], [2, 0, 3]]]


class Shard(NamedTuple):
    begins: Any
    ends: Any


class Corpus(NamedTuple):
    shards: list[Shard]


def test_a_corpus_is_planned_by_its_shards() -> None:
    offsets = np.array([0, 3, 5], dtype=np.uint32)
    corpus: Any = Corpus(
        [
            Shard(offsets[:-1], offsets[1:]),
            Shard(np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32)),
            Shard(np.array([7], dtype=np.int64), np.array([12], dtype=np.int64)),
        ]
    )
    plan = natural(corpus, 4)
    assert plan.base_size == 3
    assert laws.planned(plan, 0, 0, 2) == laws.planned(natural([3, 2, 5], 4), 0, 0, 2)


def test_shuffle_seed_and_order_choose_the_documents_order() -> None:
    assert PackingPlan([1, 2, 3], seq_len=2, seed=7).order == Shuffle(3, 7)
    assert PackingPlan([1, 2, 3], seq_len=2, seed=7, shuffle=False).order == Sequential(3, 7)
    order = Listed([2, 0, 1])
    assert PackingPlan([1, 2, 3], seq_len=2, order=order).order is order


def test_parameters_are_what_decides_the_rows() -> None:
    plan = PackingPlan([3], seq_len=4, tail="drop", bos=1, eos=2, keep_empty=True)
    assert plan.parameters == {"tail": "drop", "bos": 1, "eos": 2, "keep_empty": True}
    assert (plan.packing_id, plan.seq_len) == (1, 4)


# -- Wrong arguments -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seq_len": 0}, r"seq_len must be in \[1, 2\*\*31\), got seq_len=0"),
        ({"seq_len": 2**31}, "got seq_len=2147483648"),
        ({"packing": "best"}, "packing must be one of .*'best_fit', .*got packing='best'"),
        ({"long_documents": "drop"}, "long_documents must be 'split'"),
        ({"tail": "cut"}, "tail must be one of 'pad', 'drop', got tail='cut'"),
        ({"bos": -1}, r"bos must be in \[0, 2\*\*63\), got bos=-1"),
        ({"eos": 2**63}, "eos must be in"),
        ({"seed": -1}, "got seed=-1"),
        ({"lengths": []}, "documents|num_samples"),
        ({"lengths": [3, -2]}, r"lengths must not be negative, got lengths\[1\]=-2"),
        ({"lengths": np.array([2**63], dtype=np.uint64)}, "document 0 .* end=9223372036854775808"),
        ({"lengths": [2**62, 2**62]}, "less than 2\\*\\*63 tokens"),
        ({"order": Listed([1, 0])}, "2.*3|3.*2"),
    ],
)
def test_a_value_out_of_range_is_named(options: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"lengths": [3, 2, 5], "seq_len": 4} | options
    with pytest.raises(ValueError, match=message):
        PackingPlan(**arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seq_len": 4.0}, "seq_len must be an integer"),
        ({"seq_len": True}, "seq_len must be an integer"),
        ({"bos": "a"}, "bos must be an integer"),
        ({"keep_empty": 1}, "keep_empty must be True or False"),
        ({"lengths": 3}, "lengths must be"),
        ({"lengths": [1.5]}, "lengths must be one-dimensional integers, got float64"),
        ({"lengths": [[1, 2]]}, r"lengths must be one-dimensional integers, got .*\(1, 2\)"),
        ({"lengths": [True]}, "lengths must be one-dimensional integers, got bool"),
    ],
)
def test_a_wrong_type_is_named(options: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"lengths": [3, 2, 5], "seq_len": 4} | options
    with pytest.raises(TypeError, match=message):
        PackingPlan(**arguments)


@pytest.mark.parametrize(
    ("epoch", "first", "count", "message"),
    [
        (-1, 0, 1, "got epoch=-1"),
        (2**40, 0, 1, "got epoch=1099511627776"),
        (0, -1, 1, "got first=-1"),
        (0, 4, 0, r"first must be in \[0, 4\), got first=4"),
        (0, 0, -1, "got count=-1"),
        (0, 1, 3, r"count must be in \[0, 3\), got count=3"),
    ],
)
def test_rows_that_do_not_exist_are_refused(
    epoch: int, first: int, count: int, message: str
) -> None:
    plan = natural([3, 2, 5], 4)
    with pytest.raises(ArgumentError, match=message):
        plan.rows(epoch, first, count)
    with pytest.raises(ArgumentError, match=message):
        plan.rows_from(epoch, (0, 0), first, count)


@pytest.mark.parametrize(("row", "phase"), [(-1, 0), (3, 0), (4, 2)])
def test_readers_of_rows_that_do_not_exist_are_refused(row: int, phase: int) -> None:
    with pytest.raises(ArgumentError, match=f"row must be in .*, got row={row}"):
        natural([3, 2, 5], 4).reader_of(0, row, phase=phase)


@pytest.mark.parametrize("phase", [-1, 4])
def test_a_phase_is_less_than_a_row(phase: int) -> None:
    plan = natural([3, 2, 5], 4)
    with pytest.raises(ArgumentError, match=rf"phase must be in \[0, 4\), got phase={phase}"):
        plan.num_rows(0, phase=phase)


@pytest.mark.parametrize(
    ("reader", "message"),
    [
        ((-1, 0), r"reader.position must be in \[0, 4\), got reader.position=-1"),
        ((4, 0), "got reader.position=4"),
        ((0, -1), "got reader.offset=-1"),
        ((0, 3), r"offset must be in \[0, 3\) in document 0, got offset=3"),
        ((3, 0), "reader does not belong to the row: the documents ended in row 1 after 0"),
        ((2, 2), "the documents ended in row 1 after 3 tokens, expected row 2 and 2 tokens"),
    ],
)
def test_readers_that_cannot_be_right_are_refused(reader: tuple[int, int], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        natural([3, 2, 5], 4).rows_from(0, reader, 1, 1)


@pytest.mark.parametrize("document", [-1, 3])
def test_an_order_that_leaves_the_documents_is_noticed(document: int) -> None:
    plan = natural([3, 2, 5], 4, order=Listed([0, document, 2]))
    with pytest.raises(ArgumentError, match=rf"\[0, 3\) at every position, got {document} at"):
        plan.rows(0, 0, 1)
