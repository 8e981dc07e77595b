"""The whole of a training run, saved and restored."""

from __future__ import annotations

from typing import Any

import pytest
from training import (
    NUM_ATTEMPTS,
    Program,
    fingerprint,
    saved,
)

import datacursor as dc


@pytest.fixture(scope="module")
def whole() -> list[dict[str, str]]:
    """The trail of an unbroken run, and of the saves along it."""
    return []


def test_restart_at_every_attempt_is_bitwise() -> None:
    program = Program()
    states = [saved(program.state)]
    trail = []
    for attempt in range(NUM_ATTEMPTS):
        trail += program.run(attempt + 1)
        states.append(saved(program.state))
    loop = program.state.loop
    assert loop is not None
    assert (loop.attempted, loop.applied, loop.skipped) == (12, 10, 2)
    assert program.sampler.cursor.epoch == 1
    for attempt, state in enumerate(states):
        resumed = Program()
        report = resumed.state.load_state_dict(state)
        assert report == dc.recovery.RestoreReport("bitwise", (), {})
        assert fingerprint(resumed.state) == fingerprint_of(state)
        assert resumed.run() == trail[attempt:]
        assert resumed.losses == program.losses[attempt:]


def fingerprint_of(state: Any) -> dict[str, str]:
    again = Program()
    again.state.load_state_dict(state)
    return fingerprint(again.state)
