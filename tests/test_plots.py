from __future__ import annotations

import io
from itertools import combinations

import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.text import Text

from datacursor.plots import Lane, plot_timeline

ROWS_PER_EPOCH = 40
KILLED = Lane(
    label="attempt 0\n1 replica, 2 workers",
    start=0,
    committed=48,
    delivered=52,
    issued=60,
    losses=[(8, 5.5), (16, 4.0), (24, 3.5), (32, 3.0), (40, 2.9), (48, 2.8)],
)
RESUMED = Lane(
    label="attempt 1\n2 replicas, 1 worker each",
    start=32,
    committed=80,
    delivered=80,
    issued=80,
    losses=[(40, 2.9), (48, 2.8), (56, 2.75), (64, 2.7), (72, 2.7), (80, 2.6)],
)
UNINTERRUPTED = [*KILLED.losses[:4], *RESUMED.losses]


def draw(lanes: list[Lane]) -> Figure:
    figure = plot_timeline(
        lanes,
        UNINTERRUPTED,
        rows_per_epoch=ROWS_PER_EPOCH,
        title="Every row entered exactly one update",
        subtitle="2 attempts",
    )
    figure.draw_without_rendering()
    return figure


def texts_of(figure: Figure) -> list[Text]:
    """Return the visible texts but the numbers along the axes, which matplotlib cares for."""
    return [
        text
        for text in figure.findobj(Text)
        if text.get_visible() and any(map(str.isalpha, text.get_text()))
    ]


def test_the_picture_is_a_png_with_something_on_it() -> None:
    file = io.BytesIO()
    draw([KILLED, RESUMED]).savefig(file, format="png")
    file.seek(0)
    pixels = imread(file)
    assert pixels.shape[0] > 500
    assert pixels.shape[1] > 800
    assert 0.02 < (pixels[..., :3].min(axis=2) < 0.9).mean() < 0.5


def test_every_attempt_epoch_and_kill_is_named() -> None:
    texts = [text.get_text() for text in texts_of(draw([KILLED, RESUMED]))]
    for expected in (KILLED.label, RESUMED.label, "epoch 0", "epoch 1", "resumed at row 32"):
        assert texts.count(expected) == 1
    assert texts.count("SIGKILL 1") == 2


@pytest.mark.parametrize("lanes", [[KILLED, RESUMED], [KILLED, RESUMED, RESUMED]])
def test_no_text_covers_another_or_leaves_the_picture(lanes: list[Lane]) -> None:
    figure = draw(lanes)
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts_of(figure)]
    for name, box in boxes:
        assert figure.bbox.containsx(box.x0), name
        assert figure.bbox.containsx(box.x1), name
        assert figure.bbox.containsy(box.y0), name
        assert figure.bbox.containsy(box.y1), name
    covered = [(a, b) for (a, x), (b, y) in combinations(boxes, 2) if x.overlaps(y)]
    assert covered == []


def test_the_bars_are_what_the_lanes_say() -> None:
    overview = draw([KILLED, RESUMED]).axes[0]
    extents = [
        bar.get_datalim(overview.transData).intervalx.tolist() for bar in overview.collections
    ]
    assert extents[:3] == [[0, 32], [32, 48], [32, 80]]
