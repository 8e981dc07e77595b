"""A file mapped into memory, with a check that it is still the file that was mapped.

Reading a mapping past the end of a truncated file kills the process with SIGBUS. The mapping
therefore keeps a descriptor, and `check` compares the file's size before memory is read.
"""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import stat
from pathlib import Path

from datacursor.errors import CorpusError

_EDGE_BYTES = 4096
_MAX_HOLE_BYTES = 2**30


class MappedFile:
    """A regular file mapped read-only for as long as the object, or a view of it, lives.

    Attributes:
        path: Absolute path.
        size: Number of bytes when it was mapped.
        data: The mapping; a buffer that pyarrow and NumPy view without a copy.
    """

    __slots__ = ("data", "path", "size")

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Map a file.

        Args:
            path: A regular file that is not empty.

        Raises:
            FileNotFoundError: There is no such file.
            CorpusError: It is a directory, pipe or device, is empty, has a hole of over 1 GiB, or
                cannot be opened.
        """
        self.path = str(Path(path).absolute())
        try:
            self.data = _map(self.path)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise CorpusError(f"{self.path}: cannot be mapped: {error.strerror}") from error
        self.size = len(self.data)

    def check(self) -> None:
        """Raise if the file's size is no longer the mapped one; about a microsecond.

        Raises:
            CorpusError: The file grew or was truncated; names the file and both sizes.
        """
        size = self.data.size()  # one fstat on the mapping's own descriptor
        if size != self.size:
            raise CorpusError(
                f"{self.path} changed while in use: {self.size} bytes when opened, {size} now"
            )

    def identity(self) -> tuple[int, bytes]:
        """Return the size and a digest of the first and last 4 KiB, to recognise the file by."""
        self.check()
        digest = hashlib.blake2b(self.data[:_EDGE_BYTES], digest_size=16)
        digest.update(self.data[-_EDGE_BYTES:])
        return self.size, digest.digest()


def _map(path: str) -> mmap.mmap:
    # Without O_NONBLOCK, opening a pipe waits for its writer.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            kind = "a directory" if stat.S_ISDIR(status.st_mode) else "a pipe or device"
            raise CorpusError(f"{path}: is {kind}, not a regular file")
        if status.st_size == 0:
            raise CorpusError(f"{path}: is empty, 0 bytes")
        _check_written(path, descriptor, status.st_size)
        return mmap.mmap(descriptor, status.st_size, access=mmap.ACCESS_READ)
    finally:
        os.close(descriptor)


def _check_written(path: str, descriptor: int, size: int) -> None:
    """Raise if the file has a large hole: a download or a copy that was never finished.

    Reading it would take minutes and find zeros. Costs a few microseconds an extent, and finds
    nothing on file systems that do not tell holes from data.
    """
    if not hasattr(os, "SEEK_HOLE"):
        return
    data = 0
    while data < size:
        hole = os.lseek(descriptor, data, os.SEEK_HOLE)
        if hole >= size:
            return
        try:
            data = os.lseek(descriptor, hole, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:  # no data up to the end
                raise
            data = size
        if data - hole > _MAX_HOLE_BYTES:
            raise CorpusError(f"{path}: bytes {hole} to {data} of {size} were never written")
