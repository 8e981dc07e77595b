"""Argument checks whose errors name the argument, its range and the value."""

from __future__ import annotations

import json
import operator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from datacursor.errors import ArgumentError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

MAX_EPOCH = 2**40
MAX_COUNT = 2**63
MAX_SEED = 2**64


def require_integer(name: str, value: SupportsIndex, low: int, high: int) -> int:
    """Return `value` as an int in [low, high).

    Args:
        name: Name of the argument, for the error.
        value: An int or a NumPy integer; a bool or a float is refused.
        low: Smallest value allowed.
        high: First value above the range.

    Raises:
        TypeError: The value is not an integer.
        ArgumentError: The value is out of range.
    """
    if type(value) is int and low <= value < high:  # nearly always; the rest finds the words
        return value
    number = None
    if not isinstance(value, (bool, np.bool_)):
        with suppress(TypeError):
            number = operator.index(value)
    if number is None:
        raise TypeError(f"{name} must be an integer, got {name}={value!r}")
    if not low <= number < high:
        raise ArgumentError(f"{name} must be in [{low}, {_readable(high)}), got {name}={number}")
    return number


def optional_integer(name: str, value: SupportsIndex | None, low: int, high: int) -> int | None:
    """Return `value` as `require_integer` does, or None for None."""
    return None if value is None else require_integer(name, value, low, high)


def require_bool(name: str, value: object) -> bool:
    """Return `value` if it is a bool.

    Raises:
        TypeError: Anything else, 0 and 1 included.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {name}={value!r}")
    return value


def require_choice(name: str, value: object, choices: tuple[str, ...]) -> str:
    """Return `value` if it is one of `choices`.

    Raises:
        ArgumentError: It is none of them.
    """
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise ArgumentError(f"{name} must be one of {listed}, got {name}={value!r}")
    return value


def require_vector(name: str, value: ArrayLike, kinds: str, what: str) -> NDArray[Any]:
    """Return `value` as an array, which may share its memory.

    Args:
        name: Name of the argument, for the error.
        value: A 1-D array or what NumPy makes one of; not empty.
        kinds: Letters of the dtype kinds allowed, as in `numpy.dtype.kind`.
        what: What it must be, for the error.

    Raises:
        TypeError: Its elements are of another kind, or of none.
        ArgumentError: It is empty or not 1-D.
    """
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError) as error:  # lists of unequal lengths
        raise TypeError(f"{name} must be {what}: {error}") from error
    problem = f"{name} must be {what}, got {array.dtype} of shape {array.shape}"
    if array.ndim == 1 and len(array) == 0:  # np.asarray([]) is of float64
        raise ArgumentError(problem)
    if array.dtype.kind not in kinds:
        raise TypeError(problem)
    if array.ndim != 1:
        raise ArgumentError(problem)
    return array


def to_json(name: str, value: object) -> str:
    """Return the one JSON text of a value; a NumPy scalar counts as the number it holds.

    Args:
        name: Name of the value, for the error.
        value: JSON values.

    Raises:
        TypeError: It holds something else.
    """

    def as_plain(found: object) -> Any:
        if isinstance(found, np.generic):
            return found.item()
        raise TypeError(f"{name} must be JSON values, got {found!r}")

    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=as_plain)


def _readable(limit: int) -> str:
    is_large_power = limit >= 2**31 and limit & (limit - 1) == 0
    return f"2**{limit.bit_length() - 1}" if is_large_power else str(limit)
