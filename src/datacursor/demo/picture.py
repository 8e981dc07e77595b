"""Turns the logs of a run into the timeline of `datacursor.plots`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datacursor.cursor import Cursor
from datacursor.plots import Lane

if TYPE_CHECKING:
    from collections.abc import Iterable

    from datacursor.demo.records import AttemptLog, Update


def lane_of(label: str, attempt: AttemptLog, rows_per_epoch: int) -> Lane:
    """Return an attempt as a lane of the timeline.

    Args:
        label: What the lane is called.
        attempt: What the attempt logged.
        rows_per_epoch: Rows in every epoch.
    """
    last = attempt.deliveries[-1]
    epoch_start = last.epoch * rows_per_epoch
    return Lane(
        label=label,
        start=_place(attempt.start.cursor, rows_per_epoch),
        committed=epoch_start + attempt.committed,
        delivered=epoch_start + last.delivered,
        issued=epoch_start + last.issued,
        losses=losses_of(attempt.updates.values(), rows_per_epoch),
    )


def losses_of(updates: Iterable[Update], rows_per_epoch: int) -> list[tuple[int, float]]:
    """Return for each update the rows committed by then, over all epochs, and its loss."""
    return [
        (_place(update.cursor, rows_per_epoch), float.fromhex(update.loss)) for update in updates
    ]


def _place(token: str, rows_per_epoch: int) -> int:
    cursor = Cursor.from_token(token)
    return cursor.epoch * rows_per_epoch + cursor.position
