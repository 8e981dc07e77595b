"""The core's own speed, from the C++ program `time_fill.cpp`, and what bounds it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from datacursor import _core

# The optimised preset only: the other build trees hold programs made for checking.
_FOLDER = Path(__file__).resolve().parent.parent / "build" / "default" / "benchmarks"
_PROGRAM = "datacursor_time_fill"

NOT_BUILT = f"{_PROGRAM} is not built: cmake --preset default && cmake --build --preset default"

NAMES = tuple(_core.kernel_names())  # those this processor runs, the fastest first
IS_WIDE = bool({"avx512", "avx2"} & set(NAMES))  # what the claims about a store loop are made for


def timings(sizes: Sequence[int], kernel: str = NAMES[0]) -> dict[str, float] | None:
    """Return nanoseconds by the names that time_fill.cpp lists; None if it is not built.

    Args:
        sizes: Numbers of samples.
        kernel: The kernel to time.

    Raises:
        CalledProcessError: A fill differs from the definition.
    """
    program = shutil.which(_PROGRAM, path=str(_FOLDER))
    if program is None:
        return None
    environment = os.environ | {"DATACURSOR_KERNEL": kernel}
    command = [program, *map(str, sizes)]
    output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    pairs = (line.split() for line in output.stdout.splitlines())
    return {name: float(nanoseconds) for name, nanoseconds in pairs}


def limit_cycles(num_samples: int) -> float:
    """Return the cycles an index that the vector operations take at four of 256 bits a cycle.

    Four is what Zen 4 starts at best (multiplies and shifts: two); an operation of AVX-512
    counts twice there. A right round has 7 operations, a left round 9 (32 bits: 13, for the
    high half of a product); the first right round is shared by a group. Entry, marks and
    store have 13 (7).
    """
    if num_samples <= 2**31:
        return (4 * 7 + 5 * 9 + 13) / 16 / 4  # ten rounds, 16 indices a vector
    return (3 * 7 + 4 * 13 + 7) / 8 / 4  # eight rounds, 8 indices a vector
