"""The sampler's place in a training state: at an update boundary, or inside with gradients."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from datacursor.cursor import Cursor
from datacursor.errors import CheckpointError, MidUpdateError
from datacursor.loader import CursorLoader
from datacursor.matching import difference_names
from datacursor.recovery.gradients import Parameters, hold_gradients
from datacursor.sampler import CursorSampler
from datacursor.state import cursor_of, state_of

_COUNTED = "samples"  # of the loop's counters, the one that stands beside the cursor


def cursor_sampler(sampler: Any) -> CursorSampler | None:
    """Return the sampler whose cursor is known: it, or the one in a loader; else None."""
    if isinstance(sampler, CursorLoader):
        sampler = sampler._cursor_sampler
    return sampler if isinstance(sampler, CursorSampler) else None


def count_pending(sampler: CursorSampler, parameters: Parameters, *, save_gradients: bool) -> int:
    """Return the micro-batches whose gradients wait for their update; 0 between updates.

    Delivered batches that left no gradient are not pending: a restart delivers them again.

    Raises:
        MidUpdateError: There are some, and gradients are not to be saved; or so many that
            the update only waits for its step, which a restart would put off.
    """
    delivered = sampler.uncommitted.delivered
    num_open = sampler.cursor.pending if delivered is None else delivered
    if num_open == 0 or not hold_gradients(parameters):
        return 0
    cursor = sampler.cursor if delivered is None else sampler.pending_cursor()
    if not save_gradients:
        raise MidUpdateError(
            f"an update is open: gradients of {cursor.pending} micro-batches are not in an update "
            f"yet, at {cursor}; save after its commit, clear gradients that no update will use, or "
            "pass save_gradients=True"
        )
    accumulation_steps = sampler._tracker.layout.accumulation_steps
    if cursor.pending >= accumulation_steps:
        raise MidUpdateError(
            f"an update is whole and not committed: {cursor.pending} micro-batches are pending, "
            f"with accumulation_steps={accumulation_steps}; save before its last micro-batch or "
            "after its commit, or give the sampler the accumulation_steps of the loop"
        )
    return cursor.pending


def state_of_sampler(sampler: CursorSampler, *, pending: int) -> dict[str, Any]:
    """Return the sampler's state, behind the pending micro-batches if there are some."""
    state = sampler.state_dict()  # in any case: it tells the observers
    if pending == 0:
        return state
    is_counted = sampler.uncommitted.delivered is not None
    return state_of(sampler.pending_cursor() if is_counted else sampler.cursor)


def prepare_sampler(
    sampler: CursorSampler, saved: Mapping[str, Any], allow_changed: Collection[str]
) -> tuple[Callable[[], None], tuple[str, ...]]:
    """Check a sampler's saved state; return what restores it and the differences accepted.

    Raises:
        CursorFormatError: It is no such state.
        CursorMismatchError: It belongs to other data or another plan.
        MidUpdateError: It holds pending micro-batches of another layout.
    """
    cursor = cursor_of(saved)
    known = difference_names(sampler._tracker.contributions)
    names = [name for name in known if name in allow_changed]
    accepted = sampler.check_cursor(cursor, names)
    differences = () if accepted == cursor else accepted.accepted

    def restore() -> None:
        sampler.load_cursor(cursor, names)

    return restore, differences


def place_of(cursor: Cursor, loop: Mapping[str, Any]) -> dict[str, int]:
    """Return where a cursor stands and how many samples were counted up to there."""
    return {
        "epoch": cursor.epoch,
        "position": cursor.position,
        "updates": cursor.updates_committed,
        _COUNTED: loop[_COUNTED],
    }


def require_same_place(sampler_state: Mapping[str, Any], loop: Mapping[str, Any]) -> None:
    """Raise unless saved cursor and saved counters are of one moment.

    Raises:
        CheckpointError: They are not.
    """
    found = place_of(cursor_of(sampler_state), loop)
    if loop.get("place") != found:
        raise CheckpointError(
            "checkpoint contradicts itself: the cursor and the samples committed\n"
            f"  with its counters: {loop.get('place')}\n"
            f"  in its parts:      {found}\n"
            "its parts are of different moments; restore an undamaged checkpoint"
        )
