"""What a trace writes of an update, and that it writes nothing where nobody asked."""

from __future__ import annotations

import json
import math
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from forked import forked
from runs import fresh

import datacursor as dc
from datacursor import recovery
from datacursor.errors import ArgumentError
from datacursor.recovery.aspects import ASPECTS, aspects_of, text_of, text_of_ids
from datacursor.recovery.trace import TRACE_VARIABLE, UPDATES_NAME, Orders
from datacursor.verify.log import load_values, read_log

if TYPE_CHECKING:
    from pathlib import Path

    from datacursor.verify.log import Log

NEVER = 10**9


class Loop:
    """Two parameters, Adam, a scaler and six samples, in as few lines as a loop can have."""

    def __init__(self) -> None:
        torch.manual_seed(3)
        self.model = torch.nn.Linear(2, 1)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.125)
        self.sampler = dc.CursorSampler(6, batch_size=2, seed=1)
        self.state = recovery.TrainingState(
            model=self.model,
            optimizer=self.optimizer,
            scheduler=torch.optim.lr_scheduler.ConstantLR(self.optimizer, 0.5),
            scaler=torch.amp.GradScaler("cpu", init_scale=8.0),
            sampler=self.sampler,
            loop=recovery.LoopState(),
            average=torch.optim.swa_utils.AveragedModel(self.model),
        )
        self.batches = iter(dc.CursorLoader(range(6), sampler=self.sampler))

    def update(self, trace: recovery.Trace, **told: Any) -> None:
        next(self.batches)
        self.model(torch.ones(2)).sum().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.sampler.commit()
        assert self.state.loop is not None
        self.state.loop.record(applied=True, samples=2)
        trace.commit(self.state, **told)


def trace_in(directory: Path, stop_at: int = NEVER) -> recovery.Trace:
    """Return a trace in this process, which must be one of its own: it listens to its end."""
    directory.mkdir(exist_ok=True)
    Orders(stop_at, str(directory / "run")).write(directory)
    os.environ[TRACE_VARIABLE] = str(directory)
    return recovery.Trace.from_env()


def trace_three(_: Path) -> None:
    loop, trace = Loop(), recovery.Trace.from_env()
    for number in range(3):
        loop.update(trace, loss=torch.tensor(number / 2, requires_grad=True))


def log_of_three(directory: Path, stop_at: int = NEVER) -> Log:
    return forked(trace_three).run(Orders(stop_at, str(directory / "run")), directory / "trace")


# -- the trace -----------------------------------------------------------------------------


def test_outside_the_harness_nothing_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TRACE_VARIABLE, raising=False)
    trace = recovery.Trace.from_env()
    assert not trace.is_active
    trace.commit(None, loss=None)  # type: ignore[arg-type]  # it must not be touched


def test_other_ranks_than_the_first_trace_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv(TRACE_VARIABLE, str(tmp_path))
    assert not recovery.Trace.from_env().is_active
    assert list(tmp_path.iterdir()) == []


def test_an_update_is_written_with_its_causes(tmp_path: Path) -> None:
    log = log_of_three(tmp_path)
    assert list(log.updates) == [1, 2, 3]
    aspects = log.updates[2].aspects
    assert aspects.keys() == set(ASPECTS)
    assert all(aspects[aspect] for aspect in ASPECTS)
    assert dc.Cursor.from_token(aspects["cursor"][""]).position == 4
    assert aspects["ids"][""].startswith("committed epoch 0, positions 2 to 4, digest ")
    assert aspects["outcome"]["attempted"] == "2"
    assert aspects["RNG"].keys() == {"python", "numpy", "torch"}
    assert aspects["loss"][""] == "0x1.0000000000000p-1 = 0.5"
    assert aspects["lr"]["of group 0"] == "0x1.0000000000000p-4 = 0.0625"
    assert aspects["growth tracker"][""] == "0"
    assert aspects["scale"][""] == "0x1.0000000000000p+3 = 8"
    assert aspects["optimizer"]["step of 'bias'"] == "0x40000000 float32"
    assert aspects["schedule"]["'last_epoch'"] == "0"
    assert aspects["optimizer"]["option weight_decay of group 0"] == "0"
    assert {name for name in aspects["optimizer"] if not name.startswith("option ")} == {
        f"{key} of '{name}'"
        for key in ("step", "exp_avg", "exp_avg_sq")
        for name in ("weight", "bias")
    }
    assert aspects["model"].keys() == {"'weight'", "'bias'"}
    assert aspects["extra"].keys() == {"average"}


def test_the_environment_is_written_once(tmp_path: Path) -> None:
    log = log_of_three(tmp_path)
    assert log.environment["torch"] == torch.__version__
    assert log.environment["batch_size"] == 2


def test_a_list_of_large_tensors_is_told_from_another() -> None:
    before = [torch.zeros(2000)]  # as LBFGS remembers; its repr leaves out the middle
    after = [before[0].index_fill(0, torch.tensor([1000]), 2.0**-20)]
    assert text_of(before) != text_of(after)


def test_what_a_schedule_remembers_is_told_before_it_has_an_effect() -> None:
    loop = Loop()
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(loop.optimizer, patience=50)
    state = recovery.TrainingState(
        model=loop.model,
        optimizer=loop.optimizer,
        scheduler=plateau,
        loop=recovery.LoopState(),
    )
    before = aspects_of(state, loss=None, applied=None)
    plateau.num_bad_epochs += 1
    after = aspects_of(state, loss=None, applied=None)
    assert [name for name in ASPECTS if name != "ids" and before[name] != after[name]] == [
        "schedule"
    ]


def give_ids(directory: Path) -> None:
    Loop().update(trace_in(directory), ids=torch.tensor([3, 1]))


def test_ids_can_be_given(tmp_path: Path) -> None:
    fresh(give_ids, tmp_path)
    assert read_log(tmp_path).updates[1].aspects["ids"][""].startswith("2: 3, 1 digest ")


def keep_tensors(directory: Path, stop_at: int) -> torch.Tensor:
    loop, trace = Loop(), trace_in(directory, stop_at)
    loop.update(trace)
    return loop.model.weight.detach()


def test_small_tensors_are_kept(tmp_path: Path) -> None:
    weight = fresh(keep_tensors, tmp_path, 1000)
    assert torch.equal(load_values(tmp_path, 1)["model 'weight'"], weight)


def test_tensors_that_would_fill_the_disk_are_not_kept(tmp_path: Path) -> None:
    fresh(keep_tensors, tmp_path, 10**7)
    assert load_values(tmp_path, 1) == {}


def commit_without_loop(directory: Path) -> str:
    trace, state = trace_in(directory), Loop().state
    state.loop = None
    with pytest.raises(ArgumentError) as raised:
        trace.commit(state)
    return str(raised.value)


def test_a_state_without_a_loop_is_refused(tmp_path: Path) -> None:
    message = fresh(commit_without_loop, tmp_path)
    assert message == "state.loop must be a LoopState, which counts the updates, got None"


def trace_twice(directory: Path) -> None:
    trace_in(directory)
    with pytest.raises(FileExistsError):
        recovery.Trace.from_env()


def test_a_trace_is_never_written_over(tmp_path: Path) -> None:
    fresh(trace_twice, tmp_path)


def test_a_process_is_killed_after_the_line_it_was_ordered_to(tmp_path: Path) -> None:
    log = log_of_three(tmp_path, stop_at=2)
    assert list(log.updates) == [1, 2]


def trace_and_write(run_dir: Path) -> None:
    """Write two files after every update."""
    run_dir.mkdir()
    loop, trace = Loop(), recovery.Trace.from_env()
    for number in range(3):
        loop.update(trace)
        (run_dir / f"a-{number}").write_text("")
        (run_dir / f"a-{number}").read_text()
        (run_dir / f"a-{number}").rename(run_dir / f"b-{number}")


def test_a_process_is_killed_before_a_file_operation(tmp_path: Path) -> None:
    program = forked(trace_and_write)
    whole = program.run(Orders(NEVER, str(tmp_path / "whole")), tmp_path / "whole-trace")
    assert [update.operations for update in whole.updates.values()] == [0, 2, 2]
    log = program.run(Orders(2, str(tmp_path / "run"), 2), tmp_path / "trace")
    assert log.operation == "os.rename a-1"
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["a-1", "b-0"]


def test_a_line_that_a_kill_cut_off_is_left_out(tmp_path: Path) -> None:
    log = log_of_three(tmp_path)
    path = log.directory / UPDATES_NAME
    whole = path.read_bytes()
    for length in range(len(whole) - 300, len(whole)):
        path.write_bytes(whole[:length])
        assert list(read_log(log.directory).updates) == [1, 2]


def test_every_whole_line_is_json(tmp_path: Path) -> None:
    lines = (log_of_three(tmp_path).directory / UPDATES_NAME).read_text().splitlines()
    assert [json.loads(line).get("update") for line in lines] == [None, 1, 2, 3]


# -- texts ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (torch.tensor(0.0), torch.tensor(-0.0)),
        (torch.tensor([0.0, 1.0]), torch.tensor([-0.0, 1.0])),
        (torch.tensor(1.0), torch.tensor(1.0, dtype=torch.float64)),
        (torch.zeros(2, 3), torch.zeros(3, 2)),
        (torch.tensor(1), torch.tensor(True)),
        (0.0, -0.0),
        (1, 1.0),
        (0.1, math.nextafter(0.1, 1.0)),
        (None, False),
    ],
)
def test_other_bytes_are_another_text(a: Any, b: Any) -> None:
    assert text_of(a) != text_of(b)


def test_the_same_nan_is_the_same_text() -> None:
    nan = torch.tensor([math.nan, 1.0])
    assert text_of(nan) == text_of(nan.clone())
    assert text_of(math.nan) == text_of(math.nan)


def test_bits_are_shown_from_the_highest() -> None:
    assert text_of(torch.tensor(1.1)) == "0x3f8ccccd float32"
    assert text_of(torch.tensor(1.0, dtype=torch.bfloat16)) == "0x3f80 bfloat16"


def test_ids_differ_in_order_and_number() -> None:
    texts = {text_of_ids(ids) for ids in ([], [1], [1, 2], [2, 1], [1, 2, 3, 4, 5], [1, 2, 3, 4])}
    assert len(texts) == 6
    assert text_of_ids([1, 2]) == text_of_ids(np.array([1, 2], np.uint8))
