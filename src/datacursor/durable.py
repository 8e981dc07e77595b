"""Files that are on disk whole or not at all, whatever happens to the process or the machine.

    write temporary file -> fsync it -> rename -> fsync the directory

A crash before the rename leaves a temporary file, which nobody reads; after it, the file.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

BINARY = getattr(os, "O_BINARY", 0)  # Windows would translate line ends


def make_directory(path: Path) -> None:
    """Make a directory and its missing parents, if it is not there; on return it is durable.

    Raises:
        OSError: The file system refuses, or there is a file of that name.
    """
    missing = [each for each in (path, *path.parents) if not each.exists()]
    for directory in reversed(missing):
        with suppress(FileExistsError):  # another process does the same
            os.mkdir(directory)  # noqa: PTH102  # one system call, like the others here
        sync_directory(directory.parent)
    if not path.is_dir():
        raise FileExistsError(errno.EEXIST, "Not a directory", str(path))


def write_durably(path: Path, data: bytes | bytearray | memoryview) -> None:
    """Make or replace a file; on return it survives a crash of the machine.

    Args:
        path: The file. `temporary_of(path)`, beside it, is written first and renamed.
        data: What it holds.

    Raises:
        OSError: The file system refuses; `path` is as it was, but for an error of the last step.
    """
    temporary = temporary_of(path)
    try:
        _write(temporary, os.O_CREAT | os.O_TRUNC, data)
        os.replace(temporary, path)  # noqa: PTH105  # one system call, like the others here
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def create_durably(path: Path, data: bytes) -> None:
    """Make a file that must not exist: of all who try, one succeeds.

    After a crash the file may be there and hold only a part of the data.

    Raises:
        FileExistsError: It exists.
        OSError: The file system refuses.
    """
    _write(path, os.O_CREAT | os.O_EXCL, data)
    sync_directory(path.parent)


def temporary_of(path: Path) -> Path:
    """Return the file that `write_durably` writes first; a crash may leave it behind."""
    return path.with_name(f".{path.name}.tmp")


def write_all(descriptor: int, data: bytes | bytearray | memoryview) -> None:
    """Write all of the data, in as many calls as the system wants."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync_directory(path: Path) -> None:
    """Make the names of a directory's files survive a crash of the machine."""
    if os.name != "posix":
        return  # a directory cannot be opened there
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _write(path: Path, flags: int, data: bytes | bytearray | memoryview) -> None:
    descriptor = os.open(path, os.O_WRONLY | BINARY | flags, 0o666)
    try:
        write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
