"""A state dict taken apart into its tensors, by path, and what is left of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch

TreePath: TypeAlias = tuple[Any, ...]  # keys of dicts and numbers of items, from the outside in


def tensors_of(tree: object) -> dict[TreePath, torch.Tensor]:
    """Return every tensor of nested dicts, lists and tuples, by its path."""
    found: dict[TreePath, torch.Tensor] = {}

    def note(path: TreePath, leaf: object) -> object:
        if isinstance(leaf, torch.Tensor):
            found[path] = leaf
        return leaf

    map_leaves(tree, note)
    return found


def replace_leaves(tree: object, values: Mapping[TreePath, Any]) -> Any:
    """Return a copy of a tree in which the leaves at some paths are others.

    Raises:
        KeyError: The tree has no leaf at one of the paths.
    """
    left = dict(values)
    replaced = map_leaves(tree, lambda path, leaf: left.pop(path) if path in left else leaf)
    if left:
        raise KeyError(next(iter(left)))
    return replaced


def map_leaves(
    tree: object, change: Callable[[TreePath, object], object], path: TreePath = ()
) -> Any:
    """Return a copy of a tree in which each leaf is what a function makes of its path and it."""
    if isinstance(tree, Mapping):
        changed = {key: map_leaves(value, change, (*path, key)) for key, value in tree.items()}
        return changed if type(tree) is dict else type(tree)(changed)  # type: ignore[call-arg]
    if isinstance(tree, (list, tuple)):
        items = [map_leaves(value, change, (*path, n)) for n, value in enumerate(tree)]
        return items if isinstance(tree, list) else tuple(items)
    return change(path, tree)
