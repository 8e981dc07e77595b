"""Counters of a training loop and the convention they are counted in."""

from __future__ import annotations

from typing import Any

import pytest
from training import refusal

import datacursor as dc
from datacursor.recovery import LoopConvention, LoopState

COUNTERS = ("attempted", "applied", "skipped", "samples", "tokens")


def counted(convention: LoopConvention | None = None) -> LoopState:
    loop = LoopState(convention)
    loop.record(applied=True, samples=4, tokens=40)
    loop.record(applied=False, samples=4, tokens=40)
    loop.record(applied=True, samples=3, tokens=30)
    return loop


def counters(loop: LoopState) -> tuple[int, ...]:
    return tuple(getattr(loop, name) for name in COUNTERS)


def test_samples_of_a_skipped_update_entered_none() -> None:
    assert counters(counted()) == (3, 2, 1, 7, 70)


def test_counting_goes_on_from_saved_counters() -> None:
    loop = LoopState()
    loop.load_state_dict(counted().state_dict())
    loop.record(applied=True, samples=1)
    assert counters(loop) == (4, 3, 1, 8, 70)


@pytest.mark.parametrize(
    ("name", "value", "usual"),
    [
        ("scheduler_advances_on", "attempted", "applied"),
        ("scheduler_unit", "token", "update"),
        ("skipped_data", "retried", "consumed"),
        ("accumulation", 4, 1),
    ],
)
def test_each_rule_is_compared(name: str, value: Any, usual: Any) -> None:
    saved = counted(LoopConvention(**{name: value})).state_dict()
    loop = LoopState()
    with refusal(dc.ConventionError, name, f"in checkpoint: {value}", f"in the run:    {usual}"):
        loop.load_state_dict(saved)
    assert counters(loop) == (0, 0, 0, 0, 0)


def test_a_later_versions_rules_are_refused() -> None:
    saved = counted().state_dict()
    with refusal(dc.ConventionError, "version", "2", "1"):
        LoopState().load_state_dict({**saved, "version": 2})
    saved["convention"]["pipeline"] = "none"
    with refusal(dc.ConventionError, "pipeline", "none", "None"):
        LoopState().load_state_dict(saved)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"attempted": 4}, ("attempted=4", "applied=2", "skipped=1")),
        ({"samples": -1}, ("'samples'", "-1")),
        ({"tokens": None}, ("'tokens'", "None")),
        ({"applied": True}, ("'applied'", "True")),
    ],
)
def test_counters_that_cannot_be_are_refused(
    change: dict[str, Any], words: tuple[str, ...]
) -> None:
    loop = LoopState()
    with refusal(dc.CheckpointError, *words):
        loop.load_state_dict(counted().state_dict() | change)
    assert counters(loop) == (0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        ({"scheduler_unit": "step"}, dc.ArgumentError),
        ({"skipped_data": "lost"}, dc.ArgumentError),
        ({"scheduler_advances_on": ""}, dc.ArgumentError),
        ({"accumulation": 0}, dc.ArgumentError),
        ({"replay": "all"}, dc.ArgumentError),
        ({"accumulation": 1.5}, TypeError),
    ],
)
def test_unknown_rules_are_refused(rule: dict[str, Any], error: type[Exception]) -> None:
    [(name, value)] = rule.items()
    with refusal(error, name, value):
        LoopConvention(**rule)


def test_an_update_is_recorded_with_plain_numbers() -> None:
    loop = LoopState()
    with refusal(TypeError, "applied=1"):
        loop.record(applied=1, samples=4)  # type: ignore[arg-type]  # what is tested
    with refusal(dc.ArgumentError, "samples=-1"):
        loop.record(applied=True, samples=-1)
    assert counters(loop) == (0, 0, 0, 0, 0)
