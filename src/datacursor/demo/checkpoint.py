"""The state of a training process in one file, which is replaced whole or not at all."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any

import torch

from datacursor.durable import sync_directory

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor, nn


def save_state(state: dict[str, Any], path: Path) -> None:
    """Replace the file at `path`; after a kill it holds the old state or the new one."""
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_directory(path.parent)


def load_state(path: Path) -> dict[str, Any]:
    """Return a saved state; nothing in the file is executed."""
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return state


def hash_parameters(model: nn.Module) -> str:
    """Return the SHA-256 of all parameters, names included."""
    digest = hashlib.sha256()
    for name, parameter in model.named_parameters():
        digest.update(name.encode())
        digest.update(parameter.detach().numpy().tobytes())
    return digest.hexdigest()


def largest_difference(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    """Return the largest absolute difference between two models' parameters.

    Raises:
        ValueError: The models have not the same parameters.
    """
    if a.keys() != b.keys():
        raise ValueError(f"other parameters: {sorted(a)} and {sorted(b)}")
    return max(float((a[name] - b[name]).abs().max()) for name in a)
