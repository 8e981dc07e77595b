"""`protect`: a plain `optimizer.load_state_dict` that follows names, or refuses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from datacursor.errors import AssociationError
from datacursor.recovery.association import require_same_groups, require_same_order
from datacursor.recovery.naming import ParameterNames


class Protection:
    """The hooks of a protected optimizer; `remove()` takes them away."""

    def __init__(self, *hooks: RemovableHandle) -> None:
        """Hold the hooks."""
        self._hooks = hooks

    def remove(self) -> None:
        """Let the optimizer save and load as torch does."""
        for hook in self._hooks:
            hook.remove()


def protect(
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
) -> Protection:
    """Make an optimizer's own `state_dict` and `load_state_dict` go by parameter names.

    What it saves holds the names, and what it loads is put into the run's order first. Use it
    where a framework saves and loads the optimizer; `OptimizerState` checks more.

    Args:
        optimizer: The optimizer.
        named_parameters: Names of its parameters, as `model.named_parameters()`; None takes those
            it was built with.

    Returns:
        A handle whose `remove()` undoes it.

    Raises:
        AssociationError: A parameter has no name, or two have the same. Later, from
            `optimizer.load_state_dict`: saved names are absent, missing, unexpected or in other
            groups; nothing has changed then.

    Example:
        >>> a, b = torch.zeros(1, requires_grad=True), torch.ones(1, requires_grad=True)
        >>> optimizer = torch.optim.SGD([a, b])
        >>> protection = protect(optimizer, [("a", a), ("b", b)])
        >>> optimizer.state_dict()["param_groups"][0]["param_names"]
        ['a', 'b']
    """
    names = ParameterNames(optimizer, named_parameters)
    names.groups()

    def add_names(_: Any, state_dict: dict[str, Any]) -> None:
        for group, inside in zip(state_dict["param_groups"], names.groups(), strict=True):
            group["param_names"] = inside

    def follow_names(optimizer: Any, state_dict: dict[str, Any]) -> dict[str, Any]:
        return _in_order(optimizer, state_dict, names.groups())

    return Protection(
        optimizer.register_state_dict_post_hook(add_names),
        optimizer.register_load_state_dict_pre_hook(follow_names),
    )


def _in_order(
    optimizer: torch.optim.Optimizer, state_dict: dict[str, Any], names: list[list[str]]
) -> dict[str, Any]:
    """Return a saved state whose groups list their parameters as the run does."""
    thing = type(optimizer).__name__
    saved = [_saved_names(thing, group) for group in state_dict["param_groups"]]
    require_same_groups(thing, saved, names)
    if isinstance(optimizer, torch.optim.LBFGS):
        require_same_order(thing, saved, names)
    groups = []
    for group, inside, built in zip(
        state_dict["param_groups"], names, optimizer.param_groups, strict=True
    ):
        number_of = dict(zip(group["param_names"], group["params"], strict=True))
        ordered = group | {"params": [number_of[name] for name in inside], "param_names": inside}
        if "param_names" not in built:
            del ordered["param_names"]  # or torch takes no further group without names
        groups.append(ordered)
    return state_dict | {"param_groups": groups}


def _saved_names(thing: str, group: dict[str, Any]) -> list[str]:
    names = group.get("param_names")
    if names is None or len(names) != len(group["params"]):
        raise AssociationError(
            f"saved state of {thing} does not name its parameters\n"
            f"  in checkpoint: {len(group['params'])} parameters, names {names}\n"
            "save it from an optimizer that is protected or was built with named parameters"
        )
    return list(names)
