"""Cases and lines of the golden files of the packing plans best_fit and chunk.

A file is a list of cases, each a group of lines: a keyword and its words, from `case` to `end`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple
from itertools import chain
from typing import Literal, NamedTuple

from reference import MASK64, Span
from reference_packing_plans import (
    Rule,
    chunk,
    chunk_cut,
    chunk_edges,
    pack_window,
    row_permutation,
    sizes_of,
)

LAST_EPOCH = 2**40 - 1


def line(*words: object) -> str:
    return " ".join(map(str, words))


def row_line(row: list[Span]) -> str:
    return line("row", *chain.from_iterable(row))


# -- best_fit.txt ----------------------------------------------------------------------------------


class BestFitCase(NamedTuple):
    """One window; documents: those of the window in stream order, None: all of them."""

    lengths: list[int]
    rule: Rule
    documents: list[int] | None = None
    key: tuple[int, int, int] | None = None
    num_virtual: int = 0
    keep_empty: bool = False
    cost_groups: int = 0


MIXED = [7, 0, 3, 12, 1, 0, 5, 5, 2, 9, 8, 1, 1, 4, 30, 6, 2, 3, 0, 8]
SCATTERED = [19, 3, 3, 0, 14, 7, 2, 11, 9, 1, 15, 6, 18, 10, 5, 4]

BEST_FIT_CASES = {
    "split": BestFitCase([14, 7, 5, 2, 3], Rule(8)),
    "split-a-little-longer": BestFitCase([5, 2, 3, 1], Rule(4)),
    "truncate": BestFitCase([5, 2, 3, 1], Rule(4, "truncate")),
    "drop": BestFitCase([5, 2, 3, 1], Rule(4, "drop")),
    "equal-room-first-reached-first": BestFitCase([3, 3, 1, 1], Rule(4)),
    "room-reached-again-is-last": BestFitCase([4, 5, 1, 1, 1, 1], Rule(6, item_order="arrival")),
    "longest-first": BestFitCase([2, 2, 4, 4], Rule(6)),
    "as-they-arrive": BestFitCase([2, 2, 4, 4], Rule(6, item_order="arrival")),
    "stream-order-in-a-row": BestFitCase([4, 4, 5, 5], Rule(9)),
    "max-documents": BestFitCase([1] * 5, Rule(8, item_order="arrival", max_documents=2)),
    "max-documents-one": BestFitCase([1, 0, 9, 3], Rule(8, max_documents=1)),
    "align": BestFitCase([3, 5, 2], Rule(12, align=4)),
    "align-sorts-by-tokens": BestFitCase([5, 6, 7, 8, 1, 4], Rule(8, align=4)),
    "align-split": BestFitCase([13, 7, 2, 5], Rule(8, align=2)),
    "min-fragment": BestFitCase([10, 9, 2, 11, 8], Rule(8, min_fragment=3)),
    "min-fragment-keeps-short-documents": BestFitCase([1, 2, 17], Rule(8, min_fragment=8)),
    "one-token-rows": BestFitCase([3, 0, 1], Rule(1)),
    "only-empty": BestFitCase([0, 0, 0], Rule(4)),
    "only-empty-kept": BestFitCase([0, 0, 0], Rule(4), num_virtual=2, keep_empty=True),
    "empty-kept-without-virtual": BestFitCase([0, 2, 0], Rule(4), keep_empty=True),
    "all-dropped": BestFitCase([9, 8], Rule(4, "drop")),
    "no-document": BestFitCase([3], Rule(4), documents=[]),
    "repeated-documents": BestFitCase([3, 6], Rule(4), documents=[1, 0, 1, 1]),
    "virtual": BestFitCase(MIXED, Rule(8), num_virtual=1),
    "virtual-truncate": BestFitCase(MIXED, Rule(8, "truncate"), num_virtual=2, keep_empty=True),
    "everything": BestFitCase(
        MIXED,
        Rule(12, "split", "decreasing", max_documents=3, align=3, min_fragment=4),
        documents=SCATTERED,
        key=(3, 1, 2),
        num_virtual=1,
        keep_empty=True,
    ),
    "everything-as-it-arrives": BestFitCase(
        MIXED,
        Rule(12, "drop", "arrival", max_documents=2, align=2, min_fragment=5),
        documents=SCATTERED,
        key=(MASK64, LAST_EPOCH, 2**40),
        num_virtual=2,
    ),
    "permuted": BestFitCase(MIXED, Rule(10), key=(0, 0, 0)),
    "permuted-epoch": BestFitCase(MIXED, Rule(10), key=(0, 1, 0)),
    "permuted-window": BestFitCase(MIXED, Rule(10), key=(0, 0, 1)),
    "permuted-seed": BestFitCase(MIXED, Rule(10), key=(1, 0, 0)),
    "two-levels-of-rooms": BestFitCase([150, 100, 80, 70, 64, 63, 65, 1, 128], Rule(200)),
    "three-levels-of-rooms": BestFitCase(
        [4096, 904, 5000, 2500, 2436, 64, 4000, 937, 63, 1, 8999], Rule(5000)
    ),
    "cost-groups": BestFitCase(MIXED, Rule(8), key=(0, 0, 0), cost_groups=3),
    "cost-groups-of-one": BestFitCase(MIXED, Rule(8), key=(7, 2, 1), cost_groups=1),
    "cost-groups-of-a-window": BestFitCase(MIXED, Rule(8), key=(7, 2, 1), cost_groups=99),
    "cost-groups-of-equal-costs": BestFitCase([2, 2] * 9, Rule(6), key=(1, 1, 0), cost_groups=4),
    "cost-groups-without-a-row": BestFitCase([0], Rule(6), key=(1, 1, 0), cost_groups=4),
}

BEST_FIT_HEADER = """\
# best_fit packing of one window, decimal. A case is a group of lines, each a keyword and its words:
#   case name
#   rule seq_len long_documents item_order max_documents align min_fragment
#   virtual num_virtual keep_empty                                (keep_empty: 0 or 1)
#   lengths ...                                                   (by document, real tokens)
#   documents ...                                                 (the window, in reading order)
#   key seed epoch window [cost_groups]                           (absent: rows not permuted)
#   counts rows spans tokens sum_squares empty split truncated dropped fragments_dropped
#          tokens_dropped                                         (one line)
#   row (document start stop)*                                    (one line a row)
#   end
"""


def best_fit_lines() -> Iterator[str]:
    for name, case in BEST_FIT_CASES.items():
        documents = list(range(len(case.lengths))) if case.documents is None else case.documents
        sizes = sizes_of(case.lengths, case.num_virtual, case.keep_empty)
        rows, counts = pack_window(sizes, documents, case.rule, case.key, case.cost_groups)
        filled = [stop - start for row in rows for _, start, stop in row]
        squares = sum(size * size for size in filled)
        yield line("case", name)
        yield line("rule", *astuple(case.rule))
        yield line("virtual", case.num_virtual, int(case.keep_empty))
        yield line("lengths", *case.lengths)
        yield line("documents", *documents)
        if case.key is not None:
            groups = (case.cost_groups,) if case.cost_groups else ()
            yield line("key", *case.key, *groups)
        yield line("counts", len(rows), len(filled), sum(filled), squares, *astuple(counts))
        yield from map(row_line, rows)
        yield "end"


# -- chunk.txt -------------------------------------------------------------------------------------


class ChunkCase(NamedTuple):
    """One epoch of rows."""

    lengths: list[int]
    seq_len: int
    tail: Literal["pad", "drop"]
    key: tuple[int, int]
    num_virtual: int = 0
    keep_empty: bool = False


CHUNK_CASES = {
    "drop": ChunkCase([3, 2, 5, 8, 1], 4, "drop", (0, 0)),
    "pad": ChunkCase([3, 2, 5, 8, 1], 4, "pad", (0, 0)),
    "another-epoch": ChunkCase([3, 2, 5, 8, 1], 4, "pad", (0, 1)),
    "another-seed": ChunkCase([3, 2, 5, 8, 1], 4, "pad", (MASK64, LAST_EPOCH)),
    "empty-documents": ChunkCase([0, 3, 0, 0, 7, 0, 1, 0], 3, "pad", (5, 2)),
    "virtual": ChunkCase([2, 0, 6, 1], 5, "pad", (5, 2), num_virtual=2),
    "virtual-kept": ChunkCase([2, 0, 6, 1], 5, "drop", (5, 3), num_virtual=2, keep_empty=True),
    "one-token-rows": ChunkCase([3, 0, 2], 1, "pad", (9, 9)),
    "fewer-tokens-than-a-row": ChunkCase([1, 2], 50, "pad", (2, 0)),
    "fewer-tokens-than-a-row-dropped": ChunkCase([1, 2], 50, "drop", (2, 0)),
    "no-token": ChunkCase([0, 0], 3, "pad", (2, 0)),
    "long-documents": ChunkCase([40, 1, 33], 7, "pad", (7, 7)),
}
CUT_SIZES = (1, 2, 3, 4096, 2**24, 2**31 - 1)
ROW_SIZES = (2, 7, 4096, 4097, 10**6 + 3, 2**31 + 1, 2**62 + 12345)
CHUNK_KEYS = ((0, 0), (0, 1), (1, 0), (MASK64, LAST_EPOCH))

CHUNK_HEADER = """\
# chunk packing, decimal. First lines of one number each, by seed and epoch:
#   cut seed epoch seq_len cut
#   permuted seed epoch num_rows position row
# then cases, each a group of lines, a keyword and its words:
#   case name
#   parameters seq_len pad_tail num_virtual keep_empty seed epoch (pad_tail, keep_empty: 0 or 1)
#   lengths ...                                                   (by document, real tokens)
#   edges ...                                                     (of the rows, natural order)
#   row (document start stop)*                                    (one line a row, as permuted)
#   end
"""


def chunk_lines() -> Iterator[str]:
    for seq_len in CUT_SIZES:
        for key in CHUNK_KEYS:
            yield line("cut", *key, seq_len, chunk_cut(*key, seq_len))
    for num_rows in ROW_SIZES:
        for key in CHUNK_KEYS:
            permutation = row_permutation(num_rows, *key, 0)
            for position in sorted({0, 1, num_rows // 2, num_rows - 1}):
                yield line("permuted", *key, num_rows, position, permutation.index_at(position))
    for name, case in CHUNK_CASES.items():
        sizes = sizes_of(case.lengths, case.num_virtual, case.keep_empty)
        cut = chunk_cut(*case.key, case.seq_len)
        virtual = (case.num_virtual, int(case.keep_empty))
        yield line("case", name)
        yield line("parameters", case.seq_len, int(case.tail == "pad"), *virtual, *case.key)
        yield line("lengths", *case.lengths)
        yield line("edges", *chunk_edges(sum(sizes), case.seq_len, tail=case.tail, cut=cut))
        yield from map(row_line, chunk(sizes, case.seq_len, tail=case.tail, key=case.key))
        yield "end"
