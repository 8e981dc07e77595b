"""Which run a ledger belongs to, as far as the cursors at which its attempts began tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datacursor.cursor import ORDER_NAMES, Cursor
from datacursor.errors import LedgerError
from datacursor.order import SEQUENTIAL_ID, SHUFFLE_ID, Sequential, Shuffle

if TYPE_CHECKING:
    from datacursor.order import Order

_NAMES = {  # field of the cursor: name of the difference, as `allow_changed` has it
    "data_fingerprint": "fingerprint",
    "base_size": "num_samples",
    "seed": "seed",
    "order_id": "order",
    "packing_id": "packing",
    "plan_digest": "plan",
    "seq_len": "seq_len",
    "drop_last": "drop_last",
}


def require_same_run(earlier: Cursor, later: Cursor) -> None:
    """Raise if a later attempt has other data or another plan, and no load was told to accept it.

    Raises:
        LedgerError: It has; names the first difference with both values.
    """
    for field, name in _NAMES.items():
        if name == "num_samples" and later.packing_id:
            name = "num_documents"
        old, new = getattr(earlier, field), getattr(later, field)
        if old != new and name not in later.accepted:
            raise LedgerError(
                f"ledger belongs to another run: {name}\n"
                f"  in ledger: {_readable(old)}\n  in cursor: {_readable(new)}\n"
                "give each run a directory of its own"
            )


def rebuild_order(cursor: Cursor) -> Order | None:
    """Return the order of samples that the cursor's own fields decide, None for any other."""
    if cursor.packing_id == 0 and cursor.order_id == SHUFFLE_ID:
        return Shuffle(cursor.base_size, cursor.seed)
    if cursor.packing_id == 0 and cursor.order_id == SEQUENTIAL_ID:
        return Sequential(cursor.base_size, cursor.seed)
    return None


def why_not_rebuilt(cursor: Cursor) -> str:
    """Return what it takes to compute indices that `rebuild_order` cannot, as a phrase."""
    if cursor.packing_id:
        return "rows are packed: their documents take the corpus and its PackingPlan"
    name = ORDER_NAMES.get(cursor.order_id, f"order 0x{cursor.order_id:04x}")
    return f"{name} has parameters that no cursor holds: its indices take the Order object"


def _readable(value: int | bytes) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
