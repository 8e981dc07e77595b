"""Ways to resume: what a benchmark times, and datacursor's own.

A way is two functions. `save` makes the state that a stopped run leaves behind and says
what must come next. `resume` is timed, from that state in hand to the first thing
delivered, and builds every object it needs. Data sets are `range(n)`, the cheapest there
is, and nobody uses worker processes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from datacursor import CursorLoader, CursorSampler, Shuffle

EPOCH = 1


class Place(NamedTuple):
    """Where a run over shuffled samples stopped."""

    num_samples: int
    position: int
    batch_size: int
    seed: int = 1


class Saved(NamedTuple):
    """What a stopped run leaves behind."""

    state: Any
    num_bytes: int
    expected: list[int]  # the next batch


@dataclass(frozen=True)
class Way:
    """One way to resume.

    Attributes:
        name: What it is called in tables.
        does: What happens between the state in hand and the first delivery.
        save: Makes the state.
        resume: Returns the first indices delivered. At module level, to be pickled.
        missing: Why it cannot run here; empty if it can.
    """

    name: str
    does: str
    save: Callable[[Place], Saved]
    resume: Callable[[Place, Any], list[int]]
    missing: str = ""


def cursor_sampler() -> Way:
    """Return datacursor's way to the first index."""
    return Way("CursorSampler", "builds the sampler, loads the state", _save, _resume_sampler)


def cursor_loader() -> Way:
    """Return datacursor's way to the first batch."""
    return Way("CursorLoader", "builds sampler and loader, loads the state", _save, _resume_loader)


def one_index() -> Way:
    """Return the floor of every sampler of ours: the order alone."""
    return Way(
        "floor: Shuffle.index_at",
        "keys a Shuffle and computes one index; nothing is loaded or checked",
        _save,
        _compute_index,
    )


def start(place: Place) -> list[int]:
    """Construct, seek, save, and deliver the first batch."""
    loader = _loader(place)
    loader.sampler.seek(EPOCH, place.position)
    loader.state_dict()
    return listed(next(iter(loader)))


def listed(batch: torch.Tensor) -> list[int]:
    """Return a batch of indices as a list."""
    indices: list[int] = batch.tolist()
    return indices


def _save(place: Place) -> Saved:
    sampler = _sampler(place)
    sampler.seek(EPOCH, place.position)
    state = sampler.state_dict()
    count = min(place.batch_size, place.num_samples - place.position)
    expected = Shuffle(place.num_samples, place.seed).indices(EPOCH, place.position, count)
    return Saved(state, sum(tensor.nbytes for tensor in state.values()), expected.tolist())


def _resume_sampler(place: Place, state: dict[str, torch.Tensor]) -> list[int]:
    sampler = _sampler(place)
    sampler.load_state_dict(state)
    return [next(iter(sampler))]


def _resume_loader(place: Place, state: dict[str, torch.Tensor]) -> list[int]:
    loader = _loader(place)
    loader.load_state_dict(state)
    return listed(next(iter(loader)))


def _compute_index(place: Place, _state: object) -> list[int]:
    return [Shuffle(place.num_samples, place.seed).index_at(EPOCH, place.position)]


def _sampler(place: Place) -> CursorSampler:
    return CursorSampler(place.num_samples, batch_size=place.batch_size, seed=place.seed)


def _loader(place: Place) -> Any:
    return CursorLoader(range(place.num_samples), sampler=_sampler(place))
