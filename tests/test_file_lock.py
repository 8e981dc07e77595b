"""The lock of files: one process inside, whatever became of the one before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from datacursor.file_lock import exclusive

# Says that it is inside, and stays there until it is told to go on or killed.
INSIDE = """
import sys
from pathlib import Path
from datacursor.file_lock import exclusive

with exclusive(Path(sys.argv[1])):
    print("inside", flush=True)
    sys.stdin.read()
print("outside", flush=True)
"""
# Each adds to a number that nothing but the lock protects.
COUNTING = """
import sys
from pathlib import Path
from datacursor.file_lock import exclusive

number = Path(sys.argv[2])
for _ in range(200):
    with exclusive(Path(sys.argv[1])):
        number.write_text(str(int(number.read_text()) + 1))
"""


def start(code: str, *words: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_another_process_comes_in_after_the_first_is_out(tmp_path: Path) -> None:
    first = start(INSIDE, tmp_path / "lock")
    assert read_line(first) == "inside"
    second = start(INSIDE, tmp_path / "lock")
    assert first.communicate(timeout=60)[0] == "outside\n"
    assert second.communicate(timeout=60)[0] == "inside\noutside\n"
    assert list(tmp_path.iterdir()) == []


def test_no_addition_is_lost(tmp_path: Path) -> None:
    (tmp_path / "number").write_text("0")
    runs = [start(COUNTING, tmp_path / "lock", tmp_path / "number") for _ in range(3)]
    for run in runs:
        run.communicate(timeout=60)
    assert (tmp_path / "number").read_text() == "600"


def test_a_killed_process_is_followed(tmp_path: Path) -> None:
    process = start(INSIDE, tmp_path / "lock")
    assert read_line(process) == "inside"
    process.kill()
    process.communicate(timeout=60)
    assert (tmp_path / "lock").exists()
    with exclusive(tmp_path / "lock"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_an_error_inside_lets_the_next_one_in(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), exclusive(tmp_path / "lock"):
        raise ZeroDivisionError
    with exclusive(tmp_path / "lock"):
        pass
    assert list(tmp_path.iterdir()) == []
