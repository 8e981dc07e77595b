"""Batches that leave a worker process in one piece of shared memory.

Every storage that a worker sends costs its receiver a connection and a mapping, more than the
tokens of a small batch cost; tensors over one storage cost one:

    input_ids | labels | position_ids | ... | spans      one storage, each field 64-byte aligned
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

ALIGNMENT = 64  # a cache line


def is_plain(value: Any) -> bool:
    """Whether a value is a tensor of which bytes, dtype and shape are all there is."""
    return (
        type(value) is torch.Tensor
        and value.device.type == "cpu"
        and value.layout is torch.strided
        and not (value.requires_grad or value.is_quantized)
    )


def share(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a batch with its plain tensors copied into one storage of shared memory.

    Args:
        batch: Plain tensors, and values of other kinds, which are kept.
    """
    tensors = {name: value for name, value in batch.items() if is_plain(value)}
    starts, size = {}, 0
    for name, tensor in tensors.items():
        starts[name] = size
        size += -(-tensor.nbytes // ALIGNMENT) * ALIGNMENT
    # As torch's own collate does in workers; the public way would copy twice.
    storage = torch.UntypedStorage._new_shared(size)  # type: ignore[no-untyped-call]  # torch's
    memory = torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage)
    shared = dict(batch)
    for name, tensor in tensors.items():
        part = memory[starts[name] : starts[name] + tensor.nbytes]
        shared[name] = part.view(tensor.dtype).view(tensor.shape).copy_(tensor)
    return shared
