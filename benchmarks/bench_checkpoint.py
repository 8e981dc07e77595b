"""What does a safe checkpoint cost against `torch.save` and one fsync?

The same state is written in turns, each time into a new file or directory, and what the safe way
wrote is loaded and compared before a time counts. The disk is the judge of all of them, and busy
with others' work too: ratios are of the best times of one run.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import report
import torch

from datacursor.recovery.checkpoint import load, save
from datacursor.recovery.digest import digest_tree

NUM_TENSORS = 64
MAX_RATIO = 1.5


class State:
    """As many random parameters as fill a number of bytes."""

    def __init__(self, num_bytes: int) -> None:
        size = num_bytes // NUM_TENSORS // 4
        self._tensors = {f"layer.{n}": torch.randn(size) for n in range(NUM_TENSORS)}

    def state_dict(self) -> dict[str, Any]:
        """Return them."""
        return {"model": self._tensors}


def plain(state: State, directory: Path) -> None:
    """`torch.save` and fsync: in place, and nobody knows what is in it later."""
    with (directory / "state.pt").open("wb") as file:
        torch.save(state.state_dict(), file)
        file.flush()
        os.fsync(file.fileno())


def plain_then_digest(state: State, directory: Path) -> None:
    """The same, and then the file is read again for its SHA-256."""
    plain(state, directory)
    with (directory / "state.pt").open("rb") as file:
        digest = hashlib.sha256()
        while piece := file.read(2**20):
            digest.update(piece)


def safe(state: State, directory: Path) -> None:
    """All that `save` does."""
    save(state, directory, 1)


def read_plain(directory: Path) -> object:
    """`torch.load` of what `plain` wrote."""
    return torch.load(directory / "plain" / "state.pt", weights_only=True, map_location="cpu")


def read_safe(directory: Path) -> object:
    """`load`, which verifies first."""
    return load(directory / "safe")


WAYS: dict[str, Callable[[State, Path], None]] = {
    "plain": plain,
    "plain_then_digest": plain_then_digest,
    "safe": safe,
}


def measure(state: State, root: Path, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of every save, by way."""
    seconds: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(rounds):
        for name, way in WAYS.items():
            directory = root / name
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
            start = time.perf_counter()
            way(state, directory)
            seconds[name].append(time.perf_counter() - start)
    return seconds


def measure_reads(root: Path, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of every load, by way; the files are in memory."""
    ways = {"read_plain": read_plain, "read_safe": read_safe}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            start = time.perf_counter()
            way(root)
            seconds[name].append(time.perf_counter() - start)
    return seconds


def main() -> int:
    """Measure, print; return the exit status."""
    options = report.arguments(__doc__)
    report.print_machine()
    num_bytes, rounds = (2**22, 2) if options.check else (2**30, 7)
    state = State(num_bytes)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        seconds = measure(state, root, rounds)
        if digest_tree(load(root / "safe")) != digest_tree(state.state_dict()):
            raise RuntimeError("what was loaded is not what was saved")
        seconds |= measure_reads(root, rounds)
    best = {name: min(values) for name, values in seconds.items()}
    names = {
        "plain": "torch.save, fsync",
        "plain_then_digest": "torch.save, fsync, SHA-256 of the file",
        "safe": "recovery.save",
        "read_plain": "torch.load",
        "read_safe": "recovery.load, verified",
    }
    rows = [
        (
            title,
            report.seconds(best[name]),
            report.seconds(sorted(seconds[name])[rounds // 2]),
            report.ratio(best[name] / best["read_plain" if "read" in name else "plain"]),
        )
        for name, title in names.items()
    ]
    report.table(
        f"{report.num_bytes(num_bytes)} in {NUM_TENSORS} tensors, {rounds} rounds",
        ("", "best", "median", "x plain"),
        rows,
    )
    claims = []
    if options.check:
        claims.append(report.at_least("states that came back", 1, 1))
    else:
        ratio = best["safe"] / best["plain"]
        claims.append(report.at_most("recovery.save / torch.save and fsync", ratio, MAX_RATIO))
    return report.conclude(claims, {"seconds": seconds}, options.json)


if __name__ == "__main__":
    sys.exit(main())
