"""Digests of state dicts, leaf by leaf: equal digests mean equal bytes, never a mere `==`."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_DIGEST_NUM_BYTES = 16


def digest_tree(tree: object) -> dict[str, str]:
    """Return the BLAKE2b digest of every leaf of a state dict, by its path.

    0.0 and -0.0 differ, and a NaN equals the same NaN: a tensor counts by dtype, shape and bytes,
    a float by its eight bytes. Lists and tuples are alike.

    Args:
        tree: Nested dicts, lists and tuples of tensors, numbers, text, bytes, None, torch's
            dtypes and devices.

    Returns:
        Hexadecimal digests by path, such as "optimizer/state/0/exp_avg"; "" is the tree itself if
        it is a leaf. An empty container is a leaf.

    Raises:
        TypeError: A leaf is of another type.
        ValueError: Two leaves have one path.
    """
    digests: dict[str, str] = {}
    for path, leaf in _leaves("", tree):
        if path in digests:
            raise ValueError(f"two leaves have the path {path!r}")
        digests[path] = _digest(path, leaf)
    return digests


def _leaves(path: str, tree: object) -> Iterator[tuple[str, object]]:
    items: Iterator[tuple[object, object]]
    if isinstance(tree, dict) and tree:
        items = iter(tree.items())
    elif isinstance(tree, (list, tuple)) and tree:
        items = enumerate(tree)
    else:
        yield path, tree
        return
    for key, value in items:
        yield from _leaves(f"{path}/{key}" if path else str(key), value)


def _digest(path: str, leaf: object) -> str:
    kind, data = _encode(path, leaf)
    digest = hashlib.blake2b(digest_size=_DIGEST_NUM_BYTES)
    digest.update(f"{kind}\n".encode())
    digest.update(data)
    return digest.hexdigest()


def _encode(path: str, leaf: object) -> tuple[str, Any]:
    """Return what kind of leaf it is and its bytes."""
    if isinstance(leaf, torch.Tensor):
        return f"{leaf.dtype} {tuple(leaf.shape)}", bytes_of(leaf)
    if isinstance(leaf, (dict, list, tuple)):
        return "empty dict" if isinstance(leaf, dict) else "empty list", b""
    if isinstance(leaf, float):
        return "float", struct.pack("<d", leaf)
    if isinstance(leaf, (bytes, bytearray)):
        return "bytes", leaf
    if leaf is None or isinstance(leaf, (bool, int, str, torch.dtype, torch.device)):
        return type(leaf).__name__, str(leaf).encode("utf-8", "surrogatepass")
    raise TypeError(f"cannot digest {path!r}: {type(leaf).__name__}")


def bytes_of(tensor: torch.Tensor) -> NDArray[np.uint8]:
    """Return a tensor's elements as bytes, in row-major order; waits for its device."""
    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    return plain.reshape(-1).view(torch.uint8).numpy()
