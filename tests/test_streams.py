"""Every random stream of a process, saved, restored and forked together."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from training import refusal, through_file

import datacursor as dc
from datacursor.recovery import RNGState, digest_tree, generators
from datacursor.recovery.allowance import Allowance

GENERATORS: dict[str, Callable[[int], Any]] = {
    "python": random.Random,
    "legacy": np.random.RandomState,
    "philox": lambda seed: np.random.Generator(np.random.Philox(seed)),
    "mt19937": lambda seed: np.random.Generator(np.random.MT19937(seed)),
    "sfc64": lambda seed: np.random.Generator(np.random.SFC64(seed)),
    "pcg64": np.random.default_rng,
    "torch": lambda seed: torch.Generator().manual_seed(seed),
}


@pytest.fixture(autouse=True)
def same_streams_after_the_test() -> Iterator[None]:
    with RNGState().fork():
        yield


def draw(count: int = 3) -> list[float]:
    """Draw from all default streams, an odd number of Gaussians included."""
    drawn: list[float] = []
    for _ in range(count):
        drawn += [random.random(), random.gauss(0, 1), float(np.random.rand())]  # noqa: NPY002
        drawn += [float(np.random.randn()), *torch.randn(3).tolist()]  # noqa: NPY002
    return drawn


def draw_own(generator: Any) -> list[float]:
    if isinstance(generator, torch.Generator):
        return torch.rand(3, generator=generator).tolist()
    return [generator.random() for _ in range(3)]


def test_d25_default_streams_give_the_same_next_numbers() -> None:
    draw(1)  # leaves the second Gaussian of a pair behind
    saved = through_file(RNGState().state_dict())
    expected = draw()
    draw(5)
    RNGState().load_state_dict(saved)
    assert draw() == expected


@pytest.mark.parametrize("name", GENERATORS)
def test_a_registered_generator_gives_the_same_next_numbers(name: str) -> None:
    generator, other = GENERATORS[name](3), GENERATORS[name](4)
    draw_own(generator)
    saved = through_file(RNGState(own=generator).state_dict())
    expected = draw_own(generator)
    RNGState(own=other).load_state_dict(saved)
    assert draw_own(other) == expected


def test_a_state_is_made_of_what_json_knows_and_bytes() -> None:
    state = RNGState(**{f"own_{name}": make(3) for name, make in GENERATORS.items()}).state_dict()

    def as_list(tensor: torch.Tensor) -> list[int]:
        assert tensor.dtype == torch.uint8
        return list(tensor.tolist())

    assert json.loads(json.dumps(state, default=as_list))["version"] == 1


def test_saving_draws_nothing() -> None:
    rng = RNGState()
    before = digest_tree(rng.state_dict())
    assert digest_tree(rng.state_dict()) == before
    expected = draw()
    rng.load_state_dict(rng.state_dict())
    assert draw() != expected


def draw_in_fork(rng: RNGState, error: Exception | None) -> None:
    with rng.fork():
        draw()
        if error is not None:
            raise error


def test_fork_isolates_all_streams_even_if_the_block_raises() -> None:
    rng = RNGState()
    before = digest_tree(rng.state_dict())
    draw_in_fork(rng, None)
    with pytest.raises(KeyError):
        draw_in_fork(rng, KeyError())
    assert digest_tree(rng.state_dict()) == before


def test_fork_puts_back_the_other_streams_if_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = RNGState()
    before = digest_tree(rng.state_dict())

    def fail(*_: object) -> None:
        raise OSError("this stream is gone")

    monkeypatch.setattr(generators.LegacyNumpyStream, "set", fail)
    with pytest.raises(OSError, match="gone"):
        draw_in_fork(rng, None)
    monkeypatch.undo()
    after = digest_tree(rng.state_dict())
    changed = {path.split("/")[1] for path in after if after[path] != before[path]}
    assert changed == {"numpy"}


# -- refusals


def test_other_streams_are_refused() -> None:
    rng = RNGState(own=np.random.default_rng(3))
    saved = rng.state_dict()
    require_refusal(RNGState(), saved, "'own'", "numpy.random.Generator(PCG64)", "absent")
    require_refusal(rng, RNGState().state_dict(), "'own'", "absent", "PCG64")
    other = RNGState(own=np.random.Generator(np.random.Philox(3)))
    require_refusal(other, saved, "'own'", "PCG64", "Philox")
    require_refusal(rng, {**saved, "version": 2}, "version", "2", "1")


def require_refusal(rng: RNGState, saved: Any, *words: str) -> None:
    before = digest_tree(rng.state_dict())
    with refusal(dc.RNGMismatchError, *words):
        rng.load_state_dict(saved)
    assert digest_tree(rng.state_dict()) == before


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("python", {"version": 3, "words": torch.zeros(7, dtype=torch.uint8), "gauss_next": None}),
        ("numpy", {"bit_generator": "MT19937"}),
        ("torch", torch.zeros(7, dtype=torch.uint8)),
        ("torch", torch.zeros(7)),
        ("own", {"bit_generator": "PCG64", "state": {}}),
    ],
)
def test_a_damaged_state_is_refused(name: str, state: Any) -> None:
    rng = RNGState(own=np.random.default_rng(3))
    saved = rng.state_dict()
    saved["streams"][name]["state"] = state
    draw()
    before = digest_tree(rng.state_dict())
    with refusal(dc.CheckpointError, repr(name), "damaged"):
        rng.load_state_dict(saved)
    with refusal(dc.CheckpointError, "streams"):
        rng.load_state_dict({"version": 1})
    assert digest_tree(rng.state_dict()) == before


def test_what_has_no_state_is_no_generator() -> None:
    with refusal(TypeError, "own", "SystemRandom"):
        RNGState(own=random.SystemRandom())
    with refusal(TypeError, "own", "7"):
        RNGState(own=7)
    with refusal(dc.ArgumentError, "'numpy'"):
        RNGState(numpy=np.random.default_rng())


# -- accelerators: no device is needed to see that all of them are read and put back


class Accelerator:
    """Stands in for torch.cuda."""

    def __init__(self, num_devices: int, *, is_in_use: bool = True) -> None:
        self.states = [
            torch.full((16,), number, dtype=torch.uint8) for number in range(num_devices)
        ]
        self.is_in_use = is_in_use

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return self.is_in_use

    def device_count(self) -> int:
        return len(self.states)

    def get_rng_state(self, device: int) -> torch.Tensor:
        self.is_in_use = True
        return self.states[device].clone()

    def set_rng_state(self, state: torch.Tensor, device: int) -> None:
        self.is_in_use = True
        self.states[device] = state.clone()


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[[Accelerator], Accelerator]:
    def install(accelerator: Accelerator) -> Accelerator:
        device = torch.device("cuda")
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: device)
        monkeypatch.setattr(torch, "get_device_module", lambda _: accelerator)
        return accelerator

    return install


Install = Callable[[Accelerator], Accelerator]


def test_all_devices_of_an_accelerator_are_restored(install: Install) -> None:
    install(Accelerator(3))
    saved = through_file(RNGState().state_dict())
    # A fresh process has not used the devices yet.
    other = install(Accelerator(3, is_in_use=False))
    for state in other.states:
        state.fill_(9)
    RNGState().load_state_dict(saved)
    assert [state[0].item() for state in other.states] == [0, 1, 2]
    with RNGState().fork():
        other.states[1].fill_(9)
    assert other.states[1][0].item() == 1


def test_an_accelerator_that_nothing_uses_is_left_alone(install: Install) -> None:
    unused = install(Accelerator(2, is_in_use=False))
    assert set(RNGState().state_dict()["streams"]) == {"python", "numpy", "torch"}
    assert not unused.is_in_use


def test_another_number_of_devices_is_refused(install: Install) -> None:
    install(Accelerator(8))
    saved = RNGState().state_dict()
    install(Accelerator(4))
    require_refusal(RNGState(), saved, "'cuda'", "cuda, 8 device(s)", "cuda, 4 device(s)")
    RNGState().prepare(saved, Allowance({"cuda"}))()  # leaves it as it is
    damaged = RNGState().state_dict()
    damaged["streams"]["cuda"]["state"].pop()
    with refusal(dc.CheckpointError, "'cuda'", "3 states for 4 devices"):
        RNGState().load_state_dict(damaged)
