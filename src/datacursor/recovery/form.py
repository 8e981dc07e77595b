"""The form of a saved state, checked before anything relies on it.

A form is a type or a union of types; `Each(form)`, a dict with any keys; a dict, the keys that
must be there; a list of one form, a list of any length; a tuple, a list of that length.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from datacursor.errors import CheckpointError


class Each(NamedTuple):
    """The form of a dict whose keys may be any and whose values have one form."""

    form: Any


def require_form(thing: str, value: Any, form: Any) -> None:
    """Raise unless a value has a form.

    Args:
        thing: What it is, for the error.
        value: A part of a checkpoint: anything at all.
        form: What it must look like.

    Raises:
        CheckpointError: A key is missing, or something is of another type; names it.
    """
    if isinstance(form, dict):
        _require(thing, value, Mapping)
        missing = [key for key in form if key not in value]
        if missing:
            raise CheckpointError(f"checkpoint is incomplete: {thing} lacks {missing}")
        for key, inner in form.items():
            require_form(f"{key!r} of {thing}", value[key], inner)
    elif isinstance(form, Each):
        _require(thing, value, Mapping)
        for key, item in value.items():
            require_form(f"{key!r} of {thing}", item, form.form)
    elif isinstance(form, (list, tuple)):
        _require(thing, value, list | tuple)
        if isinstance(form, tuple) and len(value) != len(form):
            raise CheckpointError(
                f"checkpoint is damaged: {thing} must have {len(form)} items, got {value!r}"
            )
        forms = form if isinstance(form, tuple) else form * len(value)
        for number, (item, inner) in enumerate(zip(value, forms, strict=True)):
            require_form(f"item {number} of {thing}", item, inner)
    else:
        _require(thing, value, form)


def _require(thing: str, value: object, kind: Any) -> None:
    is_flag = isinstance(value, bool) and kind is int
    if is_flag or not isinstance(value, kind):
        name = getattr(kind, "__name__", kind)
        raise CheckpointError(f"checkpoint is damaged: {thing} must be {name}, got {value!r}")
