"""`Trace`: one line for every update, from which `datacursor verify-restart` judges a restart.

Outside the harness nothing is written and nothing costs. Inside, the harness names a directory
in the environment variable `DATACURSOR_TRACE`:

    order.json       what the harness wants, an `Orders`; written by it
    updates.jsonl    the trace, a JSON object a line; the last one may be torn by a kill
    values-7.pt      the tensors behind the digests of update 7: of the last update, and of every
                     one while they are small

A line of an update holds its number and what `aspects_of` says of it.
"""

from __future__ import annotations

import json
import os
import pkgutil
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from datacursor.recovery.aspects import IDS, aspects_of, tensors_of, text_of_ids
from datacursor.recovery.claim import layout_of
from datacursor.recovery.determinism import environment
from datacursor.recovery.position import cursor_sampler
from datacursor.recovery.state import register_load_post_hook

if TYPE_CHECKING:
    from typing import SupportsFloat

    from typing_extensions import Self

    from datacursor.cursor import Cursor
    from datacursor.outcome import Outcome
    from datacursor.recovery.state import TrainingState
    from datacursor.sampler import CursorSampler

TRACE_VARIABLE = "DATACURSOR_TRACE"
ORDERS_NAME = "orders.json"
UPDATES_NAME = "updates.jsonl"

_MAX_KEPT_BYTES = 64 * 2**20  # of tensors that are kept at every update of a process
# Audit events of the interpreter that change a directory; the first argument is the path.
_CHANGES = frozenset({"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.truncate"})
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@dataclass(frozen=True, slots=True)
class Orders:
    """What the harness wants of one process.

    Attributes:
        stop_at: Update after whose line the process is to be killed.
        stop_at_operation: Of the file operations in `run_dir` that follow that line, the one
            before which it is killed instead; 0 kills at the line.
        run_dir: Where the program saves.
        on_load: Name of a function `module:name` that is given the state after it was loaded.
    """

    stop_at: int
    run_dir: str
    stop_at_operation: int = 0
    on_load: str = ""

    @classmethod
    def read(cls, directory: Path) -> Orders:
        """Return the orders in a trace's directory."""
        return cls(**json.loads((directory / ORDERS_NAME).read_text(encoding="utf-8")))

    def write(self, directory: Path) -> None:
        """Leave the orders in a trace's directory."""
        (directory / ORDERS_NAME).write_text(json.dumps(asdict(self)), encoding="utf-8")


class Trace:
    """Writes what every update was made of and what it led to.

    Args:
        directory: The harness's; None writes nothing.

    Example:
        >>> trace = Trace.from_env()
        >>> trace.is_active
        False
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._recorder = None if directory is None else _Recorder(directory)

    @property
    def is_active(self) -> bool:
        """Whether anything is written."""
        return self._recorder is not None

    @classmethod
    def from_env(cls) -> Self:
        """Return the trace that the harness asked for, or one that does nothing.

        Of several ranks the first one traces.
        """
        directory = os.environ.get(TRACE_VARIABLE)
        is_first = os.environ.get("RANK", "0") == "0"
        return cls(Path(directory) if directory and is_first else None)

    def commit(
        self,
        state: TrainingState,
        *,
        loss: SupportsFloat | None = None,
        applied: bool | None = None,
        ids: Any = None,
    ) -> None:
        """Write the line of the update just attempted; call it after `loop.record`.

        Args:
            state: The training state, which must have a loop.
            loss: The update's loss; a tensor on a device is waited for.
            applied: Whether it changed anything; None leaves that to the loop's counters.
            ids: What it was made from, an array or sequence of integers; None takes what the
                state's sampler committed since the last line.

        Raises:
            ArgumentError: The state has no loop, so that nobody counts updates.
        """
        if self._recorder is not None:
            self._recorder.commit(state, loss=loss, applied=applied, ids=ids)


class _Recorder:
    """A trace that is active."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._orders = Orders.read(directory)
        self._file = (directory / UPDATES_NAME).open("xb", buffering=0)
        self._contributions = _Contributions()
        self._num_operations = 0  # on files in run_dir since the last line
        self._is_stopping = False
        self._has_begun = False
        self._pid = os.getpid()  # a loader's workers inherit this object
        register_load_post_hook(self._on_load)
        sys.addaudithook(self._on_audit_event)

    def commit(
        self, state: TrainingState, *, loss: SupportsFloat | None, applied: bool | None, ids: Any
    ) -> None:
        if not self._has_begun:
            self._has_begun = True
            sampler = cursor_sampler(state.sampler)
            self._write({"environment": {**environment(), **layout_of(sampler)}})
        aspects = aspects_of(state, loss=loss, applied=applied)
        told = self._contributions.take() if ids is None else text_of_ids(ids)
        aspects[IDS] = {"": told} if told else {}
        self._contributions.follow(state.sampler)
        assert state.loop is not None, "aspects_of has looked"
        update = state.loop.attempted
        self._keep(update, tensors_of(state))
        self._write({"update": update, "operations": self._num_operations, "aspects": aspects})
        self._num_operations = 0
        was_stopping, self._is_stopping = self._is_stopping, update >= self._orders.stop_at
        if self._is_stopping and (was_stopping or self._orders.stop_at_operation == 0):
            _end()

    def _on_load(self, state: TrainingState) -> None:
        self._contributions.follow(state.sampler)
        if self._orders.on_load:
            damage = pkgutil.resolve_name(self._orders.on_load)
            self._write({"damaged": damage(state)})

    def _on_audit_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Count what changes the run's directory, and end before the operation chosen."""
        is_change = event in _CHANGES or (event == "open" and arguments[2] & _WRITING)
        if not is_change or os.getpid() != self._pid:
            return
        path = arguments[0]
        if isinstance(path, int) or not _is_in(os.fsdecode(path), self._orders.run_dir):
            return
        self._num_operations += 1
        if self._is_stopping and self._num_operations == self._orders.stop_at_operation:
            self._write({"operation": f"{event} {Path(os.fsdecode(path)).name}"})
            _end()

    def _keep(self, update: int, tensors: dict[str, torch.Tensor]) -> None:
        num_bytes = sum(tensor.nbytes for tensor in tensors.values())
        last = self._orders.stop_at
        if update == last or num_bytes * last <= _MAX_KEPT_BYTES:
            copies = {name: tensor.cpu().clone() for name, tensor in tensors.items()}
            torch.save(copies, values_path(self._directory, update))

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")


class _Contributions:
    """Listens to a sampler, and tells what it committed since it was last asked."""

    def __init__(self) -> None:
        self._sampler: CursorSampler | None = None
        self._told: list[str] = []

    def follow(self, sampler: Any) -> None:
        known = cursor_sampler(sampler)
        if known is not None and known is not self._sampler:
            known.add_observer(self)
            self._sampler = known

    def take(self) -> str:
        told, self._told = self._told, []
        return "; ".join(told)

    def on_outcome(self, outcome: Outcome) -> None:
        self._told.append(
            f"{outcome.kind} epoch {outcome.before.epoch}, positions {outcome.first} to "
            f"{outcome.stop}, digest {outcome.digest.hex()}"
        )

    def on_state(self, cursor: Cursor) -> None:
        """Do nothing: a save is no move."""


def values_path(directory: Path, update: int) -> Path:
    """Return where the tensors behind an update's digests are, if they were kept."""
    return directory / f"values-{update}.pt"


def _is_in(path: str, directory: str) -> bool:
    return Path(directory) in Path(path).absolute().parents


def _end() -> None:
    """Be killed, and all processes of this session's group with this one, loader workers too."""
    os.killpg(0, signal.SIGKILL)
