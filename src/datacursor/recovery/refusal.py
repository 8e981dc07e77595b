"""The one form of a refusal: the thing by name, both values, what to do."""

from __future__ import annotations

from collections.abc import Collection

_MAX_LISTED = 8


def refusal(thing: str, saved: object, present: object, remedy: str) -> str:
    """Return the message of an error.

    Args:
        thing: What differs, by name.
        saved: Its value in the checkpoint.
        present: Its value in the run.
        remedy: What the user can do.
    """
    return (
        f"checkpoint does not match run: {thing}\n"
        f"  in checkpoint: {saved}\n"
        f"  in the run:    {present}\n{remedy}"
    )


def listed(names: Collection[str]) -> str:
    """Return names as text, the first few of many."""
    if not names:
        return "none"
    text = ", ".join(repr(name) for name in list(names)[:_MAX_LISTED])
    rest = len(names) - _MAX_LISTED
    return f"{text} and {rest} more" if rest > 0 else text


def names_refusal(thing: str, missing: Collection[str], unexpected: Collection[str]) -> str:
    """Return the message where a checkpoint and a run name different things.

    Args:
        thing: What is named.
        missing: Names of the run that the checkpoint lacks.
        unexpected: Names of the checkpoint that the run lacks.
    """
    return refusal(
        thing,
        f"{listed(missing)} missing, {listed(unexpected)} unexpected",
        f"has {listed(missing)}, lacks {listed(unexpected)}",
        "build the run as the saved one, or pass rename= where names changed",
    )
