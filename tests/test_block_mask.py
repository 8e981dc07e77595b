"""Packed rows against attention: a document in a row is computed as if it were alone.

The same small transformer, in double precision, reads each document alone and all of them
packed. Where the same numbers are added in another order the last bits differ, so logits are
compared to 1e-12, of values around 1.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, TypeAlias

import pytest
import torch
from packed import deliver, make
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

import datacursor as dc

TOLERANCE = 1e-12
VOCABULARY, WIDTH, HEADS, SEQ_LEN = 50, 16, 2, 24
LENGTHS = [5, 24, 1, 9, 3, 17, 2, 11, 6, 8, 1, 13, 4]

# Queries, keys and values [B, heads, L, width of a head] to the same shape.
Attention: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]


class Model(nn.Module):
    """Two layers of attention and nothing between tokens but it."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(SEQ_LEN, WIDTH)
        self.projections = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(2))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: Tensor, positions: Tensor, attention: Attention) -> Tensor:
        x = self.tokens(ids) + self.positions(positions)
        for projection in self.projections:
            heads = projection(x).unflatten(-1, (3, HEADS, -1))
            queries, keys, values = heads.permute(2, 0, 3, 1, 4)
            x = x + attention(queries, keys, values).transpose(1, 2).flatten(2)
        logits: Tensor = self.head(x)
        return logits


def causal(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return scaled_dot_product_attention(queries, keys, values, is_causal=True)


def make_documents() -> list[list[int]]:
    random = torch.Generator().manual_seed(0)
    return [torch.randint(VOCABULARY, (n,), generator=random).tolist() for n in LENGTHS]


@pytest.fixture(scope="module")
def model() -> Model:
    torch.manual_seed(0)
    return Model().double().requires_grad_(False)  # flex_attention has no backward on a CPU


@pytest.fixture(scope="module")
def alone(model: Model) -> list[Tensor]:
    """The logits of each document, read alone."""
    return [
        model(torch.tensor([ids]), torch.arange(len(ids))[None], causal)[0]
        for ids in make_documents()
    ]


def packed_rows(**options: Any) -> dc.PackedSampler:
    return make(
        make_documents(),
        SEQ_LEN,
        batch_size=2,
        packing="best_fit",
        long_documents="error",
        shuffle=True,
        **options,
    )


def assert_like_alone(
    rows: dc.PackedSampler, flat: Tensor, update: int, alone: list[Tensor]
) -> int:
    """Compare the logits [B * L, vocabulary] of a batch; return the number of documents."""
    spans, row_offsets = rows.spans_of(0, update)
    for row, (first, stop) in enumerate(pairwise(row_offsets.tolist())):
        place = row * SEQ_LEN
        for document, start, end in spans[first:stop].tolist():
            got = flat[place : place + end - start]
            torch.testing.assert_close(got, alone[document], rtol=0, atol=TOLERANCE)
            place += end - start
    return len(spans)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("block_size", [8, 128])
def test_flex_attention_keeps_documents_apart(
    model: Model, alone: list[Tensor], block_size: int
) -> None:
    rows = packed_rows(format="flex")
    seen = 0
    for update, batch in enumerate(deliver(rows)):
        mask = dc.segment_block_mask(batch["segment_ids"], block_size=block_size)

        def attend(q: Tensor, k: Tensor, v: Tensor, mask: Any = mask) -> Tensor:
            mixed: Any = flex_attention(q, k, v, block_mask=mask)
            return mixed  # type: ignore[no-any-return]  # a tensor unless asked for more

        logits = model(batch["input_ids"], batch["position_ids"], attend)
        assert logits.isfinite().all()
        seen += assert_like_alone(rows, logits.flatten(0, 1), update, alone)
        rows.commit()
    assert seen == len(LENGTHS)


def test_a_block_diagonal_mask_keeps_documents_apart(model: Model, alone: list[Tensor]) -> None:
    rows = packed_rows(format="flex")
    for update, batch in enumerate(deliver(rows)):
        mask_mod = dc.segment_mask(batch["segment_ids"])
        mask = create_mask(mask_mod, len(batch["input_ids"]), None, SEQ_LEN, SEQ_LEN, device="cpu")

        def attend(q: Tensor, k: Tensor, v: Tensor, mask: Any = mask) -> Tensor:
            return scaled_dot_product_attention(q, k, v, attn_mask=mask)

        logits = model(batch["input_ids"], batch["position_ids"], attend)
        assert_like_alone(rows, logits.flatten(0, 1), update, alone)
        rows.commit()


@pytest.mark.parametrize("max_documents", [None, 4])
def test_varlen_boundaries_keep_documents_apart(
    model: Model, alone: list[Tensor], max_documents: int | None
) -> None:
    rows = packed_rows(format="varlen", max_documents=max_documents)
    for update, batch in enumerate(deliver(rows)):
        segments = list(pairwise(batch["cu_seqlens"].tolist()))

        def attend(q: Tensor, k: Tensor, v: Tensor, segments: Any = segments) -> Tensor:
            parts = [causal(*(x[:, :, a:b] for x in (q, k, v))) for a, b in segments if a < b]
            return torch.cat(parts, dim=2)

        assert batch["max_seqlen"] == max(b - a for a, b in segments)
        logits = model(batch["input_ids"][None], batch["position_ids"][None], attend)
        assert_like_alone(rows, logits[0], update, alone)
        rows.commit()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch's varlen kernel needs CUDA")
@pytest.mark.parametrize("max_documents", [None, 4])
def test_the_varlen_kernel_attends_as_documents_do_alone(max_documents: int | None) -> None:
    from torch.nn.attention.varlen import varlen_attn

    rows = packed_rows(format="varlen", max_documents=max_documents)
    for batch in deliver(rows):
        num_tokens = len(batch["input_ids"])
        random = torch.Generator("cuda").manual_seed(0)
        shape = (3, num_tokens, HEADS, 64)
        q, k, v = torch.randn(shape, generator=random, device="cuda", dtype=torch.bfloat16)
        ends = batch["cu_seqlens"].cuda()
        longest = batch["max_seqlen"]
        mixed: Any = varlen_attn(q, k, v, ends, ends, longest, longest, window_size=(-1, 0))
        for a, b in pairwise(batch["cu_seqlens"].tolist()):
            if a < b:
                each = (x[a:b].transpose(0, 1)[None] for x in (q, k, v))
                expected = causal(*each)[0].transpose(0, 1)
                torch.testing.assert_close(mixed[a:b], expected, rtol=0, atol=2e-2)
        rows.commit()


def test_a_mask_may_see_later_tokens_of_its_segment() -> None:
    segments = torch.tensor([[0, 0, 1, -1, -1]], dtype=torch.int32)
    mask = create_mask(dc.segment_mask(segments, causal=False), 1, None, 5, 5, device="cpu")
    assert mask[0, 0].int().tolist() == [
        [1, 1, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [0, 0, 1, 0, 0],
        [0, 0, 0, 1, 1],
        [0, 0, 0, 1, 1],
    ]


def test_segments_of_another_shape_are_refused() -> None:
    with pytest.raises(dc.ArgumentError, match=r"must have the shape \[B, L\], got \[3\]"):
        dc.segment_block_mask(torch.zeros(3, dtype=torch.int32))
