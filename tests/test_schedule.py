"""Schedulers go on with the saved run's learning rates, or are refused."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.optim import lr_scheduler, swa_utils
from training import parameter, refusal, step, through_file

import datacursor as dc
from datacursor.recovery import LoopConvention, LoopState, TrainingState, digest_tree
from datacursor.recovery.schedule import ScheduleState

Optimizer = torch.optim.Optimizer
Scheduler = lr_scheduler.LRScheduler
Make = Callable[[Optimizer], Scheduler]


class Decay:
    """A callable object, whose attributes torch saves."""

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def __call__(self, number: int) -> float:
        return self.rate**number


def linear(optimizer: Optimizer) -> Scheduler:
    return lr_scheduler.LinearLR(optimizer, 0.25, total_iters=3)


def exponential(optimizer: Optimizer) -> Scheduler:
    return lr_scheduler.ExponentialLR(optimizer, 0.75)


SCHEDULERS: dict[str, Make] = {
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda k: (k + 1) / 10),
    "MultiplicativeLR": lambda o: lr_scheduler.MultiplicativeLR(o, lambda k: 0.5 + 0.1 * (k % 4)),
    "StepLR": lambda o: lr_scheduler.StepLR(o, 3),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [2, 5, 5, 7]),
    "ConstantLR": lambda o: lr_scheduler.ConstantLR(o, 0.5, total_iters=6),
    "LinearLR": linear,
    "ExponentialLR": exponential,
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(o, [linear(o), exponential(o)], [4]),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 20),
    "ChainedScheduler": lambda o: lr_scheduler.ChainedScheduler([linear(o), exponential(o)]),
    "ReduceLROnPlateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=2, factor=0.5),
    "CyclicLR": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=4),
    "CosineAnnealingWarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 5),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 0.5, total_steps=14),
    "PolynomialLR": lambda o: lr_scheduler.PolynomialLR(o, 9),
    "SWALR": lambda o: swa_utils.SWALR(o, 0.05, anneal_epochs=6),
    "LambdaLR of an object": lambda o: lr_scheduler.LambdaLR(o, Decay(0.5)),
    "CyclicLR of a function": lambda o: lr_scheduler.CyclicLR(
        o, 0.01, 0.1, step_size_up=4, scale_fn=lambda x: 1 / x, cycle_momentum=False
    ),
    "CyclicLR, exp_range": lambda o: lr_scheduler.CyclicLR(
        o, 0.01, 0.1, step_size_up=4, mode="exp_range", gamma=0.9
    ),
    "OneCycleLR, linear": lambda o: lr_scheduler.OneCycleLR(
        o, [0.5, 0.25], total_steps=14, anneal_strategy="linear", three_phase=True
    ),
}


class Schedule:
    """An optimizer over two groups and its scheduler, without a model to train."""

    def __init__(self, make: Make, *, rate: Any = 0.1, adam: bool = False, **options: Any) -> None:
        self.parameters = [parameter(1.0), parameter(2.0)]
        groups = [{"params": [one]} for one in self.parameters]
        self.optimizer: Optimizer = (
            torch.optim.Adam(groups, lr=rate, foreach=False)
            if adam
            else torch.optim.SGD(groups, lr=rate, momentum=0.9, foreach=False)
        )
        self.scheduler = make(self.optimizer)
        model = torch.nn.ParameterList(self.parameters)
        self.state = TrainingState(
            model=model, optimizer=self.optimizer, scheduler=self.scheduler, **options
        )

    def run(self, count: int = 4) -> list[Any]:
        """Step; return what the scheduler wrote into the groups after each."""
        seen = []
        for _ in range(count):
            step(self.optimizer, *((one, 1.0) for one in self.parameters))
            if isinstance(self.scheduler, lr_scheduler.ReduceLROnPlateau):
                self.scheduler.step(1.0)
            else:
                self.scheduler.step()
            groups = self.optimizer.param_groups
            seen.append([(float(g["lr"]), g.get("momentum"), g.get("betas")) for g in groups])
        return seen


def test_every_scheduler_of_torch_is_here() -> None:
    classes = [
        value
        for value in (*vars(lr_scheduler).values(), *vars(swa_utils).values())
        if inspect.isclass(value) and issubclass(value, Scheduler)
        if not value.__name__.endswith("LRScheduler")  # the base and its old name
    ]
    assert {cls.__name__ for cls in classes} <= SCHEDULERS.keys()


@pytest.mark.parametrize(
    ("name", "adam"),
    [*((name, False) for name in SCHEDULERS), ("CyclicLR", True), ("OneCycleLR", True)],
)
def test_every_scheduler_goes_on_bitwise(name: str, *, adam: bool) -> None:
    run = Schedule(SCHEDULERS[name], adam=adam)
    seen: list[Any] = []
    states = {}
    for number in (0, 1, 4, 7):
        seen += run.run(number - len(seen))
        states[number] = through_file(run.state.state_dict())
    seen += run.run(5)
    for number, state in states.items():
        resumed = Schedule(SCHEDULERS[name], adam=adam)
        assert resumed.state.load_state_dict(state).claim == "bitwise"
        assert digest_tree(resumed.state.state_dict()) == digest_tree(state)
        assert resumed.run(12 - number) == seen[number:]


def test_a_scheduler_writes_into_copies_of_what_it_is_given() -> None:
    class Remembering(lr_scheduler.ExponentialLR):
        def __init__(self, optimizer: Optimizer) -> None:
            self.history: list[float] = []
            super().__init__(optimizer, 0.5)

        def get_lr(self) -> Any:
            rates = super().get_lr()
            self.history.append(float(rates[0]))
            return rates

    run, resumed = Schedule(Remembering), Schedule(Remembering)
    run.run(3)
    state = run.state.state_dict()
    before = digest_tree(state["scheduler"])
    run.run(1)
    resumed.state.load_state_dict(state)
    resumed.run(1)
    assert digest_tree(state["scheduler"]) == before


def test_milestones_stay_countable() -> None:
    run, resumed = Schedule(SCHEDULERS["MultiStepLR"]), Schedule(SCHEDULERS["MultiStepLR"])
    state = run.state.state_dict()
    assert type(state["scheduler"]["scheduler"]["state"]["milestones"]) is dict
    resumed.state.load_state_dict(through_file(state))
    assert isinstance(resumed.scheduler, lr_scheduler.MultiStepLR)
    assert sorted(resumed.scheduler.milestones.elements()) == [2, 5, 5, 7]


def test_learning_rates_in_tensors_are_scheduled_too() -> None:
    run = Schedule(exponential, rate=torch.tensor(0.5), adam=True)
    run.run(3)
    state = through_file(run.state.state_dict())
    resumed = Schedule(exponential, rate=torch.tensor(0.5), adam=True)
    resumed.state.load_state_dict(state)
    assert resumed.run() == run.run()


def test_a_preview_moves_nothing() -> None:
    run, other = Schedule(SCHEDULERS["OneCycleLR"]), Schedule(SCHEDULERS["OneCycleLR"])
    for _ in range(4):
        state = run.state.state_dict()
        assert digest_tree(run.state.state_dict()) == digest_tree(state)
        run.state.load_state_dict(state)
        assert run.run(1) == other.run(1)


def test_a_preview_ends_where_the_schedule_does() -> None:
    table = [1.0, 0.5, 0.25]
    run = Schedule(lambda o: lr_scheduler.LambdaLR(o, lambda k: table[k]))
    assert run.state.state_dict()["scheduler"]["scheduler"]["next"] == [[0.05] * 2, [0.025] * 2]
    run.run(2)
    assert run.state.state_dict()["scheduler"]["scheduler"]["next"] == []


def test_a_method_of_an_object_that_cannot_be_copied_is_called_in_place() -> None:
    class Trainer:
        """Holds what cannot be copied, as trainers do."""

        def __init__(self) -> None:
            self.module = inspect

        def factor(self, number: int) -> float:
            return 0.5**number

    run = Schedule(lambda o: lr_scheduler.LambdaLR(o, Trainer().factor))
    assert run.state.state_dict()["scheduler"]["scheduler"]["next"][1] == [0.025] * 2


# -- right values


@pytest.mark.parametrize("optimizer_first", [True, False])
def test_d25_warm_up_goes_on_in_either_order_of_restoring(optimizer_first: bool) -> None:
    make = SCHEDULERS["LambdaLR"]
    run = Schedule(make)
    run.run(4)
    state = through_file(run.state.state_dict())
    resumed = Schedule(make)
    optimizer = dc.recovery.OptimizerState(
        resumed.optimizer, [("0", resumed.parameters[0]), ("1", resumed.parameters[1])]
    )
    loads: list[Callable[[], object]] = [
        lambda: optimizer.load_state_dict(state["optimizer"]["optimizer"]),
        lambda: resumed.scheduler.load_state_dict(state["scheduler"]["scheduler"]["state"]),
    ]
    for load in loads if optimizer_first else reversed(loads):
        load()
    rates = [resumed.optimizer.param_groups[0]["lr"]]
    rates += [groups[0][0] for groups in resumed.run(1)]
    assert rates == pytest.approx([0.05, 0.06])


@pytest.mark.parametrize(("advances_on", "expected"), [("attempted", 0.525), ("applied", 0.650)])
@pytest.mark.parametrize("resume_at", [0, 2, 5, 8])
def test_what_a_scheduler_advances_on_decides_the_sum(
    advances_on: str, expected: float, resume_at: int
) -> None:
    def make() -> tuple[torch.nn.Parameter, TrainingState]:
        one = parameter(1.0)
        optimizer = torch.optim.SGD([one], lr=0.1)
        return one, TrainingState(
            model=torch.nn.ParameterList([one]),
            optimizer=optimizer,
            scheduler=lr_scheduler.LambdaLR(optimizer, lambda k: min(1.0, (k + 1) / 4)),
            loop=LoopState(LoopConvention(scheduler_advances_on=advances_on)),
        )

    def train(one: torch.nn.Parameter, state: TrainingState, stop: int) -> None:
        loop = state.loop
        assert loop is not None
        while loop.attempted < stop:
            applied = loop.attempted not in (0, 1, 5)
            # The scheduler may advance before the first step that is applied.
            state.optimizers["optimizer"]._opt_called = True  # type: ignore[attr-defined]  # torch's
            if applied:
                step(state.optimizers["optimizer"], (one, 1.0))
            if applied or loop.convention.scheduler_advances_on == "attempted":
                state.schedulers["scheduler"].step()
            loop.record(applied=applied, samples=1)

    one, state = make()
    train(one, state, resume_at)
    other, resumed = make()
    resumed.load_state_dict(through_file(state.state_dict()))
    train(other, resumed, 8)
    assert other.item() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("is_restored", "rates"), [(True, [0.5, 0.5, 0.5, 0.25]), (False, [1.0, 1.0, 1.0, 0.5])]
)
def test_bad_epochs_before_the_save_count(is_restored: bool, rates: list[float]) -> None:
    def make() -> Schedule:
        return Schedule(SCHEDULERS["ReduceLROnPlateau"], rate=1.0)

    run = make()
    run.run(3)
    assert isinstance(run.scheduler, lr_scheduler.ReduceLROnPlateau)
    assert run.scheduler.num_bad_epochs == 2
    resumed = make()
    if is_restored:
        resumed.state.load_state_dict(through_file(run.state.state_dict()))
    assert [groups[0][0] for groups in resumed.run(4)] == rates


def test_a_whole_number_may_become_a_fraction() -> None:
    run = Schedule(SCHEDULERS["ReduceLROnPlateau"], rate=1)
    run.run(5)
    assert run.optimizer.param_groups[0]["lr"] == 0.5
    resumed = Schedule(SCHEDULERS["ReduceLROnPlateau"], rate=1)
    resumed.state.load_state_dict(through_file(run.state.state_dict()))
    assert resumed.optimizer.param_groups[0]["lr"] == 0.5


# -- refusals


def test_another_class_is_refused() -> None:
    sequential = Schedule(SCHEDULERS["SequentialLR"])
    saved = sequential.state.state_dict()
    for make, name in (
        (linear, "LinearLR"),
        (
            lambda o: lr_scheduler.SequentialLR(o, [exponential(o), linear(o)], [4]),
            "SequentialLR(ExponentialLR, LinearLR)",
        ),
    ):
        other = Schedule(make)
        with refusal(
            dc.ScheduleError, "SequentialLR(LinearLR, ExponentialLR)", name, state=other.state
        ):
            other.state.load_state_dict(saved)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            lambda o: lr_scheduler.LambdaLR(o, lambda _: 1.0),
            lambda o: lr_scheduler.LambdaLR(o, lambda k: 1.0 if k < 6 else 0.5),
        ),
        (
            lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, 4, scale_fn=lambda x: 1 / x),
            lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, 4, scale_fn=lambda _: 1.0),
        ),
    ],
    ids=["LambdaLR", "CyclicLR"],
)
def test_another_function_is_refused_by_what_it_does_next(before: Make, after: Make) -> None:
    run = Schedule(before)
    run.run(3)
    saved = through_file(run.state.state_dict())
    other = Schedule(after)
    with refusal(dc.ScheduleError, "next 8 learning rates", "schedule", state=other.state):
        other.state.load_state_dict(saved)
    accepting = Schedule(after, allow_changed={"schedule"})
    report = accepting.state.load_state_dict(saved)
    assert (report.claim, report.accepted) == ("samples", ("schedule",))


def test_a_learning_rate_of_another_moment_is_refused() -> None:
    run = Schedule(exponential)
    early = through_file(run.state.state_dict())
    run.run(3)
    late = through_file(run.state.state_dict())
    late["optimizer"] = early["optimizer"]
    other = Schedule(exponential)
    with refusal(dc.ScheduleError, "lr after restore", 0.1 * 0.75**3, 0.1, state=other.state):
        other.state.load_state_dict(late)


def test_a_scheduler_on_one_side_only_is_refused() -> None:
    run = Schedule(exponential)
    without = TrainingState(model=torch.nn.ParameterList(run.parameters), optimizer=run.optimizer)
    with refusal(dc.ScheduleError, "schedulers", "'scheduler'", "none", state=without):
        without.load_state_dict(run.state.state_dict())
    with refusal(dc.ScheduleError, "schedulers", "'scheduler'", "none", state=run.state):
        run.state.load_state_dict(without.state_dict())


@pytest.mark.parametrize("part", ["class", "next", "state"])
def test_an_incomplete_state_is_refused(part: str) -> None:
    run = Schedule(exponential)
    saved = through_file(run.state.state_dict())
    del saved["scheduler"]["scheduler"][part]
    with refusal(dc.CheckpointError, "scheduler", part, state=run.state):
        run.state.load_state_dict(saved)
    saved = through_file(run.state.state_dict())
    del saved["scheduler"]["scheduler"]["state"]["base_lrs"]
    with refusal(dc.CheckpointError, "scheduler", "base_lrs", state=run.state):
        run.state.load_state_dict(saved)


def test_what_cannot_be_previewed_is_refused_when_the_state_is_made() -> None:
    optimizer = torch.optim.SGD([parameter(1.0)], lr=0.1)
    with refusal(TypeError, "scheduler", "object"):
        ScheduleState(object())  # type: ignore[arg-type]  # what is tested
    inner = lr_scheduler.ReduceLROnPlateau(optimizer)
    outer = copy.copy(linear(optimizer))
    outer._schedulers = [inner]  # type: ignore[attr-defined]  # as in schedulers made of others

    def by_metrics(metrics: float) -> None:
        inner.step(metrics)

    outer.step = by_metrics  # type: ignore[method-assign, assignment]  # what is tested
    with refusal(dc.ScheduleError, "cannot be previewed", "LinearLR(ReduceLROnPlateau)"):
        ScheduleState(outer)
    uncopied = linear(optimizer)
    uncopied.lock = open  # type: ignore[attr-defined]  # copies
    uncopied.module = inspect  # type: ignore[attr-defined]  # does not
    with refusal(dc.ScheduleError, "cannot be copied", "module"):
        ScheduleState(uncopied)


def test_a_scheduler_of_a_foreign_optimizer_is_refused() -> None:
    run = Schedule(linear)
    other = torch.optim.SGD([parameter(1.0)], lr=0.1)
    with refusal(dc.ScheduleError, "not part of this state"):
        TrainingState(model=run.state.model, optimizer=run.optimizer, scheduler=exponential(other))
