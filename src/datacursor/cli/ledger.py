"""`datacursor ledger`: verify, show and compact a ledger."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datacursor.cli.find import find_cursor
from datacursor.cli.output import (
    Commands,
    add_json,
    plain_row,
    print_json,
    print_table,
    readable_time,
)
from datacursor.errors import ArgumentError, LedgerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from datacursor.ledger.history import History

_SHOWN = (
    "attempt",
    "update",
    "epoch",
    "first",
    "stop",
    "outcome",
    "micro_batches",
    "num_tokens",
    "learning_rate",
    "loss",
    "time",
)


def add_ledger(commands: Commands) -> None:
    """Add the command and its three."""
    parser = commands.add_parser("ledger", help="verify, show or compact a commit ledger")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    verify = _add(actions, "verify", _verify, "check all that can be checked; 1 if it is bad")
    verify.add_argument("--cursor", metavar="FILE", help="the checkpoint it must lead to")
    verify.add_argument("--key", help="which cursor, where the checkpoint holds several")
    verify.add_argument("--chain", metavar="HEX", help="Ledger.chain of the checkpoint")
    show = _add(actions, "show", _show, "list the attempts and the last rows")
    show.add_argument("--rows", type=int, default=10, metavar="N", help="how many (default: 10)")
    _add(actions, "compact", _compact, "put all rows into one Parquet file")


def _add(
    actions: Commands, name: str, run: Callable[[argparse.Namespace], int], text: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=text, description=text.capitalize() + "."
    )
    parser.add_argument("directory", type=Path, metavar="DIR")
    add_json(parser)
    parser.set_defaults(run=run)
    return parser


def _verify(options: argparse.Namespace) -> int:
    from datacursor.ledger.verify import verify

    cursor = find_cursor(options.cursor, options.key) if options.cursor else None
    try:
        result = verify(options.directory, cursor=cursor, chain=options.chain)
    except LedgerError as error:
        if options.json:
            print_json({"holds": False, "reason": str(error)})
        else:
            print(f"{options.directory}: BAD\n{error}")
        return 1
    history = result.history
    if not history.attempts and not history.idle:
        raise ArgumentError(f"{options.directory}: holds no ledger")
    facts: dict[str, Any] = {
        "holds": True,
        "attempts": len(history.attempts),
        "rows": history.num_rows,
        "effective_rows": len(history.effective),
        "last_update": _last_update(history),
        "digests_recomputed": result.num_recomputed,
        "notes": list(result.notes),
    }
    if options.json:
        print_json(facts)
        return 0
    print(
        f"{options.directory}: holds\n"
        f"{facts['rows']:,} rows of {facts['attempts']:,} attempts, chained; "
        f"{facts['effective_rows']:,} lived and lead to update {facts['last_update']:,}; "
        f"{facts['digests_recomputed']:,} digests recomputed from the order"
    )
    if cursor is not None:
        print(f"passes the checkpoint: {cursor}")
    for note in result.notes:
        print(f"note: {note}")
    return 0


def _show(options: argparse.Namespace) -> int:
    from datacursor.ledger.history import read
    from datacursor.ledger.rows import values_of

    history = read(options.directory)
    attempts = [
        {
            "attempt": attempt.number,
            "began": readable_time(int(attempt.rows["time"][0])),
            "from_update": attempt.start.updates_committed,
            "to_update": int(attempt.rows["update"][-1]),
            "rows": len(attempt.rows),
            "lived": int(lived.sum()),
            "start": str(attempt.start),
        }
        for attempt, lived in zip(history.attempts, history.lived, strict=True)
    ]
    num_rows = min(max(0, options.rows), len(history.effective))
    last = history.effective[len(history.effective) - num_rows :]
    rows = [plain_row(values_of(row)) for row in last]
    if options.json:
        idle = list(history.idle)
        print_json({"attempts": attempts, "idle_attempts": idle, "rows": rows})
        return 0
    if not attempts:
        print(f"{options.directory}: no rows")
        return 0
    print_table(tuple(attempts[0]), (attempt.values() for attempt in attempts))
    if rows:
        print(f"\nthe last {num_rows:,} rows that lived:")
        print_table(_SHOWN, ([row[name] for name in _SHOWN] for row in rows))
    return 0


def _compact(options: argparse.Namespace) -> int:
    from datacursor.ledger.compact import compact

    num_files, num_rows = compact(options.directory)
    if options.json:
        print_json({"files_before": num_files, "rows": num_rows})
    else:
        print(f"{options.directory}: {num_files:,} files made one of {num_rows:,} rows")
    return 0


def _last_update(history: History) -> int:
    rows = history.effective
    return int(rows["update"][-1]) if len(rows) else 0
