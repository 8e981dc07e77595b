"""Write the golden files of tests/vectors from the reference: `python tests/make_vectors.py`.

The files are append-only: a released line never changes, a new case goes to the end of its list.
Both the C++ and the Python tests read them: words separated by spaces, '#' begins a comment line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

import order_vectors
import packing_vectors
from reference import (
    MASK64,
    Block,
    Shuffle,
    Span,
    concat,
    digest,
    philox4x64_10,
    sample_blocks,
)

VECTORS = Path(__file__).parent / "vectors"


def read(name: str) -> list[list[str]]:
    """Return the words of each line of one golden file, without comments and blank lines."""
    lines = (VECTORS / name).read_text(encoding="ascii").splitlines()
    return [line.split() for line in lines if line and not line.startswith("#")]


# -- philox.txt ------------------------------------------------------------------------------------

PI = (0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89)
PI_KEY = (0x452821E638D01377, 0xBE5466CF34E90C6C)

PHILOX_HEADER = """\
# Philox4x64-10, hexadecimal: counter words 0..3, key words 0..1, output words 0..3.
# The first three lines are the known answers of Random123 (zeros, ones, digits of pi).
"""


def philox_lines() -> Iterator[str]:
    cases: list[tuple[Block, tuple[int, int]]] = [
        ((0, 0, 0, 0), (0, 0)),
        ((MASK64, MASK64, MASK64, MASK64), (MASK64, MASK64)),
        (PI, PI_KEY),
        ((0, 0, 0, 0), (1, 0)),
        ((0, 0, 0, 0), (0, 1)),
        ((0, 0xFFFF, 5000, 1), (0, 1)),
        ((0, 0xFFFF, 5000, 1), (1, 0)),
    ]
    for word in range(4):
        single = [0, 0, 0, 0]
        single[word] = 1
        cases.append(((single[0], single[1], single[2], single[3]), (0, 0)))
    chained = PI
    for _ in range(16):
        chained = philox4x64_10(chained, PI_KEY)
        cases.append((chained, (chained[3], chained[0])))
    for counter, key in cases:
        yield " ".join(f"{word:016x}" for word in (*counter, *key, *philox4x64_10(counter, key)))


# -- shuffle.txt -----------------------------------------------------------------------------------

WHOLE_SIZES = (1, 2, 3, 4, 5, 6, 7)
SAMPLED_SIZES = (
    *(100, 4095, 4096, 4097, 5000, 65535, 65536, 65537, 2**20, 10**6 + 3),
    *(2**31 - 1, 2**31, 2**31 + 1, 2**32, 10**12, 2**62 + 12345, 2**63 - 1),
)
SEEDS = (0, 1, 0x0123456789ABCDEF, MASK64)
EPOCHS = (0, 1, 2**40 - 1)

SHUFFLE_HEADER = """\
# shuffle-1, decimal: num_samples seed epoch position index.
# Every position up to 7 samples; above, positions at both ends, in the middle and two between.
"""


def shuffle_lines() -> Iterator[str]:
    for num_samples in (*WHOLE_SIZES, *SAMPLED_SIZES):
        n = num_samples
        positions: Iterable[int] = range(n)
        if n not in WHOLE_SIZES:
            positions = (0, 1, n // 3, n // 2, 2 * n // 3, n - 2, n - 1)
        for seed in SEEDS:
            for epoch in EPOCHS:
                for position in positions:
                    index = Shuffle(n, seed).index_at(epoch, position)
                    yield f"{n} {seed} {epoch} {position} {index}"


# -- digest.txt ------------------------------------------------------------------------------------

DIGEST_HEADER = """\
# Identity digest: epoch count, count times (element start stop), lanes 0 and 1; the lanes in
# hexadecimal, the rest decimal. Bytes of a digest: lane 0, then lane 1, each little-endian u64.
"""


def digest_lines() -> Iterator[str]:
    cases: list[tuple[int, list[Span]]] = [
        (0, []),
        (0, [(0, 0, 0)]),
        (1, [(0, 0, 0)]),
        (0, [(1, 0, 0)]),
        (0, [(0, 0, 0), (1, 0, 0)]),
        (0, [(1, 0, 0), (0, 0, 0)]),
        (0, [(0, 0, 0), (0, 0, 0)]),
        (3, [(i * i, 0, 0) for i in range(16)]),
        (2**40 - 1, [(2**63 - 2, 0, 0), (10**12, 0, 0)]),
        (0, [(0, 0, 3), (1, 0, 1)]),
        (0, [(1, 1, 2), (2, 0, 3)]),
        (7, [(2**40, 2**31, 2**32 - 1), (2**40, 0, 2**31), (5, 0, 1)]),
    ]
    for epoch, elements in cases:
        numbers = [epoch, len(elements), *(number for element in elements for number in element)]
        lane0, lane1 = digest(epoch, elements)
        yield f"{' '.join(map(str, numbers))} {lane0:016x} {lane1:016x}"


# -- rng.txt ---------------------------------------------------------------------------------------

RNG_HEADER = """\
# Random numbers of a sample: seed epoch index stream, decimal and text; then, hexadecimal, the
# seed (sample_seed) and the first eight words of the generator (sample_generator).
"""


def rng_lines() -> Iterator[str]:
    cases = [
        (0, 0, 0, "augment"),
        (1, 0, 0, "augment"),
        (0, 1, 0, "augment"),
        (0, 0, 1, "augment"),
        (0, 0, 0, "mask"),
        (0, 0, 0, "loader"),
        (7, 2, 31, "augment"),
        (MASK64, 2**40 - 1, 2**63 - 1, "augment"),
        (0x0123456789ABCDEF, 12345, 10**12, "noise/1"),
    ]
    for seed, epoch, index, stream in cases:
        first, *blocks = islice(sample_blocks(seed, epoch, index, stream), 3)
        words = [first[0] >> 1, *(word for block in blocks for word in block)]
        yield f"{seed} {epoch} {index} {stream} {' '.join(f'{word:016x}' for word in words)}"


# -- concat.txt ------------------------------------------------------------------------------------


class ConcatCase(NamedTuple):
    """One call of concat; the name is a label for messages."""

    name: str
    lengths: list[int]
    seq_len: int
    tail: Literal["drop", "pad"]
    order: list[int] | None = None
    num_virtual: int = 0
    keep_empty: bool = False
    phase: int = 0


CONCAT_CASES = [
    ConcatCase("joined-and-cut", [3, 2, 5], 4, "drop"),
    ConcatCase("padded-tail", [3, 2, 5], 4, "pad"),
    ConcatCase("row-ends-at-document-end", [4, 4], 4, "drop"),
    ConcatCase("empty-document-inside-row", [1, 0, 2, 1], 4, "drop"),
    ConcatCase("document-over-three-rows", [11, 1], 4, "drop"),
    ConcatCase("end-of-document-tokens", [2, 1, 3], 4, "pad", num_virtual=1),
    ConcatCase("permuted-documents", [3, 2, 5], 4, "drop", order=[2, 0, 1]),
    ConcatCase("empty-document-after-row-end", [5, 3, 0, 7, 1], 4, "drop"),
    ConcatCase("equal-documents", [6, 6, 6, 6], 8, "drop"),
    ConcatCase("long-documents", [13, 11], 10, "pad"),
    ConcatCase("fewer-tokens-than-a-row", [3, 2], 8, "drop"),
    ConcatCase("fewer-tokens-than-a-row-padded", [3, 2], 8, "pad"),
    ConcatCase("one-token-rows", [2, 0, 1], 1, "drop"),
    ConcatCase("only-empty-documents", [0, 0, 0], 4, "pad"),
    ConcatCase("only-empty-documents-kept", [0, 0, 0], 4, "pad", num_virtual=2, keep_empty=True),
    ConcatCase("empty-documents-dropped", [0, 3, 0, 2], 4, "pad", num_virtual=2),
    ConcatCase("empty-documents-kept", [3, 0, 2, 0], 4, "pad", num_virtual=2, keep_empty=True),
    ConcatCase("row-cuts-virtual-tokens", [2, 0, 2], 3, "pad", num_virtual=2, keep_empty=True),
    ConcatCase("empty-documents-first", [0, 0, 3, 5], 4, "drop"),
    ConcatCase("phase-one", [5, 3, 0, 7, 1], 3, "drop", phase=1),
    ConcatCase("phase-padded", [5, 3, 0, 7, 1], 6, "pad", phase=5),
    ConcatCase("long-row-many-documents", [1, 2, 0, 1, 3, 1, 1, 2, 5], 12, "pad"),
    ConcatCase(
        "permuted-with-empty-and-virtual",
        [7, 0, 3, 12, 1, 0, 5],
        5,
        "pad",
        order=[5, 3, 1, 0, 6, 4, 2],
        num_virtual=1,
    ),
]

CONCAT_HEADER = """\
# concat packing, decimal. A case is a group of lines, each a keyword and its numbers:
#   case name
#   parameters seq_len pad_tail num_virtual keep_empty phase     (pad_tail, keep_empty: 0 or 1)
#   lengths ...                                                  (by document, real tokens)
#   order ...                                                    (documents in reading order)
#   row reader_position reader_offset (document start stop)*     (one line a row, from row 0)
#   end
# The reader is the one that the row leaves behind. With a phase, row 0 is a fragment.
"""


def concat_lines() -> Iterator[str]:
    for case in CONCAT_CASES:
        order = list(range(len(case.lengths))) if case.order is None else case.order
        parameters = (case.num_virtual, int(case.keep_empty), case.phase)
        yield f"case {case.name}"
        yield " ".join(map(str, ("parameters", case.seq_len, int(case.tail == "pad"), *parameters)))
        yield " ".join(map(str, ("lengths", *case.lengths)))
        yield " ".join(map(str, ("order", *order)))
        for row in concat(
            case.lengths,
            order,
            case.seq_len,
            tail=case.tail,
            num_virtual=case.num_virtual,
            keep_empty=case.keep_empty,
            phase=case.phase,
        ):
            numbers = (*row.reader, *(number for span in row.spans for number in span))
            yield " ".join(map(str, ("row", *numbers)))
        yield "end"


# -- Files -----------------------------------------------------------------------------------------

FILES: dict[str, tuple[str, Callable[[], Iterator[str]]]] = {
    "philox.txt": (PHILOX_HEADER, philox_lines),
    "shuffle.txt": (SHUFFLE_HEADER, shuffle_lines),
    "digest.txt": (DIGEST_HEADER, digest_lines),
    "rng.txt": (RNG_HEADER, rng_lines),
    "best_fit.txt": (packing_vectors.BEST_FIT_HEADER, packing_vectors.best_fit_lines),
    "chunk.txt": (packing_vectors.CHUNK_HEADER, packing_vectors.chunk_lines),
    "concat.txt": (CONCAT_HEADER, concat_lines),
    "block_shuffle.txt": (order_vectors.BLOCK_SHUFFLE_HEADER, order_vectors.block_shuffle_lines),
    "mixture.txt": (order_vectors.MIXTURE_HEADER, order_vectors.mixture_lines),
    "weighted.txt": (order_vectors.WEIGHTED_HEADER, order_vectors.weighted_lines),
    "subset.txt": (order_vectors.SUBSET_HEADER, order_vectors.subset_lines),
}


def content(name: str) -> str:
    """Return the text that one golden file must have."""
    header, lines = FILES[name]
    return header + "".join(line + "\n" for line in lines())


def main() -> None:
    VECTORS.mkdir(exist_ok=True)
    for name in FILES:
        (VECTORS / name).write_text(content(name), encoding="ascii", newline="\n")


if __name__ == "__main__":
    main()
