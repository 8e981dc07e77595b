"""Gradients of an update that is open when a state is saved.

Between updates only one thing about gradients matters: which parameters have any. A parameter
whose gradient is zero is updated, by momentum and weight decay; one that has none is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from datacursor.errors import AssociationError, CheckpointError
from datacursor.recovery.form import Each, require_form
from datacursor.recovery.naming import Rename, rename_keys
from datacursor.recovery.refusal import listed, refusal
from datacursor.recovery.schema import require_same_parameter, schema_of

Parameters = Mapping[str, torch.Tensor]

_FORM = {"pending": int, "names": [str], "values": Each(torch.Tensor)}


def hold_gradients(parameters: Parameters) -> bool:
    """Return whether any gradient is not zero; waits for the device."""
    gradients = (one.grad for one in parameters.values() if one.grad is not None)
    dense = (grad._values() if grad.is_sparse else grad for grad in gradients)
    return any(bool(grad.count_nonzero() > 0) for grad in dense)


def state_of_gradients(parameters: Parameters, pending: int) -> dict[str, Any]:
    """Return the gradients of an open update, or, between updates, whose there are.

    Args:
        parameters: Parameters by name.
        pending: Micro-batches in the open update; 0 between updates.

    Returns:
        The gradients of an open update as "values", and as "names" whose gradient is at least zero.
        A sparse gradient of zero updates nothing, so it is as good as none.
    """
    present = {
        name: parameter.grad.detach()
        for name, parameter in parameters.items()
        if parameter.grad is not None
    }
    return {
        "pending": pending,
        "names": [name for name, grad in present.items() if not grad.is_sparse],
        "values": present if pending > 0 else {},
    }


def prepare_gradients(
    parameters: Parameters, saved: Mapping[str, Any], pending: int, rename: Rename
) -> Callable[[], None]:
    """Check saved gradients and return what restores them.

    Args:
        parameters: Parameters by name.
        saved: What `state_of_gradients` returned.
        pending: Micro-batches of the open update that the sampler's state says it holds.
        rename: Saved names to the run's.

    Raises:
        CheckpointError: They are damaged, or the sampler's state is of another place.
        AssociationError: A name is unexpected, or a shape differs.
        PrecisionError: A dtype differs.
    """
    require_form("gradients", saved, _FORM)
    if saved["pending"] != pending:
        raise CheckpointError(
            f"checkpoint contradicts itself: pending micro-batches\n  in its gradients: "
            f"{saved['pending']}\n  in its sampler:   {pending}\nrestore an undamaged checkpoint"
        )
    names = rename_keys("gradients", dict.fromkeys(saved["names"]), rename)
    unexpected = [name for name in names if name not in parameters]
    if unexpected:
        raise AssociationError(
            refusal(
                "parameters with gradients",
                listed(names),
                f"lacks {listed(unexpected)}",
                "build the model of the saved run",
            )
        )
    values = rename_keys("gradients", saved["values"], rename)
    for name, value in values.items():
        schema = schema_of(value, {})
        require_same_parameter(f"gradient of {name!r}", schema, parameters[name], {})

    def restore() -> None:
        for name, parameter in parameters.items():
            parameter.grad = None
            if name in values:
                parameter.grad = values[name].to(parameter.device, copy=True)
            elif name in names:
                parameter.grad = torch.zeros_like(parameter)

    return restore
