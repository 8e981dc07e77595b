"""Draw the p-values of shuffle-1 and of the known bad: `python -m quality.picture FILE`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from math import log10

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import datacursor as dc
from quality.known_bad import KNOWN_BAD
from quality.report import FAMILY_ERROR, Finding, by_statistic
from quality.suite import examine

# Colours that stay apart for every kind of colour vision: Okabe and Ito, 2008.
PASSES = "#0072B2"
FAILS = "#D55E00"
INK = "#333333"
FAINT = "#DDDDDD"

SMALLEST = 1e-300
TICKS = (0, 2, 10, 50, 300)


def draw(panels: Mapping[str, Sequence[Finding]]) -> Figure:
    """Return a picture with a column for each order and a line for each statistic."""
    statistics = list(by_statistic([f for findings in panels.values() for f in findings]))
    figure = Figure(figsize=(15, 7.5), layout="constrained")
    FigureCanvasAgg(figure)
    columns = figure.subplots(1, len(panels), sharey=True)
    for axes, (name, findings) in zip(columns, panels.items(), strict=True):
        draw_order(axes, name, findings, statistics)
    columns[0].set_yticks(range(len(statistics)), statistics)
    columns[0].invert_yaxis()
    meaning = "-log10 of a p-value; a true shuffle has a dot right of the line in one run of"
    figure.supxlabel(f"{meaning} {1 / FAMILY_ERROR:,.0f}", fontsize=10)
    return figure


def draw_order(
    axes: Axes, name: str, findings: Sequence[Finding], statistics: Sequence[str]
) -> None:
    limit = FAMILY_ERROR / len(findings)
    for row, statistic in enumerate(statistics):
        found = [f.p_value for f in findings if f.statistic == statistic]
        heights = [-log10(max(p, SMALLEST)) for p in found]
        colors = [FAILS if p < limit else PASSES for p in found]
        axes.scatter(heights, [row] * len(found), s=14, c=colors, alpha=0.5, linewidths=0, zorder=2)
    axes.axvline(-log10(limit), color=INK, linewidth=0.8, linestyle=":")
    axes.set_xscale("symlog", linthresh=5)
    axes.set_xlim(-0.3, 500)
    axes.set_xticks(TICKS, [str(tick) for tick in TICKS])
    axes.minorticks_off()
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    axes.tick_params(length=0, colors=INK)
    axes.spines[["top", "right", "left"]].set_visible(False)
    num_failed = sum(f.p_value < limit for f in findings)
    axes.set_title(f"{name}\n{num_failed} of {len(findings)} fail", fontsize=10, color=INK)


def main() -> None:
    [path] = sys.argv[1:]
    six_rounds = KNOWN_BAD[0]
    n = six_rounds.num_samples
    panels = {f"shuffle-1\nn = {n:,}": list(examine(dc.Shuffle, n, six_rounds.effort))}
    for bad in KNOWN_BAD:
        n = bad.num_samples
        panels[f"{bad.name}\nn = {n:,}"] = list(examine(bad.make, n, bad.effort))
    draw(panels).savefig(path, dpi=110)


if __name__ == "__main__":
    main()
