"""The faults that the self-test plants, one at a time, in a state that was just loaded.

Each function damages a state and returns what it touched, as a difference would name it; nothing
where the state has no such thing. They run in the training process: the trace calls them by name.
"""

from __future__ import annotations

import warnings
from itertools import combinations
from typing import TYPE_CHECKING

import torch

from datacursor.recovery.aspects import (
    CURSOR,
    LR,
    OPTIMIZER,
    RNG,
    TRACKER,
    optimizer_values,
    stream_texts,
)
from datacursor.recovery.position import cursor_sampler

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from torch import Tensor

    from datacursor.recovery.state import TrainingState

    Damage: TypeAlias = Callable[[TrainingState], list[str]]


def zero_a_moment(state: TrainingState) -> list[str]:
    """Set a moment of the optimizer to zero."""
    for name, moment in _moments(state):
        moment.zero_()
        return [f"{OPTIMIZER} {name}"]
    return []


def swap_two_moments(state: TrainingState) -> list[str]:
    """Exchange two moments of one kind and shape."""
    for (a, first), (b, second) in combinations(_moments(state), 2):
        same_kind = a.split(" of ")[0] == b.split(" of ")[0]
        if same_kind and first.shape == second.shape and not torch.equal(first, second):
            kept = first.clone()
            first.copy_(second)
            second.copy_(kept)
            return [f"{OPTIMIZER} {a}", f"{OPTIMIZER} {b}"]
    return []


def nudge_a_moment(state: TrainingState) -> list[str]:
    """Move every element of one moment by one unit in the last place."""
    for name, moment in _moments(state):
        moment.copy_(torch.nextafter(moment, torch.full_like(moment, float("inf"))))
        return [f"{OPTIMIZER} {name}"]
    return []


def move_cursor_forward(state: TrainingState) -> list[str]:
    """Leave out one contribution."""
    return _move_cursor(state, 1)


def move_cursor_back(state: TrainingState) -> list[str]:
    """Deliver one contribution twice."""
    return _move_cursor(state, -1)


def draw_once(state: TrainingState) -> list[str]:
    """Draw one number from torch's default generator."""
    before = dict(stream_texts(state))
    torch.rand(1)
    return [f"{RNG} {name}" for name, text in stream_texts(state) if text != before[name]]


def move_growth_tracker(state: TrainingState) -> list[str]:
    """Let the gradient scaler count one update without an overflow too many."""
    saved = {} if state.scaler is None else state.scaler.state_dict()
    if "_growth_tracker" not in saved:
        return []
    state.scaler.load_state_dict(saved | {"_growth_tracker": saved["_growth_tracker"] + 1})
    return [TRACKER]


def step_scheduler(state: TrainingState) -> list[str]:
    """Step a learning-rate scheduler once."""
    for scheduler in state.schedulers.values():
        is_plateau = isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the optimizer has not stepped yet
            scheduler.step(*((0.0,) if is_plateau else ()))
        return [LR]
    return []


DAMAGES: dict[str, Damage] = {
    "a moment zeroed": zero_a_moment,
    "two same-shaped moments swapped": swap_two_moments,
    "cursor + 1": move_cursor_forward,
    "cursor - 1": move_cursor_back,
    "one extra draw": draw_once,
    "growth tracker + 1": move_growth_tracker,
    "one scheduler step": step_scheduler,
    "one ulp in one moment": nudge_a_moment,
}


def _moments(state: TrainingState) -> list[tuple[str, Tensor]]:
    return [
        (name, value)
        for name, value in optimizer_values(state)
        if isinstance(value, torch.Tensor)
        and value.is_floating_point()
        and value.numel() > 1
        and bool(value.any())
    ]


def _move_cursor(state: TrainingState, count: int) -> list[str]:
    sampler = cursor_sampler(state.sampler)
    if sampler is None or sampler.cursor.position + count < 0:
        return []
    sampler.seek(sampler.cursor.epoch, sampler.cursor.position + count)
    return [CURSOR]
