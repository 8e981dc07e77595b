"""A scheduler's state, and proof that it goes on with the saved run's learning rates.

torch saves neither the functions of LambdaLR nor the scale function of CyclicLR. So the next
learning rates are computed on a shadow, when a state is saved and again before it is restored.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from types import MethodType, SimpleNamespace
from typing import Any

from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from datacursor.errors import CheckpointError, ScheduleError
from datacursor.recovery.allowance import Allowance
from datacursor.recovery.digest import digest_tree
from datacursor.recovery.form import require_form
from datacursor.recovery.options import options_of
from datacursor.recovery.plain import plain
from datacursor.recovery.refusal import refusal

_NUM_PREVIEWED = 8  # learning rates
_FORM = {"class": str, "lr": list, "next": [list], "state": dict}
# Beyond the end of a schedule a scheduler, or the table in a user's function, has no value.
_AT_THE_END = (ArithmeticError, LookupError, ValueError)
# What the arithmetic of a schedule comes to where its numbers are none.
_UNFIT = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


class ScheduleState:
    """One scheduler's state with a preview of its learning rates.

    Args:
        scheduler: Any scheduler of torch.optim, or one derived from `LRScheduler`.
        label: What errors call it.

    Attributes:
        driven: Options of the optimizer's groups that the scheduler writes.

    Raises:
        TypeError: It is no such scheduler.
        ScheduleError: It cannot be previewed.
    """

    def __init__(self, scheduler: LRScheduler, label: str = "scheduler") -> None:
        if not isinstance(scheduler, LRScheduler):
            raise TypeError(
                f"{label} must be a torch.optim.lr_scheduler.LRScheduler, got "
                f"{type(scheduler).__name__}; save anything else as an extra state"
            )
        self.scheduler = scheduler
        self.label = label
        self.driven = frozenset(_driven(scheduler))
        self.state_dict()  # a scheduler that cannot be saved is refused now, not after a day

    def state_dict(self) -> dict[str, Any]:
        """Return the scheduler's state, its class and what it does next."""
        groups = [options_of(group) for group in self.scheduler.optimizer.param_groups]
        return {
            "class": _class(self.scheduler),
            "lr": _rates(groups),
            "next": self._preview(self._shadow(groups)),
            "state": deepcopy(plain(self.label, self.scheduler.state_dict())),
        }

    def require_same_class(self, saved: Mapping[str, Any]) -> None:
        """Raise unless a saved state is of the same scheduler.

        Raises:
            ScheduleError: It is another's.
            CheckpointError: It is incomplete.
        """
        require_form(self.label, saved, _FORM)
        if saved["class"] != _class(self.scheduler):
            raise ScheduleError(
                refusal(
                    f"class of {self.label}",
                    saved["class"],
                    _class(self.scheduler),
                    "build the scheduler of the saved run",
                )
            )
        require_form(f"state of {self.label}", saved["state"], _form_of(self.scheduler))

    def prepare(
        self,
        saved: Mapping[str, Any],
        groups: Sequence[Mapping[str, Any]],
        allowance: Allowance,
    ) -> Callable[[], None]:
        """Check a saved state and return what restores it.

        Args:
            saved: What `state_dict()` returned, of the same class.
            groups: Options of the optimizer's groups as they will be restored.
            allowance: Whether the learning rates may differ: "schedule".

        Raises:
            ScheduleError: The learning rate restored, or one of the next ones, would differ.
            CheckpointError: The state is damaged.
        """
        shadow = self._shadow(groups)
        state = _as_held(self.scheduler.state_dict(), saved["state"])
        try:
            shadow.load_state_dict(deepcopy(state))
            present, rates = _rates(groups), self._preview(shadow)
        except _UNFIT as error:
            raise CheckpointError(
                f"checkpoint is damaged: {self.label} cannot go on from its state: {error!r}"
            ) from error
        self._require_same_rates("lr after restore", saved["lr"], present, allowance)
        what = f"next {_NUM_PREVIEWED} learning rates"
        self._require_same_rates(what, saved["next"], rates, allowance)
        return lambda: self.scheduler.load_state_dict(deepcopy(state))

    def _require_same_rates(
        self, what: str, saved: list[Any], present: list[Any], allowance: Allowance
    ) -> None:
        if digest_tree(saved) != digest_tree(present) and not allowance.accepts("schedule"):
            raise ScheduleError(
                refusal(
                    f"{what} of {self.label} ({_class(self.scheduler)})",
                    saved,
                    present,
                    "use the saved run's schedule (torch saves no functions), or pass "
                    "allow_changed={'schedule'} to go on with this one",
                )
            )

    def _shadow(self, groups: Sequence[Mapping[str, Any]]) -> Any:
        """Return a copy of the scheduler that drives groups without an optimizer."""
        groups = [deepcopy(dict(group)) for group in groups]
        optimizer = SimpleNamespace(param_groups=groups, step=None)  # which nobody calls
        memo: dict[int, Any] = {id(self.scheduler.optimizer): optimizer}
        memo |= {id(method): method for method in _foreign_methods(self.scheduler)}
        try:
            return deepcopy(self.scheduler, memo)
        except TypeError as error:
            raise ScheduleError(
                f"{self.label} cannot be copied to preview its learning rates: {error}"
            ) from error

    def _preview(self, shadow: Any) -> list[list[float]]:
        """Step a shadow and return the learning rates, as far as its schedule goes."""
        rates: list[list[float]] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of steps that nobody takes
            for _ in range(_NUM_PREVIEWED):
                try:
                    _step(shadow)
                except _AT_THE_END:
                    break
                except TypeError as error:
                    raise ScheduleError(
                        f"{self.label} cannot be previewed: {_class(self.scheduler)}.step() takes "
                        f"no step without arguments: {error}"
                    ) from error
                rates.append(_rates(shadow.optimizer.param_groups))
        return rates


def _rates(groups: Sequence[Mapping[str, Any]]) -> list[float]:
    return [float(group["lr"]) for group in groups]


def _as_held(held: Any, saved: Any) -> Any:
    """Return a saved state with its plain dicts as Counters where the scheduler holds these."""
    if isinstance(held, Counter):
        return Counter(saved)
    if isinstance(held, dict) and isinstance(saved, dict):
        return {key: _as_held(held.get(key), value) for key, value in saved.items()}
    if isinstance(held, list) and isinstance(saved, list) and len(held) == len(saved):
        return [_as_held(one, other) for one, other in zip(held, saved, strict=True)]
    return saved


def _form_of(scheduler: LRScheduler) -> dict[str, Any]:
    """Return the form of a scheduler's state: its keys, and those of its parts."""
    form: dict[str, Any] = dict.fromkeys(scheduler.state_dict(), object)
    parts = _parts(scheduler)
    return form | {"_schedulers": tuple(map(_form_of, parts))} if parts else form


def _step(shadow: Any) -> None:
    if isinstance(shadow, ReduceLROnPlateau):
        shadow.step(shadow.best)  # no better than the best: shows patience, factor and cooldown
    else:
        shadow.step()


def _parts(scheduler: LRScheduler) -> list[LRScheduler]:
    """Return the schedulers that a scheduler is made of."""
    parts = getattr(scheduler, "_schedulers", ())
    return [part for part in parts if isinstance(part, LRScheduler)]


def _foreign_methods(scheduler: LRScheduler) -> Iterator[MethodType]:
    """Yield methods of other objects, a trainer's perhaps, which a copy calls and never copies."""
    for value in vars(scheduler).values():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, MethodType) and one.__self__ is not scheduler:
                yield one
    for part in _parts(scheduler):
        yield from _foreign_methods(part)


def _class(scheduler: LRScheduler) -> str:
    parts = ", ".join(_class(part) for part in _parts(scheduler))
    return f"{type(scheduler).__qualname__}({parts})" if parts else type(scheduler).__qualname__


def _driven(scheduler: LRScheduler) -> set[str]:
    names = {"lr"}
    if getattr(scheduler, "cycle_momentum", False):
        names |= {"momentum", "betas"}
    return names.union(*(_driven(part) for part in _parts(scheduler)))
