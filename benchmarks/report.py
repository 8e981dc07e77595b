"""What all benchmarks share: arguments, tables, claims, JSON and pictures."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# One colour for each reader in every picture, told apart by colour-blind readers too.
COLORS = ("#0072B2", "#56B4E9", "#D55E00", "#E69F00", "#009E73", "#7F7F7F")


class Claim(NamedTuple):
    """Something the benchmark must show, as a number with a limit."""

    text: str
    value: float
    limit: float
    is_upper: bool

    @property
    def holds(self) -> bool:
        """Whether the number keeps to its limit."""
        return bool(self.value <= self.limit if self.is_upper else self.value >= self.limit)


def at_least(text: str, value: float, limit: float) -> Claim:
    """Claim that `value` is `limit` or more."""
    return Claim(text, value, limit, is_upper=False)


def at_most(text: str, value: float, limit: float) -> Claim:
    """Claim that `value` is `limit` or less."""
    return Claim(text, value, limit, is_upper=True)


def arguments(description: str | None) -> argparse.Namespace:
    """Return the arguments every benchmark takes: check, json, plot."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--check", action="store_true", help="run small; only see whether the claims hold"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the picture into FILE")
    return parser.parse_args()


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a Markdown table; every column but the first is aligned to the right."""
    lines = [list(head), *map(list, rows)]
    widths = [max(3, *(len(line[i]) for line in lines)) for i in range(len(head))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    print(f"\n{title}\n")
    for line in (lines[0], rule, *lines[1:]):
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        print("| " + " | ".join(cells) + " |")


def conclude(claims: Sequence[Claim], figures: dict[str, Any], path: Path | None) -> int:
    """Print the claims, write the figures, and return the exit status: 0 if all claims hold."""
    rows = [
        (
            claim.text,
            _number(claim.value),
            f"{'<=' if claim.is_upper else '>='} {_number(claim.limit)}",
            "yes" if claim.holds else "NO",
        )
        for claim in claims
    ]
    table("Claims", ("claim", "measured", "limit", "holds"), rows)
    if path is not None:
        claimed = [{**claim._asdict(), "holds": claim.holds} for claim in claims]
        everything = {"machine": machine(), **figures, "claims": claimed}
        path.write_text(json.dumps(everything, indent=1) + "\n")
    return 0 if all(claim.holds for claim in claims) else 1


def machine() -> dict[str, str | int]:
    """Return what the figures were taken on, without its name."""
    import numpy as np
    import torch

    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count() or 0,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
    }


def print_machine() -> None:
    """Print one line that says what the figures were taken on."""
    parts = machine()
    print(
        f"{parts['cpu']}, {parts['cores']} cores, {parts['system']}, Python {parts['python']}, "
        f"torch {parts['torch']}, numpy {parts['numpy']}",
        flush=True,
    )


def seconds(value: float) -> str:
    """Return a duration with three digits: 68.9 us, 1.18 s."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if value * factor >= 1.0:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def num_bytes(value: int | None) -> str:
    """Return a size with three digits: 512 B, 405 MB; a dash for None."""
    if value is None:
        return "-"
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value} B"


def ratio(value: float) -> str:
    """Return a ratio with two digits below 10, else as a whole number."""
    return f"{value:.2g}" if value < 10 else f"{value:,.0f}"


def count(value: int) -> str:
    """Return a number of samples: 10^k, 2^k or 2^k + 1 where it is one."""
    exponent = len(str(value)) - 1
    if value == 10**exponent:
        return f"10^{exponent}"
    for rest, text in ((0, ""), (1, " + 1")):
        power = value - rest
        if power & (power - 1) == 0:
            return f"2^{power.bit_length() - 1}{text}"
    return f"{value:,}"


@contextmanager
def picture(path: Path, *, panels: int, title: str) -> Iterator[Sequence[Axes]]:
    """Give axes side by side to draw on and save them as a PNG at the end."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        sys.exit("--plot needs matplotlib (pip install 'datacursor[plot]')")
    figure = Figure(figsize=(6.2 * panels, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=13, fontweight="bold")
    axes = [figure.add_subplot(1, panels, i + 1) for i in range(panels)]
    yield axes
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
        each.grid(visible=True, which="major", color="#E5E5E5", linewidth=0.8)
        each.set_axisbelow(True)
    figure.savefig(path, dpi=110)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
