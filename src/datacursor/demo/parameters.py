"""Parameters compared: their hash, and how far those of two models are apart."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn


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
