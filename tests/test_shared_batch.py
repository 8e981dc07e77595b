"""Batches of worker processes in one piece of shared memory."""

from __future__ import annotations

import pickle
from multiprocessing.reduction import ForkingPickler
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import datacursor as dc
from datacursor.shared_batch import share

BATCH: dict[str, Any] = {
    "input_ids": torch.arange(15).view(3, 5),
    "loss_mask": torch.tensor([True, False, True]),
    "weights": torch.rand(7, dtype=torch.float64),
    "scalar": torch.tensor(2.5),
    "nothing": torch.empty((0, 3), dtype=torch.int32),
    "max_seqlen": 5,
}


def storages_of(batch: dict[str, Any]) -> set[int]:
    tensors = [value for value in batch.values() if isinstance(value, torch.Tensor)]
    return {tensor.untyped_storage().data_ptr() for tensor in tensors}


def test_every_value_stays_as_it_was() -> None:
    shared = share(BATCH)
    assert list(shared) == list(BATCH)
    for name, value in BATCH.items():
        if isinstance(value, torch.Tensor):
            assert shared[name].dtype == value.dtype
            assert shared[name].shape == value.shape
            assert torch.equal(shared[name], value)
        else:
            assert shared[name] is value


def test_the_tensors_are_one_storage_of_shared_memory() -> None:
    shared = share(BATCH)
    assert len(storages_of(shared)) == 1
    assert shared["input_ids"].is_shared()


def test_the_tensors_are_aligned_and_apart() -> None:
    shared = share(BATCH)
    for name, value in shared.items():
        if isinstance(value, torch.Tensor) and value.numel() > 0:
            assert value.data_ptr() % 64 == 0
            value.fill_(0)
            others = {other: shared[other] for other in shared if other not in (name, "max_seqlen")}
            assert all(torch.equal(others[other], BATCH[other]) for other in others)
            value.copy_(BATCH[name])


def test_a_batch_without_tensors_is_shared_too() -> None:
    assert share({"max_seqlen": 3}) == {"max_seqlen": 3}
    assert torch.equal(share({"empty": torch.empty(0)})["empty"], torch.empty(0))


def test_it_is_sent_as_one_storage() -> None:
    shared = share(BATCH)
    data = bytes(ForkingPickler.dumps(shared))
    assert data.count(b"rebuild_storage") == 1
    received = pickle.loads(data)
    assert len(storages_of(received)) == 1
    assert torch.equal(received["input_ids"], BATCH["input_ids"])


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("format", [None, "hf", "varlen", "flex", "megatron"])
def test_workers_of_a_plain_loader_send_one_storage_a_batch(format: str | None) -> None:
    corpus = dc.TokenCorpus.open([[1, 2, 3], [4, 5], [6, 7, 8, 9, 10]])
    rows = dc.PackedSampler(corpus, seq_len=4, batch_size=2, format=format)
    loader: Any = DataLoader(rows.dataset, batch_size=2, sampler=rows, num_workers=1)
    batches = list(loader)
    assert len(batches) == 2
    assert [len(storages_of(batch)) for batch in batches] == [1, 1]
