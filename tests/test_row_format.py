"""Formats of a batch: the fields of each consumer, by name, dtype, shape and value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from packed import IGNORE, counted, deliver, make

import datacursor as dc
from datacursor.row_format import FORMATS
from datacursor.row_index import RowIndex
from datacursor.rows import RowDataset

IGN = IGNORE
DOCUMENTS = counted(3, 2, 5)  # case 1: rows [1 2 3 4] [5 6 7 8] [9 10 0 0]


def batch_of(**options: Any) -> dict[str, Any]:
    rows = make(DOCUMENTS, 4, batch_size=3, **options)
    batch: dict[str, Any] = next(deliver(rows))
    return batch


def described(batch: dict[str, Any]) -> dict[str, Any]:
    return {
        name: (value.dtype, value.tolist()) if isinstance(value, torch.Tensor) else value
        for name, value in batch.items()
    }


IDS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 0]
SHIFTED = [2, 3, IGN, 5, IGN, 7, 8, 9, 10, IGN, IGN, IGN]
IN_PLACE = [IGN, 2, 3, IGN, IGN, IGN, 7, 8, IGN, 10, IGN, IGN]
POSITIONS = [0, 1, 2, 0, 0, 0, 1, 2, 0, 1, 0, 1]
ENDS = [0, 3, 4, 5, 8, 10, 12]


def in_rows(flat: list[int]) -> list[list[int]]:
    return [flat[0:4], flat[4:8], flat[8:12]]


def test_hf_is_what_a_flattening_collator_gives() -> None:
    assert described(batch_of(format="hf")) == {
        "input_ids": (torch.int64, [IDS]),
        "labels": (torch.int64, [IN_PLACE]),
        "position_ids": (torch.int64, [POSITIONS]),
    }


def test_hf_has_the_boundaries_of_flash_attention_on_request() -> None:
    batch = batch_of(format="hf", flash_attn_kwargs=True)
    assert {name: batch[name] for name in ("max_length_q", "max_length_k")} == {
        "max_length_q": 3,
        "max_length_k": 3,
    }
    for name in ("cu_seq_lens_q", "cu_seq_lens_k"):
        assert (batch[name].dtype, batch[name].tolist()) == (torch.int32, ENDS)
    assert len(batch) == 7


def test_varlen_is_flat_with_its_boundaries() -> None:
    assert described(batch_of(format="varlen")) == {
        "input_ids": (torch.int64, IDS),
        "labels": (torch.int64, SHIFTED),
        "position_ids": (torch.int64, POSITIONS),
        "cu_seqlens": (torch.int32, ENDS),
        "max_seqlen": 3,
    }


def test_flex_has_the_segments_of_a_block_mask() -> None:
    segments = [[0, 0, 0, 1], [0, 1, 1, 1], [0, 0, -1, -1]]
    assert described(batch_of(format="flex")) == {
        "input_ids": (torch.int64, in_rows(IDS)),
        "labels": (torch.int64, in_rows(SHIFTED)),
        "position_ids": (torch.int64, in_rows(POSITIONS)),
        "segment_ids": (torch.int32, segments),
    }


def test_megatron_has_labels_that_are_all_tokens_and_a_float_mask() -> None:
    labels = [0 if label == IGN else label for label in SHIFTED]
    mask = [float(label != IGN) for label in SHIFTED]
    batch = described(batch_of(format="megatron"))
    assert batch["loss_mask"][0] == torch.float32
    assert {name: value for name, (_, value) in batch.items()} == {
        "tokens": in_rows(IDS),
        "labels": in_rows(labels),
        "loss_mask": [mask[0:4], mask[4:8], mask[8:12]],
        "position_ids": in_rows(POSITIONS),
    }


@pytest.mark.parametrize("format", FORMATS)
def test_a_format_holds_the_fields_of_a_whole_batch(format: str) -> None:
    options = {"eos": 99, "shuffle": True, "seed": 4}
    whole = batch_of(labels=FORMATS[format].labels, **options)
    batch = batch_of(format=format, **options)
    for field, names in FORMATS[format].fields.items():
        expected = whole[field]
        if field == "labels" and format == "megatron":
            expected = expected.masked_fill(expected == IGN, 0)
        for name in names:
            got = batch[name]
            if isinstance(got, torch.Tensor):
                assert torch.equal(got.flatten(), expected.flatten().to(got.dtype))
            else:
                assert got == expected


@pytest.mark.parametrize("format", [None, *FORMATS])
def test_one_row_is_a_batch_of_one_without_its_first_dimension(format: str | None) -> None:
    rows = make(DOCUMENTS, 4, format=format)
    data: Any = rows.dataset
    index = next(iter(rows))
    row, (batch,) = data[index], data.__getitems__([index])
    assert row.keys() == batch.keys()
    tokens = row["tokens" if format == "megatron" else "input_ids"]
    assert tokens.tolist() == [1, 2, 3, 4]
    for name, value in row.items():
        assert np.array_equal(np.ravel(value), np.ravel(batch[name]))


@pytest.mark.parametrize("format", [None, *FORMATS])
def test_a_padding_row_has_no_target_in_any_format(format: str | None) -> None:
    data = RowDataset(dc.TokenCorpus.open(DOCUMENTS), seq_len=4, num_rows=2, format=format)
    spans = np.array([[0, 0, 3], [1, 0, 1]])
    real = RowIndex(0, 0, spans)
    (batch,) = data.__getitems__([real, RowIndex(0, 0, spans, is_padding=True)])
    labels = batch["labels"].flatten()
    assert set(labels[4:].tolist()) == {0 if format == "megatron" else IGN}
    if format == "megatron":
        assert batch["loss_mask"].tolist() == [[1, 1, 0, 1], [0, 0, 0, 0]]
    assert batch["position_ids"].flatten()[4:].tolist() == [0, 1, 2, 3]
    if "cu_seqlens" in batch:
        assert batch["cu_seqlens"].tolist() == [0, 3, 4, 8]
        assert batch["max_seqlen"] == 4


# --- Boundaries of one size --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("format", "options", "name"),
    [
        (None, {}, "cu_seqlens"),
        ("varlen", {}, "cu_seqlens"),
        ("hf", {"flash_attn_kwargs": True}, "cu_seq_lens_q"),
    ],
)
def test_boundaries_have_one_size_when_documents_are_limited(
    format: str | None, options: dict[str, Any], name: str
) -> None:
    rows = make(
        counted(1, 1, 1, 1, 1, 8, 3),
        8,
        batch_size=2,
        packing="best_fit",
        long_documents="split",
        max_documents=2,
        format=format,
        **options,
    )
    found = [batch[name].tolist() for batch in deliver(rows)]
    assert {len(ends) for ends in found} == {2 * (2 + 1) + 1}
    assert found[0] == [0, 1, 2, 8, 9, 10, 16]
    assert found[1] == [0, 1, 4, 8, 16, 16, 16]  # an empty segment changes no attention


def test_boundaries_of_one_size_hold_for_a_padding_row() -> None:
    corpus = dc.TokenCorpus.open(DOCUMENTS)
    data = RowDataset(corpus, seq_len=4, num_rows=1, max_documents=3, format="varlen")
    spans = np.array([[0, 0, 3], [1, 0, 1]])
    rows = [RowIndex(0, 0, spans), RowIndex(0, 0, spans, is_padding=True)]
    (batch,) = data.__getitems__(rows)
    assert batch["cu_seqlens"].tolist() == [0, 3, 4, *[8] * 6]


# --- Ids of 32 bits ----------------------------------------------------------------------------


@pytest.mark.parametrize("format", [None, *FORMATS])
def test_ids_of_32_bits_change_no_other_field(format: str | None) -> None:
    wide = batch_of(format=format, bos=98, eos=99, pad_id=7)
    narrow = batch_of(format=format, bos=98, eos=99, pad_id=7, ids_dtype="int32")
    ids = "tokens" if format == "megatron" else "input_ids"
    assert narrow[ids].dtype == torch.int32
    assert narrow.keys() == wide.keys()
    for name, value in wide.items():
        assert np.array_equal(narrow[name], value)
        if name != ids and isinstance(value, torch.Tensor):
            assert narrow[name].dtype == value.dtype


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64, np.int64])
def test_a_token_that_does_not_fit_32_bits_is_named(dtype: Any) -> None:
    documents: Any = [np.array([1, 2**31], dtype)]
    rows = make(documents, 2, ids_dtype="int32")
    message = r"token ids must be in \[0, 2\*\*31\), got 2147483648 in document 0 at token 1"
    with pytest.raises(dc.CorpusError, match=message):
        next(deliver(rows))
    assert next(deliver(make(documents, 2)))["input_ids"].tolist() == [[1, 2**31]]


@pytest.mark.parametrize("name", ["bos", "eos", "pad_id"])
def test_a_special_id_that_does_not_fit_32_bits_is_refused(name: str) -> None:
    special: dict[str, Any] = {name: 2**31}
    message = f"{name} must be in .* with ids_dtype='int32', got {name}=2147483648"
    with pytest.raises(dc.ArgumentError, match=message):
        make(DOCUMENTS, 4, ids_dtype="int32", **special)


# --- Refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "jax"}, "format must be one of 'hf', 'varlen', 'flex', 'megatron', got"),
        ({"format": "hf", "labels": "shifted"}, "labels must be 'hf' with format='hf'"),
        ({"format": "megatron", "labels": "hf"}, "labels must be 'shifted' with format='megatron'"),
        ({"format": "hf", "positions": "document"}, "positions must be 'segment' with format='hf'"),
        ({"flash_attn_kwargs": True}, "flash_attn_kwargs=True needs format='hf', got format=None"),
        ({"ids_dtype": "uint16"}, "ids_dtype must be one of 'int64', 'int32', got"),
    ],
)
def test_what_no_consumer_takes_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(dc.ArgumentError, match=message):
        make(DOCUMENTS, 4, **options)


@pytest.mark.parametrize("format", ["varlen", "flex"])
def test_labels_in_place_where_the_consumer_leaves_the_choice(format: str) -> None:
    batch = batch_of(format=format, labels="hf")
    assert batch["labels"].flatten().tolist() == IN_PLACE
