"""`datacursor doctor`: what is installed, which kernel runs, and whether it computes rightly."""

from __future__ import annotations

import argparse
import os
import platform
from pathlib import Path
from typing import Any

from datacursor import _core
from datacursor.cli.output import Commands, add_json, print_json, print_pairs

# num_samples, seed, epoch, position, index: a table, the narrow and the wide network.
_SEED = 81_985_529_216_486_895
_GOLDEN = (
    (5, 0, 1, 2, 3),
    (4097, _SEED, 1, 1365, 1551),
    (65_537, _SEED, 1, 21_845, 13_711),
    (2**31 + 1, _SEED, 1, 715_827_883, 1_814_156_023),
    (10**12, _SEED, 1, 333_333_333_333, 587_618_956_643),
    (2**63 - 1, _SEED, 1, 3_074_457_345_618_258_602, 6_522_747_068_183_100_472),
)
_PACKAGES = ("numpy", "torch", "pyarrow")


def add_doctor(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "doctor",
        help="versions, processor, and a test of the order",
        description="Show versions, processor and kernel, and compute some known indices. Exit "
        "status 1 if one of them comes out wrong.",
    )
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    wrong = wrong_indices()
    facts: dict[str, Any] = {
        "datacursor": _core.__version__,
        "python": platform.python_version(),
        **{name: _version(name) for name in _PACKAGES},
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": _num_cores(),
        "kernel": _core.kernel_name(),
        "kernels": _core.kernel_names(),
        "order": f"WRONG: {wrong[0]}" if wrong else f"{len(_GOLDEN)} known indices are right",
    }
    if options.json:
        print_json(facts | {"healthy": not wrong})
    else:
        print_pairs(facts | {"kernels": ", ".join(facts["kernels"])})
    return 1 if wrong else 0


def wrong_indices() -> list[str]:
    """Return a sentence for each known index that comes out otherwise."""
    from datacursor.order import Shuffle

    wrong = []
    for num_samples, seed, epoch, position, expected in _GOLDEN:
        index = Shuffle(num_samples, seed).index_at(epoch, position)
        if index != expected:
            call = f"Shuffle({num_samples}, seed={seed}).index_at({epoch}, {position})"
            wrong.append(f"{call} is {index}, expected {expected}")
    return wrong


def _version(package: str) -> str:
    """Return a package's version without importing it."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _num_cores() -> int:
    """Return the cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
