"""Commits that follow from optimizer steps, and what happens when a step changes nothing."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from runs import Numbers, fresh, order

import datacursor as dc
from datacursor.updates import step_applied

WORKERS = pytest.mark.parametrize("num_workers", [0, 2])
FUSED = pytest.mark.parametrize("fused", [False, True], ids=["plain", "fused"])
SETTINGS: dict[str, Any] = {"init_scale": 65536.0, "backoff_factor": 0.5, "growth_interval": 2000}


class Program:
    """A training program with a scaler, whose gradients overflow on demand."""

    def __init__(
        self,
        n: int = 10,
        batch_size: int = 1,
        *,
        fused: bool = False,
        num_workers: int = 0,
        plain: bool = False,
        state: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.parameter = torch.nn.Parameter(torch.ones(3))
        self.optimizer: torch.optim.Optimizer = torch.optim.AdamW(
            [self.parameter], lr=0.1, fused=fused
        )
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda _: 1.0)
        self.scaler = torch.amp.GradScaler("cpu", **SETTINGS)
        self.sampler = dc.CursorSampler(n, batch_size=batch_size, seed=7, **options)
        loading: dict[str, Any] = {"num_workers": num_workers}
        if num_workers:
            loading["multiprocessing_context"] = "fork"
        self.loader: Any = (
            torch.utils.data.DataLoader(
                Numbers(n), batch_size=batch_size, sampler=self.sampler, **loading
            )
            if plain
            else dc.CursorLoader(Numbers(n), sampler=self.sampler, **loading)
        )
        if state is not None:
            self.sampler.load_state_dict(state["sampler"])
            for name in ("optimizer", "scheduler", "scaler"):
                getattr(self, name).load_state_dict(state[name])
        self.sampler.attach(self.optimizer, self.scaler)
        self.applied: list[bool] = []

    def state(self) -> dict[str, Any]:
        parts = ("sampler", "optimizer", "scheduler", "scaler")
        return {name: getattr(self, name).state_dict() for name in parts}

    def step(self, *, overflows: bool) -> None:
        loss = self.parameter.sum() * (float("inf") if overflows else 1.0)
        torch.autograd.backward(self.scaler.scale(loss))
        before = self.parameter.detach().clone()
        self.scaler.step(self.optimizer)
        applied = step_applied(self.optimizer, self.scaler)
        assert applied == (not torch.equal(before, self.parameter))
        self.scaler.update()
        self.optimizer.zero_grad()
        self.applied.append(applied)
        if applied:
            self.scheduler.step()

    def run(self, overflows: Sequence[bool], *, epochs: int = 1) -> list[list[int]]:
        """Return the batches seen until all tries are made or the epochs end."""
        batches = []
        tries = iter(overflows)
        for _ in range(epochs):
            for batch in self.loader:
                batches.append(batch.tolist())
                if getattr(self.loader, "ends_update", True):
                    self.step(overflows=next(tries, False))
                if len(self.applied) == len(overflows) and epochs == 1:
                    return batches
        return batches

    def numbers(self) -> tuple[int, ...]:
        return (
            sum(self.applied),
            self.scheduler.last_epoch,
            int(self.scaler.get_scale()),
            self.scaler._get_growth_tracker(),
            self.sampler.cursor.position,
        )


OVERFLOWS = [False, False, True, False, False]


@WORKERS
@FUSED
@pytest.mark.parametrize(
    ("on_skip", "items", "position"),
    [("advance", [0, 1, 2, 3, 4], 5), ("retry", [0, 1, 2, 2, 3], 4), ("defer", [0, 1, 2, 3, 4], 5)],
)
def test_d08_overflow(
    num_workers: int, fused: bool, on_skip: str, items: list[int], position: int
) -> None:
    program = Program(fused=fused, num_workers=num_workers, on_skip=on_skip)
    places = order(10, 0)
    assert program.run(OVERFLOWS) == [[places[k]] for k in items]
    assert program.numbers() == (4, 4, 32768, 2, position)
    cursor = program.sampler.cursor
    assert cursor.skipped == (on_skip == "advance")
    assert cursor.deferred == (((2, 1),) if on_skip == "defer" else ())

    resumed = Program(fused=fused, on_skip=on_skip, state=program.state())
    assert resumed.numbers()[1:] == program.numbers()[1:]
    rest = resumed.run([False] * 6)
    again = [2] if on_skip == "defer" else []
    assert rest == [[places[k]] for k in (*range(position, 10), *again)]
    assert (resumed.sampler.cursor.epoch, resumed.sampler.cursor.position) == (1, 0)


@WORKERS
@pytest.mark.parametrize("fused", [False, True])
def test_a_plain_loader_advances_over_a_skipped_update(num_workers: int, fused: bool) -> None:
    program = Program(fused=fused, num_workers=num_workers, plain=True)
    program.run(OVERFLOWS)
    assert program.numbers() == (4, 4, 32768, 2, 5)
    assert program.sampler.cursor.skipped == 1


@pytest.mark.parametrize("on_skip", ["retry", "defer"])
def test_a_plain_loader_cannot_give_anything_again(on_skip: str) -> None:
    program = Program(plain=True, on_skip=on_skip)
    with pytest.raises(dc.CommitError, match="needs a CursorLoader"):
        program.run(OVERFLOWS)
    assert program.sampler.cursor.position == 2


@WORKERS
@pytest.mark.parametrize("on_skip", ["retry", "defer"])
def test_whole_epochs_with_overflows_train_on_everything_once(
    num_workers: int, on_skip: str
) -> None:
    program = Program(
        23, 2, num_workers=num_workers, on_skip=on_skip, accumulation_steps=3, num_replicas=1
    )
    tries = [number % 3 == 1 for number in range(20)]
    recorder = Recorder()
    program.sampler.add_observer(recorder)
    program.run(tries, epochs=3)
    assert program.sampler.cursor.epoch == 3
    for epoch in range(3):
        seen = [
            position
            for outcome in recorder.outcomes
            if outcome.kind == "committed" and outcome.before.epoch == epoch
            for position in range(outcome.first, outcome.stop)
        ]
        assert sorted(seen) == list(range(23))
    skipped = [outcome for outcome in recorder.outcomes if outcome.kind != "committed"]
    assert bool(skipped) == (on_skip == "defer")


@WORKERS
@pytest.mark.parametrize(("num_replicas", "batch_size"), [(1, 3), (2, 2)])
def test_deferred_ranges_are_delivered_after_a_restart_in_another_layout(
    num_workers: int, num_replicas: int, batch_size: int
) -> None:
    program = Program(16, 2, on_skip="defer", num_workers=num_workers, accumulation_steps=2)
    program.run([True, False, True])
    assert program.sampler.cursor.deferred == ((0, 4), (8, 4))
    state = program.sampler.state_dict()
    batches = [
        fresh(deliver_rest, state, rank, num_replicas, batch_size, num_workers)
        for rank in range(num_replicas)
    ]
    places = order(16, 0)
    expected = {
        (1, 3): [[12, 13, 14], [15], [0, 1, 2], [3], [8, 9, 10], [11]],
        (2, 2): [[12, 13, 14, 15], [0, 1, 2, 3], [8, 9, 10, 11]],
    }[num_replicas, batch_size]
    together = [[item for part in step for item in part] for step in zip(*batches, strict=True)]
    assert together == [[places[k] for k in step] for step in expected]


def deliver_rest(
    state: Any, rank: int, num_replicas: int, batch_size: int, num_workers: int
) -> list[list[int]]:
    sampler = dc.CursorSampler(
        16, batch_size=batch_size, seed=7, num_replicas=num_replicas, rank=rank
    )
    sampler.load_state_dict(state)
    loader: dc.CursorLoader[int] = dc.CursorLoader(
        Numbers(16), sampler=sampler, num_workers=num_workers
    )
    batches = []
    remaining = sampler.remaining()
    for batch in loader:
        batches.append(batch.tolist())
        sampler.commit()
    assert len(batches) == remaining
    assert (sampler.cursor.epoch, sampler.cursor.position) == (1, 0)
    return batches


class Recorder:
    def __init__(self) -> None:
        self.outcomes: list[Any] = []
        self.saved: list[dc.Cursor] = []

    def on_outcome(self, outcome: Any) -> None:
        self.outcomes.append(outcome)

    def on_state(self, cursor: dc.Cursor) -> None:
        self.saved.append(cursor)


# -- attach


def attached(
    **options: Any,
) -> tuple[dc.CursorSampler, dc.CursorLoader[int], torch.optim.Optimizer]:
    sampler = dc.CursorSampler(12, batch_size=2, seed=7, **options)
    loader: dc.CursorLoader[int] = dc.CursorLoader(Numbers(12), sampler=sampler)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    sampler.attach(optimizer)
    return sampler, loader, optimizer


def test_an_open_window_at_the_end_of_an_epoch_is_an_update() -> None:
    sampler, loader, optimizer = attached(accumulation_steps=4)
    ends = []
    for _ in loader:
        ends.append(loader.ends_update)
        if loader.ends_update:
            optimizer.step()
    assert ends == [False, False, False, True, False, True]
    assert (sampler.cursor.epoch, sampler.cursor.updates_committed) == (1, 2)


def test_a_closure_is_one_update() -> None:
    sampler = dc.CursorSampler(12, batch_size=2)
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer: Any = torch.optim.LBFGS([parameter], max_iter=4)
    sampler.attach(optimizer)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (parameter**2).sum()
        torch.autograd.backward(loss)
        return loss

    loader: dc.CursorLoader[int] = dc.CursorLoader(Numbers(12), sampler=sampler)
    for _ in loader:
        optimizer.step(closure)
    assert (sampler.cursor.epoch, sampler.cursor.updates_committed) == (1, 6)


def test_only_the_attached_of_several_optimizers_commits() -> None:
    sampler, loader, optimizer = attached()
    other = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))])
    next(iter(loader))
    other.step()
    assert sampler.cursor.position == 0
    optimizer.step()
    other.step()
    assert sampler.cursor.position == 2


def test_attaching_twice_is_refused() -> None:
    sampler, _, optimizer = attached()
    for again in (optimizer, torch.optim.SGD([torch.nn.Parameter(torch.ones(1))])):
        with pytest.raises(dc.CommitError, match="SGD is attached already"):
            sampler.attach(again)


def test_only_one_optimizer_and_a_scaler_are_attached() -> None:
    sampler, _, optimizer = attached()
    sampler.detach()
    with pytest.raises(TypeError, match=r"must be one .*Optimizer, got list"):
        sampler.attach([optimizer])  # type: ignore[arg-type]
    for wrong in (0.5, torch.amp.GradScaler):
        message = rf"scaler must have a method step\(\), got {re.escape(repr(wrong))}"
        with pytest.raises(TypeError, match=message):
            sampler.attach(optimizer, wrong)
    sampler.attach(optimizer)


def test_a_detached_optimizer_commits_nothing() -> None:
    program = Program()
    iterator = iter(program.loader)
    next(iterator)
    program.sampler.detach()
    program.step(overflows=False)
    assert program.sampler.cursor.position == 0
    assert "step" not in vars(program.scaler)
    with pytest.raises(dc.CommitError, match="no optimizer is attached"):
        program.sampler.detach()
    program.sampler.attach(program.optimizer, program.scaler)
    program.step(overflows=False)
    assert program.sampler.cursor.position == 1


def test_two_samplers_may_listen_to_one_scaler() -> None:
    first, second = Program(), Program()
    second.sampler.detach()
    second.sampler.attach(second.optimizer, first.scaler)
    for program in (first, second):
        next(iter(program.loader))
    second.scaler = first.scaler
    first.sampler.detach()
    second.step(overflows=True)
    assert (first.sampler.cursor.position, second.sampler.cursor.skipped) == (0, 1)
    second.sampler.detach()
    first.sampler.attach(first.optimizer, first.scaler)
    first.step(overflows=True)
    assert first.sampler.cursor.skipped == 1


def test_copies_are_attached_to_nothing() -> None:
    program = Program()
    next(iter(program.loader))
    for twin in (copy.deepcopy(program.sampler), pickle.loads(pickle.dumps(program.sampler))):
        twin.attach(torch.optim.SGD([torch.nn.Parameter(torch.ones(1))]))
    for scaler in (copy.deepcopy(program.scaler), pickle.loads(pickle.dumps(program.scaler))):
        loss = program.parameter.sum()
        scaler.scale(loss).backward()
        other = torch.optim.SGD([program.parameter], lr=0.1)
        scaler.step(other)
        assert step_applied(other, scaler)
        assert scaler.step.__self__ is scaler  # type: ignore[union-attr]
    program.step(overflows=True)
    assert program.sampler.cursor.skipped == 1


def test_a_step_without_a_batch_is_refused() -> None:
    sampler, loader, optimizer = attached()
    next(iter(loader))
    optimizer.step()
    for again in (optimizer.step, sampler.commit):
        with pytest.raises(
            dc.CommitError, match=r"0 delivered .* did attach\(\) or a commit before"
        ):
            again()
    assert sampler.cursor.position == 2


def test_a_scaler_that_attach_was_not_told_of_is_noticed() -> None:
    program = Program()
    program.sampler.detach()
    program.sampler.attach(program.optimizer)
    with pytest.raises(
        dc.CommitError, match=r"2 micro-batches .* accumulation_steps=1: did a Grad"
    ):
        program.run(OVERFLOWS)
    assert program.sampler.cursor.position == 2


def test_a_fused_optimizer_tells_of_its_skipped_steps_itself() -> None:
    program = Program(fused=True)
    program.sampler.detach()
    program.sampler.attach(program.optimizer)
    program.run(OVERFLOWS)
    assert program.numbers() == (4, 4, 32768, 2, 5)
    assert program.sampler.cursor.skipped == 1


def test_an_optimizer_that_handles_scaling_itself_is_understood() -> None:
    class Scaling(torch.optim.SGD):
        """Takes the scaler, as the older of torch's two contracts says."""

        _step_supports_amp_scaling = True

        def step(self, closure: Any = None, *, grad_scaler: Any = None) -> None:  # type: ignore[override]
            grad_scaler.unscale_(self)
            if not any(bool(found) for found in grad_scaler._found_inf_per_device(self).values()):
                super().step()

    program = Program()
    program.sampler.detach()
    program.optimizer = Scaling([program.parameter], lr=0.1)
    program.scheduler = torch.optim.lr_scheduler.LambdaLR(program.optimizer, lambda _: 1.0)
    program.sampler.attach(program.optimizer, program.scaler)
    with pytest.warns(FutureWarning, match="GradScaler"):
        program.run(OVERFLOWS)
    assert program.applied == [True, True, False, True, True]
    assert program.sampler.cursor.skipped == 1


def test_a_step_that_calls_its_base_class_is_one_update() -> None:
    class Derived(torch.optim.SGD):
        fails = False

        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            if self.fails:
                raise ValueError("no step")
            super().step()

    sampler, loader, _ = attached()
    sampler.detach()
    optimizer = Derived([torch.nn.Parameter(torch.ones(1))])
    sampler.attach(optimizer)
    for number, _ in enumerate(loader):
        if number == 2:
            optimizer.fails = True
            with pytest.raises(ValueError, match="no step"):
                optimizer.step()
            optimizer.fails = False
        optimizer.step()
        assert sampler.cursor.updates_committed == number + 1
    assert sampler.cursor.epoch == 1


def test_an_optimizer_inside_backward_ends_no_update() -> None:
    sampler, loader, optimizer = attached()
    parameter = optimizer.param_groups[0]["params"][0]
    parameter.register_post_accumulate_grad_hook(lambda _: optimizer.step())
    next(iter(loader))
    with pytest.raises(dc.CommitError, match=r"inside backward\(\)"):
        parameter.sum().backward()
    assert sampler.cursor.position == 0
    sampler.detach()
    parameter.sum().backward()
    sampler.commit()
    assert sampler.cursor.position == 2


def test_a_disabled_scaler_skips_nothing() -> None:
    sampler, loader, optimizer = attached()
    sampler.detach()
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    sampler.attach(optimizer, scaler)
    for _ in loader:
        scaler.step(optimizer)
        assert step_applied(optimizer, scaler)
        scaler.update()
    assert (sampler.cursor.epoch, sampler.cursor.updates_committed) == (1, 6)


@FUSED
def test_step_applied_is_right_for_two_optimizers_on_one_scaler(fused: bool) -> None:
    scaler = torch.amp.GradScaler("cpu", **SETTINGS)
    parameters = [torch.nn.Parameter(torch.ones(1)) for _ in range(2)]
    optimizers = [torch.optim.AdamW([parameter], fused=fused) for parameter in parameters]
    loss = parameters[0].sum() + float("inf") * parameters[1].sum()
    torch.autograd.backward(scaler.scale(loss))
    for optimizer in optimizers:
        with pytest.raises(dc.CommitError, match="must be called between"):
            step_applied(optimizer, scaler)
        scaler.step(optimizer)
    assert [step_applied(optimizer, scaler) for optimizer in optimizers] == [True, False]
    scaler.update()
    with pytest.raises(dc.CommitError, match="must be called between"):
        step_applied(optimizers[0], scaler)
    assert step_applied(optimizers[0])


# -- what a device tells later


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Let every verdict be one that has to be asked for, as on a GPU; counts the questions."""
    from datacursor import updates

    questions: list[bool] = []
    decide = updates._verdict

    def later(marks: Any) -> Any:
        is_applied = decide(marks)

        def ask() -> bool:
            questions.append(bool(is_applied))
            return bool(is_applied)

        return ask

    monkeypatch.setattr(updates, "_verdict", later)
    return questions


@pytest.mark.parametrize("on_skip", ["advance", "retry", "defer"])
def test_a_devices_verdict_is_asked_for_late(asked: list[bool], on_skip: str) -> None:
    program = Program(fused=True, on_skip=on_skip)
    places = order(10, 0)
    items = [0, 1, 2, 2, 3] if on_skip == "retry" else [0, 1, 2, 3, 4]
    assert program.run(OVERFLOWS) == [[places[k]] for k in items]
    assert asked == [True, True, False, True], "the last is not asked for yet"
    program.sampler.state_dict()
    assert asked == [True, True, False, True, True]
    assert program.numbers()[-1] == (4 if on_skip == "retry" else 5)


def test_a_verdict_is_asked_for_before_anything_moves(asked: list[bool]) -> None:
    sampler, loader, optimizer = attached()
    iterator = iter(loader)
    next(iterator)
    optimizer.step()
    assert tuple(sampler.uncommitted) == (0, 0)
    next(iterator)
    optimizer.step()
    iter(loader)
    assert (len(asked), sampler.cursor.position) == (2, 4)


def test_a_load_forgets_a_verdict_of_the_run_before(asked: list[bool]) -> None:
    sampler, loader, optimizer = attached()
    state = sampler.state_dict()
    next(iter(loader))
    optimizer.step()
    sampler.load_state_dict(state)
    assert sampler.cursor.position == 0
    assert asked == []
