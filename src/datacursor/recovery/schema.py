"""What an optimizer's state must look like: shapes, dtypes and keys, parameter by parameter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from datacursor.errors import AssociationError, CheckpointError, PrecisionError
from datacursor.recovery.refusal import listed, refusal


def schema_of(parameter: torch.Tensor, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the shape and dtype of a parameter and of everything in its state."""
    return {
        "shape": list(parameter.shape),
        "dtype": _dtype(parameter),
        "keys": {key: _shape_and_dtype(value) for key, value in state.items()},
    }


def require_intact(thing: str, schema: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    """Raise unless a saved state is what its schema says.

    Args:
        thing: Whose state it is, for the error.
        schema: What `schema_of` returned when it was saved.
        state: The state.

    Raises:
        CheckpointError: Keys are missing or unexpected.
        PrecisionError: A tensor was cast since.
        AssociationError: A tensor has another shape.
    """
    expected = schema["keys"]
    if state.keys() != expected.keys():
        missing = [key for key in expected if key not in state]
        unexpected = [key for key in state if key not in expected]
        raise CheckpointError(
            f"checkpoint contradicts itself: state of {thing}\n"
            f"  in its schema: {sorted(expected)}\n"
            f"  in its state:  {sorted(state)}\n"
            f"missing {missing}, unexpected {unexpected}; restore an undamaged checkpoint"
        )
    for key, value in state.items():
        dtype, shape = _shape_and_dtype(value)
        if dtype != expected[key][0]:
            raise PrecisionError(_contradiction(f"dtype of {key}", thing, expected[key][0], dtype))
        if shape != expected[key][1]:
            raise AssociationError(
                _contradiction(f"shape of {key}", thing, expected[key][1], shape)
            )


def require_same_parameter(
    thing: str, schema: Mapping[str, Any], parameter: torch.Tensor, state: Mapping[str, Any]
) -> None:
    """Raise unless a parameter of the run, and the state it has already, fit a saved schema.

    Raises:
        AssociationError: It has another shape.
        PrecisionError: It, or a part of its state, has another dtype.
    """
    if list(parameter.shape) != list(schema["shape"]):
        raise AssociationError(
            refusal(
                f"shape of {thing}",
                tuple(schema["shape"]),
                tuple(parameter.shape),
                "build the model of the saved run",
            )
        )
    pairs = {f"dtype of {thing}": (schema["dtype"], _dtype(parameter))}
    for key, (dtype, shape) in schema["keys"].items():
        if shape is not None and isinstance(state.get(key), torch.Tensor):
            pairs[f"dtype of {key} of {thing}"] = (dtype, _dtype(state[key]))
    for name, (saved, present) in pairs.items():
        if saved != present:
            raise PrecisionError(
                refusal(name, saved, present, "train in the precision of the saved run")
            )


def require_same_masters(
    thing: str, saved: Mapping[str, torch.Tensor], present: Mapping[str, torch.Tensor]
) -> None:
    """Raise unless the same parameters have master weights, of the same shapes and dtypes.

    Raises:
        PrecisionError: They are absent on one side, or of other dtypes.
        AssociationError: They have other shapes.
    """
    if saved.keys() != present.keys():
        raise PrecisionError(
            refusal(
                f"master weights of {thing}",
                listed(saved),
                listed(present),
                "build the optimizer over the parameters that the saved run's was built over",
            )
        )
    for name, value in saved.items():
        require_same_parameter(
            f"master weight {name!r} of {thing}",
            {"shape": list(value.shape), "dtype": _dtype(value), "keys": {}},
            present[name],
            {},
        )


def _contradiction(what: str, thing: str, expected: object, found: object) -> str:
    return (
        f"checkpoint contradicts itself: {what} of {thing}\n"
        f"  in its schema: {expected}\n"
        f"  in its state:  {found}\nrestore an unchanged checkpoint"
    )


def _shape_and_dtype(value: object) -> tuple[str, list[int] | None]:
    """Return dtype and shape of a tensor, or the type of anything else and no shape."""
    if isinstance(value, torch.Tensor):
        return _dtype(value), list(value.shape)
    return type(value).__name__, None


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
