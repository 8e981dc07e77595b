"""States of the user's own parts, which nobody can check beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from copy import deepcopy
from typing import Any

from datacursor.recovery.plain import plain


def require_stateful(name: str, part: Any) -> None:
    """Raise unless a part can save and load.

    Raises:
        TypeError: It lacks a method.
    """
    for method in ("state_dict", "load_state_dict"):
        if not callable(getattr(part, method, None)):
            raise TypeError(f"{name} must have a method {method}(), got {part!r}")


def states_of(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the states of all parts.

    Raises:
        TypeError: One holds what a safe load would refuse.
    """
    return {name: plain(name, part.state_dict()) for name, part in parts.items()}


def restore_or_undo(parts: Mapping[str, Any], saved: Mapping[str, Any]) -> None:
    """Load all parts; if one refuses, put back those that were loaded before it."""
    with ExitStack() as undo:
        for name, part in parts.items():
            undo.callback(part.load_state_dict, deepcopy(part.state_dict()))
            part.load_state_dict(deepcopy(saved[name]))
        undo.pop_all()
