"""Recovery: the state of a whole training run, checked before it is restored.

Names load when they are first used, as those of `datacursor` do.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datacursor.instrument import ModularCounter as ModularCounter
    from datacursor.recovery.checkpoint import latest as latest
    from datacursor.recovery.checkpoint import load as load
    from datacursor.recovery.checkpoint import save as save
    from datacursor.recovery.claim import RestoreReport as RestoreReport
    from datacursor.recovery.determinism import EnvironmentDifference as EnvironmentDifference
    from datacursor.recovery.determinism import compare_environment as compare_environment
    from datacursor.recovery.determinism import environment as environment
    from datacursor.recovery.digest import digest_tree as digest_tree
    from datacursor.recovery.loop import LoopConvention as LoopConvention
    from datacursor.recovery.loop import LoopState as LoopState
    from datacursor.recovery.optimizer import OptimizerState as OptimizerState
    from datacursor.recovery.protect import protect as protect
    from datacursor.recovery.state import TrainingState as TrainingState
    from datacursor.recovery.streams import RNGState as RNGState
    from datacursor.recovery.trace import Trace as Trace
    from datacursor.rng import sample_generator as sample_generator
    from datacursor.rng import sample_seed as sample_seed
    from datacursor.sample_seeded import SampleSeeded as SampleSeeded
    from datacursor.updates import step_applied as step_applied

_MODULE_OF = {
    "EnvironmentDifference": "recovery.determinism",
    "LoopConvention": "recovery.loop",
    "LoopState": "recovery.loop",
    "ModularCounter": "instrument",
    "OptimizerState": "recovery.optimizer",
    "RNGState": "recovery.streams",
    "RestoreReport": "recovery.claim",
    "SampleSeeded": "sample_seeded",
    "Trace": "recovery.trace",
    "TrainingState": "recovery.state",
    "compare_environment": "recovery.determinism",
    "digest_tree": "recovery.digest",
    "environment": "recovery.determinism",
    "latest": "recovery.checkpoint",
    "load": "recovery.checkpoint",
    "protect": "recovery.protect",
    "sample_generator": "rng",
    "sample_seed": "rng",
    "save": "recovery.checkpoint",
    "step_applied": "updates",
}
__all__ = sorted(_MODULE_OF)  # noqa: PLE0605  # one table for both


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'datacursor.recovery' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"datacursor.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
