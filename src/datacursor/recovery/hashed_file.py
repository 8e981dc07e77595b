"""Files of which size and SHA-256 are known as soon as they are written."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from datacursor.durable import BINARY, write_all

if TYPE_CHECKING:
    from io import BufferedReader
    from pathlib import Path

_BUFFER_NUM_BYTES = 2**20


class FileRecord(NamedTuple):
    """What a file must be, byte for byte.

    Attributes:
        num_bytes: Its size.
        sha256: 64 hexadecimal digits.
    """

    num_bytes: int
    sha256: str


def write_hashed(path: Path, write: Callable[[Any], object]) -> FileRecord:
    """Make a file that must not exist, sync it, and return its record; reads nothing back.

    Args:
        path: The file. If this raises, it may be there, whole or in part.
        write: Writes what the file is to hold into the stream it is given.

    Raises:
        OSError: The file system refuses; names the file.
    """
    stream = _HashedStream(path)
    try:
        write(stream)
        return stream.finish()
    except RuntimeError:
        if stream.failure is None:
            raise
        raise stream.failure from None  # torch makes an internal error of it
    finally:
        stream.close()


def hash_file(file: BufferedReader) -> FileRecord:
    """Return the record of what a file holds from where it stands to its end."""
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(_BUFFER_NUM_BYTES))
    num_bytes = 0
    while count := file.readinto(buffer):
        digest.update(buffer[:count])
        num_bytes += count
    return FileRecord(num_bytes, digest.hexdigest())


def open_regular(path: Path) -> BufferedReader:
    """Open a file for reading; a pipe or a device is refused and not waited for.

    Raises:
        OSError: There is no such file, or it cannot be opened.
        ValueError: It is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | BINARY | getattr(os, "O_NONBLOCK", 0))
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return open(descriptor, "rb")  # noqa: PTH123  # the caller closes it
    os.close(descriptor)
    raise ValueError(f"{path}: no regular file")


class _HashedStream:
    """A stream into a new file; each piece is hashed in a thread while it is written."""

    def __init__(self, path: Path) -> None:
        self.failure: OSError | None = None
        self._path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o666)
        self._pool = ThreadPoolExecutor(1)
        self._digest = hashlib.sha256()
        self._num_bytes = 0
        self._small = bytearray()  # what is too little for a system call

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        if len(self._small) + len(view) > _BUFFER_NUM_BYTES:
            self.flush()
        if len(view) < _BUFFER_NUM_BYTES:
            self._small += view
        else:
            self._put(view)
        return len(view)

    def flush(self) -> None:
        small, self._small = self._small, bytearray()
        self._put(memoryview(small))

    def finish(self) -> FileRecord:
        self.flush()
        with self._naming_the_file():
            os.fsync(self._descriptor)
        return FileRecord(self._num_bytes, self._digest.hexdigest())

    def close(self) -> None:
        self._pool.shutdown()
        os.close(self._descriptor)

    def _put(self, piece: memoryview) -> None:
        hashing = self._start_hashing(piece)
        try:
            with self._naming_the_file():
                write_all(self._descriptor, piece)
        finally:
            if hashing is not None:
                hashing.result()  # the memory is the caller's once this returns
        self._num_bytes += len(piece)

    def _start_hashing(self, piece: memoryview) -> Future[None] | None:
        try:
            return self._pool.submit(self._digest.update, piece)
        except RuntimeError:  # the interpreter is about to end and starts no thread
            self._digest.update(piece)
            return None

    @contextmanager
    def _naming_the_file(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            error.filename = str(self._path)
            self.failure = error
            raise
