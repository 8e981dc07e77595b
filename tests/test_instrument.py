"""`ModularCounter` and `datacursor instrument`: two updates tell every wrong restart."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import datacursor as dc
from datacursor.cli import main
from datacursor.instrument import ModularCounter


@st.composite
def counters(draw: st.DrawFn, modulus: int) -> ModularCounter:
    counter = ModularCounter(modulus, draw(st.integers(0, modulus - 1)))
    counter.residue = draw(st.integers(0, modulus - 1))
    return counter


PAIRS = st.integers(1, 2**63 - 1).flatmap(
    lambda modulus: st.tuples(counters(modulus), counters(modulus))
)


def after(modulus: int, increment: int, updates: int) -> ModularCounter:
    counter = ModularCounter(modulus, increment)
    for _ in range(updates):
        counter.step()
    return counter


def test_two_counters_agree_at_the_next_update_and_not_at_the_one_after() -> None:
    right, wrong = after(8, 3, 3), after(8, 1, 3)
    assert (right.residue, wrong.residue) == (1, 3)
    assert (right.step(), wrong.step()) == (4, 4)
    assert (right.step(), wrong.step()) == (7, 5)


def test_differs_at_names_the_update_that_tells() -> None:
    saved = after(8, 3, 3)
    assert saved.differs_at(after(8, 1, 3)) == 2
    assert saved.differs_at(after(8, 3, 2)) == 1
    assert saved.differs_at(after(8, 3, 11)) is None


@given(PAIRS, st.integers(3, 20))
def test_what_agrees_over_two_updates_agrees_for_ever(
    pair: tuple[ModularCounter, ModularCounter], updates: int
) -> None:
    one, other = pair
    shown = [[each.step() for _ in range(updates)] for each in pair]
    same = [a == b for a, b in zip(*shown, strict=True)]
    assert all(same) == all(same[:2]) == (one.differs_at(other) is None)


@given(PAIRS)
def test_next_residues_are_what_steps_give(pair: tuple[ModularCounter, ModularCounter]) -> None:
    counter, _ = pair
    before = counter.residue
    expected = counter.next_residues(5)
    assert counter.residue == before
    assert [counter.step() for _ in range(5)] == expected


@pytest.mark.parametrize("saved_at", range(10))
def test_a_fresh_counter_goes_on_from_the_state(saved_at: int) -> None:
    counter = after(8, 3, saved_at)
    state = json.loads(json.dumps(counter.state_dict()))
    restored = ModularCounter(8, 3)
    restored.load_state_dict(state)
    assert [restored.step() for _ in range(9)] == [counter.step() for _ in range(9)]
    assert state == {"modulus": 8, "increment": 3, "residue": saved_at * 3 % 8}


def test_reset_goes_back_to_zero() -> None:
    counter = after(8, 3, 5)
    counter.reset()
    assert (counter.residue, counter.step()) == (0, 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"modulus": 9}, r"modulus\n  in state:   9\n  in counter: 8"),
        ({"increment": 1}, r"increment\n  in state:   1\n  in counter: 3"),
        ({"residue": 8}, r"residue must be in \[0, 8\), got 8"),
        ({"residue": -1}, "got -1"),
        ({"residue": 1.0}, r"got 1\.0"),
        ({"residue": True}, "got True"),
        ({"step": 1}, r"expected the keys .* got \['increment', 'modulus', 'residue', 'step'\]"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_nothing_changes(
    changes: dict[str, Any], message: str
) -> None:
    counter = after(8, 3, 3)
    state = after(8, 3, 5).state_dict()
    with pytest.raises(dc.CheckpointError, match=message):
        counter.load_state_dict(state | changes)
    assert counter.residue == 1


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(dc.ArgumentError, match=r"modulus must be in .* got modulus=0"):
        ModularCounter(0, 0)
    with pytest.raises(dc.ArgumentError, match=r"increment must be in \[0, 8\), got increment=8"):
        ModularCounter(8, 8)
    with pytest.raises(TypeError, match="modulus must be an integer"):
        ModularCounter(8.0, 3)  # type: ignore[arg-type]
    with pytest.raises(dc.ArgumentError, match=r"other\.modulus=9, modulus=8"):
        ModularCounter(8, 3).differs_at(ModularCounter(9, 3))


# -- datacursor instrument -------------------------------------------------------------------------


def run(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["instrument", *words]) == 0
    return capsys.readouterr().out


def test_the_command_shows_every_restart_and_when_it_differs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = [" ".join(line.split()) for line in run(capsys).splitlines()]
    assert "whole 3 1 4 7 2 5 -" in lines
    assert "both, agreeing once 1 3 4 5 6 7 2" in lines
    assert "residue lost 3 0 3 6 1 4 1" in lines


def test_the_command_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, "--modulus", "5", "--increment", "2", "--other", "4", "--json"))
    assert found["wrong"] == {"differ_at_1": 20, "differ_at_2": 4}
    restarts = {restart.pop("restored"): restart for restart in found["restarts"]}
    assert restarts["whole"] == {
        "increment": 2,
        "residue": 1,
        "next": [3, 0, 2, 4],
        "differs_at": None,
    }
    assert restarts["both, agreeing once"]["next"] == [3, 2, 1, 0]
    assert {restart["differs_at"] for restart in restarts.values()} == {None, 1, 2}


def test_a_restart_that_is_no_other_differs_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, "--updates", "8", "--other", "3", "--json"))
    differing = [each["restored"] for each in found["restarts"] if each["differs_at"]]
    assert differing == ["one update behind", "one update ahead"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--modulus", "65"], r"--modulus must be in [2, 65), got --modulus=65"),
        (["--increment", "8"], r"--increment must be in [0, 8), got --increment=8"),
        (["--other", "-1"], r"--other must be in [0, 8), got --other=-1"),
        (["--updates", "-1"], r"--updates must be in"),
    ],
)
def test_the_command_refuses_numbers_out_of_range(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["instrument", *words]) == 2
    assert message in capsys.readouterr().err
