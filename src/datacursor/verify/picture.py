"""A picture of a verdict: for every restart what was compared, update by update.

Needs matplotlib (`pip install datacursor[plot]`) and no display. As PNG it is the picture alone,
as HTML a page with the verdict's words that needs nothing else.
"""

from __future__ import annotations

import html
import io
from typing import TYPE_CHECKING

from matplotlib import rc_context
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from datacursor.recovery.aspects import ASPECTS
from datacursor.verify.compare import EXACT, TOLERATED, differing_aspects
from datacursor.verify.verdict import DIFFERENT, EQUAL, clip, lines_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from datacursor.verify.log import Log, Update
    from datacursor.verify.verdict import Restart, Verdict

# Colours that stay apart for every kind of colour vision: Okabe and Ito, 2008, two made lighter.
_INK = "#333333"
_KILL = "#D55E00"
_COLOURS = {
    "equal": "#0072B2",
    "equal to the killed run too": "#004A75",
    "differs, as the claim allows": "#9CCBE8",
    "differs": "#E69F00",
    "not compared": "#EEEEEE",
}
_ROW_INCHES = 0.2
_MARGIN_INCHES = 1.1
_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font-family: sans-serif; color: {ink}; max-width: 72rem; margin: 2rem auto; }}
h1 {{ font-size: 1.3rem; border-left: 0.5rem solid {colour}; padding-left: 0.8rem; }}
pre {{ background: #f6f6f6; padding: 1rem; overflow-x: auto; }}
svg {{ width: 100%; height: auto; }}
</style>
</head>
<body>
<h1>{title}</h1>
<pre>{lines}</pre>
{svg}
</body>
</html>
"""


def write_report(verdict: Verdict, path: Path) -> None:
    """Draw a verdict as PNG, or as HTML with its words, after the name's ending."""
    if path.suffix == ".png":
        plot_restarts(verdict).savefig(path, dpi=110)
    else:
        path.write_text(page_of(verdict), encoding="utf-8")


def page_of(verdict: Verdict) -> str:
    """Return a page of HTML with the words and, if there were restarts, the picture."""
    title, *rest = lines_of(verdict)
    return _PAGE.format(
        title=html.escape(title),
        lines=html.escape("\n".join(rest)),
        svg=_svg_of(plot_restarts(verdict)) if verdict.restarts else "",
        ink=_INK,
        colour={EQUAL: "#009E73", DIFFERENT: _KILL}.get(verdict.status, _COLOURS["differs"]),
    )


def plot_restarts(verdict: Verdict) -> Figure:
    """Return a picture of a verdict: a panel for each restart, an aspect a row, an update a column.

    Without a restart it holds the verdict's first line alone.
    """
    count = len(verdict.restarts)
    height = _MARGIN_INCHES + count * (_ROW_INCHES * len(ASPECTS) + 0.9)
    figure = Figure(figsize=(11, height), layout="constrained")
    figure.suptitle(clip(lines_of(verdict)[0]), x=0.02, ha="left", fontsize=12, color=_INK)
    if verdict.uninterrupted is None or not verdict.restarts:
        return figure
    panels = figure.subplots(count, 1, squeeze=False)[:, 0]
    for axes, restart in zip(panels, verdict.restarts, strict=True):
        _draw(axes, restart, verdict.uninterrupted)
    panels[-1].set_xlabel("update")
    handles = [Patch(color=colour, label=label) for label, colour in _COLOURS.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    return figure


def _draw(axes: Axes, restart: Restart, whole: Log) -> None:
    rows = [aspect for aspect in ASPECTS if any(u.aspects[aspect] for u in whole.updates.values())]
    meanings = list(_COLOURS)
    columns = [_meanings(rows, update, restart) for update in whole.updates.values()]
    codes = [[meanings.index(column[row]) for column in columns] for row in range(len(rows))]
    edges = [number - 0.5 for number in (*whole.updates, whole.last + 1)]
    axes.pcolormesh(
        edges,
        [row - 0.5 for row in range(len(rows) + 1)],
        codes,
        cmap=ListedColormap(list(_COLOURS.values())),
        vmin=-0.5,
        vmax=len(meanings) - 0.5,
        edgecolors="white",
        linewidth=min(3.0, 150 / len(edges)),
    )
    axes.axvline(restart.kill + 0.5, color=_KILL, linewidth=1.5)
    axes.text(restart.kill + 0.5, -0.6, " SIGKILL", color=_KILL, fontsize=9, va="bottom")
    difference = restart.difference
    if difference is not None and difference.aspect in rows:
        place = (difference.update, rows.index(difference.aspect))
        axes.plot(*place, "X", color=_KILL, markersize=9, markeredgecolor="white", zorder=4)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks(range(len(rows)), rows, fontsize=8)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["top", "right", "left"]].set_visible(False)
    end = "no difference" if difference is None else f"first difference: {difference.subject}"
    title = clip(f"killed at {restart.place}: {end}")
    axes.set_title(title, loc="left", fontsize=10, color=_INK, pad=14)


def _meanings(aspects: Sequence[str], update: Update, restart: Restart) -> list[str]:
    """Return what was found of the aspects of an update, in words of the legend."""
    found = restart.resumed.updates.get(update.number)
    if found is None:
        return ["not compared"] * len(aspects)
    exact, tolerated = EXACT[restart.claim], TOLERATED[restart.claim]
    differing = differing_aspects(update, found)
    was_made_before = update.number in restart.killed.updates
    meanings = []
    for aspect in aspects:
        if aspect not in exact and aspect not in tolerated:
            meanings.append("not compared")
        elif aspect in differing:
            meanings.append("differs" if aspect in exact else "differs, as the claim allows")
        else:
            meanings.append("equal to the killed run too" if was_made_before else "equal")
    return meanings


def _svg_of(figure: Figure) -> str:
    buffer = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "datacursor"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]
