"""`TrainingState`: the whole of a training run as one state, checked before it is restored."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from datacursor.recovery.loop import LoopState
from datacursor.recovery.optimizer import OptimizerState
from datacursor.recovery.streams import RNGState

# Part of the persistent format; add, never change.
STATE_VERSION = 1

_load_post_hooks: OrderedDict[int, Callable[[TrainingState], None]] = OrderedDict()


@dataclass(frozen=True)
class RestoreReport:
    """What a restore promises.

    Attributes:
        claim: "bitwise", "close" or "samples".
        environment_differences: What differs between the saved run's environment and this one's.
        renamed: Saved parameter names to those of the run, where they differ.
    """

    claim: str
    environment_differences: tuple[Any, ...]
    renamed: dict[str, str]


def register_load_post_hook(hook: Callable[[TrainingState], None]) -> RemovableHandle:
    """Call a function with every `TrainingState` that was restored, last of all.

    Returns:
        A handle whose `remove()` takes it away again.
    """
    handle = RemovableHandle(_load_post_hooks)
    _load_post_hooks[handle.id] = hook
    return handle


class TrainingState:
    """Model, optimizers, schedulers, scaler, sampler, counters and random streams as one state."""

    def __init__(
        self,
        *,
        model: nn.Module,
        optimizer: Any = None,
        scheduler: Any = None,
        scaler: Any = None,
        sampler: Any = None,
        loop: LoopState | None = None,
        rng: RNGState | None = None,
        save_gradients: bool = False,
        environment: str = "record",
        allow_changed: Collection[str] = (),
        **extra_stateful: Any,
    ) -> None:
        self.model = model
        self.optimizers: dict[str, torch.optim.Optimizer] = _by_name(optimizer, "optimizer")
        self.schedulers: dict[str, Any] = _by_name(scheduler, "scheduler")
        self.scaler = scaler
        self.sampler = sampler
        self.loop = loop
        self.rng = RNGState() if rng is None else rng
        self._extra = extra_stateful
        self._states = {
            name: OptimizerState(one, model.named_parameters())
            for name, one in self.optimizers.items()
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the state of everything."""
        with self.rng.fork():
            rng = self.rng.state_dict()
            return {
                "version": STATE_VERSION,
                "model": self.model.state_dict(),
                "optimizer": {name: one.state_dict() for name, one in self._states.items()},
                "scheduler": {name: one.state_dict() for name, one in self.schedulers.items()},
                "scaler": _state_of(self.scaler),
                "sampler": _state_of(self.sampler),
                "loop": _state_of(self.loop),
                "rng": rng,
                "extra": {name: one.state_dict() for name, one in self._extra.items()},
                "environment": {},
                "gradients": None,
            }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> RestoreReport:
        """Restore everything."""
        restore_rng = self.rng.prepare(state_dict["rng"])
        self.model.load_state_dict(state_dict["model"])
        for name, one in self._states.items():
            one.load_state_dict(state_dict["optimizer"][name])
        for name, scheduler in self.schedulers.items():
            scheduler.load_state_dict(state_dict["scheduler"][name])
        for part in ("scaler", "sampler", "loop"):
            if getattr(self, part) is not None:
                getattr(self, part).load_state_dict(state_dict[part])
        for name, extra in self._extra.items():
            extra.load_state_dict(state_dict["extra"][name])
        restore_rng()
        for hook in tuple(_load_post_hooks.values()):
            hook(self)
        return RestoreReport("bitwise", (), {})


def _by_name(value: Any, name: str) -> dict[str, Any]:
    if value is None:
        return {}
    return dict(value) if isinstance(value, Mapping) else {name: value}


def _state_of(part: Any) -> Any:
    return None if part is None else part.state_dict()
