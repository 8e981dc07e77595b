"""`datacursor diff`: two cursors, field by field."""

from __future__ import annotations

import argparse

from datacursor.cli.find import find_cursor
from datacursor.cli.output import Commands, add_json, print_json, print_table, readable_fields


def add_diff(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "diff",
        help="compare two cursors",
        description="Compare two cursors field by field. Exit status 1 if they differ.",
    )
    parser.add_argument("a", metavar="A", help="a file or token, as for inspect")
    parser.add_argument("b", metavar="B")
    parser.add_argument("--key", help="which cursor, where a file holds several")
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    a, b = (find_cursor(source, options.key) for source in (options.a, options.b))
    fields = zip(readable_fields(a).items(), readable_fields(b).values(), strict=True)
    differences = [(name, x, y) for (name, x), y in fields if x != y]
    same_position = a.same_position(b)
    if options.json:
        changes = {name: [x, y] for name, x, y in differences}
        print_json({"equal": a == b, "same_position": same_position, "differences": changes})
    elif not differences:
        print(f"equal: {a}")
    else:
        print_table(("", "A", "B"), differences)
        if same_position:
            print("the same position: only attempt and replicas differ")
    return 0 if a == b else 1
