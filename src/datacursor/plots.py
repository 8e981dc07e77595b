"""Pictures of a run: where each attempt stood, and what a restart delivered again.

Needs matplotlib (`pip install datacursor[plot]`) and no display. Positions are rows counted
over all epochs. A figure is saved with `figure.savefig("timeline.png")`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch
from matplotlib.ticker import StrMethodFormatter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

# Colours that stay apart for every kind of colour vision: Okabe and Ito, 2008, two made lighter.
_COMMITTED = "#0072B2"
_DIED = "#9CCBE8"
_DELIVERED = "#E69F00"
_ISSUED = "#F6E7A6"
_AGAIN = "#009E73"
_KILL = "#D55E00"
_INK = "#333333"
_FAINT = "#BBBBBB"

_MEANINGS = {
    "committed": _COMMITTED,
    "committed after the checkpoint": _DIED,
    "delivered, not committed": _DELIVERED,
    "issued, not delivered": _ISSUED,
    "delivered again": _AGAIN,
}
_HALF_BAR = 0.26
_THOUSANDS = StrMethodFormatter("{x:,.0f}")


@dataclass(frozen=True, slots=True)
class Lane:
    """One attempt of a run: from its start until it ended or was killed.

    Attributes:
        label: What it is called; may have two lines.
        start: Position it began at.
        committed: Position of its last commit.
        delivered: Position up to which the loop was given contributions.
        issued: Position up to which the loader had drawn.
        losses: The position and the loss of each update, rising.
    """

    label: str
    start: int
    committed: int
    delivered: int
    issued: int
    losses: Sequence[tuple[int, float]]


def plot_timeline(
    lanes: Sequence[Lane],
    uninterrupted: Sequence[tuple[int, float]],
    *,
    rows_per_epoch: int,
    title: str,
    subtitle: str,
) -> Figure:
    """Return a picture of a run that was killed and resumed, beside one that was not.

    Above each attempt as a bar, in the middle the rows around each kill, below the losses.

    Args:
        lanes: The attempts in order, two at least; all but the last were killed.
        uninterrupted: The position and the loss of each update of the other run.
        rows_per_epoch: Rows of an epoch.
        title: What the picture shows.
        subtitle: One line more.
    """
    kills = list(pairwise(lanes))
    figure = Figure(figsize=(11, 8.5), layout=ConstrainedLayoutEngine(hspace=0.06))
    headline = figure.suptitle(title, fontsize=15, fontweight="bold", color=_INK, ha="left")
    grid = figure.add_gridspec(3, len(kills), height_ratios=(1.3, 1.1, 1.2))
    overview = figure.add_subplot(grid[0, :])
    overview.set_title(subtitle, fontsize=11, color=_INK, loc="left", pad=24)
    _draw_overview(overview, lanes)
    _mark_epochs(overview, rows_per_epoch, uninterrupted[-1][0])
    for number, (killed, resumed) in enumerate(kills):
        _draw_kill(figure.add_subplot(grid[1, number]), killed, resumed, number + 1)
    _draw_losses(figure.add_subplot(grid[2, :], sharex=overview), lanes, uninterrupted)
    handles = [Patch(color=colour, label=label) for label, colour in _MEANINGS.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    figure.draw_without_rendering()  # lays the axes out
    headline.set_x(overview.get_position().x0)
    return figure


def _draw_overview(axes: Axes, lanes: Sequence[Lane]) -> None:
    """Draw a bar for each attempt, and an arrow from each kill to where the next began."""
    for number, (killed, resumed) in enumerate(pairwise(lanes)):
        y = -number
        _bar(axes, y, killed.start, resumed.start, _COMMITTED)
        _bar(axes, y, resumed.start, killed.committed, _DIED)
        _mark_kill(axes, killed.delivered, y)
        _note(axes, f"SIGKILL {number + 1}", (killed.delivered, y), 12, color=_KILL)
        axes.annotate(
            "",
            (resumed.start, y - 1 + _HALF_BAR),
            xytext=(resumed.start, y - _HALF_BAR),
            arrowprops={"arrowstyle": "-|>", "color": _INK, "linewidth": 1.4},
        )
        _note(axes, f"resumed at row {resumed.start:,}", (resumed.start, y - 0.5), 8, color=_INK)
    _bar(axes, 1 - len(lanes), lanes[-1].start, lanes[-1].committed, _COMMITTED)
    axes.set_ylim(0.5 - len(lanes), 0.6)
    axes.tick_params(axis="x", labelbottom=False)
    _name_lanes(axes, {-number: lane.label for number, lane in enumerate(lanes)})


def _draw_kill(axes: Axes, killed: Lane, resumed: Lane, number: int) -> None:
    """Draw the rows around a kill, as the killed attempt left them and as the next took them up."""
    margin = (killed.issued - resumed.start) // 6 + 1
    first, last = resumed.start - margin, killed.issued + margin
    edges = [position for position, _ in (*killed.losses, *resumed.losses)]
    for y, start, stop, colour in (
        (1, first, resumed.start, _COMMITTED),
        (1, resumed.start, killed.committed, _DIED),
        (1, killed.committed, killed.delivered, _DELIVERED),
        (1, killed.delivered, killed.issued, _ISSUED),
        (0, resumed.start, killed.delivered, _AGAIN),
        (0, killed.delivered, last, _COMMITTED),
    ):
        _bar(axes, y, start, stop, colour)
        axes.vlines(
            [edge for edge in edges if start < edge < stop],
            y - _HALF_BAR,
            y + _HALF_BAR,
            color="white",
            linewidth=1,
        )
    _mark_kill(axes, killed.delivered, 1)
    axes.axvline(resumed.start, color=_INK, linestyle=(0, (2, 2)), linewidth=1.2)
    _note(axes, "checkpoint", (resumed.start, 1.5), 5, color=_INK)
    _note(axes, f"SIGKILL {number}", (killed.delivered, 1.5), -30, color=_KILL)
    axes.set_xlim(first, last)
    axes.set_ylim(-0.5, 1.8)
    axes.set_xlabel(f"rows around kill {number}; a block is an update")
    axes.xaxis.set_major_formatter(_THOUSANDS)
    _name_lanes(axes, {1: "killed", 0: "resumed"})


def _draw_losses(
    axes: Axes, lanes: Sequence[Lane], uninterrupted: Sequence[tuple[int, float]]
) -> None:
    positions, losses = zip(*uninterrupted, strict=True)
    axes.plot(positions, losses, color=_FAINT, linewidth=5, label="uninterrupted")
    label = "killed and resumed"
    for lane in lanes:
        positions, losses = zip(*lane.losses, strict=True)
        axes.plot(positions, losses, color=_COMMITTED, linewidth=1.3, label=label)
        label = "_"  # the others are left out of the legend
        if lane is not lanes[-1]:
            _mark_kill(axes, positions[-1], losses[-1])
    axes.set_ylabel("loss of each update")
    axes.set_xlabel("rows trained, over all epochs")
    axes.xaxis.set_major_formatter(_THOUSANDS)
    axes.legend(frameon=False, loc="upper right", ncols=2)
    axes.spines[["top", "right"]].set_visible(False)


def _mark_epochs(axes: Axes, rows_per_epoch: int, num_rows: int) -> None:
    axes.set_xlim(-0.01 * num_rows, 1.02 * num_rows)
    top = axes.get_ylim()[1]
    for number, start in enumerate(range(0, num_rows, rows_per_epoch)):
        if number > 0:
            axes.axvline(start, color=_FAINT, linestyle=(0, (5, 4)), linewidth=1, zorder=0)
        middle = start + rows_per_epoch / 2
        axes.text(middle, top, f"epoch {number}", color=_INK, ha="center", va="bottom")


def _bar(axes: Axes, y: float, start: int, stop: int, colour: str) -> None:
    """Draw positions [start, stop) as a bar around y."""
    axes.broken_barh([(start, stop - start)], (y - _HALF_BAR, 2 * _HALF_BAR), color=colour)


def _mark_kill(axes: Axes, x: float, y: float) -> None:
    axes.plot(x, y, "X", color=_KILL, markersize=12, markeredgecolor="white", zorder=4)


def _note(axes: Axes, text: str, place: tuple[float, float], points: float, *, color: str) -> None:
    """Write a text that begins some points to the right of a place."""
    axes.annotate(
        text, place, xytext=(points, 0), textcoords="offset points", va="center", color=color
    )


def _name_lanes(axes: Axes, names: Mapping[float, str]) -> None:
    axes.set_yticks(list(names), list(names.values()))
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
