"""Files that are hashed while they are written, and files that are refused for what they are."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from datacursor.recovery.hashed_file import hash_file, open_regular, write_hashed

BUFFER = 2**20


@pytest.mark.parametrize(
    "sizes",
    [
        [],
        [0],
        [1, 2, 3],
        [BUFFER - 1, 1, 1],
        [BUFFER],
        [5, BUFFER, 5],
        [7, 9 * BUFFER + 3, 7],
    ],
    ids=str,
)
def test_the_record_is_that_of_what_was_written(tmp_path: Path, sizes: list[int]) -> None:
    parts = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    data = b"".join(parts)
    path = tmp_path / "file"
    record = write_hashed(path, lambda stream: [stream.write(part) for part in parts])
    assert record == (len(data), hashlib.sha256(data).hexdigest())
    assert path.read_bytes() == data
    with open_regular(path) as file:
        assert hash_file(file) == record


def test_memory_may_be_reused_after_each_write(tmp_path: Path) -> None:
    memory = bytearray(BUFFER + 1)

    def write(stream: Any) -> None:
        for number in range(9):
            memory[:] = bytes([number]) * len(memory)
            stream.write(memoryview(memory))

    data = b"".join(bytes([number]) * len(memory) for number in range(9))
    assert write_hashed(tmp_path / "file", write).sha256 == hashlib.sha256(data).hexdigest()


def test_an_existing_file_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(FileExistsError):
        write_hashed(path, lambda stream: stream.write(b"new"))
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("name", ["write", "fsync"])
def test_a_full_disk_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, name, fail)
    with pytest.raises(OSError, match=r"No space left on device: .*file") as raised:
        write_hashed(tmp_path / "file", lambda stream: stream.write(b"data"))
    assert raised.value.errno == errno.ENOSPC


def test_a_writer_that_makes_another_error_of_it_does_not_hide_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def write(stream: Any) -> None:
        try:
            stream.write(bytes(BUFFER))
        except OSError as error:
            raise RuntimeError("unexpected pos 768 vs 662") from error

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(OSError, match="No space left on device"):
        write_hashed(tmp_path / "file", write)


def test_an_error_of_the_writer_is_its_own(tmp_path: Path) -> None:
    def write(_: object) -> None:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        write_hashed(tmp_path / "file", write)


def test_a_file_is_written_while_the_interpreter_ends(tmp_path: Path) -> None:
    program = """
import atexit, sys
from pathlib import Path
from datacursor.recovery.hashed_file import write_hashed
path = Path(sys.argv[1])
atexit.register(lambda: print(write_hashed(path, lambda stream: stream.write(b"end")).sha256))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "file"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    assert done.stdout.strip() == hashlib.sha256(b"end").hexdigest()


def test_a_directory_is_no_regular_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no regular file"):
        open_regular(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="no regular file"):
        open_regular(tmp_path / "pipe")
