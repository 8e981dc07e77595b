"""Whether a checkpoint holds the parts that a run has, no more and no less."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from datacursor.errors import CheckpointError
from datacursor.recovery.form import Each, require_form
from datacursor.recovery.refusal import listed, refusal

# Part of the persistent format; add, never change.
STATE_VERSION = 1
_FORM = {
    "model": dict,
    "optimizer": Each(dict),
    "scheduler": Each(dict),
    "scaler": dict | None,
    "sampler": object,
    "loop": dict | None,
    "rng": dict,
    "extra": dict,
    "environment": Each(bool | int | str | list | None),
    "gradients": dict,
}


def require_readable(state_dict: Mapping[str, Any]) -> None:
    """Raise unless this release knows the format and all its parts are there.

    Raises:
        CheckpointError: It is of another version, incomplete or damaged.
    """
    require_form("the training state", state_dict, Each(object))
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
    require_form("the training state", state_dict, _FORM)


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
