"""How fast does an order give its indices?

    core     fill, index_at and change of epoch into a cached buffer, without Python
    kernels  every kernel this processor runs
    whole    all n indices as an array, against torch.randperm and numpy's permutation
    batches  a batch of an order too large for a table, against orders that need none
    large    a buffer far beyond the caches, against memset of it
    ints     all n indices as Python ints from a sampler, against torch's RandomSampler

Every answer is checked to be a permutation, or a part of one (the core's: to equal the
scalar definition), before it is timed.
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
TABLE = 4096  # the largest size served from a table
# Just above a power of two most values leave [0, n) and must walk.
NETWORK_SIZES = (TABLE + 1, 10**4, 2**14 + 1, 10**5, 10**6, NARROW, 2**30 + 1)

Table = dict[str, dict[str, float]]  # row -> column -> figure


@dataclass(frozen=True)
class Scale:
    """How much is measured, and what share of a ratio is asked for."""

    sizes: tuple[int, ...]
    curve: tuple[int, ...]
    batch_size: int
    large_size: int
    large_ratios: dict[str, float]  # memset over fill; two threads only on an idle machine
    ints_sizes: tuple[int, ...]
    rounds: int
    slack: float


FULL = Scale(
    sizes=tuple(10**k for k in range(3, 9)),
    curve=(1, 10, 100, 1000, TABLE, *NETWORK_SIZES[:-1], 2**31, 2**31 + 1, WIDE, 10**15),
    batch_size=2**16,
    large_size=2**27,
    large_ratios={"fill": 0.36, "fill, 2 threads": 0.6},
    ints_sizes=(10**5, 10**6),
    rounds=5,
    slack=1.0,
)
CHECK = Scale(
    sizes=(10**3, 10**6),
    curve=(NARROW, WIDE),
    batch_size=2**11,
    large_size=2**23,
    large_ratios={"fill": 0.05},
    ints_sizes=(10**5,),
    rounds=3,
    slack=0.5,
)
MIN_RATIOS = {10**3: 1.5, 10**4: 3.0, 10**5: 4.5, 10**6: 8.0, 10**7: 30.0, 10**8: 30.0}
MIN_PEER_RATIOS = {
    "Grain index_shuffle": 3000.0,
    "cfm64 permute_batch": 30.0,
    "celeres-dl get_shuffled_indices": 30.0,
}


# -- The core alone --------------------------------------------------------------------------


def time_core() -> Table:
    """Time the core without Python; empty if its timer is not built."""
    best = kernel.timings((TABLE, *NETWORK_SIZES, WIDE))
    if best is None:
        print(f"\nno figures of the core alone: {kernel.NOT_BUILT}")
        return {}
    rows = {name: best[name] for name in ("memset", "store")}
    for size in (NARROW, WIDE):
        limit = kernel.limit_cycles(size) * best["cycle"]
        rows[f"limit, {report.count(size)}"] = limit
    for size in (TABLE, *NETWORK_SIZES, WIDE):
        rows[f"fill, {report.count(size)}"] = best[f"fill/{size}"]
    for measured in ("index_at", "position_of", "epoch"):
        for size in (TABLE, NARROW, WIDE):
            rows[f"{measured}, {report.count(size)}"] = best[f"{measured}/{size}"]
    table = {
        name: {
            "ns": value,
            "cycles": value / best["cycle"],
            "x store": value / best["store"],
            "x memset": value / best["memset"],
        }
        for name, value in rows.items()
    }
    _print(table, "measure", f"The core alone ({kernel.NAMES[0]}), buffer of 2048 indices")
    return table


def time_kernels(curve: Sequence[int]) -> Table:
    """Time every kernel over n; empty if the timer is not built."""
    table = {}
    for name in kernel.NAMES:
        best = kernel.timings(curve, name)
        if best is None:
            return {}
        table[name] = {report.count(size): best[f"fill/{size}"] for size in curve}
    _print(table, "kernel", "Every kernel, ns an index")
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
            "torch / fill, 2 threads": _best_torch(row) / row["fill, 2 threads"],
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
    return {
        "indices": partial(order.indices, EPOCH, 0, size),
        "torch.randperm": peers.torch_permutation(size),
        "numpy permutation": peers.numpy_permutation(size),
        "fill": partial(_filled, order, out, 1),
        "fill, 2 threads": partial(_filled, order, out, 2),
        "torch.randperm(out=)": peers.torch_permutation_into(size),
        "memset": peers.memset(out),
    }


def _filled(order: Shuffle, out: NDArray[np.int64], num_threads: int) -> NDArray[np.int64]:
    order.fill(EPOCH, 0, out, num_threads=num_threads)
    return out


def _best_torch(row: dict[str, float]) -> float:
    return min(row["torch.randperm"], row["torch.randperm(out=)"])


def _require_permutation(name: str, indices: Any, size: int) -> None:
    seen = np.zeros(size, dtype=bool)
    seen[np.asarray(indices)] = True
    if len(indices) != size or not seen.all():
        raise AssertionError(f"{name} gives no permutation of {size}")


# -- Batches ---------------------------------------------------------------------------------


def time_batches(scale: Scale) -> Table:
    """Time a batch of 10^8 samples against orders that need no table either."""
    order = Shuffle(NARROW, SEED)
    out = np.empty(scale.batch_size, dtype=np.int64)
    actions: dict[str, Callable[[], Any]] = {"Shuffle.fill": partial(_filled, order, out, 1)}
    for name, batch in peers.shuffled_batches(NARROW, scale.batch_size).items():
        if isinstance(batch, str):
            print(f"\nno figures of {name}: {batch}")
        else:
            actions[name] = batch
    for name, action in actions.items():
        indices = np.asarray(action())
        if len(np.unique(indices)) != scale.batch_size or indices.max() >= NARROW:
            raise AssertionError(f"{name} gives no part of a permutation of {NARROW}")
    timings = measure.interleave(actions, rounds=scale.rounds)
    ours = timings["Shuffle.fill"].best
    table = {
        name: {"ns": 1e9 * timing.best / scale.batch_size, "x ours": timing.best / ours}
        for name, timing in timings.items()
    }
    _print(table, "order", f"Batches of {scale.batch_size} of 10^8 samples, ns an index")
    return table


# -- A large buffer --------------------------------------------------------------------------


def time_large(scale: Scale) -> Table:
    """Time a buffer beyond the caches, its pages touched before, against memset of it."""
    order = Shuffle(NARROW if scale.large_size < NARROW else 2**30, SEED)
    out = np.empty(scale.large_size, dtype=np.int64)
    actions: dict[str, Callable[[], Any]] = {
        "memset": peers.memset(out),
        "fill": partial(_filled, order, out, 1),
        "fill, 2 threads": partial(_filled, order, out, 2),
    }
    one = _filled(order, out, 1)[::1009].copy()
    if not np.array_equal(_filled(order, out, 2)[::1009], one):
        raise AssertionError("two threads give another order than one")
    timings = measure.interleave(actions, rounds=scale.rounds)
    table = {
        name: {
            "ns": 1e9 * timing.best / scale.large_size,
            "GB/s": 8e-9 * scale.large_size / timing.best,
            "memset / it": timings["memset"].best / timing.best,
        }
        for name, timing in timings.items()
    }
    _print(table, "measure", f"A buffer of {scale.large_size >> 17} MiB, ns an index")
    return table


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


def claims_of(scale: Scale, core: Table, kernels: Table, rest: dict[str, Table]) -> list[Claim]:
    """Return what the figures must show."""
    claims = _core_claims(scale.slack, core, kernels) if core else []
    for size in scale.sizes:
        row = rest["whole"][report.count(size)]
        claims.append(
            report.at_least(
                f"torch's faster randperm over fill, {report.count(size)} samples",
                _best_torch(row) / row["fill"],
                MIN_RATIOS[size] * scale.slack,
            )
        )
    for name, row in rest["batches"].items():
        if name in MIN_PEER_RATIOS:
            limit = MIN_PEER_RATIOS[name] * scale.slack
            claims.append(report.at_least(f"{name} over a batch of fill", row["x ours"], limit))
    for name, limit in scale.large_ratios.items():
        text = f"memset of a large buffer over {name}"
        claims.append(report.at_least(text, rest["large"][name]["memset / it"], limit))
    for size in scale.ints_sizes:
        samples = report.count(size)
        text = f"RandomSampler over CursorSampler, {samples} samples, batch size 256"
        ratio = rest[f"ints, {samples}"]["RandomSampler"]["x ours"]
        claims.append(report.at_least(text, ratio, 2.2 * scale.slack))
    return claims


def _core_claims(slack: float, core: Table, kernels: Table) -> list[Claim]:
    claims = []
    if kernel.IS_WIDE:
        for size, limit in ((report.count(NARROW), 2.5), (report.count(WIDE), 4.0)):
            text = f"fill, {size} samples, over a store loop"
            claims.append(report.at_most(text, core[f"fill, {size}"]["x store"], limit / slack))
    fills = [core[f"fill, {report.count(size)}"]["ns"] for size in NETWORK_SIZES]
    text = "fill at the worst size over the best, 4097 to 2^30 + 1 samples"
    claims.append(report.at_most(text, max(fills) / min(fills), 1.3 / slack))
    if {"avx2", "sse2"} <= set(kernels):
        for size in (report.count(NARROW), report.count(WIDE)):
            ratio = kernels["avx2"][size] / kernels["sse2"][size]
            text = f"speed of SSE2 over AVX2, {size} samples"
            claims.append(report.at_least(text, ratio, 0.25 * slack))
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


def draw_kernels(axes: Axes, sizes: Sequence[int], core: Table, kernels: Table) -> None:
    """Draw every kernel over n, between the limits and the scalar code."""
    for (name, row), color in zip(kernels.items(), report.COLORS, strict=False):
        axes.plot(sizes, list(row.values()), marker="o", ms=4, color=color, label=name)
    for name, style in (("store", "--"), ("memset", ":")):
        axes.axhline(core[name]["ns"], color="black", ls=style, lw=1, label=f"{name} (cache)")
    axes.axvline(TABLE, color=report.COLORS[5], lw=0.8)
    axes.axvline(2**31, color=report.COLORS[5], lw=0.8)
    _note(axes, 1.5, "table")
    _note(axes, TABLE * 1.5, "16-bit words")
    _note(axes, 2**31 * 1.5, "32-bit words")
    axes.set(xscale="log", yscale="log", xlabel="samples", ylabel="ns an index")
    axes.set_ylim(0.04, 300)  # room for the legend above the slowest kernel
    axes.set_title("the core alone, by kernel")
    axes.legend(fontsize=8, frameon=False, loc="upper right", ncols=2)


def _note(axes: Axes, x: float, text: str) -> None:
    axes.text(x, 0.01, text, transform=axes.get_xaxis_transform(), fontsize=8, color="#7F7F7F")


def _print(table: Table, first: str, title: str) -> None:
    columns = list(next(iter(table.values())))
    rows = [(name, *(f"{row[column]:.3g}" for column in columns)) for name, row in table.items()]
    report.table(title, (first, *columns), rows)


def main() -> int:
    """Measure, print, draw; return the exit status."""
    options = report.arguments(__doc__)
    scale = CHECK if options.check else FULL
    report.print_machine()
    core = time_core()
    kernels = time_kernels(scale.curve)
    rest = {
        "whole": time_whole(scale),
        "batches": time_batches(scale),
        "large": time_large(scale),
    }
    for size in scale.ints_sizes:
        rest[f"ints, {report.count(size)}"] = time_ints(size, scale.rounds)
    if options.plot is not None:
        panels = 2 if core else 1
        with report.picture(options.plot, panels=panels, title="Speed of an order") as axes:
            draw_whole(axes[0], scale.sizes, rest["whole"])
            if core:
                draw_kernels(axes[1], scale.curve, core, kernels)
    figures = {"core": core, "kernels": kernels, **rest}
    return report.conclude(claims_of(scale, core, kernels, rest), figures, options.json)


if __name__ == "__main__":
    sys.exit(main())
