"""Random generators of every library, each read and put back as plain values.

`torch.load(weights_only=True)` takes ints, floats, strings and tensors, and neither NumPy
arrays nor generator objects, so that is what a state is made of.
"""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any, Protocol

import numpy as np
import torch

from datacursor.checks import require_integer

_ARRAY_KEYS = {"dtype", "bytes"}


class Stream(Protocol):
    """One source of random numbers."""

    @property
    def kind(self) -> str:
        """What it is; a state fits streams of the same kind only."""

    def get(self) -> Any:
        """Return its state as plain values; draws nothing."""

    def set(self, state: Any) -> None:
        """Put a state back."""

    def check(self, state: Any) -> None:
        """Raise what `set` would raise, and change nothing."""


class PythonStream:
    """Python's own generator: `random`, or a `random.Random`."""

    kind = "random.Random"

    def __init__(self, source: random.Random | ModuleType) -> None:
        """Stand for `source`."""
        self._source = source

    def get(self) -> dict[str, Any]:
        """Return version, words and the second Gaussian of a pair, if one is left."""
        version, words, gauss_next = self._source.getstate()
        return {
            "version": version,
            "words": _as_bytes(np.array(words, dtype="<u4")),
            "gauss_next": gauss_next,
        }

    def set(self, state: Any) -> None:
        """Put a state back."""
        words = tuple(_as_array(state["words"], "<u4").tolist())
        self._source.setstate((state["version"], words, state["gauss_next"]))

    def check(self, state: Any) -> None:
        """Try the state on another generator."""
        PythonStream(random.Random()).set(state)


class LegacyNumpyStream:
    """NumPy's old interface: `numpy.random`, or a `numpy.random.RandomState`."""

    def __init__(self, source: Any) -> None:
        """Stand for `source`."""
        self._source = source

    @property
    def kind(self) -> str:
        """RandomState and its bit generator."""
        return f"numpy.random.RandomState({self._source.get_state(legacy=False)['bit_generator']})"

    def get(self) -> Any:
        """Return the state of the bit generator and the second Gaussian of a pair."""
        return _pack(self._source.get_state(legacy=False))

    def set(self, state: Any) -> None:
        """Put a state back."""
        self._source.set_state(_unpack(state))

    def check(self, state: Any) -> None:
        """Try the state on another generator."""
        bit_generator = getattr(np.random, self._source.get_state(legacy=False)["bit_generator"])
        LegacyNumpyStream(np.random.RandomState(bit_generator())).set(state)


class NumpyStream:
    """A `numpy.random.Generator`."""

    def __init__(self, generator: np.random.Generator) -> None:
        """Stand for `generator`."""
        self._bit_generator: Any = generator.bit_generator

    @property
    def kind(self) -> str:
        """Generator and its bit generator."""
        return f"numpy.random.Generator({type(self._bit_generator).__name__})"

    def get(self) -> Any:
        """Return the state of the bit generator."""
        return _pack(self._bit_generator.state)

    def set(self, state: Any) -> None:
        """Put a state back."""
        self._bit_generator.state = _unpack(state)

    def check(self, state: Any) -> None:
        """Try the state on another generator."""
        NumpyStream(np.random.Generator(type(self._bit_generator)())).set(state)


class TorchStream:
    """A `torch.Generator`; torch's default one is an object like any other."""

    def __init__(self, generator: torch.Generator) -> None:
        """Stand for `generator`."""
        self._generator = generator

    @property
    def kind(self) -> str:
        """Generator and the type of its device."""
        return f"torch.Generator({self._generator.device.type})"

    def get(self) -> torch.Tensor:
        """Return the state, a uint8 tensor on the CPU."""
        return self._generator.get_state()

    def set(self, state: Any) -> None:
        """Put a state back."""
        self._generator.set_state(_require_bytes(state))

    def check(self, state: Any) -> None:
        """Try the state on another generator."""
        TorchStream(torch.Generator(self._generator.device)).set(state)


class AcceleratorStream:
    """The default generators of all devices of one accelerator."""

    def __init__(self, name: str, module: Any) -> None:
        """Stand for the devices of `torch.<name>`, which is `module`."""
        self._name = name
        self._module = module
        self._num_devices = require_integer("device_count()", module.device_count(), 0, 2**31)

    @property
    def kind(self) -> str:
        """The accelerator and how many devices it has."""
        return f"{self._name}, {self._num_devices} device(s)"

    def get(self) -> list[torch.Tensor]:
        """Return one uint8 tensor on the CPU for each device."""
        return [self._module.get_rng_state(number) for number in range(self._num_devices)]

    def set(self, state: Any) -> None:
        """Put a state back."""
        for number, one in enumerate(state):
            self._module.set_rng_state(_require_bytes(one), number)

    def check(self, state: Any) -> None:
        """Look at the number and the type of the states; a device has no generator to spare."""
        if len(state) != self._num_devices:
            raise ValueError(f"{len(state)} states for {self._num_devices} devices")
        for one in state:
            _require_bytes(one)


def stream_of(name: str, generator: object) -> Stream:
    """Return the stream of a generator that a user registers.

    Raises:
        TypeError: It is no generator whose state can be read.
    """
    if isinstance(generator, torch.Generator):
        return TorchStream(generator)
    if isinstance(generator, np.random.Generator):
        return NumpyStream(generator)
    if isinstance(generator, np.random.RandomState):
        return LegacyNumpyStream(generator)
    if isinstance(generator, random.Random) and not isinstance(generator, random.SystemRandom):
        return PythonStream(generator)
    raise TypeError(
        f"{name} must be a torch.Generator, numpy.random.Generator, numpy.random.RandomState or "
        f"random.Random, got {generator!r}"
    )


def accelerator_stream(*, initialise: bool) -> tuple[str, Stream] | None:
    """Return name and stream of the accelerator, if there is one that is in use.

    Args:
        initialise: Take it into use where nothing has yet.
    """
    device = torch.accelerator.current_accelerator()
    if device is None:
        return None
    module = torch.get_device_module(device)
    is_initialized = getattr(module, "is_initialized", lambda: True)
    if not module.is_available() or not (initialise or is_initialized()):
        return None
    return device.type, AcceleratorStream(device.type, module)


def _pack(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _pack(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        portable = value.astype(value.dtype.newbyteorder("<"))
        return {"dtype": portable.dtype.str, "bytes": _as_bytes(portable)}
    return value.item() if isinstance(value, np.generic) else value


def _unpack(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() == _ARRAY_KEYS:
            return _as_array(value["bytes"], value["dtype"])
        return {key: _unpack(item) for key, item in value.items()}
    return value


def _as_bytes(array: np.ndarray[Any, Any]) -> torch.Tensor:
    return torch.frombuffer(bytearray(array.tobytes()), dtype=torch.uint8)


def _as_array(data: Any, dtype: str) -> np.ndarray[Any, Any]:
    return np.frombuffer(_require_bytes(data).numpy().tobytes(), dtype=dtype).copy()


def _require_bytes(value: Any) -> torch.Tensor:
    if not isinstance(value, torch.Tensor) or value.dtype != torch.uint8:
        raise TypeError(f"a state must be a uint8 tensor, got {type(value).__name__}")
    return value.cpu()
