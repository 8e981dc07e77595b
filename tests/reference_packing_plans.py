"""Slow, plain restatement of the packing plans best_fit and chunk.

Written from the specification and the headers of the core alone, like `reference`, and with the
same rule: where the text leaves a choice, "Reading:" names the choice taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Literal

from reference import Permutation, Span, bounded, words

PACKING_WINDOW = 2
COST_GROUPS = 5
CUT_STREAM = 4 * 2**56


def row_permutation(
    num_rows: int, seed: int, epoch: int, number: int, purpose: int = PACKING_WINDOW
) -> Permutation:
    """Return sub-permutation `number` of the packing purpose: position -> row.

    Reading: position r holds row index_at(r), as an order's position holds its index.
    """
    stream = purpose * 2**56 + number
    return Permutation(num_rows, seed, epoch, key_stream=stream, offset_stream=stream + 2**55)


def sizes_of(lengths: Sequence[int], num_virtual: int, keep_empty: bool) -> list[int]:
    """Return the tokens of every document, bos and eos included."""
    return [length + num_virtual if length or keep_empty else 0 for length in lengths]


# -- best_fit --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """How the documents of a window become pieces and pieces become rows."""

    seq_len: int
    long_documents: Literal["split", "truncate", "drop"] = "split"
    item_order: Literal["decreasing", "arrival"] = "decreasing"
    max_documents: int = 0
    align: int = 1
    min_fragment: int = 1


@dataclass
class Counts:
    """What happened to documents on their way into pieces."""

    num_empty: int = 0
    num_split: int = 0
    num_truncated: int = 0
    num_dropped: int = 0
    num_fragments_dropped: int = 0
    num_tokens_dropped: int = 0


@dataclass
class Bin:
    """A row that is being filled; `since` is the time at which it reached its present room."""

    room: int
    since: int
    pieces: list[int] = field(default_factory=list)


def cut(sizes: Sequence[int], documents: Sequence[int], rule: Rule) -> tuple[list[Span], Counts]:
    """Return the pieces of a window in the order of the stream.

    Reading: an empty document is one that counts no token, so none that is kept for its bos or eos.
    The last piece of a split document is the only one that may be shorter than a row, hence the
    only one that min_fragment can drop; the document counts as split all the same.
    """
    pieces: list[Span] = []
    counts = Counts()
    for document in documents:
        size, kept = sizes[document], sizes[document]
        if size == 0:
            counts.num_empty += 1
        elif size > rule.seq_len and rule.long_documents == "split":
            counts.num_split += 1
            rest = size % rule.seq_len
            if 0 < rest < rule.min_fragment:
                counts.num_fragments_dropped += 1
                kept -= rest
        elif size > rule.seq_len and rule.long_documents == "truncate":
            counts.num_truncated += 1
            kept = rule.seq_len
        elif size > rule.seq_len:
            counts.num_dropped += 1
            kept = 0
        counts.num_tokens_dropped += size - kept
        starts = range(0, kept, rule.seq_len)
        pieces += [(document, start, min(start + rule.seq_len, kept)) for start in starts]
    return pieces, counts


def place(pieces: Sequence[Span], rule: Rule) -> list[list[int]]:
    """Return the rows as lists of piece numbers, in the order in which they were opened.

    Reading: "longest first" compares tokens, without align padding. A row that holds
    max_documents pieces takes none, whatever its room. A piece of a row's own length still has to
    fit with its align padding, which it does, as align divides seq_len.
    """
    sequence = list(range(len(pieces)))
    if rule.item_order == "decreasing":
        sequence.sort(key=lambda number: pieces[number][1] - pieces[number][2])
    bins: list[Bin] = []
    for time, number in enumerate(sequence):
        _, start, stop = pieces[number]
        need = -(-(stop - start) // rule.align) * rule.align
        open_bins = [
            candidate
            for candidate in bins
            if candidate.room >= need
            and (rule.max_documents == 0 or len(candidate.pieces) < rule.max_documents)
        ]
        if open_bins:
            best = min(open_bins, key=lambda candidate: (candidate.room, candidate.since))
        else:
            best = Bin(rule.seq_len, time)
            bins.append(best)
        best.pieces.append(number)
        best.room -= need
        best.since = time
    return [sorted(candidate.pieces) for candidate in bins]


def pack_window(
    sizes: Sequence[int],
    documents: Sequence[int],
    rule: Rule,
    key: tuple[int, int, int] | None = None,
    cost_groups: int = 0,
) -> tuple[list[list[Span]], Counts]:
    """Pack one window; key is (seed, epoch, window) of the permutation of its rows."""
    pieces, counts = cut(sizes, documents, rule)
    rows = [[pieces[number] for number in numbers] for numbers in place(pieces, rule)]
    if key is not None and rows:
        permutation = row_permutation(len(rows), *key)
        numbers = [permutation.index_at(position) for position in range(len(rows))]
        if cost_groups > 0:
            numbers = grouped(rows, numbers, cost_groups, key)
        rows = [rows[number] for number in numbers]
    return rows, counts


def grouped(
    rows: Sequence[Sequence[Span]], numbers: list[int], size: int, key: tuple[int, int, int]
) -> list[int]:
    """Return permuted row numbers in groups of about one cost.

    Reading: "the last one smaller" is the group of the cheapest rows, wherever it comes.
    """

    def cost(number: int) -> int:
        return sum((stop - start) ** 2 for _, start, stop in rows[number])

    by_cost = sorted(range(len(rows)), key=lambda number: (-cost(number), number))
    groups = [set(by_cost[first : first + size]) for first in range(0, len(rows), size)]
    permutation = row_permutation(len(groups), *key, COST_GROUPS)
    order = [groups[permutation.index_at(place)] for place in range(len(groups))]
    return [number for group in order for number in numbers if number in group]


def best_fit(
    sizes: Sequence[int],
    order: Sequence[int],
    rule: Rule,
    window_documents: int,
    key: tuple[int, int] | None = None,
    cost_groups: int = 0,
) -> list[list[list[Span]]]:
    """Return the rows of every window of an epoch; key is (seed, epoch), None: not permuted."""
    windows = []
    for window, first in enumerate(range(0, len(order), window_documents)):
        documents = order[first : first + window_documents]
        window_key = None if key is None else (*key, window)
        windows.append(pack_window(sizes, documents, rule, window_key, cost_groups)[0])
    return windows


def best_fit_readers(windows: Sequence[Sequence[object]]) -> list[tuple[int, int]]:
    """Return (window, row in window) behind every row.

    Reading: behind the last row of a window the reader stands at the next window, row 0, even if
    that window holds no row; so in case 16.
    """
    return [
        (window, row + 1) if row + 1 < len(rows) else (window + 1, 0)
        for window, rows in enumerate(windows)
        for row in range(len(rows))
    ]


# -- chunk -----------------------------------------------------------------------------------------


def chunk_cut(seed: int, epoch: int, seq_len: int) -> int:
    """Return the tokens before an epoch's first whole row."""
    return bounded(words(seed, epoch, CUT_STREAM, seq_len), seq_len)


def chunk_edges(
    num_tokens: int, seq_len: int, *, tail: Literal["drop", "pad"], cut: int
) -> list[int]:
    """Return where the rows begin, in the natural order, and where the last one ends.

    Reading: with "pad" the tokens before the cut and those after the last whole row are two short
    rows, the first and the last in the natural order. Tokens that do not reach beyond the cut are
    one short row.
    """
    edges = list(range(cut, num_tokens + 1, seq_len))
    return sorted({0, *edges, num_tokens}) if tail == "pad" else edges


def chunk(
    sizes: Sequence[int],
    seq_len: int,
    *,
    tail: Literal["drop", "pad"],
    key: tuple[int, int] | None = None,
) -> list[list[Span]]:
    """Return the rows of an epoch; key is (seed, epoch), None: natural order, first cut at 0.

    Reading: the short rows of "pad" are permuted with the others.
    """
    tokens = [(document, place) for document, size in enumerate(sizes) for place in range(size)]
    cut = 0 if key is None else chunk_cut(*key, seq_len)
    rows: list[list[Span]] = []
    for begin, end in pairwise(chunk_edges(len(tokens), seq_len, tail=tail, cut=cut)):
        row: list[Span] = []
        for document, group in groupby(tokens[begin:end], key=lambda token: token[0]):
            places = [place for _, place in group]
            row.append((document, places[0], places[-1] + 1))
        rows.append(row)
    if key is not None and rows:
        permutation = row_permutation(len(rows), *key, 0)
        rows = [rows[permutation.index_at(position)] for position in range(len(rows))]
    return rows
