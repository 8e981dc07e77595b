"""Checkpoints on disk: saved, found, verified, refused, kept and removed."""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from datacursor.cursor import Cursor
from datacursor.errors import ArgumentError, CheckpointError, CursorFormatError
from datacursor.recovery.checkpoint import latest, load, save
from datacursor.recovery.digest import digest_tree
from datacursor.recovery.run_directory import saved_steps, saving
from datacursor.sampler import CursorSampler


class State:
    """What `save` asks of a training state."""

    def __init__(self, *, sampler: CursorSampler | None = None, **parts: Any) -> None:
        self.sampler = sampler
        self.parts = parts

    def state_dict(self) -> dict[str, Any]:
        sampler = None if self.sampler is None else self.sampler.state_dict()
        return {**self.parts, "sampler": sampler}


def state(value: float = 1.0) -> State:
    moments = torch.tensor([0.0, -0.0, float("nan"), value], dtype=torch.float32)
    return State(
        model={"weight": torch.full((2, 3), value, dtype=torch.bfloat16)},
        optimizer={"state": {"weight": {"exp_avg": moments, "step": torch.tensor(3.0)}}},
        loop={"applied": 3, "name": "run", "rates": [0.1, (1, 2)]},
        rng={"torch": torch.get_rng_state()},
        gradients=None,
    )


def damage(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x10
    path.write_bytes(data)


def names_in(run_dir: Path) -> list[str]:
    return sorted(path.name for path in run_dir.iterdir())


def test_what_was_saved_is_loaded_byte_for_byte(tmp_path: Path) -> None:
    path = save(state(), tmp_path / "runs" / "a", 1200)
    assert path == tmp_path / "runs" / "a" / "step-00001200"
    assert names_in(path) == ["manifest.json", "state.pt"]
    assert digest_tree(load(tmp_path / "runs" / "a")) == digest_tree(state().state_dict())


def test_another_process_loads_it(tmp_path: Path) -> None:
    save(state(), tmp_path, 3)
    program = """
import sys
from datacursor.recovery.checkpoint import latest, load
from datacursor.recovery.digest import digest_tree
print(latest(sys.argv[1]), sorted(digest_tree(load(sys.argv[1])).items()))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    assert done.stdout.strip() == f"3 {sorted(digest_tree(state().state_dict()).items())}"


def random_states() -> tuple[object, ...]:
    numpy_state = np.random.get_state()  # noqa: NPY002  # the global stream is the point
    return torch.get_rng_state().tolist(), random.getstate(), repr(numpy_state)


def test_saving_draws_no_random_number(tmp_path: Path) -> None:
    before = random_states()
    save(state(), tmp_path, 1, keep=1)
    save(state(), tmp_path, 2, keep=1)
    load(tmp_path)
    assert random_states() == before


def test_the_latest_step_is_the_highest(tmp_path: Path) -> None:
    for step in (5, 123_456_789, 7):
        save(state(step), tmp_path, step)
    assert latest(tmp_path) == 123_456_789
    assert load(tmp_path)["model"]["weight"][0, 0] == torch.tensor(123_456_789.0).bfloat16()
    assert load(tmp_path, step=7)["model"]["weight"][0, 0] == 7


def test_no_directory_and_no_checkpoint_are_none_and_refused(tmp_path: Path) -> None:
    for run_dir in (tmp_path / "missing", tmp_path):
        assert latest(run_dir) is None
        with pytest.raises(CheckpointError, match="has no checkpoint"):
            load(run_dir)
    assert not (tmp_path / "missing").exists()


def test_a_missing_step_is_refused_with_those_there_are(tmp_path: Path) -> None:
    save(state(), tmp_path, 4)
    with pytest.raises(CheckpointError, match=r"no checkpoint of step 5, only of \[4\]"):
        load(tmp_path, 5)


def test_other_names_are_no_checkpoints(tmp_path: Path) -> None:
    save(state(), tmp_path, 4)
    for name in (
        "step-9",
        "step-000000010",
        "step-00000011.bak",
        "xstep-00000012",
        "step-\u0661\u0662\u0663\u0664\u0665\u0666\u0667\u0668",
    ):
        shutil.copytree(tmp_path / "step-00000004", tmp_path / name)
    assert latest(tmp_path) == 4


def test_a_renamed_checkpoint_is_refused(tmp_path: Path) -> None:
    save(state(), tmp_path, 4).rename(tmp_path / "step-00000005")
    with pytest.raises(CheckpointError, match=r"step must be 5, .* got 4"):
        load(tmp_path)


@pytest.mark.parametrize("step", [-1, 2**63])
def test_a_step_out_of_range_is_refused(tmp_path: Path, step: int) -> None:
    with pytest.raises(ArgumentError, match=f"got step={step}"):
        save(state(), tmp_path, step)
    assert names_in(tmp_path) == []


def test_keep_removes_older_ones_alone(tmp_path: Path) -> None:
    for step in (1, 2, 3, 9):
        save(state(step), tmp_path, step)
    save(state(4), tmp_path, 4, keep=2)
    assert saved_steps(tmp_path) == [3, 4, 9]
    save(state(10), tmp_path, 10, keep=1)
    assert names_in(tmp_path) == [".lock", "step-00000010"]
    with pytest.raises(ArgumentError, match="got keep=0"):
        save(state(11), tmp_path, 11, keep=0)


def test_the_same_state_may_be_saved_again(tmp_path: Path) -> None:
    path = save(state(), tmp_path, 4)
    written = (path / "state.pt").stat().st_mtime_ns
    assert save(state(), tmp_path, 4) == path
    assert (path / "state.pt").stat().st_mtime_ns == written


def test_another_state_of_the_same_step_is_refused_with_both_digests(tmp_path: Path) -> None:
    save(state(1.0), tmp_path, 4)
    with pytest.raises(CheckpointError, match="holds another state: model/weight") as raised:
        save(state(2.0), tmp_path, 4)
    for value in (1.0, 2.0):
        assert digest_tree(state(value).state_dict())["model/weight"] in str(raised.value)
    assert load(tmp_path)["model"]["weight"][0, 0] == 1.0


def test_negative_zero_is_another_state(tmp_path: Path) -> None:
    save(State(x=torch.tensor([0.0])), tmp_path, 4)
    with pytest.raises(CheckpointError, match="holds another state: x"):
        save(State(x=torch.tensor([-0.0])), tmp_path, 4)


def test_a_state_that_could_not_be_loaded_is_refused_when_it_is_saved(tmp_path: Path) -> None:
    save(state(), tmp_path, 1)
    with pytest.raises(CheckpointError, match=r"cannot be loaded again .*numpy") as raised:
        save(State(extra={"counts": np.zeros(3)}), tmp_path, 2)
    assert "weights_only=False" not in str(raised.value)
    assert names_in(tmp_path) == [".lock", "step-00000001"]


def test_flipped_bits_anywhere_are_refused(tmp_path: Path) -> None:
    path = save(state(), tmp_path, 1)
    for name in ("state.pt", "manifest.json"):
        intact = (path / name).read_bytes()
        for offset in range(0, len(intact), 31 if name == "state.pt" else 7):
            damage(path / name, offset)
            with pytest.raises(CheckpointError):
                load(tmp_path)
            (path / name).write_bytes(intact)
    load(tmp_path)


def test_truncated_files_are_refused(tmp_path: Path) -> None:
    path = save(state(), tmp_path, 1)
    for name in ("state.pt", "manifest.json"):
        intact = (path / name).read_bytes()
        for length in range(0, len(intact), 61):
            (path / name).write_bytes(intact[:length])
            with pytest.raises(CheckpointError):
                load(tmp_path)
        (path / name).unlink()
        with pytest.raises(CheckpointError, match=f"{name}: missing"):
            load(tmp_path)
        (path / name).write_bytes(intact)
    load(tmp_path)


def test_a_damaged_latest_checkpoint_is_not_passed_over(tmp_path: Path) -> None:
    save(state(1), tmp_path, 1)
    damage(save(state(2), tmp_path, 2) / "state.pt", 100)
    with pytest.raises(CheckpointError, match=r"step-00000002/state\.pt: damaged: sha256"):
        load(tmp_path)
    assert load(tmp_path, step=1)["model"]["weight"][0, 0] == 1


def test_a_damaged_checkpoint_is_not_saved_again(tmp_path: Path) -> None:
    damage(save(state(), tmp_path, 1) / "state.pt", 100)
    with pytest.raises(CheckpointError, match="damaged"):
        save(state(), tmp_path, 1)


def test_the_cursor_is_told_once_the_checkpoint_can_be_loaded(tmp_path: Path) -> None:
    sampler = CursorSampler(100, batch_size=4)
    next(iter(sampler))
    save(State(sampler=sampler), tmp_path, 0)
    told: list[Cursor] = []

    def on_durable(cursor: Cursor) -> None:
        assert saved_steps(tmp_path) == [0, 1], "nothing is removed before"
        fresh = CursorSampler(100, batch_size=4)
        fresh.load_state_dict(load(tmp_path, 1)["sampler"])
        assert fresh.cursor == cursor
        told.append(cursor)

    save(State(sampler=sampler), tmp_path, 1, keep=1, on_durable=on_durable)
    assert told == [sampler.cursor]
    assert saved_steps(tmp_path) == [1]


def test_the_cursor_told_is_the_saved_one_though_the_sampler_moved(tmp_path: Path) -> None:
    sampler = CursorSampler(100, batch_size=4)

    class Moving(State):
        def state_dict(self) -> dict[str, Any]:
            saved = super().state_dict()
            sampler.seek(0, 40)
            return saved

    before = sampler.cursor
    told: list[Cursor] = []
    save(Moving(sampler=sampler), tmp_path, 1, on_durable=told.append)
    assert told == [before]


def test_a_cursor_needs_a_sampler(tmp_path: Path) -> None:
    for parts, error in ((state(), ArgumentError), (StrangeSampler(), CursorFormatError)):
        with pytest.raises(error, match="sampler"):
            save(parts, tmp_path, 1, on_durable=print)
    assert names_in(tmp_path) == []


class StrangeSampler(State):
    """A state whose sampler is not one of ours."""

    def state_dict(self) -> dict[str, Any]:
        return {"sampler": {"position": 3}}


def test_nothing_is_told_of_a_save_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    told: list[Cursor] = []
    sampler = CursorSampler(100, batch_size=4)
    save(State(sampler=sampler), tmp_path, 1)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        with pytest.raises(OSError, match=r"No space left on device: .*state\.pt"):
            save(State(sampler=sampler), tmp_path, 2, keep=1, on_durable=told.append)
    assert told == []
    assert names_in(tmp_path) == [".lock", "step-00000001"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_directory_is_named(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir(mode=0o555)
    with pytest.raises(PermissionError, match="run"):
        save(state(), run_dir, 1)
    assert names_in(run_dir) == []


def test_a_file_in_place_of_the_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "run").write_bytes(b"")
    with pytest.raises(FileExistsError, match="run"):
        save(state(), tmp_path / "run", 1)


def leave_behind(run_dir: Path, name: str) -> Path:
    path = run_dir / name
    path.mkdir()
    (path / "state.pt").write_bytes(b"half")
    return path


TEMPORARY = ".step-00000007-0123456789abcdef.tmp"
REMOVED = ".step-00000006-0123456789abcdef.old"


def test_leftovers_of_killed_savers_are_ignored_and_removed(tmp_path: Path) -> None:
    for name in (TEMPORARY, REMOVED, ".step-7.tmp", "mine"):
        leave_behind(tmp_path, name)
    assert latest(tmp_path) is None
    save(state(), tmp_path, 1)
    assert names_in(tmp_path) == [".lock", ".step-7.tmp", "mine", "step-00000001"]


@pytest.mark.skipif(os.name != "posix", reason="there are no such locks")
def test_the_temporary_of_a_living_saver_is_left_alone(tmp_path: Path) -> None:
    path = leave_behind(tmp_path, TEMPORARY)
    with saving(tmp_path):
        assert not path.exists()
        path = leave_behind(tmp_path, TEMPORARY)
        save(state(), tmp_path, 1)
        assert path.exists()
    save(state(), tmp_path, 2)
    assert not path.exists()


def test_savers_of_one_step_at_the_same_time_write_it_once(tmp_path: Path) -> None:
    """As ranks do when all of them save: equal states are accepted, others refused."""
    barrier = threading.Barrier(8)
    errors: list[CheckpointError] = []

    def run(value: float) -> None:
        barrier.wait()
        try:
            save(state(value), tmp_path, 5)
        except CheckpointError as error:
            errors.append(error)

    for values, num_refused in (((1.0,) * 8, 0), ((1.0,) * 4 + (2.0,) * 4, 4)):
        threads = [threading.Thread(target=run, args=(value,)) for value in values]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(errors) == num_refused
        load(tmp_path)
        assert names_in(tmp_path) == [".lock", "step-00000005"]
        shutil.rmtree(tmp_path / "step-00000005")


def test_a_second_saver_never_replaces_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.rename
    nested: list[Any] = []

    def rename(old: Any, new: Any) -> None:
        if not nested:
            nested.append(new)
            save(state(2.0), tmp_path, 5)
        real(old, new)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(CheckpointError, match="holds another state"):
        save(state(1.0), tmp_path, 5)
    assert load(tmp_path)["model"]["weight"][0, 0] == 2.0
    assert names_in(tmp_path) == [".lock", "step-00000005"]
