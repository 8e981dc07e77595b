"""How long does it take to resume in the middle of an epoch?

    race   all ways to resume at one place: time, memory, size of the state
    sweep  ours over sizes and positions: is the time really flat?
    far    ours at 10^12 samples: construct, seek, save, first batch

The clock runs from the saved state in hand to the first index, or the first batch,
delivered. What comes out is compared with what the uninterrupted run would have
delivered before anything is timed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import measure
import peers
import report
import ways
from measure import Timing
from ways import Place, Way

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from report import Claim

BATCH_SIZE = 250  # divides n / 2 of every size, so that peers can resume at a batch
FAR = 10**12


@dataclass(frozen=True)
class Scale:
    """How much is measured.

    Attributes:
        num_samples: Size of the race.
        sizes: Sizes of the sweep.
        min_ratio: How many times as fast as every peer; small where n is, for a permutation
            that fits a cache costs its drawer little.
        rounds: Turns each way gets.
        max_spread: Slowest over fastest place that still counts as flat.
        with_memory: Whether the memory of all ways is measured; takes seconds each.
    """

    num_samples: int
    sizes: tuple[int, ...]
    min_ratio: float
    rounds: int
    max_spread: float
    with_memory: bool


FULL = Scale(10**7, tuple(10**k for k in range(4, 13)), 1000, 5, 1.5, with_memory=True)
CHECK = Scale(10**6, (10**4, 10**8, 10**12), 10, 3, 3.0, with_memory=False)


@dataclass(frozen=True)
class Heat:
    """Ways that deliver the same thing, and what bounds them all."""

    delivers: str
    ours: Way
    peers: tuple[Way, ...]
    floor: Way


HEATS = (
    Heat(
        "first index",
        ways.cursor_sampler(),
        (peers.slice_permutation(), peers.skip_in_sampler()),
        ways.one_index(),
    ),
    Heat(
        "first batch",
        ways.cursor_loader(),
        (peers.skip_in_loader(), peers.stateful_loader()),
        peers.no_resume(),
    ),
)


@dataclass(frozen=True)
class Result:
    """How one way did at one place."""

    way: str
    place: Place
    timing: Timing
    state_num_bytes: int
    peak_growth: int | None = None


def resume(
    entrants: Sequence[Way], place: Place, *, rounds: int, with_memory: bool = False
) -> list[Result]:
    """Check the answer of every way that can run here, then time them side by side."""
    entrants = [way for way in entrants if not way.missing]
    saved = {way.name: way.save(place) for way in entrants}
    actions = {way.name: partial(way.resume, place, saved[way.name].state) for way in entrants}
    for name, action in actions.items():
        require_answer(name, action(), saved[name].expected)
    timings = measure.interleave(actions, rounds=rounds)
    return [
        Result(
            way.name,
            place,
            timings[way.name],
            saved[way.name].num_bytes,
            measure.peak_growth(actions[way.name], peers.warm_up) if with_memory else None,
        )
        for way in entrants
    ]


def require_answer(name: str, found: list[int], expected: list[int]) -> None:
    """Raise unless what came first is what had to come."""
    if not found or found != expected[: len(found)]:
        raise AssertionError(f"{name} resumes with {found[:3]}.., expected {expected[:3]}..")


# -- Race ------------------------------------------------------------------------------------


def race(scale: Scale) -> list[Result]:
    """Run all ways at n / 2 and print how far behind ours each is."""
    place = Place(scale.num_samples, scale.num_samples // 2, BATCH_SIZE)
    results = []
    for heat in HEATS:
        entrants = (heat.ours, *heat.peers, heat.floor)
        found = resume(entrants, place, rounds=scale.rounds, with_memory=scale.with_memory)
        _print_heat(heat, place, found)
        results += found
    return results


def _print_heat(heat: Heat, place: Place, results: Sequence[Result]) -> None:
    rows = [
        (
            result.way,
            report.seconds(result.timing.best),
            report.seconds(result.timing.median),
            report.ratio(result.timing.best / results[0].timing.best),
            report.ratio(result.timing.best / results[-1].timing.best),
            report.num_bytes(result.peak_growth),
            report.num_bytes(result.state_num_bytes),
        )
        for result in results
    ]
    report.table(
        f"State in hand -> {heat.delivers}: {report.count(place.num_samples)} samples, "
        f"position {place.position:,}, batch size {place.batch_size}",
        ("way", "best", "median", "x ours", "x floor", "peak memory", "state"),
        rows,
    )
    print()
    for way in (heat.ours, *heat.peers, heat.floor):
        print(f"  {way.name}: {way.missing or way.does}")


# -- Sweep -----------------------------------------------------------------------------------


def sweep(scale: Scale) -> list[Result]:
    """Time ours at the start, the middle and the end of epochs of every size."""
    places = [
        Place(size, position, BATCH_SIZE)
        for size in scale.sizes
        for position in (0, size // 2, size - 1)
    ]
    results = []
    for heat in HEATS:
        found = _resume_everywhere(heat.ours, places, scale)
        _print_sweep(heat, found)
        results += found
    return results


def _resume_everywhere(way: Way, places: Sequence[Place], scale: Scale) -> list[Result]:
    saved = [way.save(place) for place in places]
    actions = {
        str(place): partial(way.resume, place, save.state)
        for place, save in zip(places, saved, strict=True)
    }
    for action, save in zip(actions.values(), saved, strict=True):
        require_answer(way.name, action(), save.expected)
    timings = measure.interleave(actions, rounds=2 * scale.rounds, burst_seconds=0.005)
    return [
        Result(way.name, place, timings[str(place)], save.num_bytes)
        for place, save in zip(places, saved, strict=True)
    ]


def _print_sweep(heat: Heat, results: Sequence[Result]) -> None:
    rows = [
        (
            report.count(results[i].place.num_samples),
            *(report.seconds(result.timing.best) for result in results[i : i + 3]),
        )
        for i in range(0, len(results), 3)
    ]
    report.table(
        f"{heat.ours.name}: state in hand -> {heat.delivers}, best, by position",
        ("samples", "0", "n / 2", "n - 1"),
        rows,
    )


# -- Far -------------------------------------------------------------------------------------


def far(scale: Scale) -> Result:
    """Do at 10^12 samples all that a start needs, and print what it takes."""
    place = Place(FAR, FAR // 2, BATCH_SIZE)
    saved = ways.cursor_loader().save(place)
    action = partial(ways.start, place)
    require_answer("start", action(), saved.expected)
    timing = measure.interleave({"start": action}, rounds=2 * scale.rounds)["start"]
    growth = measure.peak_growth(action, peers.warm_up)
    report.table(
        f"Construct, seek, save and deliver a batch: {report.count(FAR)} samples, "
        f"position n / 2, batch size {BATCH_SIZE}",
        ("best", "median", "peak memory", "state"),
        [
            (
                report.seconds(timing.best),
                report.seconds(timing.median),
                report.num_bytes(growth),
                report.num_bytes(saved.num_bytes),
            )
        ],
    )
    return Result("start", place, timing, saved.num_bytes, growth)


# -- Claims and picture ----------------------------------------------------------------------


def claims_of(
    scale: Scale, raced: Sequence[Result], swept: Sequence[Result], start: Result
) -> list[Claim]:
    """Return what the figures must show."""
    best = {result.way: result.timing.best for result in raced}
    claims = [
        report.at_least(
            f"{heat.ours.name} against {peer.name}, times as fast",
            best[peer.name] / best[heat.ours.name],
            scale.min_ratio,
        )
        for heat in HEATS
        for peer in heat.peers
        if peer.name in best
    ]
    for heat in HEATS:
        times = [result.timing.best for result in swept if result.way == heat.ours.name]
        text = f"{heat.ours.name}: slowest over fastest place of the sweep"
        claims.append(report.at_most(text, max(times) / min(times), scale.max_spread))
    sizes = [result.state_num_bytes for result in (*swept, start)]
    claims.append(report.at_most("largest state in bytes", max(sizes), 512))
    claims.append(report.at_least("smallest state in bytes", min(sizes), 512))
    claims.append(report.at_most("start at 10^12 samples, best, ms", 1e3 * start.timing.best, 1))
    if start.peak_growth is not None:
        growth = start.peak_growth / 1e6
        claims.append(report.at_most("start at 10^12 samples, peak memory, MB", growth, 10))
    return claims


def over_sizes(scale: Scale, raced: Sequence[Result]) -> list[Result]:
    """Resume at n / 2 for every size of the sweep, the peers up to the size of the race."""
    results = list(raced)
    for heat in HEATS:
        for size in scale.sizes:
            if size != scale.num_samples:
                entrants = (heat.ours, *(heat.peers if size < scale.num_samples else ()))
                place = Place(size, size // 2, BATCH_SIZE)
                results += resume(entrants, place, rounds=3, with_memory=scale.with_memory)
    return sorted(results, key=lambda result: result.place)


def draw(path: Path, results: Sequence[Result]) -> None:
    """Draw time and, where it was measured, memory over the number of samples."""
    grown = [result for result in results if result.peak_growth]
    with report.picture(path, panels=2 if grown else 1, title="Resuming in mid-epoch") as panels:
        times = {result: result.timing.best for result in results}
        _draw_ways(panels[0], times, report.seconds)
        panels[0].set(title="state in hand -> first index or batch, at n / 2", ylabel="seconds")
        panels[0].legend(fontsize=8, frameon=False, loc="center right", bbox_to_anchor=(0.97, 0.62))
        if grown:
            growths = {result: result.peak_growth or 0 for result in grown}
            _draw_ways(panels[1], growths, report.num_bytes)
            panels[1].set(title="peak memory on the way", ylabel="bytes")


def _draw_ways(
    axes: Axes, values: Mapping[Result, float], format_value: Callable[[Any], str]
) -> None:
    ours = [heat.ours.name for heat in HEATS]
    rivals = [peer.name for heat in HEATS for peer in heat.peers if not peer.missing]
    for name, color in zip(ours + rivals, report.COLORS, strict=False):
        mine = {result: value for result, value in values.items() if result.way == name}
        x = [result.place.num_samples for result in mine]
        y = list(mine.values())
        width = 2.5 if name in ours else 1.5
        axes.plot(x, y, color=color, marker="o", lw=width, label=name)
        axes.annotate(
            format_value(y[-1]), (x[-1] * 1.6, y[-1]), va="center", fontsize=8, color=color
        )
    axes.set(xscale="log", yscale="log", xlabel="samples in the data set", xlim=(5e3, 4e13))


def main() -> int:
    """Measure, print, draw; return the exit status."""
    options = report.arguments(__doc__)
    scale = CHECK if options.check else FULL
    report.print_machine()
    raced = race(scale)
    swept = sweep(scale)
    start = far(scale)
    grown = over_sizes(scale, raced) if options.plot else []
    if options.plot:
        draw(options.plot, grown)
    figures = {
        "race": [asdict(result) for result in raced],
        "sweep": [asdict(result) for result in swept],
        "start": asdict(start),
        "over sizes": [asdict(result) for result in grown],
    }
    return report.conclude(claims_of(scale, raced, swept, start), figures, options.json)


if __name__ == "__main__":
    sys.exit(main())
