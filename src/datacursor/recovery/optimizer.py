"""`OptimizerState`: an optimizer's state by the names of its parameters, with its schema.

torch pairs saved state and parameters by position and compares only the number of groups and
their lengths. Here a parameter gets the state saved under its name, in the precision it was
saved in, or the load is refused before anything has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch

from datacursor.errors import CheckpointError, OptionError
from datacursor.recovery.allowance import Allowance
from datacursor.recovery.association import require_same_groups, require_same_order
from datacursor.recovery.form import Each, require_form
from datacursor.recovery.naming import ParameterNames, Rename, as_function, rename_keys
from datacursor.recovery.options import class_name, merge_options, options_of, put_in_place
from datacursor.recovery.plain import plain
from datacursor.recovery.refusal import refusal
from datacursor.recovery.schema import (
    require_intact,
    require_same_masters,
    require_same_parameter,
    schema_of,
)

# Part of the persistent format; add, never change.
OPTIMIZER_VERSION = 1
_SCHEMA = {"shape": [int], "dtype": str, "keys": Each((str, list | None))}
_FORM = {
    "class": str,
    "groups": [{"names": [str], "options": dict}],
    "parameters": Each(_SCHEMA),
    "state": Each(dict),
    "shared": dict,
    "masters": Each(torch.Tensor),
}


@dataclass(frozen=True)
class PreparedOptimizer:
    """A checked state, restored when it is called.

    Attributes:
        options: The options that the groups will have.
    """

    options: list[dict[str, Any]]
    restore: Callable[[], None]

    def __call__(self) -> None:
        """Restore it."""
        self.restore()


class OptimizerState:
    """An optimizer's state, keyed by parameter name.

    Args:
        optimizer: The optimizer.
        named_parameters: Names of its parameters, as `model.named_parameters()`; None takes those
            it was built with. A parameter that is not among them and was named when the optimizer
            was built is a master weight: its value is saved here, as no model holds it.
        rename: Saved name to name in the run, where names changed: a dict, or a function.
        allow_changed: Options of groups that may differ from the saved run's; the run's count.

    Attributes:
        optimizer: The optimizer.
        label: What errors call it.

    Raises:
        AssociationError: named_parameters gives two parameters one name.

    Example:
        >>> model = torch.nn.Linear(2, 2)
        >>> optimizer = torch.optim.AdamW(model.parameters())
        >>> saved = OptimizerState(optimizer, model.named_parameters()).state_dict()
        >>> saved["groups"][0]["names"]
        ['weight', 'bias']
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
        *,
        rename: Rename = None,
        allow_changed: Collection[str] = (),
    ) -> None:
        self.optimizer = optimizer
        self.label = "optimizer"
        self._names = ParameterNames(optimizer, named_parameters)
        self._rename = rename
        self._allowance = Allowance(allow_changed)

    def state_dict(self) -> dict[str, Any]:
        """Return the state by name, with its schema; tensors are the optimizer's own, not copies.

        Raises:
            AssociationError: A parameter has no name, or two have the same.
            TypeError: The state holds what a safe load would refuse.
        """
        packed = self.optimizer.state_dict()
        parameters = self._names.parameters()
        numbers = [number for group in packed["param_groups"] for number in group["params"]]
        name_of = dict(zip(numbers, parameters, strict=True))
        entries = plain(self.label, packed["state"])
        state = {name_of[key]: entry for key, entry in entries.items() if key in name_of and entry}
        groups = zip(self._names.groups(), packed["param_groups"], strict=True)
        return {
            "version": OPTIMIZER_VERSION,
            "class": class_name(self.optimizer),
            "groups": [
                {"names": names, "options": plain(self.label, options_of(group))}
                for names, group in groups
            ],
            "parameters": {
                name: schema_of(parameter, state.get(name, {}))
                for name, parameter in parameters.items()
            },
            "state": state,
            "shared": {key: entry for key, entry in entries.items() if key not in name_of},
            "masters": {name: value.detach() for name, value in self._names.masters().items()},
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore a saved state by name; it is copied.

        Raises:
            AssociationError: Parameters are missing, unexpected, in another group or of another
                shape.
            PrecisionError: A parameter or its state has another dtype, or master weights are absent
                on one side.
            OptionError: The optimizer is of another class, or an option differs.
            CheckpointError: The state is incomplete. In all cases nothing has changed.
        """
        self.prepare(state_dict)()

    def prepare(
        self, state_dict: Mapping[str, Any], driven: Collection[str] = ()
    ) -> PreparedOptimizer:
        """Check a saved state and return what restores it.

        Args:
            state_dict: What `state_dict()` returned.
            driven: Options that a scheduler drives.
        """
        self._allowance = Allowance(self._allowance.names)
        self._require_readable(state_dict)
        rename = as_function(self._rename)
        saved_groups = [[rename(name) for name in group["names"]] for group in state_dict["groups"]]
        groups = self._names.groups()
        require_same_groups(self.label, saved_groups, groups)
        if isinstance(self.optimizer, torch.optim.LBFGS):
            require_same_order(self.label, saved_groups, groups)
        masters = rename_keys(self.label, state_dict["masters"], self._rename)
        require_same_masters(self.label, masters, self._names.masters())
        state = rename_keys(self.label, state_dict["state"], self._rename)
        self._require_schema(rename_keys(self.label, state_dict["parameters"], self._rename), state)
        options = [
            merge_options(
                f"group {number} of {self.label}",
                saved["options"],
                options_of(group),
                driven,
                self._allowance,
            )
            for number, (saved, group) in enumerate(
                zip(state_dict["groups"], self.optimizer.param_groups, strict=True)
            )
        ]
        return PreparedOptimizer(
            options, lambda: self._restore(state, state_dict["shared"], options, masters)
        )

    @property
    def accepted(self) -> frozenset[str]:
        """Options that differed from the saved run's at the last load, and were accepted."""
        return self._allowance.used

    def renamed(self, state_dict: Mapping[str, Any]) -> dict[str, str]:
        """Return the saved names that the run calls otherwise, with the run's."""
        rename = as_function(self._rename)
        return {name: rename(name) for name in state_dict["parameters"] if rename(name) != name}

    def _require_readable(self, state_dict: Mapping[str, Any]) -> None:
        version = state_dict.get("version")
        if version != OPTIMIZER_VERSION:
            raise CheckpointError(
                refusal(
                    f"format of {self.label}",
                    f"version {version}",
                    f"version {OPTIMIZER_VERSION}",
                    "save it with OptimizerState, and read it with a release that knows its format",
                )
            )
        require_form(self.label, state_dict, _FORM)
        if state_dict["class"] != class_name(self.optimizer):
            raise OptionError(
                refusal(
                    f"class of {self.label}",
                    state_dict["class"],
                    class_name(self.optimizer),
                    "build the optimizer of the saved run",
                )
            )

    def _require_schema(self, schemas: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        for name, parameter in self._names.parameters().items():
            thing = f"parameter {name!r} of {self.label}"
            if name not in schemas:
                raise CheckpointError(f"checkpoint is incomplete: it has no schema of {thing}")
            present = self.optimizer.state.get(parameter, {})
            require_same_parameter(thing, schemas[name], parameter, present)
            require_intact(thing, schemas[name], state.get(name, {}))

    def _restore(
        self,
        state: Mapping[str, Any],
        shared: Mapping[Any, Any],
        options: list[dict[str, Any]],
        masters: Mapping[str, torch.Tensor],
    ) -> None:
        built = self.optimizer.param_groups
        names = self._names.groups()
        parameters = self._names.parameters()
        number_of = {name: number for number, name in enumerate(parameters)}
        groups = [
            group | {"params": [number_of[name] for name in inside], "param_names": inside}
            for group, inside in zip(options, names, strict=True)
        ]
        by_number = {number_of[name]: entry for name, entry in state.items()}
        entries = {**by_number, **deepcopy(dict(shared))}
        self.optimizer.load_state_dict({"state": entries, "param_groups": groups})
        for group, before in zip(self.optimizer.param_groups, built, strict=True):
            if "param_names" not in before:
                group.pop("param_names", None)
            put_in_place(group, before)
        for name, entry in state.items():
            loaded = self.optimizer.state[parameters[name]]
            for key, value in entry.items():
                loaded[key] = _as_saved(value, loaded.get(key))
        with torch.no_grad():
            for name, value in masters.items():
                parameters[name].copy_(value)


def _as_saved(saved: Any, loaded: Any) -> Any:
    """Return a saved value where torch put it, without torch's cast to the parameter's dtype."""
    if isinstance(saved, torch.Tensor):
        if loaded is not saved and loaded.dtype == saved.dtype:
            return loaded
        return saved.to(loaded.device, copy=True)
    if isinstance(saved, dict):
        return {key: _as_saved(value, loaded[key]) for key, value in saved.items()}
    if isinstance(saved, (list, tuple)):
        return type(saved)(_as_saved(one, other) for one, other in zip(saved, loaded, strict=True))
    return saved
