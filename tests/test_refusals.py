"""Whatever does not fit is refused by name, with both values, and nothing has changed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from training import Net, Program, adamw, make_scaler, refusal, saved, two_groups

import datacursor as dc
from datacursor.recovery import (
    LoopConvention,
    OptimizerState,
    RNGState,
    TrainingState,
    digest_tree,
)
from datacursor.recovery.state import register_load_post_hook


@pytest.fixture(scope="module")
def run() -> Program:
    program = Program()
    program.run(5)
    return program


@pytest.fixture
def state(run: Program) -> Any:
    return saved(run.state)


class Wider(Net):
    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Parameter(torch.randn(5), requires_grad=False)


class Doubled(Net):
    def __init__(self) -> None:
        super().__init__()
        self.double()


class DoubleMean(Net):
    def __init__(self) -> None:
        super().__init__()
        self.mean = self.mean.double()


class Untied(Net):
    def __init__(self) -> None:
        super().__init__()
        self.last.weight = nn.Parameter(torch.randn(4, 4))


class Deeper(Net):
    def __init__(self) -> None:
        super().__init__()
        self.extra = nn.Linear(4, 4)
        del self.frozen


def one_group(model: nn.Module) -> torch.optim.Optimizer:
    return adamw(model.parameters(), weight_decay=0.1)


def moved(model: nn.Module) -> torch.optim.Optimizer:
    """The first bias is decayed too."""
    optimizer = two_groups(model)
    first, second = (group["params"] for group in optimizer.param_groups)
    first.append(second.pop())
    return optimizer


def options(**changed: Any) -> dict[str, Any]:
    return {"optimizer": lambda model: two_groups(model, lambda p: adamw(p, **changed))}


def slow_start(model: nn.Module) -> torch.optim.Optimizer:
    return two_groups(model, lambda parameters: torch.optim.AdamW(parameters, lr=0.05))


def schedule(make: Callable[[Any], Any]) -> dict[str, Any]:
    return {"scheduler": make}


def step_lr(optimizer: Any) -> Any:
    return torch.optim.lr_scheduler.StepLR(optimizer, 3)


def slower(optimizer: Any) -> Any:
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: min(1.0, (k + 1) / 11))


# What a run was built with, the error, and what its message must show.
RUNS: list[tuple[dict[str, Any], type[Exception], tuple[str, ...]]] = [
    ({"model": Wider}, dc.AssociationError, ("'frozen' of model", "(4,)", "(5,)")),
    (
        {"model": Deeper},
        dc.AssociationError,
        ("'extra.weight', 'extra.bias' missing", "'frozen' unexpected"),
    ),
    ({"model": Untied}, dc.AssociationError, ("parameters of optimizer", "'last.weight' missing")),
    ({"model": Doubled}, dc.PrecisionError, ("of model", "float32", "float64")),
    ({"model": DoubleMean}, dc.PrecisionError, ("'mean' of model", "float32", "float64")),
    ({"optimizer": one_group}, dc.AssociationError, ("groups of optimizer", "2", "1")),
    ({"optimizer": moved}, dc.AssociationError, ("group of parameter 'last.bias'", "1", "0")),
    (
        {"optimizer": lambda model: two_groups(model, lambda p: torch.optim.SGD(p, lr=0.1))},
        dc.OptionError,
        ("class of optimizer", "torch.AdamW", "torch.SGD"),
    ),
    ({"optimizer": slow_start}, dc.OptionError, ("'initial_lr' of group 0", "0.1", "0.05")),
    (options(eps=1e-6), dc.OptionError, ("'eps' of group 0", "1e-08", "1e-06")),
    (options(betas=(0.8, 0.999)), dc.OptionError, ("'betas'", "(0.9, 0.999)", "(0.8, 0.999)")),
    (options(fused=True), dc.OptionError, ("'fused'", "None", "True")),
    (options(foreach=True), dc.OptionError, ("'foreach'", "None", "True")),
    (options(capturable=True), dc.OptionError, ("'capturable'", "False", "True")),
    (options(maximize=True), dc.OptionError, ("'maximize'", "False", "True")),
    (schedule(step_lr), dc.ScheduleError, ("class of scheduler", "LambdaLR", "StepLR")),
    (schedule(slower), dc.ScheduleError, ("next 8 learning rates", "LambdaLR")),
    ({"scheduler": None}, dc.ScheduleError, ("schedulers", "'scheduler'", "none")),
    (
        {"scaler": torch.amp.GradScaler("cpu", enabled=False)},
        dc.OptionError,
        ("gradient scaler", "present", "absent or disabled"),
    ),
    ({"scaler": make_scaler(growth_factor=4.0)}, dc.OptionError, ("'growth_factor'", "2.0", "4.0")),
    ({"sampling": {"seed": 8}}, dc.CursorMismatchError, ("seed", "7", "8")),
    ({"sampling": {"fingerprint": "others"}}, dc.CursorMismatchError, ("fingerprint",)),
    (
        {"convention": LoopConvention(accumulation=2)},
        dc.ConventionError,
        ("accumulation", "checkpoint: 1", "run:    2"),
    ),
    ({"ema": nn.Linear(2, 2)}, dc.CheckpointError, ("extra states", "none", "'ema'")),
]


@pytest.mark.parametrize(("built", "error", "words"), RUNS)
def test_a_run_built_otherwise_is_refused(
    built: dict[str, Any], error: type[Exception], words: tuple[str, ...], state: Any
) -> None:
    other = Program(**built)
    with refusal(error, *words, state=other.state):
        other.state.load_state_dict(state)


def test_other_random_streams_are_refused(state: Any) -> None:
    other = Program()
    for rng, words in (
        (RNGState(), ("'augment'", "numpy.random.Generator(PCG64)", "absent")),
        (RNGState(augment=np.random.RandomState(3)), ("'augment'", "PCG64", "RandomState")),
    ):
        other.state.rng = rng
        with refusal(dc.RNGMismatchError, *words, state=other.state):
            other.state.load_state_dict(state)


def test_of_driven_betas_the_second_must_be_the_saved_one() -> None:
    def cyclic(second: float) -> Program:
        return Program(
            **options(betas=(0.9, second)),
            scheduler=lambda optimizer: torch.optim.lr_scheduler.CyclicLR(optimizer, 0.01, 0.1, 4),
        )

    state = saved(cyclic(0.999).state)
    other = cyclic(0.99)
    with refusal(dc.OptionError, "'betas'", "0.999", "0.99", state=other.state):
        other.state.load_state_dict(state)


@pytest.mark.parametrize("part", ["sampler", "loop"])
def test_a_part_on_one_side_only_is_refused(part: str, run: Program, state: Any) -> None:
    parts = {"sampler": run.sampler, "loop": run.state.loop}
    del parts[part]
    less = TrainingState(
        model=run.model,
        optimizer=run.optimizer,
        scheduler=run.scheduler,
        scaler=run.scaler,
        rng=run.state.rng,
        **parts,  # type: ignore[arg-type]  # one of two
    )
    with refusal(dc.CheckpointError, part, "present", "absent", state=less):
        less.load_state_dict(state)
    with refusal(dc.CheckpointError, part, "present", "absent", state=run.state):
        run.state.load_state_dict(saved(less))


def replace(*path: str, value: Any) -> Callable[[Any], None]:
    def change(state: Any) -> None:
        for key in path[:-1]:
            state = state[key]
        state[path[-1]] = value

    return change


def remove(*path: str) -> Callable[[Any], None]:
    def change(state: Any) -> None:
        for key in path[:-1]:
            state = state[key]
        del state[path[-1]]

    return change


# What was done to a state, the error, and what its message must show.
DAMAGE: list[tuple[Callable[[Any], None], type[Exception], tuple[str, ...]]] = [
    (replace("version", value=2), dc.CheckpointError, ("version 2", "version 1")),
    (remove("gradients"), dc.CheckpointError, ("'gradients'",)),
    (remove("model", "mean"), dc.AssociationError, ("'mean' missing",)),
    (
        replace("model", "mean", value=torch.zeros(4, 1)),
        dc.AssociationError,
        ("'mean'", "(4, 1)", "(4,)"),
    ),
    (replace("model", "mean", value=torch.zeros(4).half()), dc.PrecisionError, ("float16",)),
    (
        remove("optimizer", "optimizer", "state", "first.weight", "exp_avg"),
        dc.CheckpointError,
        ("'first.weight'", "'exp_avg'"),
    ),
    (
        replace(
            "optimizer",
            "optimizer",
            "state",
            "first.weight",
            "exp_avg",
            value=torch.zeros(4, 4, dtype=torch.bfloat16),
        ),
        dc.PrecisionError,
        ("exp_avg", "'first.weight'", "float32", "bfloat16"),
    ),
    (remove("scaler", "_growth_tracker"), dc.CheckpointError, ("'_growth_tracker'",)),
    (replace("loop", "version", value=2), dc.ConventionError, ("version", "2", "1")),
    (replace("loop", "attempted", value=6), dc.CheckpointError, ("attempted=6", "applied=3")),
    (replace("loop", "samples", value=8), dc.CheckpointError, ("samples", "8", "6")),
    (replace("loop", "place", value=None), dc.CheckpointError, ("None", "'position': 10")),
    (replace("gradients", "pending", value=1), dc.CheckpointError, ("pending", "1", "0")),
    (
        replace("gradients", "names", value=["first.weight", "lost"]),
        dc.AssociationError,
        ("gradients", "'lost'"),
    ),
    (
        replace("rng", "streams", "torch", "state", value=torch.zeros(3, dtype=torch.uint8)),
        dc.CheckpointError,
        ("'torch'", "damaged"),
    ),
    (replace("sampler", value={}), dc.CursorFormatError, ("not a sampler's state",)),
    (replace("optimizer", "optimizer", "shared", value=None), dc.CheckpointError, ("None",)),
    (
        replace("optimizer", "optimizer", "groups", value=[{"names": ["frozen"]}]),
        dc.CheckpointError,
        ("item 0 of 'groups' of optimizer", "'options'"),
    ),
    (replace("scheduler", "scheduler", "state", "last_epoch", value="x"), dc.CheckpointError, ()),
    (replace("scaler", "scale", value="x"), dc.CheckpointError, ("'scale' of scaler", "'x'")),
    (replace("scaler", "scale", value=float("nan")), dc.CheckpointError, ("nan",)),
    (replace("scaler", "_growth_tracker", value=-1), dc.CheckpointError, ("-1",)),
    (replace("loop", "tokens", value=2**63), dc.CheckpointError, ("tokens", str(2**63))),
    (replace("rng", "streams", "numpy", value=[]), dc.CheckpointError, ("'numpy' of 'streams'",)),
]


@pytest.mark.parametrize(("damage", "error", "words"), DAMAGE)
def test_a_damaged_state_is_refused(
    damage: Callable[[Any], None],
    error: type[Exception],
    words: tuple[str, ...],
    run: Program,
    state: Any,
) -> None:
    damage(state)
    with refusal(error, *words, state=run.state):
        run.state.load_state_dict(state)


def containers(state: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in state.items():
        if isinstance(value, (dict, list)):
            yield *path, key
        if isinstance(value, dict):
            yield from containers(value, (*path, key))


def test_whatever_stands_where_a_container_was_nothing_changes(run: Program, state: Any) -> None:
    paths = [path for path in containers(state) if path[0] not in ("environment", "sampler")]
    assert len(paths) > 40
    values: tuple[Any, ...] = (None, "x", -1, [{}])
    for path in paths:
        for rubbish in values:
            damaged = copy.deepcopy(state)
            replace(*path, value=rubbish)(damaged)
            try:
                run.state.load_state_dict(damaged)
            except dc.CheckpointError:
                continue
            assert path[-1] in ("_last_lr", "lr_lambdas"), (path, rubbish)  # nothing depends on it
            run.restore(state)
    present = saved(run.state) | {"sampler": state["sampler"]}  # which counts restarts
    assert digest_tree(present) == digest_tree(state)


def test_a_nested_schedule_that_lacks_a_key_is_refused() -> None:
    def nested(optimizer: Any) -> Any:
        parts: list[Any] = [
            torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma) for gamma in (0.9, 0.8)
        ]
        return torch.optim.lr_scheduler.SequentialLR(optimizer, parts, milestones=[3])

    program = Program(scheduler=nested)
    damaged = saved(program.state)
    del damaged["scheduler"]["scheduler"]["state"]["_schedulers"][1]["last_epoch"]
    with refusal(dc.CheckpointError, "'last_epoch'", "item 1", state=program.state):
        program.state.load_state_dict(damaged)


def test_parts_of_different_moments_are_refused(run: Program, state: Any) -> None:
    other = Program()
    other.restore(state)
    other.run(7)
    state["sampler"] = saved(other.state)["sampler"]
    with refusal(dc.CheckpointError, "'position': 10", "'position': 14", state=run.state):
        run.state.load_state_dict(state)


def test_gradients_of_another_shape_or_dtype_are_refused() -> None:
    program = Program(
        scaler=torch.amp.GradScaler("cpu", enabled=False),
        sampling={"accumulation_steps": 2},
        save_gradients=True,
    )
    program.backward()
    for value, error, words in (
        (torch.zeros(3), dc.AssociationError, ("'first.bias'", "(3,)", "(4,)")),
        (torch.zeros(4).half(), dc.PrecisionError, ("'first.bias'", "float16", "float32")),
    ):
        state = saved(program.state)
        state["gradients"]["values"]["first.bias"] = value
        with refusal(error, *words, state=program.state):
            program.state.load_state_dict(state)


def test_master_weights_on_one_side_are_refused(state: Any) -> None:
    def over_masters(model: nn.Module) -> torch.optim.Optimizer:
        masters = [(name, nn.Parameter(p.detach().clone())) for name, p in model.named_parameters()]
        by_name = dict(masters)
        groups = [[], []]  # type: list[list[Any]]
        for name, one in by_name.items():
            groups[one.ndim == 1].append((name, one))
        return adamw([{"params": groups[0], "weight_decay": 0.1}, {"params": groups[1]}])

    other = Program(optimizer=over_masters)
    with refusal(dc.PrecisionError, "master weights", "none", "'first.weight'", state=other.state):
        other.state.load_state_dict(state)


def test_a_refused_state_reaches_no_hook(run: Program, state: Any) -> None:
    seen: list[TrainingState] = []
    handle = register_load_post_hook(seen.append)
    state["version"] = 0
    with refusal(dc.CheckpointError, "version 0"):
        run.state.load_state_dict(state)
    handle.remove()
    assert seen == []


def test_unnamed_parameters_are_refused_at_the_save() -> None:
    model = Net()
    stranger = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([*model.parameters(), stranger], lr=0.1)
    with refusal(dc.AssociationError, "of shape (3,)", "has no name"):
        TrainingState(model=model, optimizer=optimizer).state_dict()
    named = OptimizerState(optimizer, [*model.named_parameters(), ("stranger", stranger)])
    TrainingState(model=model, optimizer=named).state_dict()


def test_options_of_the_state_itself_are_checked() -> None:
    with refusal(dc.ArgumentError, "environment", "'ignore'"):
        TrainingState(model=Net(), environment="ignore")
    with refusal(TypeError, "save_gradients=1"):
        TrainingState(model=Net(), save_gradients=1)  # type: ignore[arg-type]  # what is tested
    with refusal(TypeError, "allow_changed", "'eps'"):
        TrainingState(model=Net(), allow_changed="eps")
