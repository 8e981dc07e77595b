"""The whole of a training run, saved and restored."""

from __future__ import annotations

import enum
import random
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from runs import fresh
from torch import nn
from training import (
    NUM_ATTEMPTS,
    Net,
    Program,
    fingerprint,
    make_scaler,
    parameter,
    refusal,
    saved,
    step,
    through_file,
    two_groups,
)

import datacursor as dc
from datacursor.recovery import (
    LoopState,
    OptimizerState,
    RestoreReport,
    RNGState,
    TrainingState,
    digest_tree,
    step_applied,
)
from datacursor.recovery.state import register_load_post_hook

BITWISE = RestoreReport("bitwise", (), {})


def test_a_restart_at_every_attempt_is_bitwise() -> None:
    program = Program()
    states = [saved(program.state)]
    trail = []
    for attempt in range(NUM_ATTEMPTS):
        trail += program.run(attempt + 1)
        states.append(saved(program.state))
    loop = program.state.loop
    assert loop is not None
    assert (loop.attempted, loop.applied, loop.skipped, loop.samples) == (12, 10, 2, 20)
    assert program.sampler.cursor.epoch == 1
    for attempt, state in enumerate(states):
        resumed = Program()
        assert resumed.restore(state) == BITWISE
        assert resumed.run() == trail[attempt:]
        assert resumed.losses == program.losses[attempt:]


def test_a_restart_after_every_attempt_is_bitwise() -> None:
    program = Program(seed=3)
    trail = program.run()
    resumed = Program(seed=3)
    for attempt in range(NUM_ATTEMPTS):
        state = saved(resumed.state)
        resumed = Program()
        resumed.restore(state)
        assert resumed.run(attempt + 1) == trail[attempt : attempt + 1]


def test_a_restart_in_a_fresh_process_is_bitwise() -> None:
    program = Program()
    program.run(5)
    state = program.state.state_dict()
    claim, trail = fresh(resume, through_file(state))
    assert claim == "bitwise"
    assert trail == program.run()


def resume(state: Any) -> tuple[str, list[dict[str, str]]]:
    program = Program(loading={"num_workers": 2, "multiprocessing_context": "fork"})
    claim = program.restore(state).claim
    return claim, program.run()


def test_saving_perturbs_nothing() -> None:
    trail = Program(seed=3).run()  # saves after every attempt
    program = Program(seed=3)
    for _ in range(NUM_ATTEMPTS):
        program.update()
    assert fingerprint(program.state) == trail[-1]
    assert fingerprint(program.state) == trail[-1]


def test_restoring_takes_nothing_from_the_state_it_is_given() -> None:
    program = Program()
    program.run(5)
    state = saved(program.state)
    before = digest_tree(state)
    for _ in range(2):  # the same run, taken back
        program.restore(state)
        program.run(9)
        assert digest_tree(state) == before


# -- scalers, and updates that change nothing


@pytest.mark.parametrize(("on_skip", "position"), [("advance", 5), ("retry", 4)])
def test_d08_the_five_numbers_are_restored(on_skip: str, position: int) -> None:
    def make() -> Program:
        return Program(
            scaler=torch.amp.GradScaler("cpu", init_scale=65536.0),
            sampling={"batch_size": 1, "on_skip": on_skip},
        )

    def numbers(program: Program) -> tuple[Any, ...]:
        loop, scheduler = program.state.loop, program.scheduler
        assert loop is not None
        assert scheduler is not None
        scaler = program.scaler
        places = (scaler.get_scale(), scaler._get_growth_tracker(), program.sampler.cursor.position)
        return loop.applied, scheduler.last_epoch, *places

    def train(program: Program, *outcomes: bool) -> dict[str, str]:
        for outcome in outcomes:
            program.backward(overflows=not outcome)
            program.finish()
        return fingerprint(program.state)

    program = make()
    train(program, True, True, False, True, True)
    assert numbers(program) == (4, 4, 32768.0, 2, position)
    state = saved(program.state)
    expected = train(program, True, False, True)
    resumed = make()
    resumed.restore(state)
    assert numbers(resumed) == (4, 4, 32768.0, 2, position)
    assert train(resumed, True, False, True) == expected


@pytest.mark.parametrize(
    ("is_restored", "scales"), [(True, [8.0, 8.0, 8.0, 16.0]), (False, [4.0, 4.0, 8.0, 8.0])]
)
def test_the_growth_tracker_decides_the_next_scales(is_restored: bool, scales: list[float]) -> None:
    class Scaled:
        def __init__(self) -> None:
            self.weight = parameter(1.0)
            self.optimizer = torch.optim.SGD([self.weight], lr=0.1)
            self.scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=3)
            self.state = TrainingState(
                model=nn.ParameterList([self.weight]),
                optimizer=self.optimizer,
                scaler=self.scaler,
            )

        def run(self, count: int) -> list[float]:
            seen = []
            for _ in range(count):
                torch.autograd.backward(self.scaler.scale(self.weight * 1.0))
                self.scaler.step(self.optimizer)
                self.scaler.update()
                seen.append(self.scaler.get_scale())
            return seen

    run = Scaled()
    run.run(2)
    assert (run.scaler.get_scale(), run.scaler._get_growth_tracker()) == (4.0, 2)
    resumed = Scaled()
    if is_restored:
        resumed.state.load_state_dict(saved(run.state))
    assert resumed.run(4) == scales


@pytest.mark.parametrize("stage", ["unscaled", "stepped"])
@pytest.mark.parametrize("save_gradients", [False, True])
def test_a_scaler_inside_an_update_is_not_saved(stage: str, save_gradients: bool) -> None:
    program = Program(save_gradients=save_gradients)
    program.run(3)
    program.backward()
    program.scaler.unscale_(program.optimizer)
    if stage == "stepped":
        program.scaler.step(program.optimizer)
    with refusal(dc.MidUpdateError, stage, "scaler.update()"):
        program.state.state_dict()


def test_a_run_taken_back_inside_an_update_forgets_the_update() -> None:
    program = Program()
    program.run(3)
    state = saved(program.state)
    expected = program.run()
    program.backward()
    program.scaler.unscale_(program.optimizer)
    program.restore(state)
    assert program.run() == expected


def test_a_disabled_scaler_counts_as_none() -> None:
    program = Program(scaler=torch.amp.GradScaler("cpu", enabled=False))
    assert program.state.state_dict()["scaler"] is None
    program.restore(saved(program.state))


# -- gradients


class Accumulating:
    """Four micro-batches an update, whose mean gradients are 1, 2, 3 and 4."""

    def __init__(self, *, batch_size: int = 1, save_gradients: bool = True) -> None:
        self.weight = parameter(1.0)
        self.optimizer: torch.optim.Optimizer = torch.optim.SGD([self.weight], lr=0.1)
        self.sampler = dc.CursorSampler(
            20, batch_size=batch_size, shuffle=False, accumulation_steps=4
        )
        self.loader: dc.CursorLoader[Any] = dc.CursorLoader(range(20), sampler=self.sampler)
        self.state = TrainingState(
            model=nn.ParameterList([self.weight]),
            optimizer=self.optimizer,
            sampler=self.sampler,
            save_gradients=save_gradients,
        )

    def run(self, micro_batches: int) -> None:
        for number, batch in enumerate(self.loader, 1):
            torch.autograd.backward(self.weight * (batch.float().mean() + 1) / 4)
            if self.loader.ends_update:
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.sampler.commit()
            if number == micro_batches:
                return


def test_an_open_update_goes_on_with_its_gradients() -> None:
    run = Accumulating()
    run.run(2)
    state = saved(run.state)
    assert state["gradients"]["pending"] == 2
    resumed = Accumulating(save_gradients=False)
    assert resumed.state.load_state_dict(state) == BITWISE
    with refusal(dc.MidUpdateError, "2 micro-batches", "save_gradients=True"):
        resumed.state.state_dict()
    again = Accumulating()  # saved and restored without a batch in between
    again.state.load_state_dict(state)
    assert digest_tree(again.state.state_dict()) == digest_tree(state)
    resumed.run(2)
    assert resumed.weight.item() == pytest.approx(0.75)
    assert resumed.sampler.cursor.position == 4
    assert resumed.state.state_dict()["gradients"]["pending"] == 0


def test_without_its_gradients_an_open_update_would_be_another() -> None:
    run = Accumulating()
    run.run(2)
    state = saved(run.state)
    lost = Accumulating()
    lost.state.load_state_dict(state)
    lost.weight.grad = None
    lost.run(2)
    assert lost.weight.item() == pytest.approx(0.825)


def test_a_whole_update_that_has_not_stepped_is_not_saved() -> None:
    run = Accumulating()
    for batch in islice(run.loader, 4):
        torch.autograd.backward(run.weight * (batch.float().mean() + 1) / 4)
    with refusal(dc.MidUpdateError, "4 micro-batches", "accumulation_steps=4"):
        run.state.state_dict()


def test_an_open_update_is_not_saved_without_gradients() -> None:
    run = Accumulating(save_gradients=False)
    run.run(3)
    with refusal(dc.MidUpdateError, "3 micro-batches", "save_gradients=True"):
        run.state.state_dict()
    run.optimizer.zero_grad(set_to_none=False)
    # What was delivered and left no gradient is delivered again.
    assert run.state.state_dict()["gradients"]["pending"] == 0


def test_an_open_update_of_another_batch_size_is_refused() -> None:
    run = Accumulating()
    run.run(2)
    other = Accumulating(batch_size=2)
    with refusal(dc.MidUpdateError, "1, 1", "1, 2", state=other.state):
        other.state.load_state_dict(saved(run.state))


@pytest.mark.parametrize("set_to_none", [False, True])
def test_a_gradient_of_zero_is_not_a_missing_one(set_to_none: bool) -> None:
    def make() -> tuple[nn.ParameterList, TrainingState]:
        model = nn.ParameterList([parameter(1.0), parameter(1.0)])
        optimizer = torch.optim.SGD(model, lr=0.1, momentum=0.5, weight_decay=0.1)
        return model, TrainingState(model=model, optimizer=optimizer)

    def train(model: nn.ParameterList, state: TrainingState, used: int) -> None:
        for one in model[:used]:
            one.grad = torch.ones_like(one)
        state.optimizers["optimizer"].step()
        state.optimizers["optimizer"].zero_grad(set_to_none=set_to_none)

    model, state = make()
    train(model, state, 2)
    other, resumed = make()
    resumed.load_state_dict(saved(state))
    train(model, state, 1)
    train(other, resumed, 1)
    assert fingerprint(resumed) == fingerprint(state)


def test_sparse_gradients_of_an_open_update_go_on_too() -> None:
    class Sparse(Accumulating):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(4, 2, sparse=True)
            with torch.no_grad():
                self.table.weight.fill_(1.0)
            self.optimizer = torch.optim.SparseAdam(self.table.parameters(), lr=0.1)
            self.state = TrainingState(
                model=self.table,
                optimizer=self.optimizer,
                sampler=self.sampler,
                save_gradients=True,
            )

        def run(self, micro_batches: int) -> None:
            for number, batch in enumerate(self.loader, 1):
                torch.autograd.backward(self.table(batch % 4).square().sum())
                if self.loader.ends_update:
                    self.optimizer.step()
                    self.optimizer.zero_grad(set_to_none=False)
                    self.sampler.commit()
                if number == micro_batches:
                    return

    run, resumed = Sparse(), Sparse()
    run.run(6)
    resumed.state.load_state_dict(saved(run.state))
    resumed.run(2)
    unbroken = Sparse()
    unbroken.run(8)
    assert unbroken.state.state_dict()["gradients"]["names"] == []  # all are zero and sparse
    unbroken.optimizer.zero_grad()
    resumed.optimizer.zero_grad()
    assert digest_tree(resumed.state.state_dict()["optimizer"]) == digest_tree(
        unbroken.state.state_dict()["optimizer"]
    )
    assert torch.equal(resumed.table.weight, unbroken.table.weight)


# -- models and optimizers


def test_several_optimizers_and_schedulers_go_by_name() -> None:
    def make(*, turn: bool = False) -> TrainingState:
        model = nn.ModuleDict({"g": nn.Linear(2, 2), "d": nn.Linear(2, 2)})
        names = ("d", "g") if turn else ("g", "d")
        optimizers = {name: torch.optim.Adam(model[name].parameters()) for name in names}
        schedulers = {
            name: torch.optim.lr_scheduler.StepLR(optimizers[name], 2 + number)
            for number, name in enumerate(("g", "d"))
        }
        return TrainingState(
            model=model, optimizer=optimizers, scheduler=schedulers, scaler=make_scaler()
        )

    def train(state: TrainingState) -> list[tuple[bool, ...]]:
        applied = []
        for number in range(3):
            assert state.scaler is not None
            for name in ("g", "d"):
                factor = float("inf") if name == "d" and number == 1 else 1.0
                loss = state.model[name](torch.ones(1, 2)).sum() * factor  # type: ignore[index]  # a ModuleDict
                torch.autograd.backward(state.scaler.scale(loss))
                state.scaler.step(state.optimizers[name])
            applied.append(
                tuple(step_applied(state.optimizers[name], state.scaler) for name in ("g", "d"))
            )
            state.scaler.update()
            for name in ("g", "d"):
                state.optimizers[name].zero_grad()
                state.schedulers[name].step()
        return applied

    state = make()
    assert train(state) == [(True, True), (True, False), (True, True)]
    resumed = make(turn=True)
    assert resumed.load_state_dict(saved(state)) == BITWISE
    train(state)
    train(resumed)
    assert fingerprint(resumed) == fingerprint(state)
    single = TrainingState(model=state.model, optimizer=state.optimizers["g"])
    with refusal(dc.OptionError, "optimizers", "'g', 'd'", "'optimizer'", state=single):
        single.load_state_dict(saved(state))


class Half(nn.Module):
    """A model in bfloat16, trained through master weights."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = parameter([1.0, 2.0], dtype=torch.bfloat16)


def test_master_weights_and_moments_keep_their_precision() -> None:
    def make() -> tuple[nn.Parameter, TrainingState]:
        model = Half()
        master = nn.Parameter(model.weight.detach().float())
        optimizer = torch.optim.AdamW([("weight", master)], lr=1e-3)
        return master, TrainingState(model=model, optimizer=optimizer)

    def train(master: nn.Parameter, state: TrainingState) -> None:
        step(state.optimizers["optimizer"], (master, 0.3))
        with torch.no_grad():
            state.model.weight.copy_(master)  # type: ignore[operator]  # a parameter

    master, state = make()
    train(master, state)
    assert not torch.equal(master, master.bfloat16().float())
    other, resumed = make()
    assert resumed.load_state_dict(saved(state)) == BITWISE
    train(master, state)
    train(other, resumed)
    assert fingerprint(resumed) == fingerprint(state)
    without = TrainingState(
        model=(model := Half()), optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3)
    )
    with refusal(dc.PrecisionError, "master weights", "'weight'", "none", state=without):
        without.load_state_dict(saved(state))


def test_renamed_parameters_are_restored_and_reported() -> None:
    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = Net()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            output: torch.Tensor = self.module(x)
            return output

    program = Program()
    program.run(3)
    state = saved(program.state)
    program.run()
    resumed = Program(model=Wrapped, rename=lambda name: f"module.{name}")
    report = resumed.restore(state)
    assert report.claim == "bitwise"
    assert report.renamed["first.weight"] == "module.first.weight"
    assert set(report.renamed) == set(program.model.state_dict())
    resumed.run()
    assert resumed.losses == program.losses[3:]


def test_an_optimizer_state_of_the_users_own_is_taken() -> None:
    program = Program()
    optimizer = two_groups(program.model)
    state = OptimizerState(optimizer, program.model.named_parameters(), allow_changed={"eps"})
    own = TrainingState(model=program.model, optimizer=state)
    assert own.optimizers == {"optimizer": optimizer}
    changed = own.state_dict()
    changed["optimizer"]["optimizer"]["groups"][0]["options"]["eps"] = 0.5
    report = own.load_state_dict(changed)
    assert (report.claim, report.accepted) == ("samples", ("eps",))


# -- samplers and extras


class Counter:
    """A part of the user's own, which refuses negative numbers."""

    def __init__(self) -> None:
        self.value = 0

    def state_dict(self) -> dict[str, int]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, int]) -> None:
        if state["value"] < 0:
            raise ValueError("a counter cannot be negative")
        self.value = state["value"]


def test_extra_states_are_restored_with_the_rest() -> None:
    def make() -> Program:
        return Program(ema=nn.Linear(2, 2), counter=Counter(), other=Counter())

    program = make()
    program.state._parts["counter"].value = 7
    resumed = make()
    resumed.restore(saved(program.state))
    assert fingerprint(resumed.state) == fingerprint(program.state)


def test_an_extra_state_that_refuses_undoes_the_ones_before() -> None:
    program = Program(first=Counter(), second=Counter())
    state = saved(program.state)
    state["extra"]["first"]["value"], state["extra"]["second"]["value"] = 5, -1
    with refusal(ValueError, "negative", state=program.state):
        program.restore(state)


def test_parts_that_draw_random_numbers_move_no_stream() -> None:
    class Drawing(Counter):
        def state_dict(self) -> dict[str, int]:
            random.random()
            torch.rand(1)
            return super().state_dict()

        def load_state_dict(self, state: dict[str, int]) -> None:
            torch.rand(1)
            super().load_state_dict(state)

    def drawn_rate(_: int) -> float:
        return float(torch.rand(1)) * 0 + 1.0

    program = Program(
        drawing=Drawing(),
        scheduler=lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, drawn_rate),
    )
    before = digest_tree(program.state.rng.state_dict())
    state = saved(program.state)
    assert digest_tree(program.state.rng.state_dict()) == before
    state["extra"]["drawing"]["value"] = -1
    with refusal(ValueError, "negative", state=program.state):
        program.restore(state)
    assert digest_tree(program.state.rng.state_dict()) == before
    state["extra"]["drawing"]["value"] = 1
    torch.rand(7)
    program.restore(state)
    assert digest_tree(program.state.rng.state_dict()) == before


def test_a_part_that_keeps_what_it_is_given_gets_a_copy() -> None:
    class Keeping(Counter):
        def __init__(self) -> None:
            self.values: Any = {"value": [1]}

        def state_dict(self) -> Any:
            return self.values

        def load_state_dict(self, state: Any) -> None:
            self.values = state

    part = Keeping()
    state = TrainingState(model=Net(), part=part)
    kept = state.state_dict()
    state.load_state_dict(kept)
    part.values["value"].append(2)
    assert kept["extra"]["part"] == {"value": [1]}


def test_versions_of_modules_are_restored_with_them() -> None:
    class Versioned(nn.Linear):
        _version = 7
        seen: Any = None

        def _load_from_state_dict(self, state: Any, prefix: str, meta: Any, *rest: Any) -> None:
            Versioned.seen = meta.get("version")
            super()._load_from_state_dict(state, prefix, meta, *rest)

    state = TrainingState(model=nn.Sequential(Versioned(2, 2)))
    state.load_state_dict(saved(state))
    assert Versioned.seen == 7


def test_an_optimizer_over_an_extra_module_finds_its_names() -> None:
    head = nn.Linear(2, 2)
    model = Net()
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
    state = TrainingState(model=model, optimizer=optimizer, head=head)
    names = state.state_dict()["optimizer"]["optimizer"]["groups"][0]["names"]
    assert names[-2:] == ["head.weight", "head.bias"]


def test_a_sampler_of_another_kind_is_saved_and_loaded() -> None:
    sampler = Counter()
    state = TrainingState(model=Net(), sampler=sampler)
    sampler.value = 4
    kept = saved(state)
    sampler.value = 5
    state.load_state_dict(kept)
    assert sampler.value == 4


def test_a_loader_stands_for_its_sampler() -> None:
    program = Program()
    state = TrainingState(model=program.model, sampler=program.loader, loop=LoopState())
    program.sampler.seek(3, 4)
    kept = saved(state)
    program.sampler.seek(0, 0)
    state.load_state_dict(kept)
    assert (program.sampler.cursor.epoch, program.sampler.cursor.position) == (3, 4)


def test_gradients_are_saved_only_where_a_sampler_counts_them() -> None:
    with pytest.raises(dc.errors.ArgumentError, match="save_gradients needs sampler="):
        TrainingState(model=nn.Linear(1, 1), save_gradients=True)


def test_rows_of_packed_tokens_go_on_inside_an_update() -> None:
    def make(seq_len: int = 4) -> tuple[dc.PackedSampler, TrainingState]:
        corpus = dc.TokenCorpus.open([[number] * 7 for number in range(1, 9)])
        rows = dc.PackedSampler(
            corpus, seq_len=seq_len, batch_size=1, packing="concat", accumulation_steps=3, seed=5
        )
        model = nn.Linear(1, 1)
        return rows, TrainingState(model=model, sampler=rows, save_gradients=True)

    def deliver(rows: dc.PackedSampler, count: int) -> list[Any]:
        batches = []
        for batch in dc.CursorLoader(rows.dataset, sampler=rows):
            batches.append(batch["input_ids"].tolist())
            if len(batches) in (3, 6):
                rows.commit()
            if len(batches) == count:
                break
        return batches

    unbroken = deliver(make()[0], 6)
    rows, state = make()
    assert deliver(rows, 5) == unbroken[:5]
    state.model.weight.grad = torch.ones(1, 1)  # of the last two
    kept = saved(state)
    resumed, restored = make()
    restored.load_state_dict(kept)
    assert resumed.cursor.pending == 2
    assert deliver(resumed, 1) == unbroken[5:]
    refusing = make(seq_len=5)[1]
    with refusal(dc.CursorMismatchError, "seq_len", "4", "5", state=refusing):
        refusing.load_state_dict(kept)


def test_parts_that_cannot_be_saved_safely_are_refused_at_the_save() -> None:
    class Opaque(Counter):
        def state_dict(self) -> dict[str, Any]:
            return {"value": [{1, 2}]}

    class Level(int, enum.Enum):
        LOW = 1

    with refusal(TypeError, "part/value/0", "set"):
        TrainingState(model=Net(), part=Opaque()).state_dict()
    counter = Counter()
    counter.value = Level.LOW
    with refusal(TypeError, "part/value", "Level"):
        TrainingState(model=Net(), part=counter).state_dict()
    with refusal(TypeError, "part", "state_dict()"):
        TrainingState(model=Net(), part=object())
    with refusal(TypeError, "optimizer", "Counter"):
        TrainingState(model=Net(), optimizer=Counter())


def test_scalars_of_numpy_are_saved_as_numbers() -> None:
    counter = Counter()
    counter.value = np.int64(7)  # type: ignore[assignment]  # what is tested
    assert saved(TrainingState(model=Net(), part=counter))["extra"]["part"] == {"value": 7}


def test_a_modules_own_state_is_checked_and_restored() -> None:
    class Stateful(nn.Linear):
        def __init__(self) -> None:
            super().__init__(2, 2)
            self.extra: Any = {"calls": 0}

        def get_extra_state(self) -> Any:
            return self.extra

        def set_extra_state(self, state: Any) -> None:
            self.extra = state

    model, other = Stateful(), Stateful()
    model.extra = {"calls": np.int64(7)}
    state = saved(TrainingState(model=model))
    TrainingState(model=other).load_state_dict(state)
    assert other.extra == {"calls": 7}
    state["model"]["weight"] = 1.0
    restoring = TrainingState(model=other)
    with refusal(dc.AssociationError, "'weight'", "float", "Tensor", state=restoring):
        restoring.load_state_dict(state)


# -- claims


def test_another_environment_lowers_the_claim_or_is_refused() -> None:
    program = Program()
    state = saved(program.state)
    state["environment"] |= {"torch": "1.0", "intra_op_threads": 64}
    report = program.restore(state)
    assert report.claim == "close"
    assert [one.name for one in report.environment_differences] == ["intra_op_threads", "torch"]
    strict = Program(environment="require")
    strict.state.load_state_dict(saved(program.state))
    with refusal(
        dc.EnvironmentMismatchError,
        "torch in checkpoint: 1.0",
        torch.__version__,
        "64",
        state=strict.state,
    ):
        strict.state.load_state_dict(state)


@pytest.mark.parametrize(
    ("sampling", "claim"),
    [
        ({"batch_size": 4}, "samples"),
        ({"accumulation_steps": 2}, "samples"),
        ({"batch_size": 1, "accumulation_steps": 2}, "close"),
        ({"batch_size": 1, "num_replicas": 2, "rank": 0}, "close"),
    ],
)
def test_another_layout_lowers_the_claim(sampling: dict[str, int], claim: str) -> None:
    program = Program()
    program.run(3)
    resumed = Program(sampling=sampling)
    assert resumed.restore(saved(program.state)).claim == claim
    assert resumed.sampler.cursor.position == program.sampler.cursor.position


def test_accepted_differences_lower_the_claim() -> None:
    program = Program()
    state = saved(program.state)
    other = Program(sampling={"seed": 8}, allow_changed={"seed", "growth_interval"})
    report = other.state.load_state_dict(state)
    assert (report.claim, report.accepted) == ("none", ("seed",))
    assert Program(sampling={"seed": 8}).restore(saved(other.state)) == BITWISE
    other = Program(allow_changed={"shuffle"})
    other.state.rng = RNGState(augment=other.augment)
    report = other.state.load_state_dict(state)
    assert (report.claim, report.accepted) == ("samples", ("shuffle",))
    other = Program(scaler=make_scaler(backoff_factor=0.25), allow_changed={"backoff_factor"})
    report = other.state.load_state_dict(state)
    assert (report.claim, report.accepted) == ("samples", ("backoff_factor",))
    assert other.scaler.get_backoff_factor() == 0.25


def test_hooks_see_a_restored_state_last() -> None:
    program = Program()
    program.run(2)
    state = saved(program.state)
    expected = fingerprint(program.state)
    random.random()
    seen: list[dict[str, str]] = []
    handle = register_load_post_hook(lambda restored: seen.append(fingerprint(restored)))
    resumed = Program()
    resumed.restore(state)
    handle.remove()
    resumed.restore(state)
    assert seen == [expected]
