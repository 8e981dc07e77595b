"""The runs of the demo one after the other, and what is said about them."""

from __future__ import annotations

import sys
import time
from collections import Counter
from importlib.util import find_spec
from itertools import zip_longest
from statistics import mean
from typing import TYPE_CHECKING

from datacursor.demo.corpus import write_corpus
from datacursor.demo.launch import read_attempt, run_and_kill, run_to_end
from datacursor.demo.parameters import largest_difference
from datacursor.demo.records import split_rows
from datacursor.demo.settings import CHECKPOINTS_NAME, CORPUS_NAME, Attempt, Settings, count
from datacursor.demo.train import make_rows
from datacursor.demo.verdict import (
    Closeness,
    Finding,
    effective_history,
    judge_restart,
    judge_rows,
    rows_of,
)
from datacursor.recovery.checkpoint import load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from datacursor.demo.records import AttemptLog
    from datacursor.demo.verdict import Rows
    from datacursor.plan import PackingPlan

# What may differ in a parameter when float32 gradients were summed in another order; one row
# more or less makes a thousand times as much.
TOLERANCE = 1e-5
PICTURE_NAME = "timeline.png"

_ATTEMPTS = (
    Attempt(0, replicas=1, workers=2),
    Attempt(1, replicas=1, workers=1),
    Attempt(2, replicas=2, workers=2),
)
_KILL_PLACES = (1.4, 2.3)  # in epochs
_NAME_WIDTH = 18


def tell(directory: Path, settings: Settings) -> list[str]:
    """Run the whole demo in an empty directory and print what happens.

    Returns:
        The claims that failed; none if all hold.

    Raises:
        ChildProcessError: A training process failed, or ended before it could be killed.
        TimeoutError: A training process did not end.
    """
    settings.write(directory)
    num_documents = write_corpus(directory / CORPUS_NAME, settings.corpus_bytes)
    plan = make_rows(settings, _ATTEMPTS[0], directory).plan
    _say("corpus", f"{num_documents} sources of Python's library, a byte a token")
    _say("plan", f"{settings.epochs} epochs of {len(plan)} rows, {plan.seq_len} tokens each")

    whole, killed = directory / "uninterrupted", directory / "killed"
    uninterrupted = _run(whole, _ATTEMPTS[0], "uninterrupted")
    logs: list[AttemptLog] = []
    failed: list[str] = []
    kills = (*_kill_updates(settings, plan), None)
    for attempt, kill in zip(_ATTEMPTS, kills, strict=True):
        logs.append(_run(killed, attempt, f"attempt {attempt.number}", kill))
        if attempt.number > 0:
            # The same sums in the same order give the same bits; other replicas sum otherwise.
            is_bitwise = attempt.replicas == _ATTEMPTS[0].replicas
            closeness = None if is_bitwise else _compare_models(whole, killed)
            findings = judge_restart(uninterrupted.updates, logs, closeness)
            failed += _report(f"restart {attempt.number}", findings)
    history = effective_history(logs).values()
    planned = _planned_rows(plan, settings.epochs)
    findings = judge_rows(planned, rows_of(history), planned)
    failed += _report(f"all {settings.epochs} epochs against the plan", findings)
    print()
    _draw(directory / PICTURE_NAME, uninterrupted, logs, plan, failed)
    _say("logs, states", f"in {directory}/")
    return failed


def _run(run: Path, attempt: Attempt, name: str, kill: int | None = None) -> AttemptLog:
    """Run an attempt to its end, or until it is killed in an update, and say so."""
    print()
    _say(name, str(attempt))
    run.mkdir(exist_ok=True)
    began = time.monotonic()
    if kill is None:
        run_to_end(run, attempt)
    else:
        run_and_kill(run, attempt, kill)
    seconds = time.monotonic() - began
    log = read_attempt(run, attempt)
    _say("", _describe_end(log) if kill is None else _describe_kill(log), f"({seconds:.0f} s)")
    return log


def _describe_end(log: AttemptLog) -> str:
    losses: dict[int, list[float]] = {}
    for update in log.updates.values():
        losses.setdefault(update.epoch, []).append(float.fromhex(update.loss))
    means = ", ".join(f"{mean(values):.2f}" for values in losses.values())
    return f"ended after {count(len(log.updates), 'update')}; mean loss of an epoch: {means}"


def _describe_kill(log: AttemptLog) -> str:
    last = log.deliveries[-1]
    died = sum(number > log.durable for number in log.updates)
    return (
        f"SIGKILL in epoch {last.epoch}, update {last.update}: "
        f"{count(last.delivered - log.committed, 'row')} delivered and not committed, "
        f"{last.issued - last.delivered} more issued;\n"
        f"{count(died, 'update')} since the checkpoint (update {log.durable}) died with it"
    )


def _kill_updates(settings: Settings, plan: PackingPlan) -> list[int]:
    """Return the updates to kill the run in: amid epochs 1 and 2, and between checkpoints."""
    per_epoch = -(-len(plan) // settings.rows_per_update)
    every = settings.checkpoint_every
    return [int(place * per_epoch) // every * every + every // 2 + 1 for place in _KILL_PLACES]


def _compare_models(a: Path, b: Path) -> Closeness:
    states = [load(run / CHECKPOINTS_NAME)["model"] for run in (a, b)]
    return Closeness(largest_difference(*states), TOLERANCE)


def _planned_rows(plan: PackingPlan, epochs: int) -> Rows:
    rows: Rows = Counter()
    for epoch in range(epochs):
        spans, row_offsets = plan.rows(epoch, 0, plan.num_rows(epoch))
        rows.update((epoch, row) for row in split_rows(spans.tolist(), row_offsets.tolist()))
    return rows


def _draw(
    path: Path,
    uninterrupted: AttemptLog,
    logs: Sequence[AttemptLog],
    plan: PackingPlan,
    failed: Sequence[str],
) -> None:
    if find_spec("matplotlib") is None:
        _say("picture", "none: matplotlib is not installed (pip install datacursor[plot])")
        return
    from datacursor.demo.picture import lane_of, losses_of
    from datacursor.plots import plot_timeline

    finding = f"{failed[0]} differs" if failed else "every row still entered exactly one update"
    names = [f"attempt {attempt.number}\n{attempt}" for attempt in _ATTEMPTS]
    figure = plot_timeline(
        [lane_of(name, log, len(plan)) for name, log in zip(names, logs, strict=True)],
        losses_of(uninterrupted.updates.values(), len(plan)),
        rows_per_epoch=len(plan),
        title=f"Killed twice in mid-epoch: {finding}",
        subtitle=f"{len(logs)} attempts of one run; in grey the losses of a run of the same "
        "program that was not interrupted",
    )
    figure.savefig(path, dpi=110)
    _say("picture", str(path))


def _report(title: str, findings: Sequence[Finding]) -> list[str]:
    """Print findings below a title and return the names of those that failed."""
    print(f"\n  {title}")
    for finding in findings:
        _say(f"    {finding.name}", finding.text if finding.holds else f"FAILED: {finding.text}")
    return [f"{title}: {finding.name}" for finding in findings if not finding.holds]


def _say(name: str, *texts: str) -> None:
    lines = " ".join(texts).split("\n")
    for label, line in zip_longest((name,), lines, fillvalue=""):
        print(f"{label:<{_NAME_WIDTH}}{line}")
    sys.stdout.flush()
