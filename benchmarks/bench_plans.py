"""How fast are packing plans, and what do long runs cost: seeks, resumes, memory?

Lengths are synthesised (lognormal, median 437 tokens, as of web text), up to 10^8 documents.
What a plan answers at any place is compared with what it answers in sequence before it is timed.
Times are of the processor, over all threads: waiting for others on the machine is left out.
"""

from __future__ import annotations

import pickle
import sys
import time
import tracemalloc
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import report
from numpy.typing import NDArray

import datacursor as dc

SEQ_LEN = 2048
WINDOW = 100_000  # documents; the limit of the claim on resuming
NUM_PLACES = 200
EPOCH = 3
MAX_WINDOWS = 40  # planned in sequence
MAX_RESUMES = 30
PAUSE_SECONDS = 0.05
ROWS_AHEAD = 256  # as a sampler plans them


class Figures(NamedTuple):
    """Seconds, but for `table_bytes`.

    The first five are a document: making a plan, NumPy's gather and sort, rows of best_fit handed
    out, rows of best_fit counted, the table of concat filled. The others are a call.
    """

    make: float
    numpy: float
    planned: float
    counted: float
    table: float
    estimated: float
    resumed: float
    window: float
    concat_row: float
    concat_resumed: float
    chunk_row: float
    table_bytes: float


def run(lengths: NDArray[np.int32]) -> Figures:
    """Check, then time every question on one corpus."""
    n = len(lengths)
    start = time.process_time()
    plan = _plan(lengths, "best_fit", long_documents="split", window_documents=WINDOW)
    made = time.process_time() - start
    planned, num_windows = plan_in_sequence(plan)
    start = time.process_time()
    num_rows = plan.num_rows(EPOCH)
    counted = time.process_time() - start
    start = time.process_time()
    estimate = plan.len_estimate(EPOCH)
    estimated = time.process_time() - start
    _require(0.99 * num_rows < estimate <= num_rows, f"estimate {estimate} of {num_rows} rows")
    concat, chunk = _plan(lengths, "concat"), _plan(lengths, "chunk")
    table, table_bytes = fill_table(concat)
    chunk.rows(EPOCH, 0, 1)  # fills its own
    for each in (plan, concat, chunk):
        check_places(each)
    return Figures(
        make=made / n,
        numpy=numpy_sorts(lengths),
        planned=planned / (num_windows * WINDOW),
        counted=counted / n,
        table=table / n,
        estimated=estimated,
        resumed=resumes(plan),
        window=planned / num_windows,
        concat_row=seeks(concat),
        concat_resumed=resumes(concat),
        chunk_row=seeks(chunk),
        table_bytes=table_bytes / n,
    )


def plan_in_sequence(plan: dc.PackingPlan) -> tuple[float, int]:
    """Return the processor time that rows of some windows take, read one after the other."""
    num_windows = min(plan.num_windows(0), MAX_WINDOWS)
    num_rows = plan.len_estimate() * (num_windows - 1) // plan.num_windows(0)
    reader = (0, 0)
    start = time.process_time()
    for row in range(0, num_rows, ROWS_AHEAD):
        reader = plan.rows_from(0, reader, row, ROWS_AHEAD).reader
    seconds = time.process_time() - start
    return seconds, reader[0] + 1


def fill_table(concat: dc.PackingPlan) -> tuple[float, int]:
    """Return processor time and bytes of the table that finds any row of an epoch."""
    tracemalloc.start()
    start = time.process_time()
    concat.reader_of(EPOCH, len(concat) - 1)
    seconds = time.process_time() - start
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return seconds, kept


def check_places(plan: dc.PackingPlan) -> None:
    """Raise unless rows found at any place are those that come there in sequence."""
    for row in _places(plan)[:20]:
        row = min(row, plan.num_rows(EPOCH) - 3)
        spans, row_offsets = plan.rows(EPOCH, row, 3)
        first = plan.rows_from(EPOCH, plan.reader_of(EPOCH, row), row, 1)
        rest = plan.rows_from(EPOCH, first.reader, row + 1, 2)
        joined = np.concatenate((first.spans, rest.spans))
        _require(np.array_equal(joined, spans), f"rows at {row} differ from those in sequence")
        sizes = np.add.reduceat(spans[:, 2] - spans[:, 1], row_offsets[:-1])
        _require(bool((sizes <= SEQ_LEN).all()), f"a row at {row} holds more than {SEQ_LEN}")


def resumes(plan: dc.PackingPlan) -> float:
    """Return the best time from a reader to its row, in windows that are not packed yet."""
    readers = [(row, plan.reader_of(EPOCH, row)) for row in _places(plan)[:MAX_RESUMES]]
    fresh = pickle.loads(pickle.dumps(plan))
    calls: list[float] = []
    packed: set[int] = set()  # places of readers; of best_fit: windows
    for row, reader in readers:
        if reader.position in packed:
            continue
        packed |= {reader.position, reader.position + 1}
        if plan.packing == "best_fit":
            time.sleep(PAUSE_SECONDS)  # the window after the last one is packed meanwhile
        start = time.process_time()
        fresh.rows_from(EPOCH, reader, row, 1)
        calls.append(time.process_time() - start)
    return min(calls)


def seeks(plan: dc.PackingPlan) -> float:
    """Return the median time of one row at a random place."""
    calls = []
    for row in _places(plan):
        start = time.process_time()
        plan.rows(EPOCH, row, 1)
        calls.append(time.process_time() - start)
    return median(calls)


def numpy_sorts(lengths: NDArray[np.int32]) -> float:
    """Return what gathering and sorting a window's lengths takes with NumPy, a document."""
    order = dc.Shuffle(len(lengths), seed=0)
    calls = []
    for first in range(0, min(len(lengths), 20 * WINDOW), WINDOW):
        start = time.process_time()
        np.argsort(lengths[order.indices(EPOCH, first, WINDOW)], kind="stable")
        calls.append(time.process_time() - start)
    return min(calls) / WINDOW


def _plan(lengths: NDArray[np.int32], packing: str, **options: Any) -> dc.PackingPlan:
    return dc.PackingPlan(lengths, seq_len=SEQ_LEN, packing=packing, **options)


def _places(plan: dc.PackingPlan) -> list[int]:
    random = np.random.default_rng(0)
    places: list[int] = random.integers(1, plan.num_rows(EPOCH), NUM_PLACES).tolist()
    return places


def _require(holds: bool, problem: str) -> None:  # noqa: FBT001  # a check, not an option
    if not holds:
        raise RuntimeError(problem)


def claims(found: Figures, small: Figures, times: int, *, is_check: bool) -> list[report.Claim]:
    """Return the claims: ratios of one run, and in full the goals in absolute numbers."""
    ratios = [
        report.at_most("packing / NumPy's gather and sort", found.counted / found.numpy, 1.0),
        report.at_most("resume / planning a window", found.resumed / found.window, 3.0),
        report.at_most(
            f"concat row, {times} x the documents", found.concat_row / small.concat_row, 10.0
        ),
        report.at_most(
            f"chunk row, {times} x the documents", found.chunk_row / small.chunk_row, 10.0
        ),
        report.at_most("bytes a document, concat", found.table_bytes, 0.01),
    ]
    if is_check:
        return ratios
    return [
        *ratios,
        report.at_least("million documents a second, packing", 1e-6 / found.counted, 15.0),
        report.at_most("ms to resume best_fit", 1e3 * found.resumed, 8.0),
        report.at_most("us to resume concat", 1e6 * found.concat_resumed, 50.0),
        report.at_most("us for a concat row anywhere", 1e6 * found.concat_row, 50.0),
    ]


def main() -> int:
    """Measure, print; return the exit status."""
    options = report.arguments(__doc__)
    report.print_machine()
    sizes = (2 * 10**5, 4 * 10**6) if options.check else (10**6, 10**8)
    part = np.random.default_rng(0).lognormal(np.log(437), 1.1, min(sizes[1], 10**7))
    lengths = np.tile(np.maximum(part, 1).astype(np.int32), sizes[1] // len(part))
    small, large = (run(lengths[:size]) for size in sizes)
    rows = [
        (name.replace("_", " "), *(_shown(name, value) for value in pair))
        for name, *pair in zip(Figures._fields, small, large, strict=True)
    ]
    report.table("Plans", ("", *map(report.count, sizes)), rows)
    figures = {"small": small._asdict(), "large": large._asdict()}
    found = claims(large, small, sizes[1] // sizes[0], is_check=options.check)
    return report.conclude(found, figures, options.json)


def _shown(name: str, value: float) -> str:
    return f"{value:.4f} B" if name == "table_bytes" else report.seconds(value)


if __name__ == "__main__":
    sys.exit(main())
