"""How fast does an order give its indices?

    kernel  the core alone into a cached buffer, against a store loop and memset
    whole   all n indices as an array, against torch.randperm and numpy's permutation
    ints    all n indices as Python ints from a sampler, against torch's RandomSampler

Every answer is checked to be a permutation (the kernel's: to equal the scalar
definition) before it is timed.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import kernel
import measure
import numpy as np
import peers
import report

from datacursor import CursorSampler, Shuffle

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray
    from report import Claim

EPOCH = 1
SEED = 1
NARROW = 10**8  # the kernel's 16-bit words serve up to 2^31 samples, its 32-bit words beyond
WIDE = 10**12
KERNEL_SIZES = (10**4, 10**6, NARROW, 2**30 + 1, WIDE, 2**40 + 1)

Table = dict[str, dict[str, float]]  # row -> column -> figure


@dataclass(frozen=True)
class Scale:
    """How much is measured, and what share of a ratio over the peers is asked for."""

    sizes: tuple[int, ...]
    ints_sizes: tuple[int, ...]
    rounds: int
    slack: float


FULL = Scale(tuple(10**k for k in range(3, 9)), (10**5, 10**6), 5, 1.0)
CHECK = Scale((10**3, 10**6), (10**5,), 3, 0.5)
MIN_RATIOS = {10**3: 1.5, 10**4: 3.0, 10**5: 4.0, 10**6: 6.0, 10**7: 30.0, 10**8: 30.0}


# -- Kernel ----------------------------------------------------------------------------------


def time_kernel() -> Table:
    """Time the core alone; empty if its timer is not built."""
    best = kernel.timings(KERNEL_SIZES)
    portable = kernel.timings((NARROW, WIDE), portable=True)
    if best is None or portable is None:
        print(f"\nno figures of the core alone: {kernel.NOT_BUILT}")
        return {}
    rows = {name: best[name] for name in ("memset", "store")}
    for size in (NARROW, WIDE):
        bound = kernel.multiply_cycles(size) * best["cycle"]
        rows[f"one multiply a cycle, {report.count(size)}"] = bound
    for size in KERNEL_SIZES:
        rows[f"fill, {report.count(size)}"] = best[f"fill/{size}"]
    for size in (NARROW, WIDE):
        rows[f"portable fill, {report.count(size)}"] = portable[f"fill/{size}"]
    for size in (NARROW, WIDE):
        rows[f"index_at, {report.count(size)}"] = best[f"scalar/{size}"]
    table = {
        name: {
            "ns": value,
            "cycles": value / best["cycle"],
            "x store": value / best["store"],
            "x memset": value / best["memset"],
        }
        for name, value in rows.items()
    }
    _print(table, "measure", "Into a buffer of 2048 indices, the core alone")
    return table


# -- Whole orders ----------------------------------------------------------------------------


def time_whole(scale: Scale) -> Table:
    """Time the making of all n indices."""
    table = {}
    for size in scale.sizes:
        actions = _whole_actions(size)
        for name, action in actions.items():
            if name != "memset":
                _require_permutation(name, action(), size)
        rounds = scale.rounds if size < 10**8 else 3
        table[report.count(size)] = {
            name: 1e9 * timing.best / size
            for name, timing in measure.interleave(actions, rounds=rounds).items()
        }
    _print(table, "samples", "All indices of an epoch as an array, ns an index")
    ratios = {
        size: {
            "torch / fill": _best_torch(row) / row["fill"],
            "torch / indices": _best_torch(row) / row["indices"],
            "numpy / indices": row["numpy permutation"] / row["indices"],
            "fill / memset": row["fill"] / row["memset"],
        }
        for size, row in table.items()
    }
    _print(ratios, "samples", "The same as ratios; torch by its faster way")
    return table


def _whole_actions(size: int) -> dict[str, Callable[[], Any]]:
    order = Shuffle(size, SEED)
    out = np.empty(size, dtype=np.int64)

    def fill() -> NDArray[np.int64]:
        order.fill(EPOCH, 0, out)
        return out

    return {
        "indices": partial(order.indices, EPOCH, 0, size),
        "torch.randperm": peers.torch_permutation(size),
        "numpy permutation": peers.numpy_permutation(size),
        "fill": fill,
        "torch.randperm(out=)": peers.torch_permutation_into(size),
        "memset": peers.memset(out),
    }


def _best_torch(row: dict[str, float]) -> float:
    return min(row["torch.randperm"], row["torch.randperm(out=)"])


def _require_permutation(name: str, indices: Any, size: int) -> None:
    seen = np.zeros(size, dtype=bool)
    seen[np.asarray(indices)] = True
    if len(indices) != size or not seen.all():
        raise AssertionError(f"{name} gives no permutation of {size}")


# -- Python ints -----------------------------------------------------------------------------


def time_ints(size: int, rounds: int) -> Table:
    """Time the drawing of a whole epoch from a sampler, as Python ints."""
    actions: dict[str, Callable[[], Iterable[int]]] = {
        f"CursorSampler, batch size {batch_size}": partial(_sampler, size, batch_size)
        for batch_size in (1, 32, 256)
    }
    actions["RandomSampler"] = peers.random_sampler(size)
    actions["floor: list(range(n))"] = partial(list, range(size))
    for name, action in actions.items():
        _require_permutation(name, list(action()), size)
    drains = {name: partial(_drain, action) for name, action in actions.items()}
    timings = measure.interleave(drains, rounds=2 * rounds)
    ours = timings["CursorSampler, batch size 256"].best
    table = {
        name: {"ns": 1e9 * timing.best / size, "x ours": timing.best / ours}
        for name, timing in timings.items()
    }
    _print(table, "sampler", f"{report.count(size)} Python ints from a new sampler")
    return table


def _sampler(size: int, batch_size: int) -> CursorSampler:
    return CursorSampler(size, batch_size=batch_size, seed=SEED)


def _drain(make: Callable[[], Iterable[int]]) -> None:
    deque(iter(make()), maxlen=0)


# -- Claims and picture ----------------------------------------------------------------------


def claims_of(scale: Scale, core: Table, whole: Table, ints: dict[str, Table]) -> list[Claim]:
    """Return what the figures must show."""
    claims = [
        report.at_most(f"fill, {size} samples, over a store loop", row["x store"], 6.0)
        for size, row in ((size, core.get(f"fill, {size}")) for size in ("10^8", "10^12"))
        if row
    ]
    for size in scale.sizes:
        row = whole[report.count(size)]
        claims.append(
            report.at_least(
                f"torch's faster randperm over fill, {report.count(size)} samples",
                _best_torch(row) / row["fill"],
                MIN_RATIOS[size] * scale.slack,
            )
        )
    for samples, table in ints.items():
        text = f"RandomSampler over CursorSampler, {samples} samples, batch size 256"
        claims.append(report.at_least(text, table["RandomSampler"]["x ours"], 2.2 * scale.slack))
    return claims


def draw_whole(axes: Axes, sizes: Sequence[int], whole: Table) -> None:
    """Draw the whole orders over n."""
    styles: dict[str, dict[str, Any]] = {
        "numpy permutation": {"color": report.COLORS[3]},
        "torch.randperm": {"color": report.COLORS[2]},
        "indices": {"color": report.COLORS[0], "lw": 2.5, "label": "Shuffle.indices"},
        "fill": {"color": report.COLORS[1], "label": "Shuffle.fill, same array again"},
        "memset": {"color": "black", "ls": ":", "marker": "", "label": "memset, same array again"},
    }
    for name, style in styles.items():
        nanoseconds = [row[name] for row in whole.values()]
        axes.plot(sizes, nanoseconds, **({"marker": "o", "label": name} | style))
    axes.set(xscale="log", yscale="log", xlabel="samples", ylabel="ns an index")
    axes.set_title("all indices of an epoch as an array")
    axes.legend(fontsize=8, frameon=False)


def draw_kernel(axes: Axes, core: Table) -> None:
    """Draw the core between its limits and the scalar code."""
    names = list(core)[::-1]
    colors = [_bar_color(name) for name in names]
    bars = axes.barh(names, [core[name]["ns"] for name in names], color=colors)
    axes.bar_label(bars, fmt="%.2g", padding=3, fontsize=8)
    axes.set(xscale="log", xlabel="ns an index")
    axes.tick_params("y", labelsize=8)
    axes.set_title("the core alone, buffer in first-level cache")


def _bar_color(name: str) -> str:
    if name.startswith("fill"):
        return report.COLORS[0]
    return report.COLORS[1] if name.startswith(("portable", "index_at")) else report.COLORS[5]


def _print(table: Table, first: str, title: str) -> None:
    columns = list(next(iter(table.values())))
    rows = [(name, *(f"{row[column]:.3g}" for column in columns)) for name, row in table.items()]
    report.table(title, (first, *columns), rows)


def main() -> int:
    """Measure, print, draw; return the exit status."""
    options = report.arguments(__doc__)
    scale = CHECK if options.check else FULL
    report.print_machine()
    core = time_kernel()
    whole = time_whole(scale)
    ints = {report.count(size): time_ints(size, scale.rounds) for size in scale.ints_sizes}
    if options.plot is not None:
        panels = 2 if core else 1
        with report.picture(options.plot, panels=panels, title="Speed of an order") as axes:
            draw_whole(axes[0], scale.sizes, whole)
            if core:
                draw_kernel(axes[1], core)
    figures = {"kernel": core, "whole": whole, "ints": ints}
    return report.conclude(claims_of(scale, core, whole, ints), figures, options.json)


if __name__ == "__main__":
    sys.exit(main())
