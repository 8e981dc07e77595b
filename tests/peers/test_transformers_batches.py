"""Batches with format="hf" against transformers: its flattening collator and its models."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from packed import counted, deliver, make

import datacursor as dc

SEQ_LEN = 16
LENGTHS = [5, 16, 1, 9, 3, 11, 2, 8, 6, 13]


def flattened(rows: dc.PackedSampler, update: int, **options: Any) -> dict[str, Any]:
    """The segments of a batch, padding as one of its own, through transformers' collator."""
    from transformers import DataCollatorWithFlattening

    documents = counted(*LENGTHS)
    spans, row_offsets = rows.spans_of(0, update)
    features = []
    for first, stop in pairwise(row_offsets.tolist()):
        parts = [documents[d][start:end] for d, start, end in spans[first:stop].tolist()]
        features += [{"input_ids": part} for part in parts]
        num_padding = SEQ_LEN - sum(map(len, parts))
        if num_padding > 0:
            ids = [0] * num_padding
            features.append({"input_ids": ids, "labels": [-100] * num_padding})
    for feature in features:  # the collator asks the first one whether there are labels
        feature.setdefault("labels", feature["input_ids"])
    batch: dict[str, Any] = DataCollatorWithFlattening(**options)(features, return_tensors="pt")
    return batch


@pytest.mark.parametrize("flash_attn_kwargs", [False, True])
@pytest.mark.parametrize("packing", ["concat", "best_fit"])
def test_a_batch_is_that_of_the_flattening_collator(packing: str, flash_attn_kwargs: bool) -> None:
    rows = make(
        counted(*LENGTHS),
        SEQ_LEN,
        batch_size=2,
        packing=packing,
        long_documents="split",
        shuffle=True,
        format="hf",
        flash_attn_kwargs=flash_attn_kwargs,
    )
    update = -1
    for update, batch in enumerate(deliver(rows)):
        expected = flattened(rows, update, return_flash_attn_kwargs=flash_attn_kwargs)
        assert batch.keys() == expected.keys()
        for name, value in expected.items():
            assert np.array_equal(batch[name], value), name
            if isinstance(value, torch.Tensor):
                assert batch[name].dtype == value.dtype
        rows.commit()
    assert update > 0


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_a_model_reads_each_document_as_if_it_were_alone(attention: str) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=100,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=SEQ_LEN,
        attn_implementation=attention,
    )
    model: Any = LlamaForCausalLM(config).double().eval()
    documents = counted(*LENGTHS)
    rows = make(
        documents, SEQ_LEN, batch_size=2, packing="best_fit", long_documents="error", format="hf"
    )
    for update, batch in enumerate(deliver(rows)):
        with torch.no_grad():
            logits = model(**batch, use_cache=False).logits[0]
        spans, row_offsets = rows.spans_of(0, update)
        for row, (first, stop) in enumerate(pairwise(row_offsets.tolist())):
            place = row * SEQ_LEN
            for document, start, end in spans[first:stop].tolist():
                with torch.no_grad():
                    alone = model(torch.tensor([documents[document]]), use_cache=False).logits[0]
                got = logits[place : place + end - start]
                # RoPE is computed in single precision at places that differ by nothing.
                torch.testing.assert_close(got, alone, rtol=0, atol=1e-6)
                place += end - start
        rows.commit()
