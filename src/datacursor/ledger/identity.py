"""Which run a ledger belongs to, and which order, by what it holds of each attempt's start."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

from datacursor.block_shuffle import BlockShuffle
from datacursor.contributions import SampleContributions
from datacursor.cursor import ORDER_NAMES, Cursor
from datacursor.errors import LedgerError
from datacursor.mixture import Mixture
from datacursor.order import (
    BLOCK_SHUFFLE_ID,
    MIXTURE_ID,
    SEQUENTIAL_ID,
    SHUFFLE_ID,
    Sequential,
    Shuffle,
)

if TYPE_CHECKING:
    from datacursor.order import Order

Plan: TypeAlias = dict[str, Any]  # "order": its description; "packing": its parameters

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


def rebuild_order(cursor: Cursor, plan: Plan | None) -> Order | None:
    """Return the order of samples that a cursor and a plan decide, None if they do not.

    Args:
        cursor: It has the size, the seed, the id of the order and a digest of its parameters.
        plan: The parameters; without them only shuffle-1 and sequential-1 are decided.
    """
    if cursor.packing_id:
        return None
    described = {"order_id": cursor.order_id, "num_samples": cursor.base_size, "seed": cursor.seed}
    try:
        order = _build(described if plan is None else plan["order"])
    except (LookupError, TypeError, ValueError):  # no plan that a ledger wrote
        return None
    if order is None or plan is None:
        return order
    found = SampleContributions(order, cursor.base_size, bytes(16), data_unverified=True)
    is_same = (order.order_id, order.seed, found.plan_digest) == (
        (cursor.order_id, cursor.seed, cursor.plan_digest)
    )
    return order if is_same else None


def why_not_rebuilt(cursor: Cursor, plan: Plan | None) -> str:
    """Return what it takes to compute indices where `rebuild_order` cannot, as a phrase."""
    described = "" if plan is None else f" {json.dumps(plan)}"
    if cursor.packing_id:
        return f"rows are packed: their documents take the corpus and its PackingPlan{described}"
    name = ORDER_NAMES.get(cursor.order_id, f"order 0x{cursor.order_id:04x}")
    return f"{name} takes more than its description: the Order object{described}"


def _build(description: dict[str, Any]) -> Order | None:
    """Return the order with an `Order.description`, None if it takes arrays or code."""
    order_id, num_samples, seed = (description[n] for n in ("order_id", "num_samples", "seed"))
    parameters = description.get("parameters", {})
    if order_id == SHUFFLE_ID:
        return Shuffle(num_samples, seed)
    if order_id == SEQUENTIAL_ID:
        return Sequential(num_samples, seed)
    if order_id == BLOCK_SHUFFLE_ID:
        return BlockShuffle(num_samples, seed=seed, **parameters)
    if order_id == MIXTURE_ID:
        return _build_mixture(seed, **parameters)
    return None


def _build_mixture(
    seed: int,
    *,
    orders: list[dict[str, Any]],
    block: int,
    stopping: str,
    stages: list[tuple[int, list[int]]],
) -> Order | None:
    built = [_build(description) for description in orders]
    known = [order for order in built if order is not None]
    if len(known) < len(built):
        return None
    (_, quotas), *later = stages  # quotas of a block are weights that need no rounding
    return Mixture(known, quotas, seed, block=block, stopping=stopping, stages=later)


def _readable(value: int | bytes) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
