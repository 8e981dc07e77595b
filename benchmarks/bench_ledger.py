"""What does a commit cost with a ledger, and how fast is a ledger read and verified?

Each run draws a micro-batch and commits it, many times over; the ledger writes a part of 1000
rows now and then. What was written is verified before a time counts. Times are of the processor,
not of the wall: waiting for the disk, and for others on the machine, is left out.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import report

import datacursor as dc
from datacursor.ledger.history import read
from datacursor.ledger.verify import verify

if TYPE_CHECKING:
    from datacursor.outcome import Outcome

NUM_SAMPLES = 10**9
BATCH_SIZE = 8
MAX_MICROSECONDS = 10.0


class Collector:
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def on_outcome(self, outcome: Outcome) -> None:
        """Keep it."""
        self.outcomes.append(outcome)

    def on_state(self, cursor: dc.Cursor) -> None:
        """Do nothing."""


class Run(NamedTuple):
    """Seconds an update, or a row, of one run."""

    plain: float
    observed: float
    recorded: float
    row: float
    read: float
    verified: float
    num_bytes: float


def run(directory: Path, num_updates: int) -> Run:
    """Commit without and with a ledger, then read it back; return seconds each."""
    plain = _commits(_sampler(), num_updates)
    collector = Collector()
    sampler = _sampler()
    sampler.add_observer(collector)
    observed = _commits(sampler, num_updates)
    sampler = _sampler()
    with dc.Ledger(directory) as ledger:
        ledger.attach(sampler)
        recorded = _commits(sampler, num_updates, ledger)
    start = time.process_time()
    history = read(directory)
    middle = time.process_time()
    result = verify(directory, cursor=sampler.cursor)
    end = time.process_time()
    if (len(history.effective), result.num_recomputed) != (num_updates, num_updates):
        raise RuntimeError(f"{directory}: holds {len(history.effective)} of {num_updates} updates")
    size = sum(path.stat().st_size for path in directory.iterdir())
    return Run(
        plain,
        observed,
        recorded,
        _rows(directory / "rows", collector.outcomes),
        (middle - start) / num_updates,
        (end - middle) / num_updates,
        size / num_updates,
    )


def _sampler() -> dc.CursorSampler:
    return dc.CursorSampler(NUM_SAMPLES, batch_size=BATCH_SIZE, seed=7)


def _commits(sampler: dc.CursorSampler, num_updates: int, ledger: dc.Ledger | None = None) -> float:
    indices = iter(sampler)
    start = time.process_time()
    for _ in range(num_updates):
        for _ in range(BATCH_SIZE):
            next(indices)
        if ledger is not None:
            ledger.note(loss=0.5, learning_rate=0.1)
        sampler.commit()
    if ledger is not None:
        ledger.flush()
    return (time.process_time() - start) / num_updates


def _rows(directory: Path, outcomes: list[Outcome]) -> float:
    """Return what is the ledger's own: outcomes told to it with nobody committing."""
    start = time.process_time()
    with dc.Ledger(directory) as ledger:
        for outcome in outcomes:
            ledger.note(loss=0.5, learning_rate=0.1)
            ledger.on_outcome(outcome)
    return (time.process_time() - start) / len(outcomes)


def main() -> int:
    """Measure, print; return the exit status."""
    options = report.arguments(__doc__)
    report.print_machine()
    num_updates, rounds = (5_000, 3) if options.check else (50_000, 5)
    with tempfile.TemporaryDirectory() as directory:
        runs = [run(Path(directory) / str(number), num_updates) for number in range(rounds)]
    best = Run(*map(min, zip(*runs, strict=True)))
    rows = [
        ("update without a ledger", report.seconds(best.plain)),
        ("update told to an observer that does nothing", report.seconds(best.observed)),
        ("update with a ledger", report.seconds(best.recorded)),
        ("of this, the ledger's own: note and row", report.seconds(best.row)),
        ("a row read back, chain checked", report.seconds(best.read)),
        ("a row verified", report.seconds(best.verified)),
        ("a row on disk", report.num_bytes(round(best.num_bytes))),
    ]
    report.table(f"{num_updates:,} updates, best of {rounds} runs", ("", "each"), rows)
    claim = report.at_most("us of a note and a row", 1e6 * best.row, MAX_MICROSECONDS)
    return report.conclude([claim], {"runs": [each._asdict() for each in runs]}, options.json)


if __name__ == "__main__":
    sys.exit(main())
