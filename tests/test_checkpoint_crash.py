"""A loss of power at any moment of saving: no damaged checkpoint, and none lost that was saved."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from simulated_disk import SimulatedDisk, Tree, build, fates

from datacursor.errors import CheckpointError
from datacursor.recovery import hashed_file
from datacursor.recovery.checkpoint import latest, load, save
from datacursor.recovery.run_directory import saved_steps
from datacursor.sampler import CursorSampler

pytestmark = pytest.mark.skipif(os.name != "posix", reason="a directory cannot be synced there")

SAMPLER = CursorSampler(10, batch_size=1)
KEEP = 2
NUM_RANDOM = 25


class State:
    """A training state that knows which step it is of."""

    def __init__(self, step: int) -> None:
        self.step = step

    def state_dict(self) -> dict[str, Any]:
        weights = torch.arange(300, dtype=torch.float32) * (self.step + 1)
        model = {f"{n}.weight": weights + n for n in range(4)}
        return {"step": self.step, "model": model, "sampler": SAMPLER.state_dict()}


class Run:
    """Saves a few steps on a simulated disk, and says after each operation what must be there."""

    def __init__(self, root: Path, ignored_sync: int | None = None) -> None:
        root.mkdir()
        self.disk = SimulatedDisk(root, ignored_sync)
        self.run_dir = root / "runs" / "a"
        self.promised: list[set[int]] = []  # by number of the moment
        self._saved: set[int] = set()

    def play(self, *steps: int) -> None:
        for step in steps:
            with self.disk.recording():
                save(State(step), self.run_dir, step, keep=KEEP, on_durable=self._promise(step))
            self._note()

    def _promise(self, step: int) -> Callable[[object], None]:
        smaller = sorted(each for each in self._saved if each < step)

        def on_durable(_: object) -> None:
            self._note()
            self._saved = {step, *smaller[len(smaller) - (KEEP - 1) :]}
            self.promised[-1] = self._saved

        return on_durable

    def _note(self) -> None:
        self.promised += [self._saved] * (len(self.disk.moments) - len(self.promised))

    def states(self) -> Iterator[tuple[str, Tree, set[int]]]:
        """Every different state of the disk after a loss of power, and what it must hold."""
        seen = set()
        for number, (folder, promised) in enumerate(
            zip(self.disk.moments, self.promised, strict=True)
        ):
            for kind, fate in fates(number, NUM_RANDOM).items():
                tree = folder.found(fate)
                key = repr((tree, promised))
                if key not in seen:
                    seen.add(key)
                    yield f"after operation {number}, {kind}", tree, promised


@pytest.fixture(autouse=True)
def small_pieces_and_no_real_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a state take several writes, and wait for no disk: losses are simulated."""
    monkeypatch.setattr(hashed_file, "_BUFFER_NUM_BYTES", 1024)
    monkeypatch.setattr(os, "fsync", lambda _: None)


def problem_of(tree: Tree, root: Path, promised: set[int]) -> str | None:
    """What is wrong with the checkpoints that a machine finds when it is started again."""
    shutil.rmtree(root, ignore_errors=True)
    build(tree, root)
    run_dir = root / "runs" / "a"
    steps = saved_steps(run_dir)
    if not promised <= set(steps):
        return f"lost {sorted(promised - set(steps))}"
    for step in steps:
        try:
            found = load(run_dir, step)
        except CheckpointError as error:
            return str(error)
        if not is_state(found, step):
            return f"step {step} holds another state"
    return None


def is_state(found: dict[str, Any], step: int) -> bool:
    expected = State(step).state_dict()
    return found["step"] == step and all(
        torch.equal(found["model"][name], value) for name, value in expected["model"].items()
    )


def test_nothing_is_damaged_or_lost_whatever_reached_the_disk(tmp_path: Path) -> None:
    run = Run(tmp_path / "whole")
    run.play(1, 2, 3, 3)
    assert run.promised[-1] == {2, 3}
    root = tmp_path / "after"
    num_states = num_empty = 0
    for moment, tree, promised in run.states():
        assert problem_of(tree, root, promised) is None, moment
        num_states += 1
        num_empty += not saved_steps(root / "runs" / "a")
    assert num_states > 200, num_states
    assert num_empty > 10, "some losses must come before the first save is durable"


def test_a_run_goes_on_after_a_loss_of_power_and_leaves_nothing_behind(tmp_path: Path) -> None:
    run = Run(tmp_path / "whole")
    run.play(1, 2, 3)
    root, run_dir = tmp_path / "after", tmp_path / "after" / "runs" / "a"
    num_leftovers = 0
    for moment, tree, promised in list(run.states())[::4]:
        assert problem_of(tree, root, promised) is None, moment
        num_leftovers += any(run_dir.glob(".step-*"))
        step = (latest(run_dir) or 0) + 1
        save(State(step), run_dir, step, keep=1)
        assert sorted(path.name for path in run_dir.iterdir()) == [".lock", f"step-{step:08d}"]
        assert is_state(load(run_dir), step), moment
    assert num_leftovers > 10


def test_leaving_out_any_one_sync_is_noticed(tmp_path: Path) -> None:
    """So the simulation can tell a careful saver from a careless one, and no sync is idle."""
    run = Run(tmp_path / "counted")
    run.play(1, 2)
    before = run.disk.num_syncs
    run.play(3)
    numbers = range(before + 1, run.disk.num_syncs + 1)
    assert len(numbers) == 5  # state, manifest, their directory; the new name; the old one's end
    for ignored in numbers:
        run = Run(tmp_path / str(ignored), ignored)
        run.play(1, 2, 3)
        root = tmp_path / "after"
        latest_first = reversed(list(run.states()))
        problems = (problem_of(tree, root, promised) for _, tree, promised in latest_first)
        assert any(problem is not None for problem in problems), f"sync {ignored} changes nothing"


@pytest.mark.parametrize("name", ["fsync", "mkdir", "rename", "write"])
def test_an_operation_that_fails_leaves_the_checkpoints_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    run_dir = tmp_path / "run"
    save(State(1), run_dir, 1)
    number = 0
    while fails_at(number, name, lambda: save(State(2), run_dir, 2), monkeypatch):
        number += 1
        assert saved_steps(run_dir) == [1]
        assert is_state(load(run_dir), 1)
    assert number >= (4 if name == "fsync" else 1)
    assert saved_steps(run_dir) == [1, 2]
    save(State(3), run_dir, 3)
    assert not list(run_dir.glob(".step-*"))


def fails_at(
    number: int, name: str, action: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> bool:
    """Do something while the call of that number of a function of `os` fails; whether it did."""
    real = getattr(os, name)
    left = number

    def call(*args: Any, **options: Any) -> Any:
        nonlocal left
        left -= 1
        if left == -1:
            raise OSError(5, "Input/output error")
        return real(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, name, call)
        try:
            action()
        except OSError:
            return True
    assert left >= 0, "an error was swallowed"
    return False
