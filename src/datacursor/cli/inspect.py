"""`datacursor inspect`: every cursor in a file, a token or standard input."""

from __future__ import annotations

import argparse
import json

from datacursor.cli.find import find_cursors
from datacursor.cli.output import Commands, add_json, print_json, print_pairs, readable_fields


def add_inspect(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "inspect",
        help="show the cursors in a file, a token or a checkpoint",
        description="Show every cursor in a record, state, token, JSON or log file, in a "
        "checkpoint of torch.save (with its keys) or in any other file or directory (with its "
        "place). Nothing in a file is executed.",
    )
    parser.add_argument("source", metavar="FILE|TOKEN|-", help="- is standard input")
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    found = find_cursors(options.source)
    if options.json:
        print_json(
            [
                {
                    "key": key,
                    "text": str(cursor),
                    "token": cursor.token(),
                    "cursor": json.loads(cursor.to_json()),
                }
                for key, cursor in found
            ]
        )
        return 0
    for key, cursor in found:
        print(f"{key}: {cursor}" if key else cursor)
        if len(found) == 1:
            fields = readable_fields(cursor)
            print_pairs({name: text for name, text in fields.items() if text}, "  ")
        print(f"  {cursor.token()}")
    return 0
