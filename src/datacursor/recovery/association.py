"""Which saved parameter is which of the run: by name, group by group."""

from __future__ import annotations

from collections.abc import Sequence

from datacursor.errors import AssociationError
from datacursor.recovery.refusal import names_refusal, refusal


def require_same_groups(
    thing: str, saved: Sequence[Sequence[str]], present: Sequence[Sequence[str]]
) -> None:
    """Raise unless the same names are in the same groups; their order in a group is free.

    Args:
        thing: Whose parameters they are, for the error.
        saved: Names in every saved group, as the run calls them.
        present: Names in every group of the run.

    Raises:
        AssociationError: Names are missing, unexpected or twice, or in other groups.
    """
    group_saved, group_present = _group_of(thing, saved), _group_of(thing, present)
    missing = [name for name in group_present if name not in group_saved]
    unexpected = [name for name in group_saved if name not in group_present]
    if missing or unexpected:
        raise AssociationError(names_refusal(f"parameters of {thing}", missing, unexpected))
    if len(saved) != len(present):
        raise AssociationError(
            refusal(
                f"number of groups of {thing}",
                len(saved),
                len(present),
                "build the optimizer with the groups of the saved run",
            )
        )
    for name, group in group_saved.items():
        if group_present[name] != group:
            raise AssociationError(
                refusal(
                    f"group of parameter {name!r} of {thing}",
                    group,
                    group_present[name],
                    "build the optimizer with the groups of the saved run",
                )
            )


def require_same_order(
    thing: str, saved: Sequence[Sequence[str]], present: Sequence[Sequence[str]]
) -> None:
    """Raise unless names come in the same order, for a state that is laid out in it.

    Raises:
        AssociationError: They come in another.
    """
    if [list(group) for group in saved] != [list(group) for group in present]:
        raise AssociationError(
            refusal(
                f"order of the parameters of {thing}",
                saved,
                present,
                "build the optimizer with its parameters in the saved order: its state is one "
                "vector over all of them",
            )
        )


def _group_of(thing: str, groups: Sequence[Sequence[str]]) -> dict[str, int]:
    group_of: dict[str, int] = {}
    for number, names in enumerate(groups):
        for name in names:
            if name in group_of:
                raise AssociationError(
                    f"parameter {name!r} of {thing} occurs twice: in groups {group_of[name]} and "
                    f"{number}; name every parameter once"
                )
            group_of[name] = number
    return group_of
