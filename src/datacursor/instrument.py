"""`ModularCounter`: a training state so small that every restart of it can be checked by eye.

Its whole state is two numbers, and an update shows only their sum modulo m:

    m = 8             saved        update 1   update 2
    increment 3       residue 1    4          7
    increment 1       residue 3    4          5

After the first update the two cannot be told apart; after the second they can. What an update
shows of a real run (a loss, a few ids) also mixes several parts of the state, so a restart is
compared over at least two updates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datacursor.checks import MAX_COUNT, require_integer
from datacursor.errors import ArgumentError, CheckpointError

_KEYS = ("increment", "modulus", "residue")


class ModularCounter:
    """Adds an increment modulo m at every update, and keeps nothing but the residue.

    It is a `Stateful`: give it to a `TrainingState`, step it once per update and print what it
    shows, and a restart that restored it wrongly shows within two updates.

    Args:
        modulus: m, 1 <= m < 2**63.
        increment: 0 <= increment < m.

    Raises:
        ArgumentError: A number is out of range.
        TypeError: A number is not an integer.

    Attributes:
        residue: Where it stands, 0 <= residue < m.

    Example:
        >>> counter = ModularCounter(8, increment=3)
        >>> [counter.step() for _ in range(4)]
        [3, 6, 1, 4]
    """

    def __init__(self, modulus: int, increment: int) -> None:
        self.modulus = require_integer("modulus", modulus, 1, MAX_COUNT)
        self.increment = require_integer("increment", increment, 0, self.modulus)
        self.residue = 0

    def reset(self) -> None:
        """Go back to residue 0."""
        self.residue = 0

    def step(self) -> int:
        """Make one update and return the residue it leads to."""
        self.residue = (self.residue + self.increment) % self.modulus
        return self.residue

    def state_dict(self) -> dict[str, int]:
        """Return modulus, increment and residue."""
        return {name: getattr(self, name) for name in _KEYS}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a saved residue.

        Raises:
            CheckpointError: Not a counter's state, or one of another modulus or increment. Nothing
                has changed.
        """
        if sorted(state_dict) != list(_KEYS):
            raise CheckpointError(
                f"not a counter's state: expected the keys {list(_KEYS)}, got {sorted(state_dict)}"
            )
        for name in ("modulus", "increment"):
            here = getattr(self, name)
            if state_dict[name] != here:
                raise CheckpointError(
                    f"counter does not match state: {name}\n"
                    f"  in state:   {state_dict[name]}\n  in counter: {here}"
                )
        residue = state_dict["residue"]
        if type(residue) is not int or not 0 <= residue < self.modulus:
            raise CheckpointError(
                f"not a counter's state: residue must be in [0, {self.modulus}), got {residue!r}"
            )
        self.residue = residue

    def next_residues(self, count: int) -> list[int]:
        """Return what the next updates would show, without making them.

        Raises:
            ArgumentError: count is negative.
        """
        count = require_integer("count", count, 0, MAX_COUNT)
        return [(self.residue + k * self.increment) % self.modulus for k in range(1, count + 1)]

    def differs_at(self, other: ModularCounter) -> int | None:
        """Return the first of the next updates at which two counters show different residues.

        Returns:
            1 or 2; None if they never differ. Where updates 1 and 2 are equal, so are their
            difference, the increment, and everything after.

        Raises:
            ArgumentError: other has another modulus.
        """
        if other.modulus != self.modulus:
            raise ArgumentError(
                f"other must have this modulus, got other.modulus={other.modulus}, "
                f"modulus={self.modulus}"
            )
        pairs = zip(self.next_residues(2), other.next_residues(2), strict=True)
        return next((update for update, (a, b) in enumerate(pairs, 1) if a != b), None)

    def __repr__(self) -> str:
        return f"ModularCounter({self.modulus}, increment={self.increment}) at {self.residue}"
