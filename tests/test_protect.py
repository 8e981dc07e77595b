"""A protected optimizer's own state_dict and load_state_dict go by names."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from training import parameter, refusal, step, through_file

import datacursor as dc
from datacursor.recovery import OptimizerState, digest_tree, protect


def make(order: str, *, named: bool = False) -> tuple[dict[str, nn.Parameter], torch.optim.SGD]:
    """An optimizer over parameters a = 1 and c = 10, in an order."""
    parameters = {name: parameter([1.0 if name == "a" else 10.0]) for name in order}
    held: Any = list(parameters.items()) if named else list(parameters.values())
    return parameters, torch.optim.SGD(held, lr=0.1, momentum=0.5)


def saved_run(*, is_protected: bool) -> Any:
    """State of an optimizer over (a, c) whose buffers are 2 and 20."""
    parameters, optimizer = make("ac", named=not is_protected)
    for value, one in zip((2.0, 20.0), parameters.values(), strict=True):
        optimizer.state[one]["momentum_buffer"] = torch.tensor([value])
    if is_protected:
        protect(optimizer, parameters.items())
    return through_file(optimizer.state_dict())


@pytest.mark.parametrize("is_saved_protected", [False, True])
@pytest.mark.parametrize(("is_protected", "expected"), [(True, (0.8, 8.9)), (False, (-0.1, 9.8))])
def test_a_plain_load_follows_names(
    is_saved_protected: bool, is_protected: bool, expected: tuple[float, float]
) -> None:
    saved = saved_run(is_protected=is_saved_protected)
    parameters, optimizer = make("ca")
    if is_protected:
        protect(optimizer, parameters.items())
    optimizer.load_state_dict(saved)
    step(optimizer, *((one, 1.0) for one in parameters.values()))
    assert (parameters["a"].item(), parameters["c"].item()) == pytest.approx(expected)


def test_names_the_optimizer_was_built_with_protect_it_too() -> None:
    parameters, optimizer = make("ca", named=True)
    protect(optimizer)
    optimizer.load_state_dict(saved_run(is_protected=True))
    assert optimizer.state[parameters["a"]]["momentum_buffer"].item() == 2.0
    assert optimizer.param_groups[0]["param_names"] == ["c", "a"]


def test_a_state_that_fits_no_names_is_refused_and_nothing_changes() -> None:
    saved = saved_run(is_protected=True)
    parameters, optimizer = make("ca")
    protect(optimizer, parameters.items())
    step(optimizer, (parameters["a"], 1.0))
    before = digest_tree(optimizer.state_dict())
    unnamed, other = copy.deepcopy(saved), copy.deepcopy(saved)
    del unnamed["param_groups"][0]["param_names"]
    other["param_groups"][0]["param_names"] = ["a", "b"]
    with refusal(dc.AssociationError, "SGD", "does not name"):
        optimizer.load_state_dict(unnamed)
    with refusal(dc.AssociationError, "'c' missing", "'b' unexpected"):
        optimizer.load_state_dict(other)
    saved["param_groups"].append(dict(saved["param_groups"][0], params=[], param_names=[]))
    with refusal(dc.AssociationError, "groups", "2", "1"):
        optimizer.load_state_dict(saved)
    assert digest_tree(optimizer.state_dict()) == before


def test_an_optimizer_without_names_is_refused_at_once() -> None:
    _, optimizer = make("ca")
    with refusal(dc.AssociationError, "has no name"):
        protect(optimizer)


def test_a_protected_optimizer_takes_further_groups_after_a_load() -> None:
    parameters, optimizer = make("ca")
    further = parameter([0.0])
    protect(optimizer, [*parameters.items(), ("d", further)])
    optimizer.load_state_dict(saved_run(is_protected=True))
    optimizer.add_param_group({"params": [further]})
    assert optimizer.state_dict()["param_groups"][1]["param_names"] == ["d"]


def test_protection_can_be_removed() -> None:
    parameters, optimizer = make("ca")
    protect(optimizer, parameters.items()).remove()
    assert "param_names" not in optimizer.state_dict()["param_groups"][0]
    optimizer.load_state_dict(saved_run(is_protected=True))
    assert optimizer.state[parameters["c"]]["momentum_buffer"].item() == 2.0  # as torch does


def test_a_protected_optimizer_is_restored_by_optimizer_state() -> None:
    parameters, optimizer = make("ca")
    protect(optimizer, parameters.items())
    step(optimizer, *((one, 1.0) for one in parameters.values()))
    state = OptimizerState(optimizer, parameters.items())
    saved = through_file(state.state_dict())
    step(optimizer, *((one, 1.0) for one in parameters.values()))
    state.load_state_dict(saved)
    assert digest_tree(state.state_dict()) == digest_tree(saved)
