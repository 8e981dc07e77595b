"""Training programs that start quickly: forked from a process that has imported torch."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runs import fresh_context

from datacursor.recovery.trace import TRACE_VARIABLE, Orders
from datacursor.verify.launch import RUN_DIR_VARIABLE, Program, ProgramError

if TYPE_CHECKING:
    from collections.abc import Callable

TRAIN = Path(__file__).parents[1] / "examples" / "train.py"


@dataclass(frozen=True)
class Forked(Program):
    """A program whose processes call a function with its run's directory and some arguments."""

    function: Callable[..., object] = print
    arguments: tuple[Any, ...] = ()

    def _wait(self, orders: Orders, directory: Path) -> int:
        process = fresh_context().Process(
            target=_call,
            args=(directory, orders.run_dir, self.function, self.arguments),
        )
        process.start()
        process.join(self.timeout_seconds)
        if process.is_alive():
            process.kill()
            process.join()
            raise ProgramError("the program hung")
        status = process.exitcode
        assert status is not None
        return status


def _call(
    directory: Path, run_dir: str, function: Callable[..., object], arguments: tuple[Any, ...]
) -> None:
    os.setsid()
    multiprocessing.set_start_method("fork", force=True)  # for the workers of loaders
    os.environ |= {TRACE_VARIABLE: str(directory), RUN_DIR_VARIABLE: run_dir}
    output = os.open(directory / "output.txt", os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    function(Path(run_dir), *arguments)


def forked(function: Callable[..., object], *arguments: Any, timeout: float = 120.0) -> Forked:
    """Return a program that calls a function; what it gets is pickled."""
    return Forked((), timeout, function, arguments)


@cache
def load_example() -> Any:
    """Return the module `examples/train.py`."""
    spec = importlib.util.spec_from_file_location("example_train", TRAIN)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def train(run_dir: Path, num_workers: int = 0, num_threads: int = 1) -> None:
    """Train as `examples/train.py` does."""
    import torch

    torch.set_num_threads(num_threads)
    load_example().train(run_dir, num_workers)
