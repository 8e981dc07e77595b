"""A disk that loses its power: which of the operations that were not synced are on it, and how.

The operations of a program are recorded while it runs, below one directory. After each of them
the power may fail. What was synced is then there. Of the rest each operation is there or not, in
any combination, so also in another order: a write to a file, whole or in part; the making, the
renaming and the removal of a name in a directory, each as one.
"""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pytest

Tree: TypeAlias = "dict[str, Tree | bytes]"
Names: TypeAlias = dict[str, "File | Folder"]
# Given an operation that was not synced, says how much of it reached the disk: 0.0 to 1.0.
Fate: TypeAlias = Callable[[str], float]

OPERATIONS = ("fsync", "mkdir", "open", "rename", "rmdir", "unlink", "write")


@dataclass
class File:
    """A file: what is surely on the disk, and the writes that may be."""

    content: bytes = b""
    size: int = 0
    pending: list[tuple[int, bytes]] = field(default_factory=list)

    def after_power_loss(self, fate: Fate) -> bytes:
        content = bytearray(self.content)
        for offset, data in self.pending:
            kept = data[: round(len(data) * fate("write"))]
            content.extend(bytes(max(0, offset + len(kept) - len(content))))  # a hole is zeros
            content[offset : offset + len(kept)] = kept
        return bytes(content)


@dataclass
class Folder:
    """A directory: the names that are surely on the disk, the changes that may be, all names."""

    durable: Names = field(default_factory=dict)
    pending: list[tuple[str | None, str | None, File | Folder | None]] = field(default_factory=list)
    names: Names = field(default_factory=dict)

    def change(self, gone: str | None, made: str | None, what: File | Folder | None) -> None:
        _change(self.names, gone, made, what)
        self.pending.append((gone, made, what))

    def after_power_loss(self, fate: Fate) -> Names:
        names = dict(self.durable)
        for change in self.pending:
            if fate("name") > 0.5:
                _change(names, *change)
        return names

    def found(self, fate: Fate) -> Tree:
        """What a machine finds that is started again."""
        names = self.after_power_loss(fate)
        return {
            name: what.found(fate) if isinstance(what, Folder) else what.after_power_loss(fate)
            for name, what in names.items()
        }


def build(tree: Tree, path: Path) -> None:
    """Make a directory that holds a tree."""
    path.mkdir()
    for name, what in tree.items():
        if isinstance(what, dict):
            build(what, path / name)
        else:
            (path / name).write_bytes(what)


def _change(names: Names, gone: str | None, made: str | None, what: File | Folder | None) -> None:
    if gone is not None:
        names.pop(gone, None)
    if made is not None and what is not None:
        names[made] = what


class SimulatedDisk:
    """Follows the file operations below a directory, which must be empty at first.

    Attributes:
        moments: The disk after each operation.
        num_syncs: How often something was synced.
        ignored_sync: Number of the sync that the disk only pretends to do; None if it is honest.
    """

    def __init__(self, root: Path, ignored_sync: int | None = None) -> None:
        self.moments: list[Folder] = []
        self.num_syncs = 0
        self.ignored_sync = ignored_sync
        self._root = root
        self._folder = Folder()
        self._opened: dict[int, tuple[Path, File | Folder]] = {}

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Follow every operation of this process; nothing is really synced."""
        with pytest.MonkeyPatch.context() as patch:
            for name in OPERATIONS:
                real = (lambda _: None) if name == "fsync" else getattr(os, name)
                patch.setattr(os, name, self._followed(real, getattr(self, f"_{name}")))
            yield

    def _followed(self, real: Callable[..., Any], follow: Callable[..., None]) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            result = real(*args, **options)
            follow(*args, result=result, **options)
            return result

        return call

    def _happened(self) -> None:
        self.moments.append(copy.deepcopy(self._folder))

    def _place(self, path: Any, dir_fd: int | None) -> tuple[Folder, str] | None:
        """The directory and the name of a path, None if it lies elsewhere."""
        if dir_fd is not None:
            if dir_fd not in self._opened:
                return None
            path = self._opened[dir_fd][0] / path
        path = Path(path).absolute()
        if self._root not in path.parents:
            return None
        folder = self._folder
        for part in path.parent.relative_to(self._root).parts:
            inner = folder.names[part]
            assert isinstance(inner, Folder)
            folder = inner
        return folder, path.name

    def _mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: Any = None, result: None) -> None:
        place = self._place(path, dir_fd)
        if place is not None:
            place[0].change(None, place[1], Folder())
            self._happened()

    def _open(
        self, path: Any, flags: int, mode: int = 0, *, dir_fd: Any = None, result: int
    ) -> None:
        self._opened.pop(result, None)
        if Path(path) == self._root:
            self._opened[result] = (self._root, self._folder)
            return
        place = self._place(path, dir_fd)
        if place is None:
            return
        folder, name = place
        if name not in folder.names:
            folder.change(None, name, File())
            self._happened()
        full = Path(path) if dir_fd is None else self._opened[dir_fd][0] / path
        self._opened[result] = (full, folder.names[name])

    def _write(self, descriptor: int, data: Any, *, result: int) -> None:
        if descriptor in self._opened:
            file = self._opened[descriptor][1]
            assert isinstance(file, File)
            file.pending.append((file.size, bytes(data[:result])))
            file.size += result
            self._happened()

    def _fsync(self, descriptor: int, *, result: None) -> None:
        if descriptor not in self._opened:
            return
        self.num_syncs += 1
        if self.num_syncs == self.ignored_sync:
            return
        what = self._opened[descriptor][1]
        if isinstance(what, File):
            what.content = what.after_power_loss(lambda _: 1.0)
        else:
            what.durable = dict(what.names)
        what.pending.clear()
        self._happened()

    def _rename(self, old: Any, new: Any, *, result: None) -> None:
        place, target = self._place(old, None), self._place(new, None)
        if place is not None and target is not None:
            folder, name = place
            assert folder is target[0], "a rename between directories is not simulated"
            folder.change(name, target[1], folder.names[name])
            self._happened()

    def _unlink(self, path: Any, *, dir_fd: Any = None, result: None) -> None:
        place = self._place(path, dir_fd)
        if place is not None:
            place[0].change(place[1], None, None)
            self._happened()

    _rmdir = _unlink


def fates(seed: int, num_random: int) -> dict[str, Fate]:
    """What may become of the operations that were not synced, by name."""

    def torn(chance: random.Random) -> Fate:
        return lambda _: chance.choice((0.0, chance.random(), 1.0))

    return {
        "nothing": lambda _: 0.0,
        "everything": lambda _: 1.0,
        "names": lambda kind: float(kind == "name"),
        "writes": lambda kind: float(kind == "write"),
        "half": lambda kind: 0.5 if kind == "write" else 1.0,
        **{f"torn-{n}": torn(random.Random(seed * 1000 + n)) for n in range(num_random)},
    }
