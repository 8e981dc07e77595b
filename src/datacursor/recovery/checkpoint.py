"""Checkpoints of a run on disk: whole, verified, and durable before anybody is told.

`run_directory` says how a directory comes to be at once, `manifest` what it must hold.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import torch

from datacursor.checks import MAX_COUNT, optional_integer, require_integer
from datacursor.cursor import Cursor
from datacursor.durable import sync_directory
from datacursor.errors import ArgumentError, CheckpointError
from datacursor.recovery.digest import digest_tree
from datacursor.recovery.hashed_file import write_hashed
from datacursor.recovery.manifest import Manifest, read_manifest, write_manifest
from datacursor.recovery.run_directory import (
    new_checkpoint,
    remove_older,
    saved_steps,
    saving,
    step_directory,
)
from datacursor.state import cursor_of

PathLike: TypeAlias = str | os.PathLike[str]

# Part of the persistent format; add, never change.
_STATE_NAME = "state.pt"


class Saveable(Protocol):
    """What has a state, such as a `TrainingState`."""

    def state_dict(self) -> Mapping[str, Any]:
        """Return the state: dicts, lists, tensors, numbers and text."""


def save(
    state: Saveable,
    run_dir: PathLike,
    step: int,
    *,
    keep: int | None = None,
    on_durable: Callable[[Cursor], object] | None = None,
) -> Path:
    """Save a state as the checkpoint of a step; on return it survives a crash of the machine.

    The checkpoint is there as a whole or not at all, whenever the process is killed. Call this
    on one process of a run: whoever calls it writes. A step that is there already is accepted if
    it holds the same state, and left as it is.

    Args:
        state: What to save; its `state_dict()` must be loadable with `weights_only=True`.
        run_dir: Directory of the run; made if it is missing.
        step: Number of the checkpoint, in updates, 0 <= step < 2**63.
        keep: How many checkpoints to keep, this one and those of smaller steps; the rest is
            removed once this one is durable. None keeps all.
        on_durable: Called with the cursor that was saved, once the checkpoint is durable and
            before any other is removed: here offsets of an external reader may be acknowledged.
            A crash in between repeats the acknowledgement, never a contribution.

    Returns:
        The directory of the checkpoint.

    Raises:
        ArgumentError: step or keep is out of range, or on_durable is given and the state has no
            sampler.
        CheckpointError: The step holds another state, or the state could not be loaded again.
        OSError: The file system refuses; names the file. There is no checkpoint then.
    """
    run_dir = Path(run_dir)
    step = require_integer("step", step, 0, MAX_COUNT)
    keep = optional_integer("keep", keep, 1, MAX_COUNT)
    saved = state.state_dict()
    cursor = None if on_durable is None else cursor_in(saved)
    with saving(run_dir):
        if step_directory(run_dir, step).exists():
            _confirm(run_dir, step, saved)
        else:
            _write(run_dir, step, saved)
        if on_durable is not None and cursor is not None:
            on_durable(cursor)
        if keep is not None:
            remove_older(run_dir, step, keep)
    return step_directory(run_dir, step)


def load(run_dir: PathLike, step: int | None = None) -> dict[str, Any]:
    """Return a saved state on the CPU, after all of its bytes were found intact.

    Nothing in it is executed.

    Args:
        run_dir: Directory of the run.
        step: Which checkpoint; None is the latest.

    Raises:
        CheckpointError: There is none, or it is damaged; names the file, what is wrong with it,
            and both values. No other checkpoint is taken in its place: name one by its step.
    """
    manifest = manifest_of(Path(run_dir), step)
    with manifest.open_verified(_STATE_NAME) as file:
        state: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
    return state


def latest(run_dir: PathLike) -> int | None:
    """Return the step of the latest checkpoint, None if there is none.

    It is whole, for every checkpoint is; `load` finds out whether it was damaged since.
    """
    return max(saved_steps(Path(run_dir)), default=None)


def manifest_of(run_dir: Path, step: int | None) -> Manifest:
    """Return the manifest of a checkpoint, of the latest for None.

    Raises:
        CheckpointError: There is none, or it is damaged.
    """
    steps = saved_steps(run_dir)
    if not steps:
        raise CheckpointError(f"{run_dir}: has no checkpoint")
    step = steps[-1] if step is None else require_integer("step", step, 0, MAX_COUNT)
    if step not in steps:
        raise CheckpointError(f"{run_dir}: has no checkpoint of step {step}, only of {steps}")
    return read_manifest(step_directory(run_dir, step), step)


def cursor_in(saved: Mapping[str, Any]) -> Cursor:
    """Return the cursor of the sampler in a saved state.

    Raises:
        ArgumentError: It has no sampler.
        CursorFormatError: The sampler is not one of ours.
    """
    sampler = saved.get("sampler")
    if sampler is None:
        raise ArgumentError("on_durable needs a state with a sampler, got sampler=None")
    return cursor_of(sampler)


def _write(run_dir: Path, step: int, saved: Mapping[str, Any]) -> None:
    try:
        with new_checkpoint(run_dir, step) as directory:
            path = directory / _STATE_NAME
            record = write_hashed(path, lambda stream: torch.save(saved, stream))
            require_loadable(path)
            write_manifest(directory, step, {_STATE_NAME: record})
    except FileExistsError:  # another process saves the same step
        _confirm(run_dir, step, saved)


def require_loadable(path: Path) -> None:
    """Raise if a file that was just saved has an object that `load` would refuse.

    No tensor is read.

    Raises:
        CheckpointError: It has; names the object's class.
    """
    try:
        torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except pickle.UnpicklingError as error:
        reason = str(error).partition("WeightsUnpickler error: ")[2].split(". ")[0]
        raise CheckpointError(
            f"state cannot be loaded again with weights_only=True: {reason or error}\n"
            "state_dict() must hold dicts, lists, tensors, numbers and text alone"
        ) from error


def _confirm(run_dir: Path, step: int, saved: Mapping[str, Any]) -> None:
    """Make a checkpoint that exists durable if it holds this state."""
    require_equal(step_directory(run_dir, step), load(run_dir, step), saved)
    sync_directory(run_dir)  # its saver may have been killed just before


def require_equal(directory: Path, on_disk: object, present: object) -> None:
    """Raise unless a checkpoint's state has the bytes of another.

    Raises:
        CheckpointError: It has not; names the first place, with both digests.
    """
    saved, wanted = digest_tree(on_disk), digest_tree(present)
    for place in sorted({*saved, *wanted}):
        if saved.get(place) != wanted.get(place):
            raise CheckpointError(
                f"{directory}: exists and holds another state: {place}\n"
                f"  on disk: {saved.get(place)}\n  to save: {wanted.get(place)}\n"
                "one process of a run saves; a run that went back to an earlier step takes a new "
                "run_dir, or its later checkpoints are removed first"
            )
