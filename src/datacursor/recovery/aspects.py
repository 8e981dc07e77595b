"""What a training state consists of, as texts that are equal where every byte is.

The aspects come in an order of causes: where two runs differ in several of them, the first one
explains the others.

    cursor -> ids -> outcome -> RNG -> loss -> lr -> schedule -> growth tracker -> scale
        -> optimizer -> model

The tracker comes before the scale, since it decides when the scale grows.

A number is written with all its bits, a tensor of several numbers as its digest.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from datacursor.errors import ArgumentError
from datacursor.recovery.digest import bytes_of, digest_tree
from datacursor.recovery.extras import states_of
from datacursor.recovery.options import options_of
from datacursor.recovery.plain import plain
from datacursor.recovery.position import cursor_sampler

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import SupportsFloat

    from datacursor.recovery.state import TrainingState

CURSOR = "cursor"
IDS = "ids"
OUTCOME = "outcome"
RNG = "RNG"
LOSS = "loss"
LR = "lr"
SCHEDULE = "schedule"
TRACKER = "growth tracker"
SCALE = "scale"
OPTIMIZER = "optimizer"
MODEL = "model"
EXTRA = "extra"
ASPECTS = (
    *(CURSOR, IDS, OUTCOME, RNG, LOSS),
    *(LR, SCHEDULE, TRACKER, SCALE, OPTIMIZER, MODEL, EXTRA),
)

_COUNTERS = ("attempted", "applied", "skipped", "samples", "tokens")
_NUM_SHOWN_IDS = 4


def aspects_of(
    state: TrainingState, *, loss: SupportsFloat | None, applied: bool | None
) -> dict[str, dict[str, str]]:
    """Return a state's aspects but for the ids, each as texts by name.

    Args:
        state: The training state, at the end of an update.
        loss: The update's loss.
        applied: Whether it changed anything; None leaves that to the loop's counters.

    Raises:
        ArgumentError: The state has no loop.
    """
    if state.loop is None:
        raise ArgumentError("state.loop must be a LoopState, which counts the updates, got None")
    counters = {name: str(getattr(state.loop, name)) for name in _COUNTERS}
    extras = states_of({**state._parts, **state._modules})
    outcome = counters if applied is None else {"applied": str(bool(applied))} | counters
    return {
        CURSOR: dict(_places(state.sampler)),
        OUTCOME: outcome,
        RNG: dict(stream_texts(state)),
        LOSS: {} if loss is None else {"": _number(_detached(loss))},
        LR: dict(_learning_rates(state)),
        SCHEDULE: dict(_schedule_texts(state)),
        TRACKER: dict(_scaler_texts(state.scaler, "_growth_tracker")),
        SCALE: dict(_scaler_texts(state.scaler, "scale")),
        OPTIMIZER: {name: text_of(value) for name, value in optimizer_values(state)},
        MODEL: {name: text_of(value) for name, value in _model_values(state)},
        EXTRA: {name: _digest(extra) for name, extra in extras.items()},
    }


def tensors_of(state: TrainingState) -> dict[str, torch.Tensor]:
    """Return the tensors behind the digests, by aspect and name."""
    values = [
        *((f"{OPTIMIZER} {name}", value) for name, value in optimizer_values(state)),
        *((f"{MODEL} {name}", value) for name, value in _model_values(state)),
    ]
    return {name: value.detach() for name, value in values if isinstance(value, torch.Tensor)}


def text_of(value: Any) -> str:
    """Return a text that is equal for equal bytes, dtypes and shapes only."""
    if isinstance(value, torch.Tensor):
        if value.numel() == 1:
            return f"{bits_of(value)} {str(value.dtype).removeprefix('torch.')}"
        return _digest(value)
    if isinstance(value, float):
        return _number(value)
    return _digest(value) if isinstance(value, (dict, list, tuple)) else repr(value)


def bits_of(element: torch.Tensor) -> str:
    """Return the bits of a tensor of one element, in hexadecimal."""
    data = bytes_of(element)
    return f"0x{int.from_bytes(data, 'little'):0{2 * len(data)}x}"


def text_of_ids(ids: Any) -> str:
    """Return what tells some integers from others: how many, the first ones and a digest."""
    array = np.asarray(ids).astype("<i8").reshape(-1)
    shown = ", ".join(str(number) for number in array[:_NUM_SHOWN_IDS].tolist())
    more = ", ..." if len(array) > _NUM_SHOWN_IDS else ""
    return f"{len(array)}: {shown}{more} digest {hashlib.sha256(array.tobytes()).hexdigest()[:32]}"


def stream_texts(state: TrainingState) -> Iterator[tuple[str, str]]:
    """Yield the random streams of a state by name."""
    for name, stream in state.rng.state_dict()["streams"].items():
        yield name, _digest(stream)


def optimizer_values(state: TrainingState) -> Iterator[tuple[str, Any]]:
    """Yield what the optimizers of a state remember: options, then by key and parameter name."""
    names = {id(parameter): name for name, parameter in state._named_parameters()}
    for label, optimizer in _labelled(state.optimizers):
        for number, group in enumerate(optimizer.param_groups):
            for key, value in options_of(group).items():
                if key != "lr":  # an aspect of its own
                    yield f"{label}option {key} of group {number}", value
            for place, parameter in enumerate(group["params"]):
                name = names.get(id(parameter), f"parameter {place} of group {number}")
                for key, value in optimizer.state.get(parameter, {}).items():
                    yield f"{label}{key} of '{name}'", value


def _places(sampler: Any) -> Iterator[tuple[str, str]]:
    """Yield a cursor without what may change at a restart, or the leaves of a foreign state."""
    known = cursor_sampler(sampler)
    if known is not None:
        yield "", known.cursor.replace(attempt=0, replicas=0).token()
    elif sampler is not None:
        yield from digest_tree(sampler.state_dict()).items()


def _learning_rates(state: TrainingState) -> Iterator[tuple[str, str]]:
    for label, optimizer in _labelled(state.optimizers):
        for number, group in enumerate(optimizer.param_groups):
            yield f"{label}of group {number}", text_of(group["lr"])
    for label, scheduler in _labelled(state.schedulers):
        yield f"{label}after so many steps", str(scheduler.last_epoch)


def _schedule_texts(state: TrainingState) -> Iterator[tuple[str, str]]:
    for label, scheduler in _labelled(state.schedulers):
        for key, value in plain("scheduler", scheduler.state_dict()).items():
            yield f"{label}'{key}'", text_of(value)


def _scaler_texts(scaler: Any, key: str) -> Iterator[tuple[str, str]]:
    values = {} if scaler is None else scaler.state_dict()  # {} where it is disabled
    if key in values:
        yield "", text_of(values[key])


def _model_values(state: TrainingState) -> Iterator[tuple[str, Any]]:
    for name, value in state.model.state_dict().items():
        yield f"'{name}'", value


def _labelled(objects: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield objects with the label that tells them apart, empty for a single one."""
    for name, value in objects.items():
        yield (f"'{name}' " if len(objects) > 1 else ""), value


def _digest(tree: Any) -> str:
    """Return one digest of a tree; a single leaf keeps its own."""
    digests = digest_tree(tree)
    if "" in digests:
        return f"digest {digests['']}"
    return f"digest {hashlib.blake2b(repr(digests).encode(), digest_size=16).hexdigest()}"


def _detached(loss: SupportsFloat) -> float:
    detach = getattr(loss, "detach", None)  # torch warns where a tensor asks for gradients
    return float(loss if detach is None else detach())


def _number(value: float) -> str:
    return f"{value.hex()} = {value:.6g}"
