"""The form of a saved state: every way to be wrong is named, whatever the value."""

from __future__ import annotations

from typing import Any

import pytest

from datacursor import CheckpointError
from datacursor.recovery.form import Each, require_form

FORM = {"names": [str], "counts": Each(int), "pair": (str, int | None), "free": object}
RIGHT = {"names": ["a", "b"], "counts": {"x": 1}, "pair": ("a", None), "free": print, "more": 1}
WRONG: list[tuple[Any, str]] = [
    (None, "state must be Mapping, got None"),
    ([], "state must be Mapping"),
    ({}, "state lacks ['names', 'counts', 'pair', 'free']"),
    (RIGHT | {"names": "ab"}, "'names' of state must be list | tuple, got 'ab'"),
    (RIGHT | {"names": ["a", 2]}, "item 1 of 'names' of state must be str, got 2"),
    (RIGHT | {"counts": {"x": True}}, "'x' of 'counts' of state must be int, got True"),
    (RIGHT | {"counts": [1]}, "'counts' of state must be Mapping, got [1]"),
    (RIGHT | {"pair": ("a",)}, "'pair' of state must have 2 items, got ('a',)"),
    (RIGHT | {"pair": ("a", 1.5)}, "item 1 of 'pair' of state must be int | None, got 1.5"),
]


def test_what_has_the_form_passes() -> None:
    require_form("state", RIGHT, FORM)


@pytest.mark.parametrize(("value", "message"), WRONG)
def test_what_has_another_form_is_named(value: Any, message: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        require_form("state", value, FORM)
    assert message in str(caught.value)
