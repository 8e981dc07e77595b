"""Work that several processes do together, and that fails on all of them if it fails on one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import torch.distributed as dist

from datacursor.errors import CheckpointError

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

_Result = TypeVar("_Result")

# What a rank may fail with that the others must hear of, or they would wait for it forever.
_FAILURES = (OSError, RuntimeError, TypeError, ValueError)


class _Answer(NamedTuple):
    """What an action came to on one rank: a result, or an error as text."""

    result: Any
    failure: str | None


class Ranks:
    """The processes of a group; without torch.distributed, this one alone.

    Attributes:
        group: The group; None is all processes.
        is_distributed: Whether there is a group.
        rank: Number of this process in the group.
        size: How many there are.
    """

    def __init__(self, group: ProcessGroup | None = None) -> None:
        self.group = group
        self.is_distributed = dist.is_available() and dist.is_initialized()
        self.rank = dist.get_rank(group) if self.is_distributed else 0
        self.size = dist.get_world_size(group) if self.is_distributed else 1

    def gather(self, action: Callable[[], _Result]) -> list[_Result]:
        """Do something on every rank and return all results, that of rank 0 first.

        The action must not wait for other ranks. Results are pickled.

        Raises:
            CheckpointError: It failed on another rank; names the rank. The rank itself raises what
                it failed with.
        """
        error: Exception | None = None
        answer = _Answer(None, None)
        try:
            answer = _Answer(action(), None)
        except _FAILURES as caught:
            error = caught
            answer = _Answer(None, f"{type(caught).__name__}: {caught}")
        answers = [answer] * self.size
        if self.is_distributed:
            dist.all_gather_object(answers, answer, group=self.group)
        if error is not None:
            raise error
        for rank, each in enumerate(answers):
            if each.failure is not None:
                raise CheckpointError(f"rank {rank} failed: {each.failure}")
        return [each.result for each in answers]

    def everywhere(self, action: Callable[[], _Result]) -> _Result:
        """Do something on every rank and return this rank's result; raises as `gather` does."""
        results: list[_Result] = []
        self.gather(lambda: results.append(action()))
        return results[0]

    def on_first(self, action: Callable[[], _Result]) -> _Result:
        """Do something on rank 0 and return its result on every rank; raises as `gather` does."""
        first = self.gather(lambda: action() if self.rank == 0 else None)[0]
        return cast("_Result", first)
