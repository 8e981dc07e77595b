"""How fast are documents packed into rows, and how full do the rows get?

    gather   whole epochs planned and gathered, against memcpy of the same bytes
    plan     documents planned a second, against other packers of lengths
    density  share of the rows' places that hold tokens, and documents cut without need
    resume   from a state, or a row's number, to the row
    peers    batches of rows from documents, against others with the same fields

Epochs are checked to hold every token once before they are timed.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import corpora
import measure
import numpy as np
import offline_bfd
import packed_rows
import packing_peers
import report
import torch
from packing_peers import Packer, Shape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from corpora import TokenFiles
    from matplotlib.axes import Axes
    from numpy.typing import NDArray
    from report import Claim

SEQ_LEN = 2048
BATCH_SIZE = 8
PACKINGS = ("concat", "chunk", "best_fit")

Table = dict[str, dict[str, float]]  # row -> column -> figure


@dataclass(frozen=True)
class Scale:
    """How much is measured, and what share of a ratio is asked for."""

    gather_documents: int  # in the corpus on disk
    gather_rows: int  # at a time
    plan_documents: int
    planner_documents: int  # for other planners, which are slow
    density_documents: int
    seq_lens: tuple[int, ...]
    distributions: tuple[str, ...]
    peer_documents: int  # in the corpus that peers pack
    row_documents: int  # in the corpus of which row k is asked for
    rounds: int
    slack: float
    with_peers: bool


FULL = Scale(
    gather_documents=120_000,
    gather_rows=2048,
    plan_documents=500_000,
    planner_documents=100_000,
    density_documents=2_000_000,
    seq_lens=(2048, 4096, 8192, 32768),
    distributions=tuple(corpora.DISTRIBUTIONS),
    peer_documents=4_000,
    row_documents=10_000_000,
    rounds=5,
    slack=1.0,
    with_peers=True,
)
CHECK = Scale(
    gather_documents=6_000,
    gather_rows=512,
    plan_documents=100_000,
    planner_documents=0,
    density_documents=50_000,
    seq_lens=(2048,),
    distributions=("web", "sft"),
    peer_documents=0,
    row_documents=100_000,
    rounds=3,
    slack=0.1,
    with_peers=False,
)
MIN_GATHER = {
    ("concat", "ids"): 0.8,
    ("chunk", "ids"): 1.0,
    ("best_fit", "ids"): 0.6,
    ("best_fit", "all fields"): 0.4,
}
MIN_PEERS = {
    "TRL bfd_split": 80.0,
    "Grain concat-then-split": 80.0,
    "Megatron GPTDataset": 12.0,
    "nanoGPT get_batch": 6.0,
    "OLMo-core InstancePacker": 300.0,
    "axolotl multipack": 80.0,
}


# -- Gather ----------------------------------------------------------------------------------


def time_gather(files: TokenFiles, scale: Scale) -> dict[str, Table]:
    """Time whole epochs of plan and gather against memcpy, by processor time."""
    tables = {}
    for title, fields in packed_rows.FIELD_SETS.items():
        actions: dict[str, Callable[[], Any]] = {}
        for packing in PACKINGS:
            epochs = packed_rows.PackedEpochs(files, SEQ_LEN, packing, scale.gather_rows)
            epochs.check()
            out = epochs.arrays(fields)
            actions[packing] = partial(epochs.run, out)
            actions[f"{packing}, rows planned before"] = epochs.gather_only(out)
        num_rows = files.num_tokens // SEQ_LEN
        actions["memcpy"] = packed_rows.copy_epoch(num_rows, out)
        timings = measure.interleave(actions, rounds=scale.rounds, clock=time.process_time)
        bytes_a_token = sum(array.itemsize for array in out.values())
        tables[title] = {
            name: {
                "Mtokens/s": 1e-6 * files.num_tokens / timing.best,
                "GB/s written": 1e-9 * bytes_a_token * files.num_tokens / timing.best,
                "memcpy / it": timings["memcpy"].best / timing.best,
            }
            for name, timing in timings.items()
        }
        _print(tables[title], "an epoch", f"{title}: {bytes_a_token} bytes a token, one thread")
    return tables


# -- Plans -----------------------------------------------------------------------------------


def time_plans(scale: Scale) -> Table:
    """Time planning alone, whole epochs, in documents a second of processor time."""
    table: Table = {}
    for name in scale.distributions:
        lengths = corpora.lengths(name, scale.plan_documents)
        actions = {
            packing: _planning(packed_rows.make_plan(lengths, SEQ_LEN, packing))
            for packing in PACKINGS
        }
        timings = measure.interleave(actions, rounds=scale.rounds, clock=time.process_time)
        table[name] = {
            packing: 1e-6 * len(lengths) / timing.best for packing, timing in timings.items()
        }
    _print(table, "lengths", f"Planning, L = {SEQ_LEN}, million documents/s")
    return table


def time_planners(scale: Scale) -> Table:
    """Time other packers of lengths and ours on documents that fit a row.

    They say which documents a row holds. Ours is timed twice: up to the spans of every row, in
    the shuffled order they are handed out in; and packing alone, the order and the lengths
    included, up to the number of rows.
    """
    lengths = np.minimum(corpora.lengths("web", scale.planner_documents, 1), SEQ_LEN)
    plan = packed_rows.make_plan(lengths, SEQ_LEN, "best_fit")
    actions: dict[str, Callable[[], Any]] = {
        "best_fit": _planning(plan),
        "best_fit, packing alone": _packing(plan),
    }
    num_rows = dict.fromkeys(actions, plan.num_rows(1))
    for name in packing_peers.PLANNERS:
        planner = _planner(name, lengths)
        if planner is not None:
            actions[name] = planner
            num_rows[name] = planner()
    timings = measure.interleave(actions, rounds=3, clock=time.process_time)
    ours, alone = timings["best_fit"].best, timings["best_fit, packing alone"].best
    table = {
        name: {
            "documents/s": len(lengths) / timing.best,
            "ours / it": timing.best / ours,
            "alone / it": timing.best / alone,
            "density": int(lengths.sum()) / (num_rows[name] * SEQ_LEN),
        }
        for name, timing in timings.items()
    }
    _print(table, "packer", f"Planning {len(lengths):,} documents of at most {SEQ_LEN} tokens")
    return table


def _planner(name: str, lengths: NDArray[np.int64]) -> Callable[[], int] | None:
    try:
        return packing_peers.PLANNERS[name](lengths, SEQ_LEN)
    except ImportError as error:
        print(f"\nno figures of {name}: {error}")
        return None


def _planning(plan: Any) -> Callable[[], None]:
    epochs = iter(range(1, 2**40))

    def run() -> None:
        for _ in packed_rows.blocks(plan, next(epochs), 4096):
            pass

    return run


def _packing(plan: Any) -> Callable[[], int]:
    epochs = iter(range(1, 2**40))
    return lambda: plan.num_rows(next(epochs))


# -- Density ---------------------------------------------------------------------------------


def measure_density(scale: Scale) -> Table:
    """Return density and needless cuts of best_fit, beside best-fit decreasing over all."""
    _check_offline()
    table: Table = {}
    for name in scale.distributions:
        lengths = corpora.lengths(name, scale.density_documents)
        for seq_len in scale.seq_lens:
            plan = packed_rows.make_plan(lengths, seq_len, "best_fit")
            stats = plan.stats(epoch=1)
            if stats.num_tokens != lengths.sum():
                raise AssertionError(f"{plan!r} holds {stats.num_tokens} tokens")
            offline = int(lengths.sum()) / (offline_bfd.num_rows(lengths, seq_len) * seq_len)
            table[f"{name}, {seq_len}"] = {
                "density %": 100 * stats.density,
                "offline %": 100 * offline,
                "points below": 100 * (offline - stats.density),
                "documents cut": stats.num_split,
                "needless": stats.num_split - int((lengths > seq_len).sum()),
                "window": plan.parameters["window_documents"],
            }
    _print(table, "lengths, L", f"best_fit of {scale.density_documents:,} documents", digits=5)
    return table


def _check_offline() -> None:
    """Raise unless counting gives as many rows as placing one piece after another."""
    for seq_len in (7, 100, 2048):
        lengths = corpora.lengths("sft", 2000)
        counted = offline_bfd.num_rows(lengths, seq_len)
        placed = offline_bfd.num_rows_one_by_one(lengths.tolist(), seq_len)
        if counted != placed:
            raise AssertionError(f"offline BFD at L={seq_len}: {counted} rows, expected {placed}")


# -- Resume ----------------------------------------------------------------------------------


def time_resume(scale: Scale) -> Table:
    """Time the way from a reader, or a row's number, to the row, in corpora of two sizes."""
    actions: dict[str, Callable[[], Any]] = {}
    for num_documents in (scale.row_documents // 10, scale.row_documents):
        lengths = corpora.lengths("web", num_documents)
        size = report.count(num_documents)
        windows = {"window_documents": 100_000}
        for packing, options in (("concat", {}), ("best_fit", windows)):
            plan = packed_rows.make_plan(lengths, SEQ_LEN, packing, **options)
            actions[f"{packing}, {size}, from the cursor"] = _resuming(plan)
        concat = packed_rows.make_plan(lengths, SEQ_LEN, "concat")
        actions[f"concat, {size}, row k"] = _finding(concat)
    timings = measure.interleave(actions, rounds=2 * scale.rounds)
    table = {
        name: {"best us": 1e6 * timing.best, "median us": 1e6 * timing.median}
        for name, timing in timings.items()
    }
    _print(table, "packing, documents", "To the first row (best_fit: windows of 100,000)")
    return table


def _resuming(plan: Any) -> Callable[[], Any]:
    """Return a resume in mid-epoch, in another epoch each time, so that nothing is kept."""
    row = plan.num_rows(1) // 2 if plan.packing == "concat" else 1
    reader = plan.reader_of(1, row)
    if len(plan.rows_from(1, reader, row, 1).spans) == 0:
        raise AssertionError(f"{plan!r} gives no row {row}")
    if plan.packing == "concat":
        return partial(plan.rows_from, 1, reader, row, 1)
    # The last window of an epoch: none is packed ahead while it is timed.
    last = -(-plan.base_size // plan.parameters["window_documents"]) - 1
    epochs = iter(range(2, 2**40))
    return lambda: plan.rows_from(next(epochs), (last, 1), 1, 1)


def _finding(plan: Any) -> Callable[[], Any]:
    """Return a look-up of a row by its number, the skip table filled."""
    num_rows = plan.num_rows(1)
    start = time.perf_counter()
    plan.reader_of(1, num_rows - 1)
    seconds = time.perf_counter() - start
    print(f"skip table of {plan.base_size:,} documents filled in {report.seconds(seconds)}")
    rows = iter(np.random.default_rng(0).integers(1, num_rows, 10**6).tolist())

    def find() -> None:
        row = next(rows)
        plan.rows_from(1, plan.reader_of(1, row), row, 1)

    return find


# -- Peers -----------------------------------------------------------------------------------


def time_peers(files: TokenFiles) -> Table:
    """Time whole epochs from documents to batches, without a loader, by processor time."""
    shape = Shape(BATCH_SIZE, SEQ_LEN)
    table: Table = {}
    for packer in packing_peers.PACKERS:
        epochs = packed_rows.PackedEpochs(files, SEQ_LEN, packer.packing, 32 * BATCH_SIZE)
        actions: dict[str, Callable[[], Iterable[dict[str, torch.Tensor]]]] = {
            "ours": partial(epochs.batches, packer.fields, BATCH_SIZE),
            "theirs": partial(packer.open, files, shape),
        }
        row = _time_against(packer, actions)
        if row is not None:
            table[packer.name] = row
    _print(table, "packer", "Documents to batches, without a loader, one thread")
    return table


def _time_against(
    packer: Packer, actions: dict[str, Callable[[], Iterable[dict[str, torch.Tensor]]]]
) -> dict[str, float] | None:
    """Return the speeds; None if the peer is not installed."""
    try:
        counts = {name: _count_checked(packer, make()) for name, make in actions.items()}
    except ImportError as error:
        print(f"\nno figures of {packer.name}: {error}")
        return None
    drains = {name: partial(_drain, make) for name, make in actions.items()}
    timings = measure.interleave(drains, rounds=2, clock=time.process_time)
    rate = {name: counts[name] / timing.best for name, timing in timings.items()}
    return {
        "Mtokens/s": 1e-6 * rate["theirs"],
        "ours": 1e-6 * rate["ours"],
        "ours / it": rate["ours"] / rate["theirs"],
    }


def _count_checked(packer: Packer, batches: Iterable[dict[str, torch.Tensor]]) -> int:
    """Return the tokens of all batches; raise if a field is missing or a label is wrong."""
    num_tokens = 0
    for batch in batches:
        ids = batch["input_ids"]
        num_tokens += ids.numel()
        if ids.dtype != torch.int64 or not set(packer.fields) <= set(batch):
            raise AssertionError(f"{packer.name}: {ids.dtype}, {list(batch)}")
        if packer.labels_are_shifted:
            labels, following = batch["labels"][:, :-1], ids[:, 1:]
            if not torch.equal(labels[labels >= 0], following[labels >= 0]):
                raise AssertionError(f"{packer.name}: a label is not the next token")
    return num_tokens


def _drain(make: Callable[[], Iterable[Any]]) -> None:
    deque(make(), maxlen=0)


# -- Claims and pictures ---------------------------------------------------------------------


def claims_of(scale: Scale, figures: dict[str, Table]) -> list[Claim]:
    """Return what the figures must show."""
    claims = []
    for (packing, title), limit in MIN_GATHER.items():
        ratio = figures[f"gather, {title}"][packing]["memcpy / it"]
        text = f"memcpy over an epoch of {packing}, {title}"
        claims.append(report.at_least(text, ratio, limit * scale.slack))
    for packing in ("concat", "best_fit"):
        speed = figures["plan"]["web"][packing]
        text = f"million documents/s planned, {packing}, web"
        claims.append(report.at_least(text, speed, 15.0 * scale.slack))
    claims += _density_claims(scale, figures["density"])
    for name, row in figures["resume"].items():
        limit = 8000.0 if name.startswith("best_fit") else 50.0
        claims.append(report.at_most(f"us to a row: {name}", row["best us"], limit / scale.slack))
    for kind in ("planners", "peers"):
        for name, row in figures[kind].items():
            if name in MIN_PEERS:
                column = "alone / it" if kind == "planners" else "ours / it"
                text = f"{column.replace('it', name)}, speed"
                claims.append(report.at_least(text, row[column], MIN_PEERS[name]))
    return claims


def _density_claims(scale: Scale, density: Table) -> list[Claim]:
    dense = sum(row["density %"] >= 99.9 for row in density.values())
    furthest = max(row["points below"] for row in density.values())
    needless = max(row["needless"] for row in density.values())
    allowed = 1 if len(density) > 1 else 0
    few = scale.density_documents < 10**6  # a window or two, whose last rows weigh more
    return [
        report.at_least(
            "kinds of documents packed to 99.9 %", dense, (len(density) - allowed) * (not few)
        ),
        report.at_most("points below offline best-fit decreasing", furthest, 1.0 if few else 0.06),
        report.at_most("documents cut without need", needless, 0.0),
    ]


def draw_density(axes: Axes, density: Table) -> None:
    """Draw what padding remains, by kind of documents and L."""
    seq_lens = sorted({int(key.split(", ")[1]) for key in density})
    for name, color in zip(corpora.DISTRIBUTIONS, report.COLORS, strict=False):
        rows = [
            density[f"{name}, {seq_len}"] for seq_len in seq_lens if f"{name}, {seq_len}" in density
        ]
        if not rows:
            continue
        axes.plot(
            seq_lens, [100 - row["density %"] for row in rows], marker="o", color=color, label=name
        )
        offline = [100 - row["offline %"] for row in rows]
        axes.plot(seq_lens, offline, marker="o", ms=4, ls=":", color=color)
    axes.plot([], [], ls=":", color="black", label="all documents at once")
    axes.axhline(0.1, color="black", lw=0.8, ls="--", label="goal")
    axes.set(
        xscale="log", yscale="log", xlabel="L, tokens a row", ylabel="padding, % of all places"
    )
    axes.set_xticks(seq_lens, [str(seq_len) for seq_len in seq_lens])
    axes.set_xticks([], minor=True)
    axes.set_title("padding that best_fit leaves")
    axes.set_ylim(1e-5, 0.2)  # room for the legend below the curves
    axes.legend(fontsize=8, frameon=False, ncols=2, loc="lower left")


def draw_peers(axes: Axes, peers: Table) -> None:
    """Draw tokens a second of each peer and of ours with its fields."""
    names = list(peers)
    for shift, column, color in ((-0.2, "Mtokens/s", 2), (0.2, "ours", 0)):
        values = [peers[name][column] for name in names]
        places = [place + shift for place in range(len(names))]
        label = "datacursor, same fields" if column == "ours" else "peer"
        bars = axes.barh(places, values, height=0.38, color=report.COLORS[color], label=label)
        axes.bar_label(bars, [f"{value:,.3g}" for value in values], padding=3, fontsize=8)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel="million tokens/s, one thread")
    axes.margins(x=0.15)
    axes.set_title("documents to batches, without a loader")
    axes.legend(fontsize=8, frameon=False)


def _print(table: Table, first: str, title: str, digits: int = 3) -> None:
    columns = list(next(iter(table.values())))
    rows = [
        (name, *(_shown(row[column], digits) for column in columns)) for name, row in table.items()
    ]
    report.table(title, (first, *columns), rows)


def _shown(value: float, digits: int) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}g}"


def main() -> int:
    """Measure, print, draw; return the exit status."""
    options = report.arguments(__doc__)
    scale = CHECK if options.check else FULL
    report.print_machine()
    torch.set_num_threads(1)
    figures: dict[str, Table] = {"planners": {}, "peers": {}}
    with TemporaryDirectory() as folder:
        lengths = corpora.lengths("web", scale.gather_documents, shortest=1)
        files = corpora.write(Path(folder), lengths)
        for title, table in time_gather(files, scale).items():
            figures[f"gather, {title}"] = table
    figures["plan"] = time_plans(scale)
    figures["density"] = measure_density(scale)
    figures["resume"] = time_resume(scale)
    if scale.with_peers:
        figures["planners"] = time_planners(scale)
        with TemporaryDirectory() as folder:
            lengths = corpora.lengths("web", scale.peer_documents, shortest=1)
            figures["peers"] = time_peers(corpora.write(Path(folder), lengths))
    if options.plot is not None:
        panels = 1 + bool(figures["peers"])
        with report.picture(options.plot, panels=panels, title="Packing") as axes:
            draw_density(axes[0], figures["density"])
            if figures["peers"]:
                draw_peers(axes[1], figures["peers"])
    return report.conclude(claims_of(scale, figures), figures, options.json)


if __name__ == "__main__":
    sys.exit(main())
