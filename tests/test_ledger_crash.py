"""A ledger survives: a crash between any two file operations, a loss of power, SIGKILL."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from ledger_runs import start

from datacursor.cursor import Cursor
from datacursor.ledger.compact import compact
from datacursor.ledger.history import History, read
from datacursor.ledger.verify import verify

pytestmark = pytest.mark.skipif(os.name != "posix", reason="a directory cannot be synced there")

OPERATIONS = ("fsync", "mkdir", "open", "replace", "unlink", "write")
CHANGES = ("fsync", "mkdir", "replace", "unlink", "write")
NUM_KILLS = 4


class Crash(BaseException):
    """The process is gone; no `except OSError` sees it."""


def play(directory: Path, durable: list[Cursor]) -> None:
    """A run of two attempts and a compaction; adds every cursor that was saved."""
    run = start(directory, rows_per_part=4)
    run.commits(3)
    durable.append(run.save())
    run.commits(5)
    run = start(directory, durable[-1], rows_per_part=4)
    run.commits(2)
    durable.append(run.save())
    compact(directory)
    run.commits(2)
    durable.append(run.save())


def go_on(directory: Path, durable: list[Cursor]) -> History:
    """Restore from the last saved cursor, if any, commit, save; return the verified history."""
    run = start(directory, durable[-1] if durable else None)
    run.commits(3)
    return verify(directory, cursor=run.save()).history


@contextmanager
def watched(before: Callable[[], None]) -> Iterator[None]:
    """Call a function before each file operation."""
    with pytest.MonkeyPatch.context() as patch:
        for name in OPERATIONS:
            patch.setattr(os, name, _watched(getattr(os, name), before))
        yield


def _watched(real: Callable[..., Any], before: Callable[[], None]) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        before()
        return real(*args, **options)

    return call


def test_a_crash_between_any_two_file_operations(tmp_path: Path) -> None:
    total = 0

    def count() -> None:
        nonlocal total
        total += 1

    with watched(count):
        play(tmp_path / "whole", [])
    assert total > 40
    for number in range(total):
        directory = tmp_path / str(number)
        durable = crash_at(directory, number)
        if durable:
            verify(directory, cursor=durable[-1])
        history = go_on(directory, durable)
        updates = durable[-1].updates_committed if durable else 0
        assert history.effective["update"].tolist() == list(range(1, updates + 4))
        compact(directory)
        assert read(directory).effective.tobytes() == history.effective.tobytes()
        assert not list(directory.glob(".*"))


def crash_at(directory: Path, number: int) -> list[Cursor]:
    """Play until an operation that does not happen; return the cursors saved till then."""
    durable: list[Cursor] = []
    left = number

    def crash() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Crash

    with watched(crash), pytest.raises(Crash):
        play(directory, durable)
    return durable


@dataclass
class Disk:
    """What a machine that loses its power finds again, as file systems promise it.

    Attributes:
        files: Content of each file that is synced, by a number that stands for the inode.
        names: The inode of each name, as the last sync of the directory left them.
    """

    files: dict[int, bytes] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)

    def copy(self) -> Disk:
        return Disk(dict(self.files), dict(self.names))


class Recorder:
    """Follows the file operations in one directory and says what each of two disks keeps.

    `strict` keeps a name or content only once it was synced; `eager` keeps every name at once,
    and content only once it was synced, as a file system may that reorders the two.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.live = Disk()
        self.strict = Disk()
        self.eager = Disk()
        self.moments: list[tuple[int, Disk, Disk]] = []
        self.num_saved = 0
        self._opened: dict[int, int | None] = {}  # descriptor: inode, None for the directory

    def follow(self, name: str, args: tuple[Any, ...], result: Any) -> None:
        getattr(self, f"_{name}")(*args, result)
        if name in CHANGES:
            self.moments.append((self.num_saved, self.strict.copy(), self.eager.copy()))

    def _mkdir(self, *_: Any) -> None:
        pass

    def _open(self, path: Any, flags: int, *rest: Any) -> None:
        path, descriptor = Path(path), rest[-1]
        if path == self.directory:
            self._opened[descriptor] = None
        elif path.parent == self.directory and flags & os.O_CREAT:
            inode = len(self.live.files)
            self.live.files[inode] = b""
            self.live.names[path.name] = self.eager.names[path.name] = inode
            self._opened[descriptor] = inode

    def _write(self, descriptor: int, data: bytes, num_bytes: int) -> None:
        inode = self._opened[descriptor]
        assert inode is not None
        self.live.files[inode] += bytes(data[:num_bytes])

    def _fsync(self, descriptor: int, _: None) -> None:
        inode = self._opened[descriptor]
        if inode is None:
            self.strict.names = dict(self.live.names)
        else:
            self.strict.files[inode] = self.eager.files[inode] = self.live.files[inode]

    def _replace(self, old: Any, new: Any, _: None) -> None:
        for disk in (self.live, self.eager):
            disk.names[Path(new).name] = disk.names.pop(Path(old).name)

    def _unlink(self, path: Any, _: None) -> None:
        for disk in (self.live, self.eager):
            disk.names.pop(Path(path).name, None)


def record(directory: Path) -> tuple[Recorder, list[Cursor]]:
    recorder = Recorder(directory)
    durable: list[Cursor] = []
    with pytest.MonkeyPatch.context() as patch:
        for name in OPERATIONS:
            patch.setattr(os, name, _followed(name, getattr(os, name), recorder, durable))
        play(directory, durable)
    return recorder, durable


def _followed(
    name: str, real: Callable[..., Any], recorder: Recorder, durable: list[Cursor]
) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        result = real(*args, **options)
        recorder.num_saved = len(durable)
        recorder.follow(name, args, result)
        return result

    return call


def test_a_loss_of_power_at_any_moment(tmp_path: Path) -> None:
    recorder, durable = record(tmp_path / "ledger")
    assert len(recorder.moments) > 25
    for number, (num_saved, *disks) in enumerate(recorder.moments):
        for kind, disk in enumerate(disks):
            directory = tmp_path / f"{number}-{kind}"
            directory.mkdir()
            for name, inode in disk.names.items():
                (directory / name).write_bytes(disk.files.get(inode, b""))
            saved = durable[:num_saved]
            if saved:
                verify(directory, cursor=saved[-1])
            go_on(directory, saved)


WRITER = """
import sys
from pathlib import Path
from datacursor.cursor import Cursor
from ledger_runs import start

directory, token = sys.argv[1:]
run = start(Path(directory), Cursor.from_token(token) if token else None, rows_per_part=3)
while True:
    run.commits(7)
    print(run.save().token(), flush=True)
"""


def test_sigkill_at_random_moments(tmp_path: Path) -> None:
    numbers = random.Random(5)
    token = ""
    for _ in range(NUM_KILLS):
        token = kill_a_writer(tmp_path, token, numbers)
        verify(tmp_path, cursor=Cursor.from_token(token))
    history = read(tmp_path)
    assert len(history.attempts) == NUM_KILLS
    updates = history.effective["update"].tolist()
    assert updates == list(range(1, len(updates) + 1))


def kill_a_writer(directory: Path, token: str, numbers: random.Random) -> str:
    """Let a process write, kill it after a random number of states; return one of the last."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WRITER, str(directory), token]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, bufsize=1
    ) as process:
        assert process.stdout is not None
        saved = [next(process.stdout).strip() for _ in range(numbers.randint(1, 15))]
        process.send_signal(signal.SIGKILL)
        saved += [line.strip() for line in process.stdout if line.endswith("\n")]
    return saved[-1]
