"""The state of a `GradScaler`, which exists between updates only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from datacursor.errors import CheckpointError, MidUpdateError, OptionError
from datacursor.recovery.allowance import Allowance
from datacursor.recovery.form import require_form
from datacursor.recovery.refusal import refusal

_SCALE, _TRACKER = "scale", "_growth_tracker"
_MAX_TRACKER = 2**31 - 1  # it is an int32
_OPTIONS = ("growth_factor", "backoff_factor", "growth_interval")


def state_of_scaler(scaler: Any) -> dict[str, Any] | None:
    """Return the state of a scaler; None where there is none, or it is disabled.

    Raises:
        MidUpdateError: It stands between `unscale_` or `step` and `update`.
    """
    if not _is_active(scaler):
        return None
    stages = {record["stage"].name for record in scaler._per_optimizer_states.values()}
    if stages - {"READY"}:
        raise MidUpdateError(
            f"the scaler is inside an update ({', '.join(sorted(stages)).lower()}), and what it "
            "found there cannot be saved; save after scaler.update()"
        )
    state: dict[str, Any] = scaler.state_dict()
    return state


def prepare_scaler(
    scaler: Any, saved: Mapping[str, Any] | None, allowance: Allowance
) -> Callable[[], None]:
    """Check the saved state of a scaler and return what restores it.

    Raises:
        OptionError: There is a scaler on one side only, or an option differs.
        CheckpointError: The state is incomplete or damaged.
    """
    if (saved is None) != (not _is_active(scaler)):
        raise OptionError(
            refusal(
                "gradient scaler",
                "absent" if saved is None else "present",
                "present" if _is_active(scaler) else "absent or disabled",
                "train with a scaler exactly if the saved run did",
            )
        )
    if saved is None:
        return lambda: None
    present = scaler.state_dict()
    require_form("scaler", saved, dict.fromkeys(present, float | int))
    # Also refuses a NaN; a scale that fell to zero, or grew without end, is a run's own affair.
    if not saved[_SCALE] >= 0 or saved[_TRACKER] not in range(_MAX_TRACKER + 1):
        raise CheckpointError(
            "checkpoint is damaged: scale and growth tracker of the scaler must be at least 0, "
            f"got {saved[_SCALE]!r} and {saved[_TRACKER]!r}"
        )
    merged = {**saved, _SCALE: float(saved[_SCALE])}
    for name in _OPTIONS:
        if saved[name] != present[name]:
            if not allowance.accepts(name):
                raise OptionError(
                    refusal(
                        f"option {name!r} of the scaler",
                        saved[name],
                        present[name],
                        f"pass allow_changed={{{name!r}}} to go on with the run's",
                    )
                )
            merged[name] = present[name]

    def restore() -> None:
        scaler.load_state_dict(merged)
        scaler._per_optimizer_states.clear()  # of an update that was open

    return restore


def _is_active(scaler: Any) -> bool:
    return scaler is not None and scaler.is_enabled()
