"""`OptimizerState`: an optimizer's state by the names of its parameters, with its schema."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import torch
from torch.nn import Parameter

from datacursor.errors import AssociationError


class OptimizerState:
    """An optimizer's state, keyed by parameter name.

    Args:
        optimizer: The optimizer.
        named_parameters: Names of its parameters, as `model.named_parameters()`; None takes
            those the optimizer was built with.
        rename: Saved name to name in the run: a dict, or a function.
        allow_changed: Names of differences to accept.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        named_parameters: Iterable[tuple[str, Parameter]] | None = None,
        *,
        rename: Mapping[str, str] | Callable[[str], str] | None = None,
        allow_changed: Collection[str] = (),
    ) -> None:
        self.optimizer = optimizer
        if named_parameters is None:
            named_parameters = [
                pair
                for group in optimizer.param_groups
                for pair in zip(group.get("param_names", ()), group["params"], strict=True)
            ]
        self._name_of = {parameter: name for name, parameter in named_parameters}

    def _names(self) -> list[list[str]]:
        try:
            return [
                [self._name_of[parameter] for parameter in group["params"]]
                for group in self.optimizer.param_groups
            ]
        except KeyError as error:
            raise AssociationError("optimizer holds an unnamed parameter") from error

    def state_dict(self) -> dict[str, Any]:
        """Return groups and states by name."""
        plain = self.optimizer.state_dict()
        names = self._names()
        name_of = {
            number: name
            for group, group_names in zip(plain["param_groups"], names, strict=True)
            for number, name in zip(group["params"], group_names, strict=True)
        }
        return {
            "version": 1,
            "groups": [
                {
                    "names": group_names,
                    "options": {
                        key: value
                        for key, value in group.items()
                        if key not in ("params", "param_names")
                    },
                }
                for group, group_names in zip(plain["param_groups"], names, strict=True)
            ],
            "state": {name_of[number]: state for number, state in plain["state"].items()},
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore by name."""
        numbers = {
            name: number
            for number, name in enumerate(name for group in self._names() for name in group)
        }
        self.optimizer.load_state_dict(
            {
                "state": {numbers[name]: value for name, value in state_dict["state"].items()},
                "param_groups": [
                    saved["options"] | {"params": [numbers[name] for name in names]}
                    for saved, names in zip(state_dict["groups"], self._names(), strict=True)
                ],
            }
        )
        for parameter, name in self._name_of.items():
            for key, value in state_dict["state"].get(name, {}).items():
                if isinstance(value, torch.Tensor):
                    place = self.optimizer.state[parameter][key].device
                    self.optimizer.state[parameter][key] = value.to(place, copy=True)
