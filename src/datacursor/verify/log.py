"""A trace read back: what one process did, update by update."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch

from datacursor.recovery.trace import UPDATES_NAME, values_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Update:
    """One line: an update that was attempted.

    Attributes:
        number: Its number, from 1.
        operations: File operations in the run's directory since the line before.
        aspects: Texts by aspect and name.
    """

    number: int
    operations: int
    aspects: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Log:
    """What one process wrote.

    Attributes:
        directory: The trace's.
        updates: By number.
        environment: Its environment record; empty before the first update.
        damaged: What a fault of the self-test touched, as a difference would name it; empty
            where the state has no such thing, None where nothing was loaded or planted.
        operation: The file operation before which it was killed; empty if it was not.
    """

    directory: Path
    updates: Mapping[int, Update]
    environment: Mapping[str, Any]
    damaged: list[str] | None
    operation: str

    @property
    def first(self) -> int:
        """Number of the first update, 0 without any."""
        return min(self.updates, default=0)

    @property
    def last(self) -> int:
        """Number of the last update, 0 without any."""
        return max(self.updates, default=0)


@lru_cache(maxsize=4)
def load_values(directory: Path, update: int) -> dict[str, Tensor]:
    """Return the tensors of an update by aspect and name, empty if they were not kept."""
    path = values_path(directory, update)
    if not path.exists():
        return {}
    values: dict[str, Tensor] = torch.load(path, weights_only=True)
    return values


def read_log(directory: Path) -> Log:
    """Return what the process that traced in a directory wrote; a torn last line is left out."""
    updates: dict[int, Update] = {}
    facts: dict[str, Any] = {}
    for line in _lines(directory / UPDATES_NAME):
        if "update" in line:
            number = line["update"]
            updates[number] = Update(number, line["operations"], line["aspects"])
        else:
            facts |= line
    return Log(
        directory,
        updates,
        facts.get("environment", {}),
        facts.get("damaged"),
        facts.get("operation", ""),
    )


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    *whole, _torn = path.read_bytes().split(b"\n")
    for line in whole:
        yield json.loads(line)
