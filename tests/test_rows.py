"""RowDataset: spans in, batches out; and RowIndex, which carries the spans to workers."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, default_collate

from datacursor.errors import ArgumentError, CorpusError
from datacursor.row_index import RowIndex, RowIndices
from datacursor.rows import RowBatch, RowDataset
from datacursor.tokens import TokenCorpus

IGN = -100
CASE_1 = [[1, 2, 3], [4, 5], [6, 7, 8, 9, 10]]
CASE_1_ROWS = [[(0, 0, 3), (1, 0, 1)], [(1, 1, 2), (2, 0, 3)], [(2, 3, 5)]]
CASE_7 = [[1, 2], [3], [4, 5, 6]]
CASE_7_ROWS = [[(0, 0, 3), (1, 0, 1)], [(1, 1, 2), (2, 0, 3)], [(2, 3, 4)]]


def row_indices(rows: list[list[tuple[int, int, int]]]) -> list[RowIndex]:
    return [RowIndex(row, 0, np.array(spans)) for row, spans in enumerate(rows)]


def dataset(documents: Any, seq_len: int = 4, **options: Any) -> RowDataset:
    return RowDataset(TokenCorpus.open(documents), seq_len=seq_len, num_rows=3, **options)


def gather(source: RowDataset, rows: Sequence[RowIndex]) -> dict[str, Any]:
    (batch,) = source.__getitems__(rows)
    return batch


def write_file(path: Path, table: Any, **options: Any) -> Path:
    import pyarrow as pa

    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, **options)
    return path


def run_python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


# --- Cases with right values ---------------------------------------------------------------

CASES: dict[str, tuple[Any, dict[str, Any], list[Any], dict[str, Any]]] = {
    # documents, options, rows, expected fields
    "1: joined and cut": (
        CASE_1,
        {},
        CASE_1_ROWS[:2],
        {
            "input_ids": [[1, 2, 3, 4], [5, 6, 7, 8]],
            "labels": [[2, 3, IGN, 5], [IGN, 7, 8, 9]],
            "position_ids": [[0, 1, 2, 0], [0, 0, 1, 2]],
            "segment_ids": [[0, 0, 0, 1], [0, 1, 1, 1]],
            "cu_seqlens": [0, 3, 4, 5, 8],
            "max_seqlen": 3,
            "num_targets": 6,
        },
    ),
    "2: padded": (
        CASE_1,
        {},
        CASE_1_ROWS[2:],
        {
            "input_ids": [[9, 10, 0, 0]],
            "labels": [[10, IGN, IGN, IGN]],
            "position_ids": [[0, 1, 0, 1]],
            "segment_ids": [[0, 0, -1, -1]],
            "loss_mask": [[True, False, False, False]],
            "cu_seqlens": [0, 2, 4],
            "num_targets": 1,
        },
    ),
    "3: documents that fill their rows": (
        [[1, 2, 3, 4], [5, 6, 7, 8]],
        {},
        [[(0, 0, 4)], [(1, 0, 4)]],
        {
            "input_ids": [[1, 2, 3, 4], [5, 6, 7, 8]],
            "labels": [[2, 3, 4, IGN], [6, 7, 8, IGN]],
            "cu_seqlens": [0, 4, 8],
        },
    ),
    "4: empty documents between": (
        [[1], [], [2, 3], [], [4]],
        {},
        [[(0, 0, 1), (2, 0, 2), (4, 0, 1)]],
        {
            "input_ids": [[1, 2, 3, 4]],
            "labels": [[IGN, 3, IGN, IGN]],
            "cu_seqlens": [0, 1, 3, 4],
        },
    ),
    "5: one document over three rows": (
        [list(range(1, 12)), [21]],
        {},
        [[(0, 0, 4)], [(0, 4, 8)], [(0, 8, 11), (1, 0, 1)]],
        {
            "input_ids": [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 21]],
            "labels": [[2, 3, 4, 5], [6, 7, 8, 9], [10, 11, IGN, IGN]],
        },
    ),
    "6: positions go on in a split document": (
        CASE_1,
        {"positions": "document"},
        CASE_1_ROWS[:2],
        {"position_ids": [[0, 1, 2, 0], [1, 0, 1, 2]]},
    ),
    "7: pad is eos": (
        CASE_7,
        {"eos": 99, "pad_id": 99},
        CASE_7_ROWS,
        {
            "input_ids": [[1, 2, 99, 3], [99, 4, 5, 6], [99, 99, 99, 99]],
            "labels": [[2, 99, IGN, 99], [IGN, 5, 6, 99], [IGN, IGN, IGN, IGN]],
            "segment_ids": [[0, 0, 0, 1], [0, 1, 1, 1], [0, -1, -1, -1]],
        },
    ),
    "18: slice and null list": (
        None,
        {},
        [[(0, 0, 2), (2, 0, 2)]],
        {"input_ids": [[5, 6, 7, 8]], "labels": [[6, IGN, 8, IGN]]},
    ),
    "20: highest u16": (
        [np.array([1, 65535], dtype=np.uint16)],
        {},
        [[(0, 0, 2)]],
        {"input_ids": [[1, 65535, 0, 0]], "labels": [[65535, IGN, IGN, IGN]]},
    ),
    "20: highest u32": (
        [np.array([1, 4294967295], dtype=np.uint32)],
        {},
        [[(0, 0, 2)]],
        {"input_ids": [[1, 4294967295, 0, 0]], "labels": [[4294967295, IGN, IGN, IGN]]},
    ),
    "23: boundaries of two rows": (
        [[1, 2, 3, 4], [5], [6, 7, 8]],
        {},
        [[(0, 0, 4)], [(1, 0, 1), (2, 0, 3)]],
        {"cu_seqlens": [0, 4, 5, 8], "max_seqlen": 4},
    ),
    "labels in place, as Hugging Face models shift them": (
        CASE_1,
        {"labels": "hf"},
        CASE_1_ROWS,
        {"labels": [[IGN, 2, 3, IGN], [IGN, IGN, 7, 8], [IGN, 10, IGN, IGN]], "num_targets": 5},
    ),
}


def sliced_arrow_list() -> Any:
    pa = pytest.importorskip("pyarrow")
    return pa.array([[1, 2], [3, 4], [5, 6], None, [7, 8]], pa.list_(pa.uint16())).slice(2)


@pytest.mark.parametrize("name", CASES)
def test_case_with_right_values(name: str) -> None:
    documents, options, rows, expected = CASES[name]
    batch = gather(dataset(documents or sliced_arrow_list(), **options), row_indices(rows))
    fields = {key: batch[key] for key in expected}
    assert {
        key: value.tolist() if isinstance(value, torch.Tensor) else value
        for key, value in fields.items()
    } == expected


# --- Batches -------------------------------------------------------------------------------


def test_batch_has_the_documented_fields() -> None:
    batch = gather(dataset(CASE_1), row_indices(CASE_1_ROWS))
    shapes = {
        name: (value.dtype, tuple(value.shape)) if isinstance(value, torch.Tensor) else type(value)
        for name, value in batch.items()
    }
    assert shapes == {
        "input_ids": (torch.int64, (3, 4)),
        "labels": (torch.int64, (3, 4)),
        "position_ids": (torch.int64, (3, 4)),
        "segment_ids": (torch.int32, (3, 4)),
        "loss_mask": (torch.bool, (3, 4)),
        "cu_seqlens": (torch.int32, (7,)),
        "max_seqlen": int,
        "num_targets": int,
        "spans": (torch.int64, (5, 3)),
        "row_offsets": (torch.int64, (4,)),
    }
    assert batch["spans"].tolist() == [list(span) for row in CASE_1_ROWS for span in row]
    assert batch["row_offsets"].tolist() == [0, 2, 4, 5]
    assert torch.equal(batch["loss_mask"], batch["labels"] != IGN)


def test_batches_share_no_memory() -> None:
    source, rows = dataset(CASE_1), row_indices(CASE_1_ROWS)
    first, expected = gather(source, rows), gather(source, rows)
    for value in first.values():
        if isinstance(value, torch.Tensor):
            value.zero_()
    again = gather(source, rows)
    assert all(np.array_equal(again[name], expected[name]) for name in expected)


def test_one_row_is_a_batch_of_one_without_its_first_dimension() -> None:
    source, rows = dataset(CASE_1), row_indices(CASE_1_ROWS)
    row, batch = source[rows[1]], gather(source, rows[1:2])
    assert type(row) is dict
    assert row["input_ids"].tolist() == [5, 6, 7, 8]
    for name in ("input_ids", "labels", "position_ids", "segment_ids", "loss_mask"):
        assert torch.equal(row[name], batch[name][0])
    for name in ("cu_seqlens", "max_seqlen", "num_targets", "spans", "row_offsets"):
        assert np.array_equal(row[name], batch[name])


def test_padding_row_keeps_its_tokens_and_has_no_targets() -> None:
    rows = row_indices(CASE_1_ROWS)
    rows[1] = RowIndex(1, 0, rows[1].spans, is_padding=True)
    batch = gather(dataset(CASE_1), rows)
    real = gather(dataset(CASE_1), row_indices(CASE_1_ROWS))
    assert torch.equal(batch["input_ids"], real["input_ids"])
    assert batch["labels"][1].tolist() == [IGN] * 4
    assert batch["segment_ids"][1].tolist() == [-1] * 4
    assert batch["position_ids"][1].tolist() == [0, 1, 2, 3]
    assert batch["loss_mask"].sum().item() == batch["num_targets"] == 4
    assert batch["cu_seqlens"].tolist() == [0, 3, 4, 8, 10, 12]
    assert batch["max_seqlen"] == 4
    for name in ("labels", "segment_ids", "position_ids"):
        assert torch.equal(batch[name][[0, 2]], real[name][[0, 2]])


def test_rows_span_several_shards() -> None:
    pa = pytest.importorskip("pyarrow")
    chunks = [
        pa.array([[1, 2, 3]], pa.list_(pa.uint16())),
        pa.array([[4, 5]], pa.list_(pa.uint16())),
    ]
    batch = gather(dataset(pa.chunked_array(chunks)), row_indices(CASE_1_ROWS[:1]))
    assert batch["input_ids"].tolist() == [[1, 2, 3, 4]]


def test_pad_is_eos_unless_given() -> None:
    assert dataset(CASE_7).pad_id == 0
    assert dataset(CASE_7, eos=99).pad_id == 99
    assert dataset(CASE_7, eos=99, pad_id=7).pad_id == 7


def test_length_and_fingerprint() -> None:
    source = dataset(CASE_1)
    assert len(source) == 3
    assert source.fingerprint == TokenCorpus.open(CASE_1).fingerprint


# --- Refusals ------------------------------------------------------------------------------


def test_plain_int_is_refused_with_the_remedy() -> None:
    source: Any = dataset(CASE_1)
    for read in (source.__getitem__, lambda row: source.__getitems__([row])):
        with pytest.raises(TypeError, match="RowIndex objects that its sampler yields, got int 7"):
            read(7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seq_len": 0}, r"seq_len must be in \[1, 2\*\*31\), got seq_len=0"),
        ({"seq_len": 4.0}, r"seq_len must be an integer, got seq_len=4\.0"),
        ({"num_rows": -1}, "num_rows must be in .*got num_rows=-1"),
        ({"bos": -1}, "bos must be in .*got bos=-1"),
        ({"eos": 2**63}, "eos must be in .*got eos=9223372036854775808"),
        ({"pad_id": True}, "pad_id must be an integer, got pad_id=True"),
        ({"labels": "next"}, r"labels must be one of 'shifted', 'hf', got labels='next'"),
        ({"positions": "row"}, "positions must be one of .*, got positions='row'"),
    ],
)
def test_wrong_arguments_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ArgumentError, TypeError), match=message):
        RowDataset(TokenCorpus.open(CASE_1), **({"seq_len": 4, "num_rows": 1} | options))


@pytest.mark.parametrize("span", [(3, 0, 1), (-1, 0, 1), (0, 0, 4), (0, 2, 1), (0, -1, 1)])
def test_spans_outside_the_corpus_are_refused(span: tuple[int, int, int]) -> None:
    with pytest.raises(ArgumentError):
        gather(dataset(CASE_1), row_indices([[span]]))


def test_negative_token_names_document_and_place() -> None:
    with pytest.raises(CorpusError, match=r"got -7 in document 1 at token 1"):
        gather(dataset([[1], [2, -7]]), row_indices([[(1, 0, 2)]]))


def test_file_truncated_in_use_is_an_error_and_not_a_signal(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    write_file(tmp_path / "a.arrow", pa.table({"ids": [list(range(50_000))] * 4}))
    program = """
        import os, sys
        import numpy as np
        from datacursor.errors import CorpusError
        from datacursor.row_index import RowIndex
        from datacursor.rows import RowDataset
        from datacursor.tokens import TokenCorpus

        rows = RowDataset(TokenCorpus.open(sys.argv[1]), seq_len=8, num_rows=1)
        row = RowIndex(0, 0, np.array([[3, 40_000, 40_008]]))
        assert rows[row]["input_ids"][0] == 40_000
        os.truncate(sys.argv[1], 4096)
        try:
            rows[row]
        except CorpusError as error:
            assert "a.arrow changed while in use" in str(error)
        else:
            raise SystemExit("nothing was raised")
    """
    result = run_python(program, str(tmp_path / "a.arrow"))
    assert result.returncode == 0, result.stderr


# --- RowIndex ------------------------------------------------------------------------------


def test_row_index_is_the_number_of_its_row() -> None:
    row = RowIndex(5, 2, np.array([[1, 0, 4]]))
    assert row == 5
    assert hash(row) == hash(5)
    assert list("abcdef")[row] == "f"
    assert (row.epoch, row.is_padding) == (2, False)
    assert repr(row) == "RowIndex(5, epoch=2, spans=[[1, 0, 4]])"


def test_rows_in_one_array_are_the_rows_one_by_one() -> None:
    spans = np.array([span for row in CASE_1_ROWS for span in row])
    rows = RowIndices(7, 3, spans, np.array([0, 2, 4, 5]))
    assert len(rows) == 3
    assert [(int(row), row.epoch, row.is_padding) for row in rows] == [
        (7, 3, False),
        (8, 3, False),
        (9, 3, False),
    ]
    assert [row.spans.tolist() for row in rows] == [[list(s) for s in row] for row in CASE_1_ROWS]
    assert (rows[-1], rows[1:], 8 in rows) == (9, [8, 9], True)
    with pytest.raises(IndexError):
        rows[3]
    together, apart = gather(dataset(CASE_1), rows), gather(dataset(CASE_1), list(rows))
    assert {k: np.asarray(v).tolist() for k, v in together.items()} == {
        k: np.asarray(v).tolist() for k, v in apart.items()
    }


def test_spans_of_a_batch_are_a_copy() -> None:
    rows = RowIndices(0, 0, np.array(CASE_1_ROWS[0]), np.array([0, 2]))
    batch = gather(dataset(CASE_1), rows)
    batch["spans"].zero_()
    batch["row_offsets"].zero_()
    assert rows[0].spans.tolist() == [list(span) for span in CASE_1_ROWS[0]]


def test_row_index_survives_pickling() -> None:
    row = RowIndex(5, 2, np.array([[1, 0, 4], [2, 3, 2**40]]), is_padding=True)
    data = pickle.dumps(row)
    copy = pickle.loads(data)
    assert type(copy) is RowIndex
    assert copy == row
    assert (copy.epoch, copy.is_padding) == (2, True)
    assert copy.spans.dtype == np.int64
    assert copy.spans.tolist() == row.spans.tolist()
    assert len(data) < 160


def test_row_without_spans_survives_pickling() -> None:
    copy = pickle.loads(pickle.dumps(RowIndex(0, 0, np.empty((0, 3), dtype=np.int64))))
    assert copy.spans.shape == (0, 3)


# --- Loaders -------------------------------------------------------------------------------


def test_default_collate_returns_the_batch_as_a_plain_dict() -> None:
    batches = dataset(CASE_1).__getitems__(row_indices(CASE_1_ROWS))
    assert type(batches[0]) is RowBatch
    collated = default_collate(batches)
    assert type(collated) is dict
    assert collated.keys() == batches[0].keys()
    assert collated["input_ids"] is batches[0]["input_ids"]


def test_collated_batches_are_not_collated_again() -> None:
    batches = dataset(CASE_1).__getitems__(row_indices(CASE_1_ROWS))
    with pytest.raises(TypeError, match="collated already, got 2"):
        default_collate(batches * 2)


def assert_equal_batches(got: list[Any], expected: list[Any]) -> None:
    assert len(got) == len(expected)
    for batch, reference in zip(got, expected, strict=True):
        assert type(batch) is dict
        assert batch.keys() == reference.keys()
        assert all(np.array_equal(batch[name], reference[name]) for name in reference)


def test_data_set_pickles_after_use() -> None:
    source, rows = dataset(CASE_1), row_indices(CASE_1_ROWS)
    expected = gather(source, rows)
    copy = pickle.loads(pickle.dumps(source))
    assert_equal_batches([dict(gather(copy, rows))], [expected])


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize(
    ("method", "source"), [("fork", "memory"), ("fork", "file"), ("spawn", "file")]
)
def test_workers_give_the_same_batches(method: str, source: str, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    lengths = rng.integers(8, 30, size=40)
    documents: Any = [rng.integers(0, 65536, size=n).astype(np.uint16) for n in lengths]
    if source == "file":
        table = pa.table({"ids": documents})
        documents = write_file(tmp_path / "a.arrow", table, max_chunksize=7)
    data = dataset(documents, seq_len=16, eos=7)
    rows = row_indices([[(d, 0, 8), (39 - d, 3, 9)] for d in range(40)])
    expected = list(DataLoader(data, batch_size=3, sampler=rows))
    assert len(expected) == 14
    workers = DataLoader(
        data, batch_size=3, sampler=rows, num_workers=2, multiprocessing_context=method
    )
    assert_equal_batches(list(workers), expected)
