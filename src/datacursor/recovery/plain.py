"""Values that `torch.load(weights_only=True)` reads, and nothing else."""

from __future__ import annotations

from types import NoneType
from typing import Any

import numpy as np
import torch

# Exactly these: a member of an enum is an int or a str, and is refused.
_READABLE = (NoneType, bool, int, float, complex, str, bytes, torch.dtype, torch.device)


def plain(path: str, value: object) -> Any:
    """Return a state with its containers copied and its tensors detached, not copied.

    Args:
        path: Name of the value, for the error.
        value: Nested dicts, lists and tuples of tensors, numbers, text, bytes, None, torch's
            dtypes and devices. NumPy scalars become Python's.

    Raises:
        TypeError: It holds something else, which a safe load would refuse.
    """
    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, dict):
        return {key: plain(f"{path}/{key}", item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [plain(f"{path}/{number}", item) for number, item in enumerate(value)]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in _READABLE:
        return value
    raise TypeError(
        f"{path} cannot be saved: {type(value).__name__}; a state must be made of tensors, "
        "numbers, text, bytes, None, dicts, lists and tuples"
    )
