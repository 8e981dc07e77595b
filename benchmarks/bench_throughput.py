"""How many tokens a second reach the training loop, from files on disk through a loader?

    rates    batches of 8 x 2048 tokens, with 0 and with 2 worker processes
    resume   whether a loader goes on exactly where it stopped, with another number of workers

The clock runs from the first batch to the last, so that no start of a worker is in it:
without workers the processor time of the process, which other work does not change, with
workers the time that passes. Each turn has a process of its own, for loaders leave threads
behind. The files lie in the page cache.
"""

from __future__ import annotations

import gc
import sys
import time
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import corpora
import loader_peers
import measure
import report
import torch
from packing_peers import Shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from corpora import TokenFiles
    from loader_peers import Way
    from matplotlib.axes import Axes
    from report import Claim

SHAPE = Shape(batch_size=8, seq_len=2048)
WORKERS = (0, 2)
BEFORE_STOP = 5  # batches

Rates = dict[str, dict[int, list[float]]]  # way -> workers -> million tokens/s of each round


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    num_documents: int
    num_batches: int  # in one turn
    rounds: int
    ways: tuple[Way, ...]
    margin: float  # ours over the best peer, each at its best


FULL = Scale(
    num_documents=30_000,
    num_batches=200,
    rounds=9,
    ways=(*loader_peers.OURS, *loader_peers.PEERS, loader_peers.LIMIT),
    margin=2.0,
)
CHECK = Scale(
    num_documents=2_000,
    num_batches=20,
    rounds=1,
    ways=(*loader_peers.OURS[:1], loader_peers.LIMIT),
    margin=0.0,
)


@dataclass(frozen=True)
class Contestant:
    """A loader with the files it reads."""

    way: Way
    prepared: Any

    def open(self, num_workers: int) -> Any:
        """Return a new loader."""
        return self.way.open(self.prepared, SHAPE, num_workers)


def contestants_of(scale: Scale, files: TokenFiles) -> list[Contestant]:
    """Prepare every loader that is installed."""
    found = (_prepared(way, files) for way in scale.ways)
    return [contestant for contestant in found if contestant is not None]


def _prepared(way: Way, files: TokenFiles) -> Contestant | None:
    try:
        return Contestant(way, way.prepare(files, SHAPE))
    except ImportError as error:
        print(f"\nno figures of {way.name}: {error}")
        return None


# -- Rates -----------------------------------------------------------------------------------


def time_rates(scale: Scale, contestants: Sequence[Contestant]) -> Rates:
    """Time every loader once a round, each time in a process of its own."""
    rates: Rates = {c.way.name: {num_workers: [] for num_workers in WORKERS} for c in contestants}
    for num_workers in WORKERS:
        for _ in range(scale.rounds):
            for contestant in contestants:
                turn = partial(_rate, contestant, num_workers, scale.num_batches)
                rates[contestant.way.name][num_workers].append(1e-6 * measure.in_child(turn))
    rows = [
        (c.way.name, c.way.gives, *(_spread(rates[c.way.name][number]) for number in WORKERS))
        for c in contestants
    ]
    columns = ("loader", "a batch holds", *map(_column, WORKERS))
    report.table(f"Million tokens/s, median and range of {scale.rounds} rounds", columns, rows)
    return rates


def _spread(values: list[float]) -> str:
    return f"{median(values):,.3g} ({min(values):,.3g} - {max(values):,.3g})"


def _rate(contestant: Contestant, num_workers: int, num_batches: int) -> float:
    """Return tokens a second between the first batch and the last."""
    batches = iter(contestant.open(num_workers))
    first = contestant.way.ids(next(batches))
    if first.numel() != SHAPE.batch_size * SHAPE.seq_len or first.dtype != torch.int64:
        raise AssertionError(f"{contestant.way.name}: a batch of {first.shape}, {first.dtype}")
    clock = time.perf_counter if num_workers > 0 else time.process_time
    start = clock()
    count = sum(1 for _ in islice(batches, num_batches))
    elapsed = clock() - start
    del batches
    gc.collect()
    if count != num_batches:
        raise AssertionError(f"{contestant.way.name}: {count} batches, expected {num_batches}")
    return count * SHAPE.batch_size * SHAPE.seq_len / elapsed


def _column(num_workers: int) -> str:
    return f"{num_workers} workers"


# -- Resume ----------------------------------------------------------------------------------


def try_resume(contestants: Sequence[Contestant]) -> dict[str, dict[str, str]]:
    """Stop every loader in mid-epoch and go on; say whether the same rows came."""
    table = {}
    for contestant in contestants:
        if contestant.way.keeps_position:
            table[contestant.way.name] = {
                f"{before} -> {after} workers": _resumed(contestant, before, after)
                for before in WORKERS
                for after in WORKERS
            }
    rows = [(name, *row.values()) for name, row in table.items()]
    columns = next(iter(table.values()))
    report.table("Stopped and resumed: the same rows?", ("loader", *columns), rows)
    return table


def _resumed(contestant: Contestant, before: int, after: int) -> str:
    way = contestant.way
    whole = iter(contestant.open(before))
    expected = [way.ids(batch).clone() for batch in islice(whole, 2 * BEFORE_STOP)]
    loader = contestant.open(before)
    batches = iter(loader)
    for _ in range(BEFORE_STOP):
        next(batches)
    state = way.save(loader)
    del batches, whole
    gc.collect()
    try:
        resumed = contestant.open(after)
        resumed.load_state_dict(state)
        rest = [way.ids(batch) for batch in islice(resumed, BEFORE_STOP)]
    except (AssertionError, RuntimeError, ValueError) as error:
        return f"refused: {type(error).__name__}"
    same = len(rest) == BEFORE_STOP and all(map(torch.equal, rest, expected[BEFORE_STOP:]))
    return "yes" if same else "no"


# -- Claims and picture ----------------------------------------------------------------------


def claims_of(scale: Scale, rates: Rates, resumed: dict[str, dict[str, str]]) -> list[Claim]:
    """Return what the figures must show."""
    names = [way.name for way in loader_peers.OURS if way.name in rates]
    exact = [answer == "yes" for name in names for answer in resumed[name].values()]
    claims = [report.at_least("resumes of ours that give the same rows", sum(exact), len(exact))]
    peers = [rates[way.name] for way in loader_peers.PEERS if way.name in rates]
    for num_workers in WORKERS if peers else ():
        # The machine is not as fast at all times, and each has met its best time.
        best = max(max(peer[num_workers]) for peer in peers)
        for name in names:
            ratio = max(rates[name][num_workers]) / best
            text = f"{name} over the best peer, {_column(num_workers)}"
            claims.append(report.at_least(text, ratio, scale.margin))
    return claims


def draw(axes: Axes, rates: Rates) -> None:
    """Draw the rates as bars, those of ours first."""
    names = list(rates)
    for shift, num_workers, color in ((-0.2, 0, 0), (0.2, 2, 1)):
        values = [median(rates[name][num_workers]) for name in names]
        places = [place + shift for place in range(len(names))]
        bars = axes.barh(
            places, values, height=0.38, color=report.COLORS[color], label=_column(num_workers)
        )
        axes.bar_label(bars, [f"{value:,.3g}" for value in values], padding=3, fontsize=8)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel="million tokens/s")
    axes.margins(x=0.15)
    axes.legend(fontsize=8, frameon=False)


def main() -> int:
    """Measure, print, draw; return the exit status."""
    options = report.arguments(__doc__)
    scale = CHECK if options.check else FULL
    report.print_machine()
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        lengths = corpora.lengths("web", scale.num_documents, shortest=1)
        contestants = contestants_of(scale, corpora.write(Path(folder), lengths))
        resumed = try_resume(contestants)
        rates = time_rates(scale, contestants)
    if options.plot is not None:
        with report.picture(options.plot, panels=1, title="From disk to the training loop") as axes:
            draw(axes[0], rates)
    figures = {"rates": rates, "resumed": resumed}
    return report.conclude(claims_of(scale, rates, resumed), figures, options.json)


if __name__ == "__main__":
    sys.exit(main())
