"""Options of an optimizer's groups: which may differ, and whose value counts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch

from datacursor.errors import OptionError
from datacursor.recovery.allowance import Allowance
from datacursor.recovery.digest import digest_tree
from datacursor.recovery.plain import plain
from datacursor.recovery.refusal import refusal

_NOT_OPTIONS = ("params", "param_names")
_ABSENT = "absent"
# Options that a scheduler writes, each with the mark a scheduler leaves in the group.
_MARKS = {"lr": "initial_lr", "momentum": "max_momentum", "betas": "max_momentum"}


def options_of(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return a group without its parameters."""
    return {key: value for key, value in group.items() if key not in _NOT_OPTIONS}


def class_name(thing: object) -> str:
    """Return the package and the name of an object's class."""
    cls = type(thing)
    return f"{cls.__module__.partition('.')[0]}.{cls.__qualname__}"


def merge_options(
    thing: str,
    saved: Mapping[str, Any],
    present: Mapping[str, Any],
    driven: Collection[str],
    allowance: Allowance,
) -> dict[str, Any]:
    """Return the options a group goes on with.

    Those that a scheduler drives are the saved ones; those that may differ, the run's.

    Args:
        thing: The group, for the error.
        saved: The saved options.
        present: The run's.
        driven: Options that a scheduler is known to drive; others show by the marks it leaves.
        allowance: Names of options that may differ.

    Raises:
        OptionError: Another option differs.
    """
    driven = {*driven, *(name for name, mark in _MARKS.items() if mark in present)}
    merged = {}
    for name in dict.fromkeys((*saved, *present)):
        before, now = saved.get(name, _ABSENT), present.get(name, _ABSENT)
        if not _equal(before, now) and not (name in driven and _may_drift(name, before, now)):
            if not allowance.accepts(name):
                raise OptionError(
                    refusal(
                        f"option {name!r} of {thing}",
                        _shown(before),
                        _shown(now),
                        f"pass allow_changed={{{name!r}}} to go on with the run's",
                    )
                )
            before = now
        if before is not _ABSENT:
            merged[name] = before
    return merged


def put_in_place(group: dict[str, Any], built: Mapping[str, Any]) -> None:
    """Write options that the run holds in tensors into those very tensors.

    Args:
        group: A group just loaded.
        built: The same group's options before.
    """
    for name, value in built.items():
        if isinstance(value, torch.Tensor) and name in group:
            value.fill_(group[name])
            group[name] = value


def _shown(value: object) -> str:
    return _ABSENT if value is _ABSENT else repr(value)


def _equal(a: object, b: object) -> bool:
    return digest_tree(plain("option", a)) == digest_tree(plain("option", b))


def _may_drift(name: str, before: Any, now: Any) -> bool:
    """Whether a scheduler can have led from one value to the other."""
    kinds = {isinstance(value, torch.Tensor) for value in (before, now)}
    if before is _ABSENT or now is _ABSENT or len(kinds) > 1:
        return False
    return name != "betas" or _equal(before[1:], now[1:])  # the first alone is driven
