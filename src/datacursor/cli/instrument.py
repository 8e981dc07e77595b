"""`datacursor instrument`: why a restart is compared over at least two updates."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from datacursor.cli.output import Commands, add_json, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from datacursor.instrument import ModularCounter

_MAX_MODULUS = 64  # every wrong restart is tried
_NUM_SHOWN = 4  # updates after the restart


def add_instrument(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "instrument",
        help="show with a small counter when a wrong restart becomes visible",
        description="A counter modulo M adds A at every update and is saved after some. Show what "
        "it does after right and wrong restarts, and which update tells them apart: one whose "
        "residue and increment are both wrong may agree with the saved run once.",
    )
    for name, default, letter, text in (
        ("--modulus", 8, "M", f"2 to {_MAX_MODULUS}"),
        ("--increment", 3, "A", "what an update adds"),
        ("--updates", 3, "N", "before the save"),
        ("--other", 1, "A", "a wrong increment"),
    ):
        text += " (default: %(default)s)"
        parser.add_argument(name, type=int, default=default, metavar=letter, help=text)
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from datacursor.checks import MAX_COUNT, require_integer

    modulus = require_integer("--modulus", options.modulus, 2, _MAX_MODULUS + 1)
    increment = require_integer("--increment", options.increment, 0, modulus)
    num_updates = require_integer("--updates", options.updates, 0, MAX_COUNT)
    other = require_integer("--other", options.other, 0, modulus)
    saved = _counter(modulus, increment, num_updates * increment)
    rows = [_row(name, counter, saved) for name, counter in _restarts(saved, other)]
    first, second = _num_wrong(saved)
    if options.json:
        wrong = {"differ_at_1": first, "differ_at_2": second}
        print_json({"modulus": modulus, "updates": num_updates, "restarts": rows, "wrong": wrong})
        return 0
    print(f"A counter modulo {modulus}, saved after {num_updates:,} updates and restored:\n")
    updates = [f"update +{number}" for number in range(1, _NUM_SHOWN + 1)]
    print_table(
        ["restored", "increment", "residue", *updates, "differs at"],
        (
            [row["restored"], row["increment"], row["residue"], *row["next"], row["differs_at"]]
            for row in rows
        ),
    )
    print(
        f"\nOf {first + second:,} wrong restarts {first:,} differ at update +1, and {second:,} "
        "agree there and differ at +2:\ncompare a restart over at least two updates."
    )
    return 0


def _counter(modulus: int, increment: int, residue: int) -> ModularCounter:
    from datacursor.instrument import ModularCounter

    counter = ModularCounter(modulus, increment)
    counter.residue = residue % modulus
    return counter


def _restarts(saved: ModularCounter, other: int) -> Iterator[tuple[str, ModularCounter]]:
    modulus, increment, residue = saved.modulus, saved.increment, saved.residue
    yield "whole", saved
    yield "residue lost", _counter(modulus, increment, 0)
    yield "one update behind", _counter(modulus, increment, residue - increment)
    yield "one update ahead", _counter(modulus, increment, residue + increment)
    yield "another increment", _counter(modulus, other, residue)
    yield "both, agreeing once", _counter(modulus, other, residue + increment - other)


def _row(name: str, counter: ModularCounter, saved: ModularCounter) -> dict[str, Any]:
    return {
        "restored": name,
        "increment": counter.increment,
        "residue": counter.residue,
        "next": counter.next_residues(_NUM_SHOWN),
        "differs_at": saved.differs_at(counter),
    }


def _num_wrong(saved: ModularCounter) -> tuple[int, int]:
    """Return how many of all wrong states differ at the first and how many at the second update."""
    modulus = saved.modulus
    found = [
        saved.differs_at(_counter(modulus, increment, residue))
        for increment in range(modulus)
        for residue in range(modulus)
    ]
    return found.count(1), found.count(2)
