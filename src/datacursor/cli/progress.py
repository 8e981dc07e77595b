"""How far a long command is, on standard error: tqdm's bar on a terminal, else a line per tenth."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_TENTHS = 10


@contextmanager
def shown_progress() -> Iterator[Callable[[str, int, int], None]]:
    """Return what is called with (phase, bytes done, bytes to do)."""
    if not sys.stderr.isatty() or find_spec("tqdm") is None:
        yield _Lines().show
        return
    from tqdm import tqdm

    with tqdm(unit="B", unit_scale=True, unit_divisor=1024, file=sys.stderr) as bar:

        def show(phase: str, num_done: int, num_bytes: int) -> None:
            bar.set_description(phase, refresh=False)
            bar.total = num_bytes
            bar.update(num_done - bar.n)

        yield show


class _Lines:
    def __init__(self) -> None:
        self._last = ("", 0)

    def show(self, phase: str, num_done: int, num_bytes: int) -> None:
        tenths = _TENTHS * num_done // max(1, num_bytes)
        if (phase, tenths) != self._last:
            self._last = (phase, tenths)
            percent = tenths * 100 // _TENTHS
            print(f"{phase}: {percent} %, {num_done:,} of {num_bytes:,} bytes", file=sys.stderr)
