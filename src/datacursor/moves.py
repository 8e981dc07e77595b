"""Everything that moves a cursor, as pure functions of cursor, contributions and layout.

An epoch is passed in stretches that no update crosses: first what lies before its end, then
the ranges that were deferred on the way, one after the other:

    position   0      a---b        p             n
               passed | deferred | to be passed  | then a---b again, then (e + 1, 0)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from datacursor._cursor_parts import DATA_UNVERIFIED, DROP_LAST
from datacursor.contributions import Advance, Contributions, Layout, add_digests
from datacursor.cursor import Cursor
from datacursor.outcome import COMMITTED, DEFERRED, SKIPPED
from datacursor.row_block import Reach

Ranges = tuple[tuple[int, int], ...]

_NO_DIGEST = bytes(16)


class Stretch(NamedTuple):
    """Consecutive positions of an epoch that are passed on their own.

    Attributes:
        first: First position.
        stop: Position after the last.
        is_deferred: They lie behind the cursor's position, in a deferred range.
        is_open: The epoch may go on behind `stop`.
    """

    first: int
    stop: int
    is_deferred: bool
    is_open: bool = False


def first_cursor(contributions: Contributions, layout: Layout) -> Cursor:
    """Return the cursor of a run that has committed nothing."""
    return Cursor(
        order_id=contributions.order.order_id,
        packing_id=contributions.packing_id,
        data_fingerprint=contributions.fingerprint,
        plan_digest=contributions.plan_digest,
        base_size=contributions.base_size,
        seed=contributions.order.seed,
        seq_len=contributions.seq_len,
        replicas=layout.num_replicas,
        critical_flags=DROP_LAST if layout.drop_last else 0,
        optional_flags=DATA_UNVERIFIED if contributions.data_unverified else 0,
    )


def next_epoch(epoch: int, digest: bytes = _NO_DIGEST) -> dict[str, Any]:
    """Return what of a cursor changes at the start of the epoch after `epoch`.

    The end of an epoch has no other form. `digest` is the identity digest it ended with.
    """
    return {
        "epoch": epoch + 1,
        "position": 0,
        "reader_position": 0,
        "reader_offset": 0,
        "identity_digest": _NO_DIGEST,
        "digest_first": 0,
        "last_digest": digest,
        "skipped": 0,
        "pending": 0,
        "window_batch_size": 0,
        "deferred": (),
        "phase": 0,
    }


def reach_of(
    cursor: Cursor, contributions: Contributions, layout: Layout, micro_batches: int = 1
) -> Reach:
    """Return how far the cursor's epoch goes: so many micro-batches from here, or to its end."""
    target = cursor.position + micro_batches * layout.round_size
    return contributions.reach(cursor, cursor.position, _reader(cursor), target)


def stretches_of(cursor: Cursor, layout: Layout, reach: Reach) -> list[Stretch]:
    """Return what is left of the cursor's epoch, in the order of delivery.

    What makes no micro-batch is left out: a rest that drop_last drops, of the epoch or of a
    deferred range.

    Args:
        cursor: Where the epoch was passed to.
        layout: How it is dealt out.
        reach: How far it goes, one micro-batch from the cursor at least if it has one.
    """
    stretches = [open_stretch(cursor.position, layout, reach)]
    stretches += [
        Stretch(first, first + count, is_deferred=True) for first, count in cursor.deferred
    ]
    return [part for part in stretches if layout.num_micro_batches(part.stop - part.first) > 0]


def num_micro_batches_left(cursor: Cursor, contributions: Contributions, layout: Layout) -> int:
    """Return the micro-batches per rank left in the cursor's epoch, deferred ones included."""
    whole = Reach(contributions.num_positions(cursor), is_end=True)
    parts = stretches_of(cursor, layout, whole)
    return sum(layout.num_micro_batches(part.stop - part.first) for part in parts)


def open_stretch(first: int, layout: Layout, reach: Reach) -> Stretch:
    """Return the stretch from `first` on; in whole rounds while its end is not known."""
    stop = reach.stop
    if not reach.is_end:
        stop -= (stop - first) % layout.round_size
    return Stretch(first, stop, is_deferred=False, is_open=not reach.is_end)


def settle(cursor: Cursor, contributions: Contributions, layout: Layout) -> Cursor:
    """Return where the next micro-batch comes from: past a rest that drop_last drops."""
    left = reach_of(cursor, contributions, layout).stop - cursor.position
    if _is_passed(left, cursor.deferred, layout):
        return cursor.replace(**next_epoch(cursor.epoch, cursor.identity_digest))
    return cursor


def stand_at(cursor: Cursor, contributions: Contributions, first: int) -> Cursor:
    """Return a cursor to read the epoch from any position; it counts nothing."""
    if first == cursor.position:
        return cursor
    reader = contributions.reader_at(cursor, first)
    return cursor.replace(
        position=first,
        reader_position=reader[0],
        reader_offset=reader[1],
        digest_first=0,
        skipped=0,
        pending=0,
        deferred=(),
    )


def issue(
    cursor: Cursor, contributions: Contributions, layout: Layout, part: Stretch
) -> Iterator[Sequence[int]]:
    """Return the micro-batches of a stretch of the cursor's epoch."""
    reading = stand_at(cursor, contributions, part.first)
    return contributions.issue(reading, layout, None if part.is_open else part.stop)


def pass_over(
    cursor: Cursor,
    contributions: Contributions,
    layout: Layout,
    part: Stretch,
    added: Advance,
    kind: str = COMMITTED,
    **stamp: int,
) -> Cursor:
    """Return the settled cursor moved over the contributions of an update.

    Args:
        cursor: Where the stretch that `part` lies in has been passed up to part.first.
        contributions: What an epoch consists of.
        layout: How it is dealt out.
        part: The positions to pass, of one stretch.
        added: What they add to a cursor, as `contributions.advance` says.
        kind: What became of them: one of the kinds of an `Outcome`.
        stamp: Further fields to set.
    """
    count = part.stop - part.first
    changes: dict[str, Any] = {**stamp}
    deferred = cursor.deferred
    position, reader = cursor.position, _reader(cursor)
    if part.is_deferred:
        deferred = _without(deferred, part)
    else:
        changes["position"] = position = part.stop
        changes["reader_position"], changes["reader_offset"] = reader = added.reader
    digest = cursor.identity_digest
    if kind == COMMITTED:
        digest = add_digests(digest, added.digest)
        changes["tokens_committed"] = cursor.tokens_committed + added.num_tokens
    elif kind == SKIPPED:
        changes["skipped"] = cursor.skipped + count
    elif kind == DEFERRED:
        deferred = tuple(sorted((*deferred, (part.first, count))))
    changes["identity_digest"] = digest
    if cursor.pending:
        changes |= {"pending": 0, "window_batch_size": 0}
    reach = contributions.reach(cursor, position, reader, position + layout.round_size)
    if _is_passed(reach.stop - position, deferred, layout):
        changes |= next_epoch(cursor.epoch, digest)
    elif deferred != cursor.deferred:
        changes["deferred"] = deferred
    return cursor.replace(**changes)


def pass_all(
    cursor: Cursor, contributions: Contributions, layout: Layout, parts: Iterable[Stretch]
) -> Cursor:
    """Return the settled cursor as if these parts, one after the other, were committed."""
    for part in parts:
        reading = stand_at(cursor, contributions, part.first)
        added = contributions.advance(reading, part.stop - part.first)
        cursor = pass_over(cursor, contributions, layout, part, added)
    return cursor


def jump_over(
    cursor: Cursor, contributions: Contributions, layout: Layout, stop: int, **stamp: int
) -> Cursor:
    """Return the settled cursor moved to `stop`; the identity digest counts from there."""
    last = stand_at(cursor, contributions, stop - 1)
    reader = contributions.advance(last, 1).reader
    reach = contributions.reach(cursor, stop, reader, stop + layout.round_size)
    if _is_passed(reach.stop - stop, cursor.deferred, layout):
        return cursor.replace(**next_epoch(cursor.epoch), **stamp)
    return cursor.replace(
        position=stop,
        reader_position=reader[0],
        reader_offset=reader[1],
        identity_digest=_NO_DIGEST,
        digest_first=stop,
        skipped=cursor.skipped + stop - cursor.position,
        **stamp,
    )


def _reader(cursor: Cursor) -> tuple[int, int]:
    return cursor.reader_position, cursor.reader_offset


def _is_passed(left: int, deferred: Ranges, layout: Layout) -> bool:
    """Whether neither the rest of an epoch nor any deferred range makes a micro-batch."""
    counts = (left, *(count for _, count in deferred))
    return all(layout.num_micro_batches(count) == 0 for count in counts)


def _without(deferred: Ranges, part: Stretch) -> Ranges:
    """Take a part off the front of the deferred range it lies in."""
    return tuple(
        (part.stop, first + count - part.stop) if first == part.first else (first, count)
        for first, count in deferred
        if (first, first + count) != part[:2]
    )
