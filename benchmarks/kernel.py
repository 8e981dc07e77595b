"""The core's own speed, from the C++ program `time_fill.cpp`, and what bounds it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

# The optimised preset only: the other build trees hold programs made for checking.
_FOLDER = Path(__file__).resolve().parent.parent / "build" / "default" / "benchmarks"
_PROGRAM = "datacursor_time_fill"

NOT_BUILT = f"{_PROGRAM} is not built: cmake --preset default && cmake --build --preset default"


def timings(sizes: Sequence[int], *, portable: bool = False) -> dict[str, float] | None:
    """Return nanoseconds an index by the names that time_fill.cpp lists; None if not built.

    Args:
        sizes: Numbers of samples, each above 4096.
        portable: Use the kernel for any processor instead of the best one for this.

    Raises:
        CalledProcessError: A fill differs from the definition.
    """
    program = shutil.which(_PROGRAM, path=str(_FOLDER))
    if program is None:
        return None
    environment = dict(os.environ)
    if portable:
        environment["DATACURSOR_KERNEL"] = "portable"
    command = [program, *map(str, sizes)]
    output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    pairs = (line.split() for line in output.stdout.splitlines())
    return {name: float(nanoseconds) for name, nanoseconds in pairs}


def multiply_cycles(num_samples: int) -> float:
    """Return the cycles an index at one 256-bit multiply a cycle, the bound of the AVX2 kernel.

    A right round multiplies twice, a left round three times (32 bits: four, as the high
    half takes two). The first right round is shared by 128 (64) indices.
    """
    if num_samples <= 2**31:
        return (4 * 2 + 5 * 3) / 16  # ten rounds, 16 indices a vector
    return (3 * 2 + 4 * 4) / 8  # eight rounds, 8 indices a vector
