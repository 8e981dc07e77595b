"""A module's parameters and buffers, checked before any of them is written."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from datacursor.errors import AssociationError
from datacursor.recovery.naming import Rename, rename_keys
from datacursor.recovery.plain import plain
from datacursor.recovery.refusal import names_refusal, refusal
from datacursor.recovery.schema import require_same_parameter, schema_of


def state_of_module(thing: str, module: nn.Module) -> dict[str, Any]:
    """Return `module.state_dict()`; tensors are the module's own, not copies.

    Raises:
        TypeError: An extra state holds what a safe load would refuse.
    """
    state = module.state_dict()
    for name, value in state.items():
        state[name] = plain(f"{thing}/{name}", value)
    return state


def prepare_module(
    thing: str, module: nn.Module, saved: Mapping[str, Any], rename: Rename = None
) -> Callable[[], None]:
    """Check the saved state of a module and return what restores it.

    torch itself copies what fits and raises afterwards.

    Raises:
        AssociationError: Names are missing or unexpected, or a shape differs.
        PrecisionError: A dtype differs.
    """
    values: dict[str, Any] = rename_keys(thing, saved, rename)
    present = module.state_dict()
    missing = [name for name in present if name not in values]
    unexpected = [name for name in values if name not in present]
    if missing or unexpected:
        raise AssociationError(
            names_refusal(f"parameters and buffers of {thing}", missing, unexpected)
        )
    for name, value in present.items():
        if isinstance(value, torch.Tensor) != isinstance(values[name], torch.Tensor):
            before, now = (type(one).__name__ for one in (values[name], value))
            remedy = "build the model of the saved run"
            raise AssociationError(refusal(f"type of {name!r} of {thing}", before, now, remedy))
        if isinstance(value, torch.Tensor):
            schema = schema_of(values[name], {})
            require_same_parameter(f"{name!r} of {thing}", schema, value, {})
    values = OrderedDict(values)
    if hasattr(saved, "_metadata"):  # versions of the modules, which torch keeps beside the keys
        values._metadata = saved._metadata  # type: ignore[attr-defined]

    def restore() -> None:
        module.load_state_dict(values, strict=True)

    return restore
