"""`TokenTable.gather`: spans to arrays, against right values and the reference."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from reference import IGNORE

from datacursor import _core
from datacursor.errors import ArgumentError, CorpusError
from datacursor.plan import PackingPlan

TOKEN_DTYPES = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]
Documents = Sequence[Sequence[int]]


def counted(*lengths: int) -> list[list[int]]:
    """Documents of these lengths that hold 1, 2, 3, .. over all of them."""
    tokens = iter(range(1, sum(lengths) + 1))
    return [list(islice(tokens, length)) for length in lengths]


def shard_of(documents: Documents, dtype: str = "uint16") -> tuple[Any, Any, Any]:
    """Return tokens, begins and ends, with one token of nobody in front."""
    tokens = np.array([77, *(token for document in documents for token in document)], dtype=dtype)
    offsets = 1 + np.cumsum([0, *(len(document) for document in documents)], dtype=np.int64)
    return tokens, offsets[:-1], offsets[1:]


def table_of(documents: Documents, dtype: str = "uint16") -> _core.TokenTable:
    return _core.TokenTable([shard_of(documents, dtype)])


def arrays(num_rows: int, seq_len: int, num_spans: int) -> dict[str, Any]:
    """Return fields full of a number that none should keep."""
    shape = (num_rows, seq_len)
    return {
        "input_ids": np.full(shape, -7, dtype=np.int64),
        "labels": np.full(shape, -7, dtype=np.int64),
        "position_ids": np.full(shape, -7, dtype=np.int64),
        "segment_ids": np.full(shape, -7, dtype=np.int32),
        "loss_mask": np.full(shape, True),
        "cu_seqlens": np.full(num_rows + num_spans + num_rows + 1, -7, dtype=np.int32),
    }


def gather(
    table: _core.TokenTable, spans: Any, row_offsets: Any, seq_len: int, **options: Any
) -> dict[str, Any]:
    """Return every field of a batch as lists."""
    fields = arrays(len(row_offsets) - 1, seq_len, len(spans))
    defaults = {
        "bos": None,
        "eos": None,
        "pad": 0,
        "shifted": True,
        "no_label": IGNORE,
        "continued": False,
        "align": 1,
        "longest": None,
    }
    num_boundaries, max_seqlen, num_targets = table.gather(
        np.asarray(spans, dtype=np.int64).reshape(-1, 3),
        np.asarray(row_offsets, dtype=np.int64),
        **(defaults | fields | options),
    )
    batch = {name: field.tolist() for name, field in fields.items()}
    batch["cu_seqlens"] = batch["cu_seqlens"][:num_boundaries]
    return batch | {"max_seqlen": max_seqlen, "num_targets": num_targets}


def plan_of(documents: Documents, seq_len: int, **options: Any) -> PackingPlan:
    lengths = [len(document) for document in documents]
    return PackingPlan(lengths, seq_len=seq_len, **({"shuffle": False} | options))


def packed(
    documents: Documents, seq_len: int, plan: dict[str, Any] | None = None, **options: Any
) -> dict[str, Any]:
    """Return the whole first epoch as one batch."""
    rows = plan_of(documents, seq_len, **(plan or {}))
    return gather(table_of(documents), *rows.rows(0, 0, len(rows)), seq_len, **options)


# -- Right values ----------------------------------------------------------------------------------


def test_case_1_joined_and_cut() -> None:
    batch = packed(counted(3, 2, 5), 4, {"tail": "drop"})
    assert batch == {
        "input_ids": [[1, 2, 3, 4], [5, 6, 7, 8]],
        "labels": [[2, 3, IGNORE, 5], [IGNORE, 7, 8, 9]],
        "position_ids": [[0, 1, 2, 0], [0, 0, 1, 2]],
        "segment_ids": [[0, 0, 0, 1], [0, 1, 1, 1]],
        "loss_mask": [[True, True, False, True], [False, True, True, True]],
        "cu_seqlens": [0, 3, 4, 5, 8],
        "max_seqlen": 3,
        "num_targets": 6,
    }


def test_case_2_padded_tail() -> None:
    batch = packed(counted(3, 2, 5), 4)
    assert batch["input_ids"][2] == [9, 10, 0, 0]
    assert batch["labels"][2] == [10, IGNORE, IGNORE, IGNORE]
    assert batch["segment_ids"][2] == [0, 0, -1, -1]
    assert batch["cu_seqlens"] == [0, 3, 4, 5, 8, 10, 12]


def test_case_4_empty_document() -> None:
    batch = packed([[1], [], [2, 3], [], [4]], 4)
    assert batch["input_ids"] == [[1, 2, 3, 4]]
    assert batch["labels"] == [[IGNORE, 3, IGNORE, IGNORE]]
    assert batch["cu_seqlens"] == [0, 1, 3, 4]


def test_case_5_label_in_the_next_row() -> None:
    batch = packed([list(range(1, 12)), [21]], 4)
    assert batch["input_ids"] == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 21]]
    assert batch["labels"] == [[2, 3, 4, 5], [6, 7, 8, 9], [10, 11, IGNORE, IGNORE]]


def test_case_6_positions_of_the_document() -> None:
    batch = packed(counted(3, 2, 5), 4, {"tail": "drop"}, continued=True)
    assert batch["position_ids"] == [[0, 1, 2, 0], [1, 0, 1, 2]]


def test_case_7_padding_that_equals_eos() -> None:
    batch = packed([[1, 2], [3], [4, 5, 6]], 4, {"eos": 99}, eos=99, pad=99)
    assert batch["input_ids"] == [[1, 2, 99, 3], [99, 4, 5, 6], [99, 99, 99, 99]]
    assert batch["labels"] == [[2, 99, IGNORE, 99], [IGNORE, 5, 6, 99], [IGNORE] * 4]


def test_case_20_largest_tokens_arrive_as_such() -> None:
    for dtype in TOKEN_DTYPES:
        largest = min(int(np.iinfo(dtype).max), 2**63 - 1)
        batch = gather(table_of([[largest, 1, largest]], dtype), [[0, 0, 3]], [0, 1], 3)
        assert batch["input_ids"] == [[largest, 1, largest]]


def test_case_23_row_starts_are_boundaries() -> None:
    batch = gather(table_of(counted(4, 1, 3)), [[0, 0, 4], [1, 0, 1], [2, 0, 3]], [0, 1, 3], 4)
    assert batch["cu_seqlens"] == [0, 4, 5, 8]


def test_d20_boundaries_and_longest_segments() -> None:
    documents = counted(5, 3, 0, 7, 1)
    plan = plan_of(documents, 4)
    batches = [gather(table_of(documents), *plan.rows(0, row, 1), 4) for row in range(4)]
    assert [batch["cu_seqlens"] for batch in batches] == [[0, 4], [0, 1, 4], [0, 4], [0, 3, 4]]
    assert [batch["max_seqlen"] for batch in batches] == [4, 3, 4, 3]
    tokens = [token for batch in batches for token in batch["input_ids"][0]]
    assert tokens == list(range(1, 17))


def test_d22_long_documents_are_split() -> None:
    batch = packed(counted(13, 11), 10)
    assert batch["cu_seqlens"] == [0, 10, 13, 20, 24, 30]
    assert sum(row.count(-1) for row in batch["segment_ids"]) == 6
    assert batch["num_targets"] == 22


def test_d23_targets_and_positions() -> None:
    batch = packed(counted(3, 2), 5)
    assert batch["position_ids"] == [[0, 1, 2, 0, 1]]
    assert batch["num_targets"] == 3
    batch = packed(counted(3, 2), 8)
    assert batch["num_targets"] == 3
    assert batch["segment_ids"] == [[0, 0, 0, 1, 1, -1, -1, -1]]
    assert batch["cu_seqlens"] == [0, 3, 5, 8]


def test_labels_that_are_not_shifted() -> None:
    batch = packed(counted(3, 2, 5), 4, {"tail": "drop"}, shifted=False)
    assert batch["labels"] == [[IGNORE, 2, 3, IGNORE], [IGNORE, IGNORE, 7, 8]]
    assert batch["num_targets"] == 4


def test_case_15_align_padding_lies_inside_its_segment() -> None:
    spans, row_offsets = [(0, 0, 3), (1, 0, 5)], [0, 2]
    batch = gather(table_of(counted(3, 5, 2)), spans, row_offsets, 12, align=4)
    assert batch["input_ids"] == [[1, 2, 3, 0, 4, 5, 6, 7, 8, 0, 0, 0]]
    assert batch["labels"] == [[2, 3, *[IGNORE] * 2, 5, 6, 7, 8, *[IGNORE] * 4]]
    assert batch["position_ids"] == [[0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7]]
    assert batch["segment_ids"] == [[0] * 4 + [1] * 8]
    assert batch["loss_mask"] == [[True, True, *[False] * 2, *[True] * 4, *[False] * 4]]
    assert (batch["cu_seqlens"], batch["max_seqlen"], batch["num_targets"]) == ([0, 4, 12], 8, 6)


def test_the_last_token_of_a_truncated_document_has_no_label() -> None:
    table = table_of(counted(5, 3))
    spans, row_offsets = [(0, 0, 4), (1, 0, 3)], [0, 1, 2]
    whole = gather(table, spans, row_offsets, 4)
    assert whole["labels"][0] == [2, 3, 4, 5]
    truncated = gather(table, spans, row_offsets, 4, longest=4)
    assert truncated["labels"] == [[2, 3, 4, IGNORE], [7, 8, IGNORE, IGNORE]]
    assert truncated["loss_mask"][0] == [True, True, True, False]
    assert truncated["num_targets"] == 5
    with pytest.raises(ArgumentError, match=r"stop <= 4, .*document 0, .*stop=5"):
        gather(table, [(0, 1, 5)], [0, 1], 4, longest=4)


@pytest.mark.parametrize(
    ("spans", "align", "message"),
    [
        ([(0, 0, 1)], 3, "align must divide seq_len=4, got align=3"),
        ([(0, 0, 1)], 0, "got align=0"),
        ([(0, 0, 1), (1, 0, 1), (1, 1, 2)], 2, "fit seq_len=4, got more in row 0"),
    ],
)
def test_segments_that_do_not_fit_are_refused(spans: Any, align: int, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        gather(table_of(counted(3, 2)), spans, [0, len(spans)], 4, align=align)


# -- The reference and the laws --------------------------------------------------------------------


@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=8),
    seq_len=st.integers(1, 50),
    dtype=st.sampled_from(TOKEN_DTYPES),
    cut=st.integers(0, 8),
    seed=st.integers(0, 2**32 - 1),
    virtual=st.sampled_from([(None, None), (100, None), (None, 101), (100, 101)]),
    keep_empty=st.booleans(),
    labels=st.sampled_from(["shifted", "hf"]),
    positions=st.sampled_from(["segment", "document"]),
)
def test_batches_are_the_reference_s(
    lengths: list[int],
    seq_len: int,
    dtype: str,
    cut: int,
    seed: int,
    virtual: tuple[int | None, int | None],
    keep_empty: bool,
    labels: Any,
    positions: Any,
) -> None:
    random = np.random.default_rng(seed)
    documents = [random.integers(0, 128, length).tolist() for length in lengths]
    bos, eos = virtual
    plan = PackingPlan(lengths, seq_len=seq_len, seed=seed, bos=bos, eos=eos, keep_empty=keep_empty)
    if len(plan) == 0:
        return
    spans, row_offsets = plan.rows(0, 0, len(plan))
    table = _core.TokenTable([shard_of(documents[:cut], dtype), shard_of(documents[cut:], "int64")])
    batch = gather(
        table,
        spans,
        row_offsets,
        seq_len,
        bos=bos,
        eos=eos,
        pad=5,
        shifted=labels == "shifted",
        continued=positions == "document",
        align=1,
        longest=None,
    )
    rows = [spans[a:b].tolist() for a, b in pairwise(row_offsets)]
    expected = reference.batch(
        documents, rows, seq_len, bos=bos, eos=eos, pad=5, labels=labels, positions=positions
    )
    assert batch == {name: expected[name] for name in batch}


@given(
    lengths=st.lists(st.integers(0, 30), min_size=1, max_size=8),
    align=st.integers(1, 5),
    num_aligned=st.integers(1, 5),
    long_documents=st.sampled_from(["split", "truncate"]),
    virtual=st.sampled_from([(None, None), (100, None), (None, 101), (100, 101)]),
    labels=st.sampled_from(["shifted", "hf"]),
    positions=st.sampled_from(["segment", "document"]),
)
def test_aligned_and_truncated_batches_are_the_reference_s(
    lengths: list[int],
    align: int,
    num_aligned: int,
    long_documents: str,
    virtual: tuple[int | None, int | None],
    labels: Any,
    positions: Any,
) -> None:
    documents = counted(*lengths)
    seq_len = align * num_aligned
    bos, eos = virtual
    options: dict[str, Any] = {"bos": bos, "eos": eos, "align": align}
    plan = PackingPlan(
        lengths, seq_len=seq_len, packing="best_fit", long_documents=long_documents, **options
    )
    if len(plan) == 0:
        return
    spans, row_offsets = plan.rows(0, 0, len(plan))
    options |= {"pad": 5, "longest": seq_len if long_documents == "truncate" else None}
    batch = gather(
        table_of(documents),
        spans,
        row_offsets,
        seq_len,
        shifted=labels == "shifted",
        continued=positions == "document",
        **options,
    )
    rows = [spans[a:b].tolist() for a, b in pairwise(row_offsets)]
    expected = reference.batch(
        documents, rows, seq_len, labels=labels, positions=positions, **options
    )
    assert batch == {name: expected[name] for name in batch}


@given(
    lengths=st.lists(st.integers(0, 12), min_size=1, max_size=10),
    seq_len=st.integers(1, 20),
    seed=st.integers(0, 9),
)
def test_every_token_but_a_document_s_first_is_a_target_once(
    lengths: list[int], seq_len: int, seed: int
) -> None:
    documents = counted(*lengths)
    plan = PackingPlan(lengths, seq_len=seq_len, seed=seed)
    batch = gather(table_of(documents), *plan.rows(0, 0, len(plan)), seq_len, pad=-1)
    labels = [label for row in batch["labels"] for label in row if label != IGNORE]
    assert sorted(labels) == sorted(token for document in documents for token in document[1:])
    tokens = [token for row in batch["input_ids"] for token in row if token != -1]
    assert sorted(tokens) == sorted(token for document in documents for token in document)


def test_any_division_into_batches_gives_the_same_rows() -> None:
    documents = counted(*range(40))
    plan = PackingPlan([len(document) for document in documents], seq_len=16)
    table = table_of(documents)
    whole = gather(table, *plan.rows(0, 0, len(plan)), 16)
    for name in ("input_ids", "labels", "position_ids", "segment_ids", "loss_mask"):
        for size in (1, 3, 7):
            rows = []
            for first in range(0, len(plan), size):
                count = min(size, len(plan) - first)
                rows += gather(table, *plan.rows(0, first, count), 16)[name]
            assert rows == whole[name]


# -- Arrays ----------------------------------------------------------------------------------------


def test_fields_may_be_left_out() -> None:
    names = ["labels", "position_ids", "segment_ids", "loss_mask", "cu_seqlens"]
    left_out: dict[str, Any] = dict.fromkeys(names)
    batch = gather(table_of(counted(3)), [[0, 0, 2]], [0, 1], 4, **left_out)
    assert batch["input_ids"] == [[1, 2, 0, 0]]
    assert batch["labels"] == [[-7] * 4]
    assert (batch["max_seqlen"], batch["num_targets"]) == (2, 2)


def test_a_table_keeps_its_arrays_alive() -> None:
    table = table_of([range(100_000)], "int64")
    gc.collect()
    np.full(100_001, 7)  # would take the memory if it were free
    batch = gather(table, [[0, 0, 100_000]], [0, 1], 100_000)
    assert batch["input_ids"] == [list(range(100_000))]


def test_tokens_may_be_read_only() -> None:
    tokens, begins, ends = shard_of(counted(3))
    tokens.flags.writeable = False
    table = _core.TokenTable([(tokens, begins, ends)])
    assert gather(table, [[0, 0, 3]], [0, 1], 3)["input_ids"] == [[1, 2, 3]]


def test_begins_may_be_absent() -> None:
    tokens = np.array([5, 6, 7], dtype=np.uint8)
    table = _core.TokenTable([(tokens, None, np.array([2, 3], dtype=np.int32))])
    assert table.num_documents == 2
    assert gather(table, [[1, 0, 3], [0, 0, 2]], [0, 2], 5)["input_ids"] == [[5, 6, 7, 5, 6]]


def test_threads_may_share_a_table() -> None:
    table = table_of(counted(*[500] * 100))
    spans = [[document, 0, 500] for document in range(100)]
    expected = gather(table, spans, range(101), 500)
    with ThreadPoolExecutor(4) as pool:
        batches = list(pool.map(lambda _: gather(table, spans, range(101), 500), range(8)))
    assert all(batch == expected for batch in batches)


# -- Wrong input -----------------------------------------------------------------------------------


def unaligned(shape: tuple[int, ...], dtype: str) -> Any:
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.zeros(size + 1, dtype=np.uint8)[1:].view(dtype).reshape(shape)


def read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("input_ids", np.zeros((1, 4), dtype=np.int16), "must be a 2-D array of int64, got int16"),
        ("input_ids", np.zeros(4, dtype=np.int64), r"must be a 2-D array of int64, got int64\[4\]"),
        ("input_ids", np.zeros((1, 8), dtype=np.int64)[:, ::2], "must be C-contiguous"),
        ("input_ids", np.zeros((4, 2), dtype=np.int64).T, "must be C-contiguous"),
        ("input_ids", read_only(np.zeros((1, 4), dtype=np.int64)), "must be writable"),
        ("input_ids", unaligned((1, 4), "i8"), "must be aligned to 8 bytes"),
        ("labels", np.zeros((1, 4), dtype=np.uint64), "must be a 2-D array of int64, got uint64"),
        ("labels", np.zeros((2, 4), dtype=np.int64), "must have the shape of input_ids"),
        ("labels", read_only(np.zeros((1, 4), dtype=np.int64)), "must be writable"),
        ("position_ids", np.zeros((1, 3), dtype=np.int64), "must have 4 columns, got"),
        ("segment_ids", np.zeros((1, 4), dtype=np.int64), "must be a 2-D array of int32"),
        ("segment_ids", np.zeros((1, 8), dtype=np.int32)[:, ::2], "must be C-contiguous"),
        ("loss_mask", np.zeros((1, 4), dtype=np.uint8), "must be a 2-D array of bool, got uint8"),
        ("loss_mask", np.zeros((4, 1), dtype=np.bool_), "must have 4 columns"),
        ("cu_seqlens", np.zeros(2, dtype=np.int32), "must have room for 3 boundaries, got 2"),
        ("cu_seqlens", np.zeros(9, dtype=np.int64), "must be a 1-D array of int32"),
        ("cu_seqlens", read_only(np.zeros(9, dtype=np.int32)), "must be writable"),
    ],
)
def test_a_field_that_cannot_be_written_is_named(name: str, value: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{name} {message}"):
        gather(table_of(counted(3)), [[0, 0, 3]], [0, 1], 4, **{name: value})


@pytest.mark.parametrize(
    ("spans", "row_offsets", "message"),
    [
        (np.zeros((1, 3), dtype=np.int32), np.array([0, 1]), "^spans must be a 2-D array of int64"),
        (np.zeros((1, 2), dtype=np.int64), np.array([0, 1]), "^spans must have 3 columns"),
        (np.zeros(3, dtype=np.int64), np.array([0, 1]), "^spans must be a 2-D array"),
        (np.array([[0, 0, 1]]), np.array([0.0, 1.0]), "^row_offsets must be a 1-D array of int64"),
        (np.array([[0, 0, 1]]), np.array([0, 1, 1]), r"^row_offsets must have num_rows \+ 1 = 2"),
        (np.array([[0, 0, 1]]), np.array([0, 2]), "^row_offsets must rise from 0 to .*, 1, got 0"),
        (np.array([[0, 0, 1]]), np.array([1, 1]), "^row_offsets must rise from 0"),
        (np.array([[2, 0, 1]]), np.array([0, 1]), r"^document must be in \[0, 2\), got document=2"),
        (np.array([[-1, 0, 1]]), np.array([0, 1]), "got document=-1"),
        (np.array([[0, 0, 4]]), np.array([0, 1]), r"^spans\[0\] must have 0 <= start < stop <= 3"),
        (np.array([[0, -1, 1]]), np.array([0, 1]), "got start=-1 and stop=1"),
        (np.array([[0, 2, 2]]), np.array([0, 1]), "got start=2 and stop=2"),
        (np.array([[0, 0, 3], [1, 0, 2]]), np.array([0, 2]), "must fit seq_len=4, got more in row"),
    ],
)
def test_spans_that_cannot_be_read_are_named(spans: Any, row_offsets: Any, message: str) -> None:
    fields: Any = arrays(1, 4, 9)
    options: Any = {
        "bos": None,
        "eos": None,
        "pad": 0,
        "shifted": True,
        "no_label": IGNORE,
        "continued": False,
        "align": 1,
        "longest": None,
    }
    with pytest.raises(ArgumentError, match=message):
        table_of(counted(3, 2)).gather(spans, row_offsets, **options, **fields)


@pytest.mark.parametrize(
    ("tokens", "ends", "error", "message"),
    [
        (np.zeros(3), np.array([3]), ArgumentError, r"shards\[0\] tokens must be an array of 8-"),
        (np.zeros(3, dtype=np.bool_), np.array([3]), ArgumentError, "tokens must be an array"),
        (np.zeros(3, dtype=">u2"), np.array([3]), ArgumentError, "tokens must be .* got >u2"),
        (np.zeros((3, 1), dtype=np.uint8), np.array([3]), ArgumentError, "must be a 1-D array"),
        (np.zeros(6, dtype=np.uint8)[::2], np.array([3]), ArgumentError, "must be C-contiguous"),
        (unaligned((3,), "u2"), np.array([3]), ArgumentError, "must be aligned to 2 bytes"),
        (np.zeros(3, dtype=np.uint8), np.array([3.0]), ArgumentError, r"shards\[0\] ends must be"),
        (np.zeros(3, dtype=np.uint8), np.array([4]), CorpusError, "within the 3 tokens .* end=4"),
        (np.zeros(3, dtype=np.uint8), np.array([3, -1]), CorpusError, "document 1 must have"),
    ],
)
def test_shards_that_cannot_be_read_are_named(
    tokens: Any, ends: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        _core.TokenTable([(tokens, None, ends)])


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_a_negative_token_is_named_with_its_place(dtype: str) -> None:
    table = table_of([[1, 2], [3, 4, -5, 6]], dtype)
    message = r"token ids must be in \[0, 2\*\*63\), got -5 in document 1 at token 2"
    for span in ([1, 0, 4], [1, 2, 3], [1, 0, 2]):
        with pytest.raises(CorpusError, match=message):
            gather(table, [span], [0, 1], 4)
    assert gather(table, [[1, 0, 1]], [0, 1], 4)["labels"] == [[4, *[IGNORE] * 3]]


def test_a_token_of_two_to_the_63_is_named() -> None:
    table = table_of([[1, 2**63]], "uint64")
    with pytest.raises(CorpusError, match="got 9223372036854775808 in document 0 at token 1"):
        gather(table, [[0, 0, 2]], [0, 1], 2)


@pytest.mark.parametrize("name", ["labels", "spans", "row_offsets"])
def test_an_output_that_shares_memory_is_refused(name: str) -> None:
    table = table_of(counted(4, 4))
    memory = np.zeros((2, 4), dtype=np.int64)
    spans = np.array([[0, 0, 4], [1, 0, 4]], dtype=np.int64)
    row_offsets = np.array([0, 1, 2], dtype=np.int64)
    fields = arrays(2, 4, 2) | {"input_ids": memory}
    if name == "labels":
        fields["labels"] = memory
    elif name == "spans":
        memory.flat[:6] = spans.flat
        spans = memory.reshape(-1)[:6].reshape(2, 3)
    else:
        memory.flat[:3] = row_offsets
        row_offsets = memory.reshape(-1)[:3]
    with pytest.raises(ArgumentError, match=rf"{name}.* share memory"):
        table.gather(
            spans,
            row_offsets,
            bos=None,
            eos=None,
            pad=0,
            shifted=True,
            no_label=IGNORE,
            continued=False,
            align=1,
            longest=None,
            **fields,
        )
