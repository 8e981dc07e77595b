"""What a training loop counts, and the rules it counts by.

fetch -> forward -> backward (x accumulation) -> unscale -> clip -> optimizer.step
    -> step_applied -> scaler.update -> scheduler.step -> commit -> record -> save
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from datacursor.checks import MAX_COUNT, require_bool, require_choice, require_integer
from datacursor.errors import CheckpointError, ConventionError
from datacursor.recovery.form import Each, require_form
from datacursor.recovery.refusal import refusal

# Part of the persistent format; add, never change.
CONVENTION_VERSION = 1
_FORM = {"convention": Each(int | str)}
_COUNTERS = ("attempted", "applied", "skipped", "samples", "tokens")


@dataclass(frozen=True, kw_only=True)
class LoopConvention:
    """The rules of a loop, which a restart must share for its counters to mean the same.

    Attributes:
        scheduler_advances_on: "applied", so not on a skipped update, or "attempted".
        scheduler_unit: What a step of the scheduler stands for: "update", "epoch", "sample" or
            "token".
        skipped_data: What becomes of a skipped update's samples: "consumed" or "retried".
        accumulation: Micro-batches in an update.
        replay: "uncommitted": what was delivered and not committed is delivered again.
    """

    scheduler_advances_on: str = "applied"
    scheduler_unit: str = "update"
    skipped_data: str = "consumed"
    accumulation: int = 1
    replay: str = "uncommitted"

    def __post_init__(self) -> None:
        """Refuse rules that no version knows."""
        require_choice(
            "scheduler_advances_on", self.scheduler_advances_on, ("applied", "attempted")
        )
        require_choice(
            "scheduler_unit", self.scheduler_unit, ("update", "epoch", "sample", "token")
        )
        require_choice("skipped_data", self.skipped_data, ("consumed", "retried"))
        require_integer("accumulation", self.accumulation, 1, 2**31)
        require_choice("replay", self.replay, ("uncommitted",))


class LoopState:
    """Counts updates by the rules of a convention.

    Call `record` once per attempted update, after its commit.

    Args:
        convention: The rules of the loop.

    Attributes:
        convention: The rules of the loop.
        attempted: Updates tried.
        applied: Updates that changed something.
        skipped: Updates that changed nothing.
        samples: Contributions of all ranks in applied updates.
        tokens: Tokens of all ranks in applied updates.

    Example:
        >>> loop = LoopState(LoopConvention(accumulation=2))
        >>> loop.record(applied=True, samples=16)
        >>> loop.record(applied=False, samples=16)
        >>> loop.attempted, loop.applied, loop.skipped, loop.samples
        (2, 1, 1, 16)
    """

    def __init__(self, convention: LoopConvention | None = None) -> None:
        self.convention = LoopConvention() if convention is None else convention
        self.attempted = self.applied = self.skipped = self.samples = self.tokens = 0

    def record(self, *, applied: bool, samples: int, tokens: int = 0) -> None:
        """Count an attempted update.

        Args:
            applied: Whether it changed anything, as `step_applied` says.
            samples: Contributions of all ranks in it; counted if it was applied.
            tokens: Tokens of all ranks in it; counted if it was applied.

        Raises:
            TypeError: An argument has the wrong type.
            ArgumentError: A number is negative.
        """
        applied = require_bool("applied", applied)
        samples = require_integer("samples", samples, 0, MAX_COUNT)
        tokens = require_integer("tokens", tokens, 0, MAX_COUNT)
        self.attempted += 1
        if applied:
            self.applied += 1
            self.samples += samples
            self.tokens += tokens
        else:
            self.skipped += 1

    def state_dict(self) -> dict[str, Any]:
        """Return the counters and the rules."""
        return {
            "version": CONVENTION_VERSION,
            "convention": asdict(self.convention),
            **{name: getattr(self, name) for name in _COUNTERS},
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on counting from saved counters.

        Raises:
            ConventionError: They were counted by other rules. Nothing has changed.
            CheckpointError: They contradict themselves, or one is missing. Nothing has changed.
        """
        self.prepare(state_dict)()

    def prepare(self, state_dict: Mapping[str, Any]) -> Callable[[], None]:
        """Check saved counters and return what takes them over."""
        self._require_convention(state_dict)
        counters = {name: _counter(state_dict, name) for name in _COUNTERS}
        if counters["attempted"] != counters["applied"] + counters["skipped"]:
            raise CheckpointError(
                f"loop counters contradict themselves: attempted={counters['attempted']}, "
                f"applied={counters['applied']}, skipped={counters['skipped']}; "
                "attempted must be applied + skipped"
            )
        return lambda: self.__dict__.update(counters)

    def _require_convention(self, state_dict: Mapping[str, Any]) -> None:
        version = state_dict.get("version")
        if version != CONVENTION_VERSION:
            raise ConventionError(
                refusal(
                    "loop convention: version",
                    version,
                    CONVENTION_VERSION,
                    "use the release of datacursor that wrote it",
                )
            )
        require_form("loop", state_dict, _FORM)
        saved = state_dict["convention"]
        present = asdict(self.convention)
        for name in dict.fromkeys((*present, *saved)):
            if saved.get(name) != present.get(name):
                raise ConventionError(
                    refusal(
                        f"loop convention: {name}",
                        saved.get(name),
                        present.get(name),
                        "count by the saved convention, or start counting anew",
                    )
                )

    def __repr__(self) -> str:
        """Show the counters."""
        counters = ", ".join(f"{name}={getattr(self, name)}" for name in _COUNTERS)
        return f"LoopState({counters})"


def _counter(state_dict: Mapping[str, Any], name: str) -> int:
    value = state_dict.get(name)
    if type(value) is not int or not 0 <= value < MAX_COUNT:
        raise CheckpointError(f"loop counter {name!r} must be in [0, 2**63), got {value!r}")
    return value
