"""Runs that tell a ledger what happened, without a sampler and without torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from datacursor import _core
from datacursor.contributions import SampleContributions, add_digests
from datacursor.cursor import Cursor
from datacursor.ledger.writer import Ledger
from datacursor.order import Order, Shuffle
from datacursor.outcome import Outcome

NUM_SAMPLES = 100
SEED = 7
PLAN_DIGEST = SampleContributions(
    Shuffle(NUM_SAMPLES, SEED), NUM_SAMPLES, bytes(16), data_unverified=True
).plan_digest


def first_cursor(**changes: Any) -> Cursor:
    fields = {"order_id": 1, "base_size": NUM_SAMPLES, "seed": SEED, "replicas": 1}
    digests = {"data_fingerprint": bytes(range(16)), "plan_digest": PLAN_DIGEST}
    return Cursor(**{**fields, **digests, **changes})


@dataclass
class Run:
    """One process of a run: its cursor, and the ledger it tells of every move."""

    ledger: Ledger
    cursor: Cursor = field(default_factory=first_cursor)
    order: Order = field(default_factory=lambda: Shuffle(NUM_SAMPLES, SEED))

    def commit(self, count: int = 10) -> Cursor:
        return self.move("committed", count)

    def move(self, kind: str, count: int = 10) -> Cursor:
        """Move over the next contributions of the epoch, at most to its end."""
        before = self.cursor
        stop = min(before.position + count, before.base_size)
        digest = self._digest(stop) if kind == "committed" else bytes(16)
        after = before.replace(**moved(before, stop, kind, digest))
        self.cursor = after
        first = before.position
        self.ledger.on_outcome(Outcome(kind, before, after, first, stop, 1, 0, digest, ""))
        return after

    def commits(self, num_updates: int, count: int = 10) -> Cursor:
        for _ in range(num_updates):
            self.commit(count)
        return self.cursor

    def save(self) -> Cursor:
        """Take the state, as a checkpoint does."""
        self.ledger.on_state(self.cursor)
        return self.cursor

    def _digest(self, stop: int) -> bytes:
        cursor = self.cursor
        indices = self.order.indices(cursor.epoch, cursor.position, stop - cursor.position)
        return _core.digest_samples(cursor.epoch, indices)


def moved(cursor: Cursor, stop: int, kind: str, digest: bytes) -> dict[str, Any]:
    total = add_digests(cursor.identity_digest, digest)
    passed = 0 if kind == "committed" else stop - cursor.position
    updates = {"updates_committed": cursor.updates_committed + (kind == "committed")}
    if stop == cursor.base_size:
        fresh = {"epoch": cursor.epoch + 1, "last_digest": total, "identity_digest": bytes(16)}
        return updates | fresh | {"position": 0, "digest_first": 0, "skipped": 0}
    place = {"position": stop, "identity_digest": total, "skipped": cursor.skipped + passed}
    if kind == "user_skipped":
        place |= {"identity_digest": bytes(16), "digest_first": stop}
    return updates | place


def start(directory: Path, cursor: Cursor | None = None, *, rows_per_part: int = 1000) -> Run:
    """Return a process that begins, or is restored from a cursor."""
    ledger = Ledger(directory, rows_per_part=rows_per_part)
    cursor = first_cursor() if cursor is None else cursor
    run = Run(ledger, cursor, Shuffle(cursor.base_size, cursor.seed))
    ledger._plan = {"order": run.order.description, "packing": {}}  # as `attach` does
    return run


def write_run(directory: Path, *, restarts: Iterable[int] = (3, 5)) -> Cursor:
    """Write three attempts: each dies two updates after its checkpoint; return the last cursor."""
    run = start(directory)
    for update in restarts:
        while run.cursor.updates_committed < update:
            run.commit()
        saved = run.save()
        run.commits(2)
        run.ledger.flush()
        run = start(directory, saved)
    run.commits(12)
    return run.save()
