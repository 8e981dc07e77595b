"""The directory of a run: one directory a checkpoint, each there as a whole or not at all.

    step-00001200/                    a checkpoint
        manifest.json                 what it holds, written last
        state.pt
    .step-00001300-<16 digits>.tmp/   one that is being written, or whose saver was killed
    .step-00001100-<16 digits>.old/   one that is being removed, or whose remover was killed
    .lock                             held by everybody who saves

Saving, in this order; a crash before the rename leaves a temporary, which nobody reads:

    make .tmp -> write and fsync its files -> write and fsync the manifest -> fsync .tmp
        -> rename it -> fsync the run's directory

The names are part of the persistent format; add, never change.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from datacursor.durable import BINARY, make_directory, sync_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_STEP_NAME = re.compile(r"step-(\d{8,})")
_LEFTOVER_NAME = re.compile(r"\.step-\d{8,}-[0-9a-f]{16}\.(?:tmp|old)")
_LOCK_NAME = ".lock"


def step_directory(run_dir: Path, step: int) -> Path:
    """Return where the checkpoint of a step is, or would be."""
    return run_dir / f"step-{step:08d}"


def saved_steps(run_dir: Path) -> list[int]:
    """Return the steps of all checkpoints, rising; none where there is no such directory."""
    if not run_dir.is_dir():
        return []
    matches = (_STEP_NAME.fullmatch(path.name) for path in run_dir.iterdir())
    named = [(int(match[1]), match[0]) for match in matches if match is not None]
    return sorted(step for step, name in named if step_directory(run_dir, step).name == name)


@contextmanager
def saving(run_dir: Path) -> Iterator[None]:
    """Make the run's directory durable, and remove what killed savers left behind.

    A saver holds a lock that the system drops when its process ends, however it ends. Leftovers
    are removed only by one who has that lock alone; where there are no such locks (Windows, some
    network file systems), they stay.

    Raises:
        OSError: The file system refuses.
    """
    make_directory(run_dir)
    if not saved_steps(run_dir):
        with suppress(PermissionError):  # then it is not ours, and its maker must see to that
            sync_directory(run_dir.absolute().parent)
    descriptor = os.open(run_dir / _LOCK_NAME, os.O_RDWR | os.O_CREAT | BINARY, 0o666)
    try:
        if _lock_alone(descriptor):
            names = [path.name for path in run_dir.iterdir()]
            _remove(run_dir, filter(_LEFTOVER_NAME.fullmatch, names))
        _lock_with_others(descriptor)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def new_checkpoint(run_dir: Path, step: int) -> Iterator[Path]:
    """Give an empty directory to fill; after the block it is the checkpoint, and durable.

    The block must sync the files and their names. If anything raises, there is no checkpoint.

    Raises:
        FileExistsError: The checkpoint has come to be meanwhile.
        OSError: The file system refuses.
    """
    path = step_directory(run_dir, step)
    temporary = run_dir / _hidden_name(path.name, "tmp")
    os.mkdir(temporary)  # noqa: PTH102  # one system call, like the others here
    try:
        yield temporary
        _rename_to_new(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)  # unless it was renamed
    try:
        sync_directory(run_dir)
    except OSError:
        # A second fsync after a failed one may succeed and prove nothing, so nobody may find
        # the checkpoint and sync it again. A later saver removes it.
        _rename(path, run_dir / _hidden_name(path.name, "old"))
        raise


def remove_older(run_dir: Path, step: int, keep: int) -> None:
    """Of the checkpoints up to a step that is durable, keep that and the `keep` - 1 before it.

    Raises:
        OSError: The file system refuses.
    """
    older = [each for each in saved_steps(run_dir) if each < step]
    surplus = older[: max(0, len(older) - (keep - 1))]
    _remove(run_dir, [step_directory(run_dir, each).name for each in surplus])


def _remove(run_dir: Path, names: Iterable[str]) -> None:
    """Remove directories so that none is ever found, or found again after a crash, in part."""
    hidden = [run_dir / name for name in map(partial(_hide, run_dir), names) if name is not None]
    if not hidden:
        return
    sync_directory(run_dir)
    for path in hidden:
        shutil.rmtree(path, ignore_errors=True)  # what is left, a later saver removes


def _hide(run_dir: Path, name: str) -> str | None:
    """Return the name under which a directory awaits its removal, None if it is gone."""
    if name.endswith(".old"):
        return name
    hidden = _hidden_name(name, "old")
    try:
        _rename(run_dir / name, run_dir / hidden)
    except FileNotFoundError:  # another process was quicker
        return None
    return hidden


def _hidden_name(name: str, suffix: str) -> str:
    match = _STEP_NAME.search(name)
    assert match is not None
    return f".{match[0]}-{secrets.token_hex(8)}.{suffix}"


def _rename_to_new(temporary: Path, path: Path) -> None:
    try:
        _rename(temporary, path)
    except OSError as error:
        if path.exists():
            raise FileExistsError(errno.EEXIST, "Saved meanwhile", str(path)) from error
        raise


def _rename(old: Path, new: Path) -> None:
    os.rename(old, new)  # noqa: PTH104  # one system call, like the others here


def _lock_alone(descriptor: int) -> bool:
    if os.name != "posix":
        return False
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # others are saving, or there are no locks here
        return False
    return True


def _lock_with_others(descriptor: int) -> None:
    if os.name != "posix":
        return
    import fcntl

    with suppress(OSError):  # there are no locks here, so nobody has one alone
        fcntl.flock(descriptor, fcntl.LOCK_SH)
