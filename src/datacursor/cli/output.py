"""What the commands print: aligned columns for people, JSON for programs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypeAlias

from datacursor.cursor import ORDER_NAMES, PACKING_NAMES

if TYPE_CHECKING:
    from datacursor.cursor import Cursor

Commands: TypeAlias = "argparse._SubParsersAction[Any]"  # of a parser class of our own


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option that every command has."""
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    print(json.dumps(value, indent=2, allow_nan=False))


def print_pairs(pairs: Mapping[str, object], indent: str = "") -> None:
    """Print names and values, aligned."""
    width = max(map(len, pairs))
    for name, value in pairs.items():
        print(f"{indent}{name:<{width}}  {_readable(value)}")


def print_table(header: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a table; a column of numbers is aligned to the right."""
    table = [list(header), *(list(row) for row in rows)]
    columns = [_aligned(column) for column in zip(*table, strict=True)]
    for line in zip(*columns, strict=True):
        print("  ".join(line).rstrip())


def plain_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a ledger's row as JSON knows them: None for what was not noted."""
    plain = {name: None if value != value else value for name, value in row.items()}
    for name in ("ids_digest", "tokens_digest", "chain"):
        plain[name] = row[name].hex()
    return plain | {"time": readable_time(row["time"])}


def readable_time(nanoseconds: int) -> str:
    """Return a time since 1970 to the second, in UTC."""
    moment = datetime.fromtimestamp(nanoseconds / 1e9, timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def readable_fields(cursor: Cursor) -> dict[str, str]:
    """Return everything a cursor says, as texts by name."""
    fields = {
        "order": ORDER_NAMES.get(cursor.order_id, f"0x{cursor.order_id:04x}"),
        "packing": PACKING_NAMES[cursor.packing_id],
        "fingerprint": cursor.data_fingerprint.hex(),
        "plan": cursor.plan_digest.hex(),
        "base_size": f"{cursor.base_size:,}",
        "seed": str(cursor.seed),
        "drop_last": str(cursor.drop_last),
        "data_unverified": str(cursor.data_unverified),
        "accepted": ", ".join(cursor.accepted),
        "deferred": ", ".join(f"[{first:,}, {first + n:,})" for first, n in cursor.deferred),
        "phase": f"{cursor.phase:,}",
    }
    for name in _NUMBERS:
        fields[name] = f"{getattr(cursor, name):,}"
    for name in ("identity_digest", "last_digest"):
        fields[name] = getattr(cursor, name).hex()
    fields["format"] = f"1.{cursor.minor}"
    fields["optional_flags"] = f"0x{cursor.optional_flags:08x}"
    fields["extensions"] = ", ".join(
        f"0x{kind:04x}: {data.hex()}" for kind, data in cursor.extensions
    )
    return fields


_NUMBERS = (
    "epoch",
    "position",
    "updates_committed",
    "tokens_committed",
    "reader_position",
    "reader_offset",
    "digest_first",
    "skipped",
    "attempt",
    "replicas",
    "pending",
    "seq_len",
)


def _aligned(column: Sequence[object]) -> list[str]:
    """Return the cells of a column, its header first, all as wide as the widest."""
    texts = [_readable(cell) for cell in column]
    width = max(map(len, texts))
    is_number = any(isinstance(cell, (int, float)) for cell in column[1:])
    return [text.rjust(width) if is_number else text.ljust(width) for text in texts]


def _readable(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int):
        return f"{value:,}"
    return "-" if value is None else str(value)
