"""Two traces compared: the first difference under a claim.

    claim     exactly equal                                        within rtol and atol
    samples   cursor, ids
    close     these, outcome, lr, scale, growth tracker            loss, model
    bitwise   these, RNG, loss, schedule, optimizer, model, extra

Updates are compared in order, and within an update the causes before their effects.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from datacursor.recovery.aspects import (
    ASPECTS,
    CURSOR,
    IDS,
    LOSS,
    LR,
    MODEL,
    OUTCOME,
    SCALE,
    TRACKER,
    bits_of,
)
from datacursor.verify.log import load_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torch import Tensor

    from datacursor.verify.log import Log, Update

SAMPLES, CLOSE, BITWISE = CLAIMS = ("samples", "close", "bitwise")
EXACT = {
    SAMPLES: (CURSOR, IDS),
    CLOSE: (CURSOR, IDS, OUTCOME, LR, SCALE, TRACKER),
    BITWISE: ASPECTS,
}
TOLERATED = {SAMPLES: (), CLOSE: (LOSS, MODEL), BITWISE: ()}
MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far `close` lets losses and parameters differ: |a - b| <= atol + rtol * |a|."""

    rtol: float
    atol: float

    def __str__(self) -> str:
        """Return both in words."""
        return f"rtol {self.rtol:g}, atol {self.atol:g}"


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference of two traces.

    Attributes:
        update: Number of the update.
        aspect: What differs.
        name: Which one, where an aspect has several.
        expected: The value of the first trace.
        found: The value of the second.
        place: Index of the first element that differs, where that is known.
    """

    update: int
    aspect: str
    name: str
    expected: str
    found: str
    place: tuple[int, ...] = ()

    @property
    def subject(self) -> str:
        """What differs, in words."""
        return f"{self.aspect} {self.name}".rstrip()


def first_difference(
    expected: Log, found: Log, updates: Iterable[int], claim: str, tolerance: Tolerance
) -> Difference | None:
    """Return the first difference of two traces in some updates, None if there is none."""
    for number in updates:
        difference = _difference_at(number, expected, found, claim, tolerance)
        if difference is not None:
            return difference
    return None


def differing_aspects(expected: Update, found: Update) -> set[str]:
    """Return the aspects in which two updates differ in any byte."""
    return {
        aspect
        for aspect in ASPECTS
        if next(_differing_names(aspect, expected, found), None) is not None
    }


def _difference_at(
    number: int, expected: Log, found: Log, claim: str, tolerance: Tolerance
) -> Difference | None:
    if not (number in expected.updates and number in found.updates):
        a, b = ("made" if number in log.updates else MISSING for log in (expected, found))
        return Difference(number, "update", "", a, b)
    updates = expected.updates[number], found.updates[number]
    for aspect in ASPECTS:
        is_exact = aspect in EXACT[claim]
        if not is_exact and aspect not in TOLERATED[claim]:
            continue
        for name in _differing_names(aspect, *updates):
            a, b = (update.aspects[aspect].get(name, MISSING) for update in updates)
            difference = Difference(number, aspect, name, a, b)
            if is_exact or not _is_close(difference, expected, found, tolerance):
                return _located(difference, expected, found)
    return None


def _differing_names(aspect: str, a: Update, b: Update) -> Iterator[str]:
    expected, found = a.aspects[aspect], b.aspects[aspect]
    if aspect == IDS and not (expected and found):
        return  # before its first line a fresh process has not been told of commits
    for name in {**expected, **found}:
        if expected.get(name) != found.get(name):
            yield name


def _is_close(difference: Difference, expected: Log, found: Log, tolerance: Tolerance) -> bool:
    """Return whether values are within a tolerance; true for tensors that were not kept."""
    if MISSING in (difference.expected, difference.found):
        return False
    if difference.aspect == LOSS:
        pair = [_value_of(text) for text in (difference.expected, difference.found)]
        a, b = torch.tensor(pair, dtype=torch.float64)
    else:
        tensors = _tensors(difference, expected, found)
        if tensors is None:
            return True
        a, b = tensors
    if a.shape != b.shape or a.dtype != b.dtype or not a.is_floating_point():
        return False
    return torch.allclose(b, a, rtol=tolerance.rtol, atol=tolerance.atol, equal_nan=True)


def _located(difference: Difference, expected: Log, found: Log) -> Difference:
    """Name the first element that differs and its bits, where the tensors were kept."""
    tensors = _tensors(difference, expected, found)
    if tensors is None:
        return difference
    a, b = tensors
    if a.shape != b.shape or a.dtype != b.dtype:
        texts = [f"{tuple(tensor.shape)} {tensor.dtype}" for tensor in (a, b)]
        return replace(difference, expected=texts[0], found=texts[1])
    views = [tensor.reshape(-1, 1).view(torch.uint8) for tensor in (a, b)]
    [first, *_] = (views[0] != views[1]).any(dim=1).nonzero().flatten().tolist()
    elements = [bits_of(tensor.flatten()[first]) for tensor in (a, b)]
    place = () if a.numel() == 1 else _place_of(first, tuple(a.shape))
    return replace(difference, expected=elements[0], found=elements[1], place=place)


def _tensors(difference: Difference, expected: Log, found: Log) -> tuple[Tensor, Tensor] | None:
    pair = []
    for log in (expected, found):
        values = load_values(log.directory, difference.update)
        if difference.subject not in values:
            return None
        pair.append(values[difference.subject])
    return pair[0], pair[1]


def _value_of(text: str) -> float:
    return float.fromhex(text.split(maxsplit=1)[0])


def _place_of(number: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the index of an element by its number in the order of memory."""
    place: list[int] = []
    for size in reversed(shape):
        number, index = divmod(number, size)
        place.insert(0, index)
    return tuple(place)
