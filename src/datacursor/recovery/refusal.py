"""The one form of a refusal: the thing by name, both values, what to do."""

from __future__ import annotations


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
