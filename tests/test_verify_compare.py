"""Two traces compared: which difference is the first one, and what is said about it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from datacursor import Cursor
from datacursor.recovery.aspects import ASPECTS, text_of
from datacursor.recovery.trace import values_path
from datacursor.verify.compare import (
    BITWISE,
    CLAIMS,
    CLOSE,
    SAMPLES,
    Difference,
    Tolerance,
    differing_aspects,
    first_difference,
)
from datacursor.verify.log import Log, Update
from datacursor.verify.verdict import Fault, Restart, Verdict, lines_of

TOLERANCE = Tolerance(rtol=0.0, atol=0.5)
NUMBERS = range(1, 5)


def make_update(number: int, **changes: dict[str, str]) -> Update:
    aspects = {aspect: {"": f"{aspect} {number}"} for aspect in ASPECTS}
    aspects["loss"] = {"": f"{float(number).hex()} = {number}"}
    aspects["optimizer"] = {f"exp_avg of '{name}'": f"digest {number}" for name in "ab"}
    return Update(number, 0, aspects | {name.replace("_", " "): v for name, v in changes.items()})


def make_log(*changed: Update, first: int = 1) -> Log:
    updates = {number: make_update(number) for number in NUMBERS if number >= first}
    updates |= {update.number: update for update in changed}
    return Log(Path("no-such-directory"), updates, {}, None, "")


def keep(directory: Path, **tensors: torch.Tensor) -> Log:
    """Return a trace that kept a tensor of an aspect at update 2."""
    directory.mkdir()
    [(aspect, tensor)] = tensors.items()
    torch.save({f"{aspect} x": tensor}, values_path(directory, 2))
    log = make_log(make_update(2, **{aspect: {"x": text_of(tensor)}}))
    return replace(log, directory=directory)


WHOLE = make_log()


def difference_of(found: Log, claim: str = BITWISE) -> Difference | None:
    return first_difference(WHOLE, found, NUMBERS, claim, TOLERANCE)


@pytest.mark.parametrize("claim", CLAIMS)
def test_equal_traces_have_no_difference(claim: str) -> None:
    assert difference_of(make_log(), claim) is None


def test_the_first_update_is_named_before_the_first_aspect() -> None:
    log = make_log(make_update(3, model={"": "x"}), make_update(4, cursor={"": "x"}))
    difference = difference_of(log)
    assert difference == Difference(3, "model", "", "model 3", "x")


@pytest.mark.parametrize("number", range(len(ASPECTS) - 1))
def test_a_cause_is_named_before_its_effects(number: int) -> None:
    names = ASPECTS[number:]
    update = make_update(2)
    changed = replace(update, aspects={**update.aspects, **{name: {"": "x"} for name in names}})
    difference = difference_of(make_log(changed))
    assert difference is not None
    assert difference.aspect == names[0]
    assert differing_aspects(update, changed) == set(names)


def test_a_name_that_only_one_trace_has_differs() -> None:
    for optimizer in ({"exp_avg of 'a'": "digest 2"}, {}):
        difference = difference_of(make_log(make_update(2, optimizer=optimizer)))
        assert difference is not None
        assert difference.found == "missing"
    more = {**make_update(2).aspects["optimizer"], "step of 'a'": "1"}
    difference = difference_of(make_log(make_update(2, optimizer=more)))
    assert difference == Difference(2, "optimizer", "step of 'a'", "missing", "1")


def test_an_update_that_is_missing_differs() -> None:
    log = make_log()
    short = replace(log, updates={n: log.updates[n] for n in (1, 2)})
    assert difference_of(short) == Difference(3, "update", "", "made", "missing")


def test_ids_that_a_process_was_not_told_are_not_compared() -> None:
    assert difference_of(make_log(make_update(1, ids={}))) is None


@pytest.mark.parametrize(
    ("aspect", "weakest"),
    [
        ("cursor", SAMPLES),
        ("ids", SAMPLES),
        ("outcome", CLOSE),
        ("lr", CLOSE),
        ("scale", CLOSE),
        ("growth_tracker", CLOSE),
        ("RNG", BITWISE),
        ("optimizer", BITWISE),
        ("extra", BITWISE),
    ],
)
def test_a_claim_compares_what_it_promises(aspect: str, weakest: str) -> None:
    log = make_log(make_update(2, **{aspect: {"": "x"}}))
    differing = [claim for claim in CLAIMS if difference_of(log, claim) is not None]
    assert differing == list(CLAIMS[CLAIMS.index(weakest) :])


@pytest.mark.parametrize(("loss", "is_close"), [(2.4, True), (2.6, False), (float("nan"), False)])
def test_a_loss_is_compared_within_the_tolerance(loss: float, *, is_close: bool) -> None:
    log = make_log(make_update(2, loss={"": f"{loss.hex()} = {loss}"}))
    assert (difference_of(log, CLOSE) is None) == is_close
    assert difference_of(log, BITWISE) is not None


@pytest.mark.parametrize("aspect", ["loss", "model"])
def test_what_is_missing_is_not_close(aspect: str) -> None:
    assert difference_of(make_log(make_update(2, **{aspect: {}})), CLOSE) is not None


@pytest.mark.parametrize(
    ("expected", "found", "is_close"),
    [
        (torch.tensor([1.0, math.nan]), torch.tensor([1.5, math.nan]), True),
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.6]), False),
        (torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.float64), False),
        (torch.zeros(2, 3), torch.zeros(3, 2), False),
        (torch.tensor([5]), torch.tensor([6]), False),
    ],
)
def test_parameters_are_compared_within_the_tolerance(
    tmp_path: Path, expected: torch.Tensor, found: torch.Tensor, *, is_close: bool
) -> None:
    a, b = keep(tmp_path / "a", model=expected), keep(tmp_path / "b", model=found)
    difference = first_difference(a, b, NUMBERS, CLOSE, TOLERANCE)
    assert (difference is None) == is_close


def test_a_difference_is_located_in_any_shape_and_layout(tmp_path: Path) -> None:
    expected = torch.arange(24.0).reshape(2, 3, 4).transpose(0, 2)
    found = expected.clone()
    found[2, 1, 0] += 1.0
    a, b = keep(tmp_path / "a", optimizer=expected), keep(tmp_path / "b", optimizer=found)
    difference = first_difference(a, b, NUMBERS, BITWISE, TOLERANCE)
    assert difference is not None
    assert difference.place == (2, 1, 0)
    assert (difference.expected, difference.found) == ("0x40c00000", "0x40e00000")


# -- words ---------------------------------------------------------------------------------


def make_restart(difference: Difference | None = None, **changes: Any) -> Restart:
    resumed = make_log(first=3)
    restart = Restart(3, "", make_log(), resumed, BITWISE, (), difference)
    return replace(restart, **changes)


def test_every_line_fits() -> None:
    name = "exp_avg of '" + "layers.11.attention." * 12 + "weight'"
    difference = Difference(4, "optimizer", name, "digest " + "a" * 200, "digest " + "b" * 200)
    restarts = [make_restart(difference), make_restart(operation="open " + "x" * 200)]
    fault = Fault("a moment zeroed", ["optimizer x"], difference)
    verdict = Verdict("DIFFERENT", BITWISE, "", restarts=restarts, faults=[fault])
    lines = lines_of(verdict)
    assert max(map(len, lines)) == 100
    assert lines[0].startswith("DIFFERENT (bitwise): killed at 3, update 4: optim")


def make_cursor(**changes: Any) -> Cursor:
    cursor = Cursor(
        order_id=1, data_fingerprint=bytes(16), plan_digest=bytes(16), base_size=100, seed=7
    )
    return cursor.replace(epoch=1, position=8, **changes)


def cursor_lines(expected: str, found: str) -> list[str]:
    difference = Difference(4, "cursor", "", expected, found)
    verdict = Verdict("DIFFERENT", BITWISE, "", restarts=[make_restart(difference)])
    return lines_of(verdict)[2:4]


def test_a_cursor_is_shown_in_words() -> None:
    cursors = make_cursor(), make_cursor(updates_committed=3)
    assert cursor_lines(*(cursor.token() for cursor in cursors)) == [
        f"  uninterrupted: {cursors[0]}",
        f"  restarted:     {cursors[1]}",
    ]


def test_cursors_that_read_alike_are_shown_by_their_fields() -> None:
    cursors = make_cursor(digest_first=1), make_cursor(digest_first=2)
    assert cursor_lines(*(cursor.token() for cursor in cursors)) == [
        "  uninterrupted: digest_first 1",
        "  restarted:     digest_first 2",
    ]


def test_a_cursor_that_is_missing_is_shown_as_such() -> None:
    assert cursor_lines(make_cursor().token(), "missing")[1] == "  restarted:     missing"


@pytest.mark.parametrize(
    ("touched", "subject", "is_caught"),
    [
        (["lr"], "lr of group 0", True),
        (["optimizer exp_avg of 'a'"], "optimizer exp_avg of 'a'", True),
        (["optimizer exp_avg of 'a'"], "optimizer exp_avg of 'ab'", False),
        (["cursor"], "RNG torch", False),
    ],
)
def test_a_fault_is_caught_if_the_difference_names_it(
    touched: list[str], subject: str, *, is_caught: bool
) -> None:
    aspect, _, name = subject.partition(" ")
    fault = Fault("", touched, Difference(2, aspect, name, "a", "b"))
    assert fault.is_caught == is_caught


def test_a_fault_that_was_not_found_is_not_caught() -> None:
    assert not Fault("", ["lr"], None).is_caught
