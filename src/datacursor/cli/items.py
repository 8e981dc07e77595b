"""`datacursor items`: what entered an update."""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datacursor.cli.output import Commands, add_json, plain_row, print_json, print_pairs
from datacursor.errors import ArgumentError

if TYPE_CHECKING:
    from datacursor.ledger.history import Attempt, History

_NUM_SHOWN = 64
_SHOWN = (
    "update",
    "attempt",
    "time",
    "epoch",
    "first",
    "stop",
    "num_tokens",
    "learning_rate",
    "loss",
    "ids_digest",
)


def add_items(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "items",
        help="what was in an update",
        description="Show which positions entered an update, by the effective history of a "
        "ledger, and which samples these are, where what the ledger knows decides their order.",
    )
    parser.add_argument("--ledger", type=Path, required=True, metavar="DIR")
    parser.add_argument("--update", type=int, required=True, metavar="N", help="the first is 1")
    parser.add_argument("--all", action="store_true", help=f"more than {_NUM_SHOWN} indices")
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from datacursor.checks import require_integer
    from datacursor.ledger.history import read

    update = require_integer("--update", options.update, 1, 2**64)
    parts = _parts(read(options.ledger), update)
    if not parts:
        raise ArgumentError(f"{options.ledger}: no row that lived has update {update:,}")
    if options.json:
        print_json(parts)
        return 0
    for part in parts:
        indices = part.pop("indices")
        print_pairs({name: value for name, value in part.items() if value is not None})
        if indices is not None:
            _print_indices(indices, len(indices) if options.all else _NUM_SHOWN)
    return 0


def _parts(history: History, update: int) -> list[dict[str, Any]]:
    """Return what is known of each row of an update; mostly there is one."""
    from datacursor.ledger.rows import COMMITTED, values_of

    parts = []
    for attempt, lived in zip(history.attempts, history.lived, strict=True):
        rows = attempt.rows
        chosen = lived & (rows["update"] == update) & (rows["outcome"] == COMMITTED)
        for row in rows[chosen]:
            values = plain_row(values_of(row))
            shown = {name: values[name] for name in _SHOWN}
            parts.append(shown | _indices(attempt, values))
    return parts


def _indices(attempt: Attempt, row: dict[str, Any]) -> dict[str, Any]:
    from datacursor.ledger.identity import why_not_rebuilt

    if attempt.order is None:
        return {"needs": why_not_rebuilt(attempt.start, attempt.plan), "indices": None}
    indices = attempt.order.indices(row["epoch"], row["first"], row["stop"] - row["first"])
    return {"needs": None, "indices": indices.tolist()}


def _print_indices(indices: list[int], limit: int) -> None:
    shown = " ".join(map(str, indices[:limit]))
    rest = f" .. and {len(indices) - limit:,} more (--all)" if len(indices) > limit else ""
    print(f"samples, in the order of their positions ({len(indices):,}):")
    print(textwrap.indent(textwrap.fill(shown + rest, 92), "  "))
