"""What a restore promises, by what differs from the saved run.

bitwise  every byte of the state at every later update, if the program reproduces itself
close    the same samples, outcomes and learning rates; other bits
samples  every contribution from the first uncommitted one on
none     other data, or another order of them
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from datacursor.errors import EnvironmentMismatchError

_LAYOUT = ("num_replicas", "batch_size", "accumulation_steps")


@dataclass(frozen=True)
class RestoreReport:
    """What a restore promises, and what lowered the promise.

    Attributes:
        claim: "bitwise", "close", "samples" or "none".
        environment_differences: What differs between the saved run's environment and this one's:
            tuples of name, saved and current value.
        renamed: Saved parameter names to those of the run, where they differ.
        accepted: Names of differences that `allow_changed` accepted.
    """

    claim: str
    environment_differences: tuple[Any, ...]
    renamed: dict[str, str]
    accepted: tuple[str, ...] = ()


def layout_of(sampler: Any) -> dict[str, int]:
    """Return how a sampler deals out its samples, for the environment record."""
    return {} if sampler is None else {name: getattr(sampler, name) for name in _LAYOUT}


def claim_of(
    saved: Mapping[str, Any],
    present: Mapping[str, Any],
    differences: Sequence[Any],
    *,
    accepted: Sequence[str],
    other_samples: bool,
) -> str:
    """Return the claim of a restore.

    Args:
        saved: The saved environment, with its layout.
        present: The run's.
        differences: What differs between the two.
        accepted: Names of differences accepted in the program.
        other_samples: Whether differences in data or order were accepted.
    """
    if other_samples:
        return "none"
    if accepted or _update_size(saved) != _update_size(present):
        return "samples"
    return "close" if differences else "bitwise"


def require_same_environment(differences: Sequence[Any]) -> None:
    """Raise unless two environments are equal.

    Raises:
        EnvironmentMismatchError: They are not; it lists the differences.
    """
    if not differences:
        return
    lines = ["checkpoint does not match run: environment"]
    for name, saved, current in differences:
        lines += [f"  {name} in checkpoint: {saved}", f"  {name} in the run:    {current}"]
    lines.append("restore in the saved run's environment, or pass environment='record'")
    raise EnvironmentMismatchError("\n".join(lines))


def _update_size(environment: Mapping[str, Any]) -> int:
    size = 1
    for name in _LAYOUT:
        size *= environment.get(name, 1)
    return size
