"""Whether a checkpoint holds the parts that a run has, no more and no less."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from datacursor.errors import CheckpointError
from datacursor.recovery.refusal import listed, refusal

# Part of the persistent format; add, never change.
STATE_VERSION = 1
_KEYS = (
    "model",
    "optimizer",
    "scheduler",
    "scaler",
    "sampler",
    "loop",
    "rng",
    "extra",
    "environment",
    "gradients",
)


def require_readable(state_dict: Mapping[str, Any]) -> None:
    """Raise unless this release knows the format and all its parts are there.

    Raises:
        CheckpointError: It is of another version, or incomplete.
    """
    version = state_dict.get("version")
    if version != STATE_VERSION:
        raise CheckpointError(
            refusal(
                "format of the training state",
                f"version {version}",
                f"version {STATE_VERSION}",
                "read it with a release of datacursor that knows its format",
            )
        )
    missing = [key for key in _KEYS if key not in state_dict]
    if missing:
        raise CheckpointError(f"checkpoint is incomplete: the training state lacks {missing}")


def require_same_names(
    thing: str,
    saved: Collection[str],
    present: Collection[str],
    error: type[CheckpointError],
) -> None:
    """Raise an error unless a checkpoint and a run have parts of the same names."""
    if set(saved) != set(present):
        raise error(
            refusal(thing, listed(saved), listed(present), "build the run with the saved parts")
        )


def require_both(thing: str, saved: object, present: object) -> None:
    """Raise unless a part is on both sides, or on neither.

    Raises:
        CheckpointError: It is on one side only.
    """
    if (saved is None) != (present is None):
        raise CheckpointError(
            refusal(
                thing,
                "absent" if saved is None else "present",
                "absent" if present is None else "present",
                "build the run with the saved parts",
            )
        )
