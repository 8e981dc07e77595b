"""Whether an optimizer's step changed anything, and commits that follow from it.

A step can change nothing in two ways. A `GradScaler` that found an overflow does not call
`optimizer.step()` at all; a fused optimizer is called, so that its step hooks fire, and its
kernel leaves everything as it was when the tensor `optimizer.found_inf` is set.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import torch

from datacursor.commits import CommitTracker
from datacursor.errors import CommitError


def step_applied(optimizer: torch.optim.Optimizer, scaler: Any = None) -> bool:
    """Return whether the step just attempted changed anything; waits for the device.

    With a scaler, call it between `scaler.step(optimizer)` and `scaler.update()`; only then
    is the answer known.

    Args:
        optimizer: Whose step it was.
        scaler: The `GradScaler` that stepped it; None, or a disabled one, leaves out no step.

    Raises:
        CommitError: The scaler has not stepped this optimizer since its last update.
    """
    if scaler is None or not scaler.is_enabled():
        return True
    record = scaler._per_optimizer_states.get(id(optimizer))
    if record is None or record["stage"].name != "STEPPED":
        raise CommitError(
            "step_applied() must be called between scaler.step(optimizer) and scaler.update()"
        )
    return not any(bool(found) for found in record["found_inf_per_device"].values())


class Attachment:
    """Commits and skips for one optimizer.

    Attributes:
        optimizer: The optimizer whose steps are the updates.
    """

    def __init__(self, tracker: CommitTracker, optimizer: Any, scaler: Any) -> None:
        """Listen to an optimizer, and to the scaler that may leave out its steps."""
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(
                f"optimizer must be one torch.optim.Optimizer, got {type(optimizer).__name__}; "
                "with several attach the one that steps in every update"
            )
        is_scaler = callable(getattr(scaler, "step", None)) and not isinstance(scaler, type)
        if scaler is not None and not is_scaler:
            raise TypeError(f"scaler must have a method step(), got {scaler!r}")
        self.optimizer = optimizer
        self.num_steps = 0
        self._tracker = tracker
        self._depth = 0  # of calls to step() that are running: a derived class's calls its base's
        self._frame: FrameType | None = None  # of the outermost
        self._hooks = (
            optimizer.register_step_pre_hook(self._before_step),
            optimizer.register_step_post_hook(self._on_step),
        )
        self._ear = None if scaler is None else _Ear(scaler, self)

    def close(self) -> None:
        """Listen no more."""
        for hook in self._hooks:
            hook.remove()
        if self._ear is not None:
            self._ear.close()

    def on_no_step(self) -> None:
        """Skip: the scaler was asked to step the optimizer and did not."""
        self._tracker.skip("overflow", self._tracker.window())

    def _before_step(self, *_: object) -> None:
        if self._depth > 0 and not _is_running(self._frame):
            self._depth = 0  # that step raised
        if self._depth == 0:
            self._frame = sys._getframe(1)
        self._depth += 1

    def _on_step(self, optimizer: Any, _args: object, kwargs: dict[str, Any]) -> None:
        self._depth -= 1
        if self._depth > 0:
            return
        self._frame = None
        if torch._C._current_graph_task_id() != -1:
            raise CommitError(
                "optimizer.step() ran inside backward(), where it ends no update; detach() the "
                "optimizer and call commit() after backward()"
            )
        self.num_steps += 1
        count = self._tracker.window()
        is_applied = _verdict(_found_inf(optimizer, kwargs))
        if isinstance(is_applied, bool):
            _conclude(self._tracker, count, is_applied=is_applied)
        else:
            self._tracker.decide_later(count, is_applied)


class _Ear:
    """Stands in for a scaler's `step` and notices calls in which the optimizer did not step.

    It is an attribute of that one scaler object; copies and pickles get the plain method.
    """

    def __init__(self, scaler: Any, attachment: Attachment) -> None:
        self._scaler = scaler
        self._step = scaler.step
        self._attachment: Attachment | None = attachment
        scaler.step = self

    def __call__(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        attachment = self._attachment
        if attachment is None or optimizer is not attachment.optimizer:
            return self._step(optimizer, *args, **kwargs)
        num_steps = attachment.num_steps
        result = self._step(optimizer, *args, **kwargs)
        if attachment.num_steps == num_steps:
            attachment.on_no_step()
        return result

    def close(self) -> None:
        # Others may have put their own in front since; then this one stays and does nothing.
        self._attachment = None
        if self._scaler.step is self:
            del self._scaler.step
            if self._scaler.step != self._step:
                self._scaler.step = self._step

    def __reduce__(self) -> tuple[Any, tuple[Any, str]]:
        return getattr, (self._scaler, "step")


def _is_running(frame: FrameType | None) -> bool:
    caller: FrameType | None = sys._getframe(1)
    while caller is not None and caller is not frame:
        caller = caller.f_back
    return caller is not None


def _conclude(tracker: CommitTracker, count: int, *, is_applied: bool) -> None:
    if is_applied:
        tracker.commit(count)
    else:
        tracker.skip("overflow", count)


def _found_inf(optimizer: Any, kwargs: dict[str, Any]) -> Iterable[torch.Tensor]:
    """Return the overflow marks of the step that is running, empty if there are none."""
    found = getattr(optimizer, "found_inf", None)
    if found is not None:
        return (found,)
    scaler = kwargs.get("grad_scaler")  # given to optimizers that handle scaling themselves
    return () if scaler is None else scaler._found_inf_per_device(optimizer).values()


def _verdict(found_inf: Iterable[torch.Tensor]) -> bool | Callable[[], bool]:
    """Return whether a step was applied, or, if a device has yet to tell, how to find out."""
    marks = list(found_inf)
    if all(mark.device.type == "cpu" for mark in marks):
        return not any(bool(mark) for mark in marks)
    # Copied behind the step's own work, so that asking later waits for no more than that.
    copies = [mark.to("cpu", non_blocking=True) for mark in marks]
    events = [torch.Event(mark.device) for mark in marks if mark.device.type != "cpu"]
    for event in events:
        event.record()

    def is_applied() -> bool:
        for event in events:
            event.synchronize()
        return not any(bool(copy) for copy in copies)

    return is_applied
