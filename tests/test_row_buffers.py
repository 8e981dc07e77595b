"""RowBuffers: memory is used again, but never while anybody holds a part of the batch."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from packed import counted, deliver, make

import datacursor as dc
from datacursor.row_buffers import RowBuffers


def lend(buffers: RowBuffers, value: int, size: int = 8) -> torch.Tensor:
    array = np.frombuffer(buffers.lend(8 * size), np.int64)
    return torch.from_numpy(array).fill_(value)


def test_memory_that_nobody_holds_is_used_again() -> None:
    buffers = RowBuffers()
    address = lend(buffers, 1).data_ptr()
    assert lend(buffers, 2).data_ptr() == address


def test_memory_of_another_size_is_not_lent() -> None:
    buffers = RowBuffers()
    lend(buffers, 1, size=8)
    assert len(buffers.lend(72)) == 72


def test_two_batches_at_once_have_memory_of_their_own() -> None:
    buffers = RowBuffers()
    first, second = lend(buffers, 1), lend(buffers, 2)
    assert first.tolist() == [1] * 8
    assert second.tolist() == [2] * 8


class Linear(torch.autograd.Function):
    """Saves its input for the backward pass, as an embedding does."""

    @staticmethod
    def forward(ctx: Any, weight: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(ids)
        return weight * len(ids)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[torch.Tensor, None]:
        (ids,) = ctx.saved_tensors
        return grads[0] * ids.sum(), None


def saved_for_backward(ids: torch.Tensor) -> Any:
    weight = torch.ones((), requires_grad=True)
    output: Any = Linear.apply(weight, ids)  # type: ignore[no-untyped-call]  # torch's own
    return weight, output


KEPT: dict[str, tuple[Callable[[torch.Tensor], Any], Callable[[Any], Any]]] = {
    # what is kept of a tensor, and what it must still say
    "the tensor": (lambda t: t, lambda k: k.tolist() == [1] * 8),
    "a slice": (lambda t: t[3:5], lambda k: k.tolist() == [1, 1]),
    "a view": (lambda t: t.view(2, 4)[1], lambda k: k.tolist() == [1] * 4),
    "other bytes": (lambda t: t.view(torch.int32), lambda k: int(k.sum()) == 8),
    "a detached tensor": (lambda t: t.detach(), lambda k: k.tolist() == [1] * 8),
    "its storage": (lambda t: t.untyped_storage(), lambda k: sum(k.tolist()) == 8),
    "an array": (lambda t: t.numpy(), lambda k: k.tolist() == [1] * 8),
    "a part of an array": (lambda t: t.numpy()[2:], lambda k: k.tolist() == [1] * 6),
    "a memoryview": (lambda t: t.numpy().data, lambda k: list(k) == [1] * 8),
    "DLPack": (np.from_dlpack, lambda k: k.tolist() == [1] * 8),
    "saved for backward": (
        saved_for_backward,
        lambda k: torch.autograd.grad(k[1], k[0])[0].item() == 8,
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_is_kept_of_a_batch_is_never_written_over(name: str) -> None:
    keep, is_whole = KEPT[name]
    buffers = RowBuffers()
    kept = keep(lend(buffers, 1))
    gc.collect()
    for value in range(2, 40):
        lend(buffers, value)
    assert is_whole(kept)


def test_fields_over_one_memory_keep_it_until_the_last_is_gone() -> None:
    buffers = RowBuffers()
    memory = buffers.lend(128)
    first = torch.from_numpy(np.frombuffer(memory, np.int64, 8)).fill_(1)
    second = torch.from_numpy(np.frombuffer(memory, np.int64, 8, 64).reshape(4, 2)).fill_(2)
    address = first.data_ptr()
    part = np.frombuffer(memory, np.int32, 16, 64).reshape(4, 4)[1:, :2].reshape(-1)
    del memory, first
    assert lend(buffers, 3, size=16).data_ptr() != address
    del second
    assert lend(buffers, 3, size=16).data_ptr() != address
    assert part.tolist() == [2, 0, 2, 0, 2, 0]
    del part
    assert {lend(buffers, 3, size=16).data_ptr() for _ in range(3)} >= {address}


def test_free_memory_has_a_limit() -> None:
    buffers = RowBuffers()
    many = [lend(buffers, value) for value in range(100)]
    del many
    assert len(buffers._free) == 4
    assert not buffers._loans


def test_buffers_pickle_without_their_memory() -> None:
    buffers = RowBuffers()
    lend(buffers, 1, size=10_000)
    assert len(pickle.dumps(buffers)) < 100
    assert lend(pickle.loads(pickle.dumps(buffers)), 3).tolist() == [3] * 8


# --- Batches -----------------------------------------------------------------------------------


def batches(**options: Any) -> list[dict[str, Any]]:
    rows = make(counted(*[30] * 20), 16, batch_size=4, shuffle=True, **options)
    return list(deliver(rows))


@pytest.mark.parametrize("format", [None, "hf", "varlen", "flex", "megatron"])
def test_batches_that_are_all_kept_equal_batches_that_are_copied(format: str | None) -> None:
    kept = batches(format=format)
    rows = make(counted(*[30] * 20), 16, batch_size=4, shuffle=True, format=format)
    copied = [copy.deepcopy(batch) for batch in deliver(rows)]
    assert len(kept) == len(copied) == 10
    for batch, reference in zip(kept, copied, strict=True):
        assert all(np.array_equal(batch[name], reference[name]) for name in reference)


def test_an_epoch_without_workers_writes_into_the_same_memory() -> None:
    rows = make(counted(*[30] * 20), 16, batch_size=4, shuffle=True)
    addresses = set()
    for batch in deliver(rows):
        addresses.add(batch["input_ids"].data_ptr())
        del batch
    assert len(addresses) < 10


@pytest.mark.skipif(not torch.cuda.is_available(), reason="pinning needs CUDA")
def test_pinned_batches_equal_batches_in_pageable_memory() -> None:
    expected = batches()
    rows = make(counted(*[30] * 20), 16, batch_size=4, shuffle=True)
    loader: Any = dc.CursorLoader(rows.dataset, sampler=rows, pin_memory=True)
    moved = []
    for batch in loader:
        tensors = {k: v for k, v in batch.items() if isinstance(v, torch.Tensor)}
        moved.append({k: v.to("cuda", non_blocking=True) for k, v in tensors.items()})
    torch.cuda.synchronize()
    for batch, reference in zip(moved, expected, strict=True):
        assert all(torch.equal(batch[name].cpu(), reference[name]) for name in batch)
