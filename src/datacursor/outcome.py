"""What became of an update's contributions, told to whoever keeps a record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from datacursor.cursor import Cursor

COMMITTED = "committed"
SKIPPED = "skipped"
DEFERRED = "deferred"
USER_SKIPPED = "user_skipped"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One move of the cursor.

    Attributes:
        kind: "committed": entered an update. "skipped": an update was attempted and changed
            nothing. "deferred": the same, to be delivered again after the epoch's tail.
            "user_skipped": passed over by `skip_range`.
        before: The cursor it began at.
        after: The cursor it led to.
        first: First position, in the epoch of `before`.
        stop: Position after the last.
        micro_batches: Micro-batches per rank; 0 for "user_skipped".
        num_tokens: Tokens in these contributions; 0 for samples.
        digest: 16 bytes, identity digest of just these contributions.
        reason: Why they were skipped or deferred; empty for "committed".
    """

    kind: str
    before: Cursor
    after: Cursor
    first: int
    stop: int
    micro_batches: int
    num_tokens: int
    digest: bytes
    reason: str


class CommitObserver(Protocol):
    """Is told of every move of a sampler's cursor by a commit or a skip, and of every save."""

    def on_outcome(self, outcome: Outcome) -> None:
        """Take note of a move, which has happened already."""

    def on_state(self, cursor: Cursor) -> None:
        """Take note that the state at `cursor` is about to be saved."""
