"""Every fill kernel this machine has, forced by name in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from datacursor import _core

# Whole orders where cycles are walked, and windows at every alignment of larger ones.
COMPARE_WITH_THE_REFERENCE = """
import make_vectors, reference
from datacursor import Shuffle, _core

print(_core.kernel_name())
for line in make_vectors.read("shuffle.txt"):
    size, seed, epoch, position, index = map(int, line)
    assert Shuffle(size, seed).indices(epoch, position, 1).tolist() == [index], line
for size in (4097, 5003):
    expected = reference.Shuffle(size, 3).indices(2, 0, size)
    assert Shuffle(size, 3).indices(2, 0, size).tolist() == expected, size
for size in (2**31 - 1, 2**31, 2**31 + 1, 10**12, 2**63 - 1):
    for first, count in ((0, 300), (size // 2 + 61, 131), (size - 77, 77)):
        expected = reference.Shuffle(size, 3).indices(2, first, count)
        assert Shuffle(size, 3).indices(2, first, count).tolist() == expected, (size, first)
"""


def run(code: str, kernel: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "DATACURSOR_KERNEL": kernel,
    }
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.parametrize("kernel", _core.kernel_names())
def test_every_kernel_equals_the_reference(kernel: str) -> None:
    done = run(COMPARE_WITH_THE_REFERENCE, kernel)
    assert (done.returncode, done.stdout.split()) == (0, [kernel]), done.stderr


def test_the_fastest_kernel_is_used_unless_one_is_named() -> None:
    done = run("from datacursor import _core; print(_core.kernel_name())", "")
    assert done.stdout.split() == _core.kernel_names()[:1], done.stderr


@pytest.mark.parametrize("first_use", ["_core.kernel_name()", "_core.Shuffle(5, 0).index_at(0, 0)"])
def test_an_unknown_kernel_is_refused_with_the_choices(first_use: str) -> None:
    code = f"""
from datacursor import _core
try:
    {first_use}
except ValueError as error:
    print(error)
"""
    done = run(code, "neon512")
    names = ", ".join(_core.kernel_names())
    assert done.stdout.strip() == (
        f"DATACURSOR_KERNEL must be one of {names} on this processor, got DATACURSOR_KERNEL=neon512"
    ), done.stderr
