"""Whether a saved cursor belongs to this sampler, and what to do where it does not.

A difference is refused with both values, unless the caller accepts it by name; the
acceptance is then written into the cursor for good. Ranks, batch size, accumulation,
workers and prefetch are never compared: they decide nothing the cursor means.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from datacursor.contributions import Contributions, Layout
from datacursor.cursor import ORDER_NAMES, PACKING_NAMES, Cursor
from datacursor.errors import ArgumentError, CursorMismatchError, MidUpdateError


class Difference(NamedTuple):
    """One field in which a cursor and a sampler differ, with both values as text."""

    name: str
    in_cursor: str
    in_sampler: str


def match(
    cursor: Cursor, contributions: Contributions, layout: Layout, allow_changed: Collection[str]
) -> Cursor:
    """Return the cursor this sampler continues from.

    Args:
        cursor: A saved cursor.
        contributions: What the sampler hands out now.
        layout: How the sampler deals it out; of this only drop_last matters.
        allow_changed: Names of differences to accept, as a mismatch error prints them.

    Returns:
        The cursor itself, or, where differences were accepted, one that carries the sampler's
        values and the acceptance and counts its identity digest from here.

    Raises:
        CursorMismatchError: A difference is not accepted, or cannot be.
        MidUpdateError: It holds an open update of micro-batches of another size.
        ArgumentError: allow_changed holds an unknown name.
        TypeError: cursor is no Cursor, or allow_changed is a string.
    """
    if not isinstance(cursor, Cursor):
        raise TypeError(f"cursor must be a datacursor.Cursor, got {type(cursor).__name__}")
    allow_changed = _names_of(allow_changed, contributions)
    _require_same_kind(cursor, contributions)
    differences = list(_differences(cursor, contributions, layout))
    refused = [difference for difference in differences if difference.name not in allow_changed]
    if refused:
        raise CursorMismatchError(_mismatch_message(refused))
    if differences:
        names = [difference.name for difference in differences]
        _require_nothing_open(cursor, names)
        cursor = _with_accepted(cursor, contributions, layout, names)
    if cursor.pending > 0:
        _require_same_window(cursor, layout)
    contributions.check_reader(cursor)
    reader = (cursor.reader_position, cursor.reader_offset)
    reach = contributions.reach(cursor, cursor.position, reader, cursor.position + 1)
    if cursor.position > reach.stop - (not cursor.deferred):
        raise CursorMismatchError(
            f"cursor does not match sampler: position\n  in cursor:  {cursor.position}\n"
            f"  in sampler: below {reach.stop}, the contributions of epoch {cursor.epoch}\n"
            "use seek() to start elsewhere"
        )
    return cursor


def difference_names(contributions: Contributions) -> tuple[str, ...]:
    """Return the names of all differences there can be, in the order they are looked at."""
    size = f"num_{contributions.base_noun}"
    return ("fingerprint", size, "seed", "order", "packing", "plan", "seq_len", "drop_last")


def _names_of(allow_changed: Collection[str], contributions: Contributions) -> frozenset[str]:
    if isinstance(allow_changed, str) or not isinstance(allow_changed, Iterable):
        raise TypeError(f"allow_changed must be a set of names, got {allow_changed!r}")
    names = frozenset(allow_changed)
    known = difference_names(contributions)
    for name in names:
        if name not in known:
            raise ArgumentError(f"allow_changed must hold names of {known}, got {name!r}")
    return names


def _require_same_kind(cursor: Cursor, contributions: Contributions) -> None:
    if (cursor.packing_id == 0) != (contributions.packing_id == 0):
        raise CursorMismatchError(
            "cursor does not match sampler: one counts samples, the other packed rows: packing\n"
            f"  in cursor:  {PACKING_NAMES[cursor.packing_id]}\n"
            f"  in sampler: {PACKING_NAMES[contributions.packing_id]}\n"
            "use a sampler of the cursor's kind"
        )


def _differences(
    cursor: Cursor, contributions: Contributions, layout: Layout
) -> Iterator[Difference]:
    order = contributions.order
    both_unverified = cursor.data_unverified and contributions.data_unverified
    saved_fingerprint = _data(cursor.data_fingerprint, unverified=cursor.data_unverified)
    fingerprint = _data(contributions.fingerprint, unverified=contributions.data_unverified)
    pairs = (
        ("" if both_unverified else saved_fingerprint, "" if both_unverified else fingerprint),
        (str(cursor.base_size), str(contributions.base_size)),
        (str(cursor.seed), str(order.seed)),
        (_order(cursor.order_id), _order(order.order_id)),
        (PACKING_NAMES[cursor.packing_id], PACKING_NAMES[contributions.packing_id]),
        (cursor.plan_digest.hex(), contributions.plan_digest.hex()),
        (str(cursor.seq_len), str(contributions.seq_len)),
        (str(cursor.drop_last), str(layout.drop_last)),
    )
    for name, (in_cursor, in_sampler) in zip(difference_names(contributions), pairs, strict=True):
        if in_cursor != in_sampler:
            if name == "plan":
                in_sampler += (
                    f" = {contributions.order.parameters | contributions.packing_parameters}"
                )
            yield Difference(name, in_cursor, in_sampler)


def _mismatch_message(refused: list[Difference]) -> str:
    lines = [f"cursor does not match sampler: {', '.join(item.name for item in refused)}"]
    for item in refused:
        label = "" if len(refused) == 1 else f"{item.name} "
        lines.append(f"  {label}in cursor:  {item.in_cursor}")
        lines.append(f"  {label}in sampler: {item.in_sampler}")
    names = ", ".join(repr(item.name) for item in refused)
    lines.append(f"pass allow_changed={{{names}}} to accept")
    return "\n".join(lines)


def _require_nothing_open(cursor: Cursor, names: list[str]) -> None:
    """Refuse to change what an epoch consists of while parts of it are still to be delivered."""
    if cursor.pending > 0:
        raise MidUpdateError(
            f"cursor holds pending={cursor.pending} micro-batches of an open update, so "
            f"{', '.join(names)} cannot change; save at an update boundary"
        )
    harmless = {"drop_last"} if cursor.packing_id else {"drop_last", "fingerprint"}
    if cursor.deferred and not harmless.issuperset(names):
        raise CursorMismatchError(
            f"cursor holds deferred ranges {cursor.deferred}, which {', '.join(names)} would give "
            "another meaning; finish the epoch first, or use seek() to leave them out"
        )


def _require_same_window(cursor: Cursor, layout: Layout) -> None:
    """Refuse to continue an open update whose micro-batches would have another size."""
    saved = (cursor.replicas, cursor.window_batch_size)
    present = (layout.num_replicas, layout.batch_size)
    if saved != present:
        raise MidUpdateError(
            f"cursor holds pending={cursor.pending} micro-batches of an open update: "
            f"num_replicas, batch_size\n  in cursor:  {saved[0]}, {saved[1]}\n"
            f"  in sampler: {present[0]}, {present[1]}\n"
            "continue with the same, or save at an update boundary"
        )


def _with_accepted(
    cursor: Cursor, contributions: Contributions, layout: Layout, names: list[str]
) -> Cursor:
    if cursor.seq_len != contributions.seq_len:
        cursor = contributions.rescale(cursor)
    # Count anew, from a place that exists: fewer contributions may end the epoch early.
    target = cursor.replace(
        position=0, digest_first=0, skipped=0, reader_position=0, reader_offset=0, deferred=()
    )
    target = target.replace(
        data_fingerprint=contributions.fingerprint,
        data_unverified=contributions.data_unverified,
        base_size=contributions.base_size,
        seed=contributions.order.seed,
        order_id=contributions.order.order_id,
        packing_id=contributions.packing_id,
        plan_digest=contributions.plan_digest,
        drop_last=layout.drop_last,
        identity_digest=bytes(16),
        last_digest=bytes(16),
        accepted=(*cursor.accepted, *(name for name in names if name not in cursor.accepted)),
    )
    reach = contributions.reach(target, 0, (0, 0), cursor.position + 1)
    if cursor.position > reach.stop - (not cursor.deferred):
        return target.replace(epoch=cursor.epoch + 1, phase=0)
    reader = (cursor.reader_position, cursor.reader_offset)
    if names not in (["seq_len"], ["drop_last"]):
        reader = contributions.reader_at(target, cursor.position)
    return target.replace(
        position=cursor.position,
        digest_first=cursor.position,
        reader_position=reader[0],
        reader_offset=reader[1],
        deferred=cursor.deferred,
    )


def _order(order_id: int) -> str:
    return ORDER_NAMES.get(order_id, f"order 0x{order_id:04x}")


def _data(fingerprint: bytes, *, unverified: bool) -> str:
    return "unverified" if unverified else fingerprint.hex()
