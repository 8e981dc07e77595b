"""TokenColumn: values beside the tokens, gathered by the same spans."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from packed import counted, deliver, make

import datacursor as dc

DOCUMENTS = counted(3, 2, 5)
DTYPES = ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"]


def expected_column(
    values: list[list[Any]],
    batch: dict[str, Any],
    seq_len: int,
    *,
    fill: Any,
    shifted: bool,
    bos: int | None,
    eos: int | None,
    align: int,
    longest: int | None,
) -> list[list[Any]]:
    """The definition, value by value."""
    rows = []
    spans, offsets = batch["spans"].tolist(), batch["row_offsets"].tolist()
    for first, stop in pairwise(offsets):
        row: list[Any] = []
        for document, begin, end in spans[first:stop]:
            full = [fill] * (bos is not None) + values[document] + [fill] * (eos is not None)
            full = [*full[:longest], fill]
            row += full[begin + shifted : end + shifted]
            row += [fill] * (-(end - begin) % align)
        rows.append(row + [fill] * (seq_len - len(row)))
    return rows


@given(
    lengths=st.lists(st.integers(0, 20), min_size=1, max_size=8),
    dtype=st.sampled_from(DTYPES),
    shifted=st.booleans(),
    special=st.sampled_from([(None, None), (100, None), (None, 101), (100, 101)]),
    align=st.integers(1, 3),
    long_documents=st.sampled_from(["split", "truncate"]),
    one_by_one=st.booleans(),
)
def test_a_column_is_its_definition(
    lengths: list[int],
    dtype: str,
    shifted: bool,
    special: tuple[int | None, int | None],
    align: int,
    long_documents: str,
    one_by_one: bool,
) -> None:
    bos, eos = special
    if sum(lengths) == 0:
        return
    values = np.arange(1, sum(lengths) + 1).astype(dtype)
    ends = np.cumsum(lengths)
    parts = [values[end - length : end] for end, length in zip(ends, lengths, strict=True)]
    seq_len = 4 * align
    options: dict[str, Any] = {"bos": bos, "eos": eos, "align": align}
    rows = make(
        counted(*lengths),
        seq_len,
        batch_size=2,
        packing="best_fit",
        long_documents=long_documents,
        columns={"value": dc.TokenColumn(parts if one_by_one else values, fill=1, shifted=shifted)},
        **options,
    )
    for batch in deliver(rows):
        assert batch["value"].dtype == torch.from_numpy(values).dtype
        assert batch["value"].tolist() == expected_column(
            [part.tolist() for part in parts],
            batch,
            seq_len,
            fill=values.dtype.type(1).item(),
            shifted=shifted,
            longest=seq_len if long_documents == "truncate" else None,
            **options,
        )


def test_a_shifted_column_stands_where_its_token_is_the_label() -> None:
    tokens = np.arange(1, 11)
    column = dc.TokenColumn(tokens, fill=-100, shifted=True)
    for batch in deliver(make(DOCUMENTS, 4, columns={"next": column})):
        assert torch.equal(batch["next"], batch["labels"])


def test_a_column_that_is_not_shifted_stands_with_its_token() -> None:
    column = dc.TokenColumn(np.arange(1, 11), fill=0)
    for batch in deliver(make(DOCUMENTS, 4, columns={"same": column})):
        assert torch.equal(batch["same"], batch["input_ids"])


@pytest.mark.parametrize(
    ("format", "shape"),
    [("hf", (1, 12)), ("varlen", (12,)), ("flex", (3, 4)), ("megatron", (3, 4))],
)
def test_a_column_has_the_shape_of_its_format(format: str, shape: tuple[int, ...]) -> None:
    column = dc.TokenColumn(np.arange(1, 11, dtype=np.float32))
    rows = make(DOCUMENTS, 4, batch_size=3, format=format, columns={"weight": column})
    weight = next(deliver(rows))["weight"]
    assert weight.shape == shape
    assert weight.flatten().tolist() == [*range(1, 11), 0, 0]


def test_a_padding_row_has_the_fill() -> None:
    column = dc.TokenColumn(np.arange(1, 11, dtype=np.float32), fill=0.5)
    rows = make(DOCUMENTS, 4, batch_size=2, columns={"weight": column})
    last = list(deliver(rows))[-1]["weight"]
    assert last.tolist() == [[9, 10, 0.5, 0.5]]
    ranks = make(DOCUMENTS, 4, batch_size=2, columns={"weight": column}, num_replicas=2, rank=1)
    (batch,) = deliver(ranks)
    assert batch["weight"].tolist() == [[9, 10, 0.5, 0.5], [0.5] * 4]


@pytest.mark.parametrize("dtype", [*DTYPES, "uint16", "uint32", "uint64"])
def test_a_padding_row_of_every_dtype_is_filled(dtype: str) -> None:
    column = dc.TokenColumn(np.ones(10, dtype))
    rows = make(DOCUMENTS, 10, num_replicas=2, rank=1, columns={"c": column})
    (batch,) = deliver(rows)
    assert batch["c"].tolist() == [[0] * 10]


def test_a_corpus_is_a_column() -> None:
    labels = dc.TokenCorpus.open([[-100, 2, 3], [-100, 5], [-100, -100, 8, 9, 10]])
    rows = make(DOCUMENTS, 4, columns={"target": dc.TokenColumn(labels, fill=-100, shifted=True)})
    targets = [batch["target"].flatten().tolist() for batch in deliver(rows)]
    assert targets == [[2, 3, -100, 5], [-100, -100, 8, 9], [10, -100, -100, -100]]


def test_a_column_of_a_file_follows_its_rows(tmp_path: Any) -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"input_ids": DOCUMENTS, "source": [[7] * 3, [8] * 2, [9] * 5]})
    path = tmp_path / "a.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=1)
    corpus = dc.TokenCorpus.open(path, column="input_ids")
    source = dc.TokenColumn(dc.TokenCorpus.open(path, column="source"))
    rows = dc.PackedSampler(
        corpus, seq_len=4, batch_size=1, shuffle=False, columns={"source": source}
    )
    found = [batch["source"].tolist() for batch in deliver(rows)]
    assert found == [[[7, 7, 7, 8]], [[8, 9, 9, 9]], [[9, 9, 0, 0]]]


@pytest.mark.parametrize("dtype", DTYPES)
def test_lists_of_empty_documents_do_not_change_the_values(dtype: str) -> None:
    values: Any = [np.array([1, 0], dtype), [], np.array([1], dtype)]
    rows = make([[7, 8], [], [9]], 4, columns={"c": dc.TokenColumn(values)})
    batch = next(deliver(rows))
    assert batch["c"].tolist() == [[1, 0, 1, 0]]
    assert batch["c"].dtype == torch.from_numpy(np.zeros(1, dtype)).dtype


@pytest.mark.parametrize("dtype", [">i2", ">u4", ">f4", ">f8"])
def test_values_in_another_byte_order_are_the_same_numbers(dtype: str) -> None:
    values = np.arange(10, dtype=dtype)
    rows = make(DOCUMENTS, 10, columns={"c": dc.TokenColumn(values)})
    batch = next(deliver(rows))
    assert batch["c"].tolist() == [values.tolist()]


@pytest.mark.parametrize("fill", [np.inf, -np.inf, np.nan])
def test_a_float_column_is_filled_with_what_is_not_finite_too(fill: float) -> None:
    rows = make(DOCUMENTS, 12, columns={"c": dc.TokenColumn(np.zeros(10, np.float32), fill=fill)})
    filled = next(deliver(rows))["c"][0, 10:]
    assert torch.equal(filled.nan_to_num(7), torch.full((2,), fill).nan_to_num(7))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_workers_give_the_same_columns() -> None:
    column = dc.TokenColumn(np.arange(1, 11, dtype=np.float64))
    rows = make(DOCUMENTS, 4, columns={"weight": column})
    expected = [batch["weight"] for batch in deliver(rows)]
    found = [batch["weight"] for batch in deliver(rows, num_workers=2)]
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_a_data_set_with_columns_pickles() -> None:
    rows = make(DOCUMENTS, 4, columns={"weight": dc.TokenColumn(np.arange(10))})
    index = next(iter(rows))
    data: Any = rows.dataset
    copy = pickle.loads(pickle.dumps(data))
    assert torch.equal(copy[index]["weight"], data[index]["weight"])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            np.zeros(9),
            "columns\\['c'\\] must have a value for each of the corpus's 10 tokens, got 9",
        ),
        ([[1, 2, 3], [4, 5]], "must have a part for each of the corpus's 3 documents, got 2"),
        (
            [[1, 2, 3], [4], [5, 6, 7, 8, 9]],
            "must have as many values as each document has tokens: document 1 has 2, got 1 values",
        ),
        (dc.TokenCorpus.open(counted(3, 3, 5)), "document 1 has 2, got 3 values"),
    ],
)
def test_a_column_of_other_lengths_is_refused(values: Any, message: str) -> None:
    with pytest.raises(dc.ArgumentError, match=message):
        make(DOCUMENTS, 4, columns={"c": dc.TokenColumn(values)})


@pytest.mark.parametrize(
    ("values", "options", "error", "message"),
    [
        (np.zeros((5, 2)), {}, dc.ArgumentError, r"must be flat, got shape \(5, 2\)"),
        (np.zeros(3, dtype=complex), {}, TypeError, "numbers of up to 8 bytes, got complex128"),
        (np.array(["a"]), {}, TypeError, "numbers of up to 8 bytes, got <U1"),
        ([np.zeros(1), np.zeros(1, np.int8)], {}, dc.ArgumentError, "one dtype, got float64, int8"),
        (np.zeros(3, np.int8), {"fill": 200}, dc.ArgumentError, "fill must be .* got fill=200"),
        (np.zeros(3, np.uint8), {"fill": -1}, dc.ArgumentError, "fill must be .* got fill=-1"),
        (np.zeros(3, np.int64), {"fill": 0.5}, dc.ArgumentError, r"fill must be .* got fill=0\.5"),
        (
            np.zeros(3, np.uint64),
            {"fill": 2**64},
            dc.ArgumentError,
            "fill must be a value of .*64,",
        ),
        (np.zeros(3, np.float16), {"fill": 1e5}, dc.ArgumentError, r"fill must be .*=100000\.0"),
        (np.zeros(3), {"fill": None}, TypeError, "fill must be a number, got fill=None"),
        (np.zeros(3), {"fill": "1"}, TypeError, "fill must be a number, got fill='1'"),
        (np.zeros(3), {"shifted": 1}, TypeError, "shifted must be True or False, got shifted=1"),
    ],
)
def test_values_that_are_no_column_are_refused(
    values: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        dc.TokenColumn(values, **options)


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ({"labels": dc.TokenColumn(np.zeros(10))}, dc.ArgumentError, "name of its own, .*'labels'"),
        ([np.zeros(10)], TypeError, r"must be TokenColumn objects by name, got columns=\[array"),
        ({"c": np.zeros(10)}, TypeError, r"must be TokenColumn objects, got columns\['c'\]="),
    ],
)
def test_columns_that_cannot_be_fields_are_refused(
    columns: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make(DOCUMENTS, 4, columns=columns)


def test_columns_come_in_the_order_they_were_given_in() -> None:
    corpus = dc.TokenCorpus.open([[1, 2, 3]])
    values = {"mask": np.uint8, "weight": np.float64, "half": np.float16}
    columns = {name: dc.TokenColumn(np.zeros(3, dtype)) for name, dtype in values.items()}
    rows = dc.PackedSampler(corpus, seq_len=2, batch_size=1, columns=columns)
    batch = next(iter(dc.CursorLoader(rows.dataset, sampler=rows)))
    assert list(batch)[-3:] == ["mask", "weight", "half"]
