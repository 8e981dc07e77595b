"""`RNGState`: every random stream of a process, saved, restored and forked together."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch

from datacursor.errors import ArgumentError, CheckpointError, RNGMismatchError
from datacursor.recovery.allowance import Allowance
from datacursor.recovery.form import Each, require_form
from datacursor.recovery.generators import (
    LegacyNumpyStream,
    PythonStream,
    Stream,
    TorchStream,
    accelerator_stream,
    stream_of,
)
from datacursor.recovery.refusal import refusal

# Part of the persistent format; add, never change.
RNG_VERSION = 1
_FORM = {"streams": Each({"kind": str, "state": object})}
_RESERVED = ("python", "numpy", "torch", "cuda", "xpu", "mps", "mtia")


class RNGState:
    """Python's, NumPy's and torch's default generators, the accelerator's, and your own.

    An accelerator counts once it is initialised.

    Args:
        **generators: Generators of your own by name: `torch.Generator`, `numpy.random.Generator`,
            `numpy.random.RandomState` or `random.Random`.

    Raises:
        TypeError: One is no such generator.
        ArgumentError: A name is one of the default generators'.

    Example:
        >>> rng = RNGState(augment=np.random.default_rng(3))
        >>> saved = rng.state_dict()
        >>> first = random.random()
        >>> with rng.fork():
        ...     _ = random.random(), np.random.rand(), torch.rand(1)
        >>> rng.load_state_dict(saved)
        >>> random.random() == first
        True
    """

    def __init__(self, **generators: Any) -> None:
        for name in generators:
            if name in _RESERVED:
                raise ArgumentError(f"a generator must not be named {name!r}: it is a default one")
        self._own = {name: stream_of(name, value) for name, value in generators.items()}

    def state_dict(self) -> dict[str, Any]:
        """Return the states of all streams as ints, floats, strings and uint8 tensors."""
        return {
            "version": RNG_VERSION,
            "streams": {
                name: {"kind": stream.kind, "state": stream.get()}
                for name, stream in self._streams().items()
            },
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Put all streams back.

        Raises:
            RNGMismatchError: Other streams, other kinds, or another number of devices. Nothing
                has changed.
            CheckpointError: A state is damaged. Nothing has changed.
        """
        self.prepare(state_dict)()

    def prepare(
        self, state_dict: Mapping[str, Any], allowance: Allowance | None = None
    ) -> Callable[[], None]:
        """Check saved streams and return what puts them back.

        Args:
            state_dict: What `state_dict()` returned.
            allowance: Names of streams that may differ; they are left as they are.
        """
        version = state_dict.get("version")
        if version != RNG_VERSION:
            raise RNGMismatchError(
                refusal("rng: version", version, RNG_VERSION, "use the release that wrote it")
            )
        require_form("rng", state_dict, _FORM)
        saved = state_dict["streams"]
        streams = self._streams(saved)
        different = _differences(
            {name: entry["kind"] for name, entry in saved.items()},
            {name: stream.kind for name, stream in streams.items()},
            Allowance() if allowance is None else allowance,
        )
        same = {name: stream for name, stream in streams.items() if name not in different}
        for name, stream in same.items():
            _require_intact(name, stream, saved[name]["state"])

        def put_back() -> None:
            for name, stream in same.items():
                stream.set(saved[name]["state"])

        return put_back

    @contextmanager
    def fork(self) -> Iterator[None]:
        """Give the block inside streams of its own: on leaving it, every stream is put back."""
        with ExitStack() as stack:
            for stream in self._streams().values():
                stack.callback(stream.set, stream.get())
            yield

    def _streams(self, saved: Mapping[str, Any] | None = None) -> dict[str, Stream]:
        """Return all streams by name, the accelerator if it is initialised or was saved."""
        streams: dict[str, Stream] = {
            "python": PythonStream(random),
            "numpy": LegacyNumpyStream(np.random),
            "torch": TorchStream(torch.default_generator),
        }
        was_saved = not set(saved or ()) <= {*streams, *self._own}
        accelerator = accelerator_stream(initialise=was_saved)
        if accelerator is not None:
            streams[accelerator[0]] = accelerator[1]
        return streams | self._own


def _require_intact(name: str, stream: Stream, state: object) -> None:
    try:
        stream.check(state)
    except (LookupError, OverflowError, RuntimeError, TypeError, ValueError) as error:
        raise CheckpointError(f"the state of random stream {name!r} is damaged: {error}") from error


def _differences(saved: dict[str, str], present: dict[str, str], allowance: Allowance) -> set[str]:
    """Return the names of streams that differ; one that may not is refused."""
    names = {name for name in (*saved, *present) if saved.get(name) != present.get(name)}
    for name in sorted(names):
        if not allowance.accepts(name):
            raise RNGMismatchError(
                refusal(
                    f"random stream {name!r}",
                    saved.get(name, "absent"),
                    present.get(name, "absent"),
                    "restore with the generators and devices of the saved run, or pass "
                    f"allow_changed={{{name!r}}} to leave the stream as it is",
                )
            )
    return names
