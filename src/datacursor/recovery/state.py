"""`TrainingState`: the whole of a training run as one state, checked before it is restored.

save     random streams are read first and put back last: a save perturbs nothing
restore  check everything -> change everything -> random streams last
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from datacursor.checks import require_bool, require_choice
from datacursor.errors import ArgumentError, CheckpointError, OptionError, ScheduleError
from datacursor.recovery.allowance import Allowance
from datacursor.recovery.claim import (
    RestoreReport,
    claim_of,
    layout_of,
    require_same_environment,
)
from datacursor.recovery.completeness import (
    STATE_VERSION,
    require_both,
    require_readable,
    require_same_names,
)
from datacursor.recovery.determinism import compare_environment, environment
from datacursor.recovery.extras import require_stateful, restore_or_undo, states_of
from datacursor.recovery.gradients import Parameters, prepare_gradients, state_of_gradients
from datacursor.recovery.loop import LoopState
from datacursor.recovery.modules import prepare_module, state_of_module
from datacursor.recovery.naming import Rename, as_function
from datacursor.recovery.optimizer import OptimizerState
from datacursor.recovery.plain import plain
from datacursor.recovery.position import (
    count_pending,
    cursor_sampler,
    place_of,
    prepare_sampler,
    require_same_place,
    state_of_sampler,
)
from datacursor.recovery.scaling import prepare_scaler, state_of_scaler
from datacursor.recovery.schedule import ScheduleState
from datacursor.recovery.streams import RNGState
from datacursor.state import cursor_of

Change = Callable[[], None]
Changes = list[Change]

_load_post_hooks: OrderedDict[int, Callable[[TrainingState], None]] = OrderedDict()


def register_load_post_hook(hook: Callable[[TrainingState], None]) -> RemovableHandle:
    """Call a function with every `TrainingState` that was restored, last of all.

    Returns:
        A handle whose `remove()` takes it away again.
    """
    handle = RemovableHandle(_load_post_hooks)
    _load_post_hooks[handle.id] = hook
    return handle


class TrainingState:
    """Model, optimizers, schedulers, scaler, sampler, counters and random streams as one state.

    `load_state_dict` restores all of it or, with an error that shows both values, nothing.

    Args:
        model: The model.
        optimizer: An optimizer, an `OptimizerState`, or a dict of several by name. A parameter that
            is neither the model's nor an extra module's is a master weight; build the optimizer
            with (name, parameter) pairs for these.
        scheduler: A scheduler of torch.optim, or a dict of several by name.
        scaler: The `GradScaler`; one that is disabled counts as none.
        sampler: A `CursorSampler`, or the `CursorLoader` over one; anything else that has a state
            is saved and loaded, and not checked.
        loop: Counters of updates.
        rng: Random streams; None has the default ones of Python, NumPy, torch and the accelerator.
        save_gradients: Save inside an update too, with the gradients of its micro-batches; a
            `CursorSampler` counts these.
        environment: Whether another environment lowers the claim ("record") or is refused
            ("require").
        allow_changed: Names of differences to accept, as errors print them; the run's value counts.
        rename: Saved parameter name to name in the run, where names changed.
        **extra_stateful: Anything else with `state_dict` and `load_state_dict`. Modules are checked
            like the model; other parts are loaded first, and put back if a later one refuses.

    Attributes:
        model: The model.
        optimizers: The optimizers by name; a single one is named "optimizer".
        schedulers: The schedulers by name; a single one is named "scheduler".
        scaler: The scaler, or None.
        sampler: The sampler as given, or None.
        loop: The counters, or None.
        rng: The random streams.

    Raises:
        TypeError: A part is not what it must be.
        ArgumentError: Gradients are to be saved, and no `CursorSampler` counts micro-batches.
        ScheduleError: A scheduler cannot be previewed, or drives an optimizer that is not here.

    Example:
        >>> model = nn.Linear(2, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        >>> state = TrainingState(model=model, optimizer=optimizer)
        >>> state.load_state_dict(state.state_dict()).claim
        'bitwise'
    """

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
        rename: Rename = None,
        **extra_stateful: Any,
    ) -> None:
        self.model = model
        self.scaler = scaler
        self.sampler = sampler
        self.loop = loop
        self.rng = RNGState() if rng is None else rng
        self._saves_gradients = require_bool("save_gradients", save_gradients)
        self._policy = require_choice("environment", environment, ("record", "require"))
        self._allow_changed = Allowance(allow_changed).names
        self._rename = rename
        self._cursor_sampler = cursor_sampler(sampler)
        if self._saves_gradients and self._cursor_sampler is None:
            raise ArgumentError(
                "save_gradients needs sampler= to be a CursorSampler, which counts the "
                f"micro-batches that wait for their update, got {sampler!r}"
            )
        if sampler is not None:
            require_stateful("sampler", sampler)
        for name, part in extra_stateful.items():
            require_stateful(name, part)
        self._modules = {k: v for k, v in extra_stateful.items() if isinstance(v, nn.Module)}
        self._parts = {k: v for k, v in extra_stateful.items() if k not in self._modules}
        self._optimizers = {
            name: self._named(one, label) for name, one, label in _labelled(optimizer, "optimizer")
        }
        self.optimizers: dict[str, torch.optim.Optimizer] = {
            name: state.optimizer for name, state in self._optimizers.items()
        }
        with self.rng.fork():
            self._schedules = {
                name: ScheduleState(one, label)
                for name, one, label in _labelled(scheduler, "scheduler")
            }
        self.schedulers: dict[str, Any] = {
            name: state.scheduler for name, state in self._schedules.items()
        }
        for schedule in self._schedules.values():
            self._name_of(schedule)  # raises where it is none of ours

    # -- saving ----------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state of everything; nothing is drawn, moved or copied.

        Tensors of modules and optimizers are the run's own: write them to a file, or copy them,
        before training goes on.

        Raises:
            MidUpdateError: An update is open and save_gradients is not set, or the scaler stands
                between step and update.
            AssociationError: A parameter of an optimizer has no name.
            TypeError: A part holds what `torch.load(weights_only=True)` would refuse.
        """
        with self.rng.fork():
            rng = self.rng.state_dict()
            scaler = state_of_scaler(self.scaler)
            parameters = dict(self._named_parameters())
            pending = self._count_pending(parameters)
            return {
                "version": STATE_VERSION,
                "model": state_of_module("model", self.model),
                "optimizer": {name: one.state_dict() for name, one in self._optimizers.items()},
                "scheduler": {name: one.state_dict() for name, one in self._schedules.items()},
                "scaler": scaler,
                "sampler": self._state_of_sampler(pending),
                "loop": self._state_of_loop(),
                "rng": rng,
                "extra": {
                    **states_of(self._parts),
                    **{name: state_of_module(name, one) for name, one in self._modules.items()},
                },
                "environment": self._environment(),
                "gradients": state_of_gradients(parameters, pending),
            }

    # -- restoring -------------------------------------------------------------------------

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> RestoreReport:
        """Check everything, then restore everything.

        Returns:
            What the restored run may claim.

        Raises:
            CheckpointError: It does not fit; its classes say what. Nothing has changed.
            CursorMismatchError: The sampler's state belongs to other data. Nothing has changed.
            MidUpdateError: It holds an open update of another layout. Nothing has changed.
        """
        require_readable(state_dict)
        with self.rng.fork():
            changes, restore_rng, report = self._prepare(state_dict)
            for change in changes:
                change()
        restore_rng()
        for hook in tuple(_load_post_hooks.values()):
            hook(self)
        return report

    def _prepare(self, saved: Mapping[str, Any]) -> tuple[Changes, Change, RestoreReport]:
        """Return what restores everything, in order, then the streams, and the claim."""
        allowance = Allowance(self._allow_changed)
        restore_rng = self.rng.prepare(saved["rng"], allowance)
        restore_sampler, other_samples = self._prepare_sampler(saved["sampler"])
        changes = [
            self._prepare_extras(saved),
            prepare_module("model", self.model, saved["model"], self._rename),
            *(
                prepare_module(name, module, saved["extra"][name])
                for name, module in self._modules.items()
            ),
            *self._prepare_optimizers(saved, allowance),
            prepare_scaler(self.scaler, saved["scaler"], allowance),
            restore_sampler,
            self._prepare_loop(saved),
            self._prepare_gradients(saved),
        ]
        present = self._environment()
        differences = compare_environment(saved["environment"], present)
        if self._policy == "require":
            require_same_environment(differences)
        accepted = allowance.used.union(*(one.accepted for one in self._optimizers.values()))
        claim = claim_of(
            saved["environment"],
            present,
            differences,
            accepted=sorted(accepted),
            other_samples=bool(other_samples),
        )
        report = RestoreReport(
            claim, tuple(differences), self._renamed(saved), (*sorted(accepted), *other_samples)
        )
        return changes, restore_rng, report

    def _prepare_optimizers(self, saved: Mapping[str, Any], allowance: Allowance) -> Changes:
        """Check optimizers and schedulers together, as schedulers write options of optimizers."""
        optimizers, schedules = saved["optimizer"], saved["scheduler"]
        require_same_names("optimizers", optimizers, self._optimizers, OptionError)
        require_same_names("schedulers", schedules, self._schedules, ScheduleError)
        for name, schedule in self._schedules.items():
            schedule.require_same_class(schedules[name])
        prepared = {
            name: state.prepare(optimizers[name], self._driven(state.optimizer))
            for name, state in self._optimizers.items()
        }
        changes: Changes = list(prepared.values())
        for name, schedule in self._schedules.items():
            options = prepared[self._name_of(schedule)].options
            changes.append(schedule.prepare(schedules[name], options, allowance))
        return changes

    def _prepare_sampler(self, saved: Any) -> tuple[Change, tuple[str, ...]]:
        require_both("sampler", saved, self.sampler)
        if self._cursor_sampler is None:
            return _change_nothing, ()
        return prepare_sampler(self._cursor_sampler, saved, self._allow_changed)

    def _prepare_loop(self, saved: Mapping[str, Any]) -> Change:
        require_both("loop", saved["loop"], self.loop)
        if self.loop is None:
            return _change_nothing
        change = self.loop.prepare(saved["loop"])
        if self._cursor_sampler is not None:
            require_same_place(saved["sampler"], saved["loop"])
        return change

    def _prepare_gradients(self, saved: Mapping[str, Any]) -> Change:
        has_cursor = self._cursor_sampler is not None
        pending = cursor_of(saved["sampler"]).pending if has_cursor else 0
        parameters = dict(self._named_parameters())
        return prepare_gradients(parameters, saved["gradients"], pending, self._rename)

    def _prepare_extras(self, saved: Mapping[str, Any]) -> Change:
        states = dict(saved["extra"])
        require_same_names("extra states", states, self._parts | self._modules, CheckpointError)
        parts = dict(self._parts)
        if self.sampler is not None and self._cursor_sampler is None:
            parts["sampler"], states["sampler"] = self.sampler, saved["sampler"]
        return lambda: restore_or_undo(parts, states)

    # -- parts -----------------------------------------------------------------------------

    def _named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield the parameters of all modules, those of extra ones with the extra's name."""
        yield from self.model.named_parameters()
        for prefix, module in self._modules.items():
            yield from module.named_parameters(prefix)

    def _named(self, optimizer: Any, label: str) -> OptimizerState:
        if isinstance(optimizer, torch.optim.Optimizer):
            parameters = self._named_parameters()
            optimizer = OptimizerState(
                optimizer, parameters, rename=self._rename, allow_changed=self._allow_changed
            )
            optimizer.label = label
        if not isinstance(optimizer, OptimizerState):
            raise TypeError(
                f"{label} must be a torch.optim.Optimizer or an OptimizerState, got "
                f"{type(optimizer).__name__}"
            )
        return optimizer

    def _name_of(self, schedule: ScheduleState) -> str:
        """Return the name of the optimizer that a scheduler drives."""
        for name, optimizer in self.optimizers.items():
            if optimizer is schedule.scheduler.optimizer:
                return name
        raise ScheduleError(
            f"{schedule.label} drives an optimizer that is not part of this state; pass it as "
            "optimizer="
        )

    def _driven(self, optimizer: torch.optim.Optimizer) -> set[str]:
        """Return the options of an optimizer that schedulers write."""
        schedules = self._schedules.values()
        return {
            option
            for schedule in schedules
            if schedule.scheduler.optimizer is optimizer
            for option in schedule.driven
        }

    def _count_pending(self, parameters: Parameters) -> int:
        if self._cursor_sampler is None:
            return 0
        return count_pending(self._cursor_sampler, parameters, save_gradients=self._saves_gradients)

    def _state_of_sampler(self, pending: int) -> Any:
        if self._cursor_sampler is not None:
            return state_of_sampler(self._cursor_sampler, pending=pending)
        return None if self.sampler is None else plain("sampler", self.sampler.state_dict())

    def _state_of_loop(self) -> dict[str, Any] | None:
        if self.loop is None:
            return None
        state = self.loop.state_dict()
        if self._cursor_sampler is not None:
            state["place"] = place_of(self._cursor_sampler.cursor, state)
        return state

    def _environment(self) -> dict[str, Any]:
        return {**environment(), **layout_of(self._cursor_sampler)}

    def _renamed(self, saved: Mapping[str, Any]) -> dict[str, str]:
        rename = as_function(self._rename)
        renamed = {name: rename(name) for name in saved["model"] if rename(name) != name}
        for name, state in self._optimizers.items():
            renamed |= state.renamed(saved["optimizer"][name])
        return renamed


def _labelled(value: Any, noun: str) -> list[tuple[str, Any, str]]:
    """Return the parts given for an argument: name, part and what errors call it."""
    if isinstance(value, Mapping):
        return [(name, one, f"{noun} {name!r}") for name, one in value.items()]
    return [] if value is None else [(noun, value, noun)]


def _change_nothing() -> None:
    """Restore a part that is not there."""
