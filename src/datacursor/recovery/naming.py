"""Names of the parameters that an optimizer holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from datacursor.errors import AssociationError
from datacursor.recovery.refusal import listed

Rename = Mapping[str, str] | Callable[[str], str] | None


class ParameterNames:
    """The names of an optimizer's parameters, group by group.

    The optimizer's own `param_names` are read once: a plain load may replace them with the
    saved run's, in the saved run's order.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
    ) -> None:
        """Name the parameters by `named_parameters`, else as the optimizer was built."""
        self._optimizer = optimizer
        self._own = dict(_own_names(optimizer))
        self._model = None if named_parameters is None else dict(_by_parameter(named_parameters))

    def groups(self) -> list[list[str]]:
        """Return the names in every group, in the optimizer's order.

        Raises:
            AssociationError: A parameter has no name, or two have the same.
        """
        groups = [
            [self._name(parameter, number, place) for place, parameter in enumerate(group)]
            for number, group in enumerate(self._parameters())
        ]
        names = [name for group in groups for name in group]
        duplicates = [name for name, count in Counter(names).items() if count > 1]
        if duplicates:
            raise AssociationError(
                f"two parameters of one optimizer are named alike: {listed(duplicates)}; give "
                "every parameter a name of its own"
            )
        return groups

    def parameters(self) -> dict[str, torch.Tensor]:
        """Return the parameters by name, in the optimizer's order.

        Raises:
            AssociationError: A parameter has no name, or two have the same.
        """
        held = [parameter for group in self._parameters() for parameter in group]
        return dict(zip((name for group in self.groups() for name in group), held, strict=True))

    def masters(self) -> dict[str, torch.Tensor]:
        """Return the parameters that are not the model's: their values live in the optimizer."""
        if self._model is None:
            return {}
        model = self._model
        return {name: value for name, value in self.parameters().items() if value not in model}

    def _parameters(self) -> list[list[torch.Tensor]]:
        return [group["params"] for group in self._optimizer.param_groups]

    def _name(self, parameter: torch.Tensor, group: int, place: int) -> str:
        name = (self._model or {}).get(parameter, self._own.get(parameter))
        if name is None:
            raise AssociationError(
                f"parameter {place} of group {group}, of shape {tuple(parameter.shape)}, has no "
                f"name; pass named_parameters=model.named_parameters(), or build "
                f"{type(self._optimizer).__name__} with (name, parameter) pairs"
            )
        return name


def as_function(rename: Rename) -> Callable[[str], str]:
    """Return what turns a saved name into the run's."""
    if rename is None:
        return lambda name: name
    if isinstance(rename, Mapping):
        names = dict(rename)
        return lambda name: names.get(name, name)
    return rename


def rename_keys(thing: str, values: Mapping[str, Any], rename: Rename) -> dict[str, Any]:
    """Return values by the run's names.

    Raises:
        AssociationError: Two saved names become one.
    """
    function = as_function(rename)
    renamed: dict[str, Any] = {}
    for name, value in values.items():
        if function(name) in renamed:
            raise AssociationError(f"rename turns two names of {thing} into {function(name)!r}")
        renamed[function(name)] = value
    return renamed


def _own_names(optimizer: torch.optim.Optimizer) -> Iterable[tuple[torch.Tensor, str]]:
    for group in optimizer.param_groups:
        yield from zip(group["params"], group.get("param_names", ()), strict=False)


def _by_parameter(
    named_parameters: Iterable[tuple[str, torch.Tensor]],
) -> Iterable[tuple[torch.Tensor, str]]:
    """Yield every parameter with its name, a tied one with its first."""
    parameters: dict[str, torch.Tensor] = {}
    seen = set()
    for name, parameter in named_parameters:
        if parameters.setdefault(name, parameter) is not parameter:
            raise AssociationError(f"named_parameters names two parameters {name!r}")
        if parameter not in seen:
            seen.add(parameter)
            yield parameter, name
