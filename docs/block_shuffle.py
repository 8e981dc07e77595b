"""Draws block_shuffle.png: what a window of blocks costs in mixing and saves in open blocks.

Usage: python docs/block_shuffle.py docs/block_shuffle.png
"""

from __future__ import annotations

import sys

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from datacursor import BlockShuffle, Order, Shuffle

BLOCK_SIZE = 1000
NUM_BLOCKS = 1000
NUM_SAMPLES = BLOCK_SIZE * NUM_BLOCKS
WINDOWS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000]
SHOWN = (1, 8, 64)
BATCH_SIZE = 256
COLORS = ("#0072B2", "#D55E00", "#009E73")


def blocks_read(order: Order) -> float:
    """Return the mean number of blocks that a batch touches."""
    batches = order.indices(1, 0, NUM_SAMPLES // BATCH_SIZE * BATCH_SIZE) // BLOCK_SIZE
    batches = np.sort(batches.reshape(-1, BATCH_SIZE), axis=1)
    return float(1 + (np.diff(batches, axis=1) != 0).sum(axis=1).mean())


def spread(order: Order) -> float:
    """Return the variance inside a batch of data that is sorted by label, 1 where it is mixed."""
    batches = order.indices(1, 0, NUM_SAMPLES // BATCH_SIZE * BATCH_SIZE)
    inside = batches.reshape(-1, BATCH_SIZE).astype(float).var(axis=1, ddof=1).mean()
    return float(inside / (NUM_SAMPLES**2 / 12))


def main() -> None:
    """Draw the picture."""
    orders = {w: BlockShuffle(NUM_SAMPLES, BLOCK_SIZE, w, seed=1) for w in WINDOWS}
    full = Shuffle(NUM_SAMPLES, seed=1)
    figure = Figure(figsize=(12.4, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)

    count = 40_000
    shown = slice(0, count, 8)
    for window, color in zip(reversed(SHOWN), reversed(COLORS), strict=True):
        indices = orders[window].indices(1, 0, count)[shown]
        label = f"{window} block{'s' if window > 1 else ''} a window"
        places = np.arange(count)[shown] / BLOCK_SIZE
        left.plot(places, indices / BLOCK_SIZE, ".", markersize=2, color=color, label=label)
    left.set(
        xlabel="position, thousands",
        ylabel="index, thousands",
        title="The first 40,000 positions of an epoch",
    )
    left.legend(loc="upper right", markerscale=6, framealpha=1)

    right.plot(WINDOWS, [spread(orders[w]) for w in WINDOWS], "o-", color=COLORS[0])
    right.axhline(spread(full), color=COLORS[0], linestyle=":", linewidth=1)
    right.set_xscale("log", base=10)
    right.xaxis.set_major_formatter("{x:,.0f}")
    right.set(
        xlabel="window_blocks",
        title=f"Mixing and locality, {NUM_BLOCKS:,} blocks of {BLOCK_SIZE:,}",
        ylim=(0, 1.05),
    )
    right.set_ylabel("variance of a sorted label in a batch\n(1: fully shuffled)", color=COLORS[0])
    other = right.twinx()
    other.plot(WINDOWS, [blocks_read(orders[w]) for w in WINDOWS], "s--", color=COLORS[1])
    other.axhline(blocks_read(full), color=COLORS[1], linestyle=":", linewidth=1)
    other.set_ylabel(f"blocks that a batch of {BATCH_SIZE} touches", color=COLORS[1])
    other.set_ylim(bottom=0)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(sys.argv[1], dpi=110)


if __name__ == "__main__":
    main()
