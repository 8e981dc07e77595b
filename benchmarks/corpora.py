"""Document lengths like those of real corpora, and token files that every contestant reads."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

VOCABULARY = 50257
END_OF_TEXT = 50256  # the last token of every document, and no other

# Log-normal lengths: median, sigma, and the length to which they are cut.
DISTRIBUTIONS = {
    "web": (437, 1.1, None),
    "sft": (200, 1.0, None),
    "code": (1200, 1.4, 262144),
    "longctx": (9000, 1.0, None),
}
_CHUNK = 2**24  # tokens drawn at a time


@dataclass(frozen=True)
class TokenFiles:
    """A corpus on disk: Megatron's .idx and .bin, of which the .bin alone is nanoGPT's.

    Attributes:
        prefix: Path of both files without their endings.
        lengths: Tokens of each document, int64.
    """

    prefix: Path
    lengths: NDArray[np.int64]

    @property
    def index(self) -> Path:
        """The .idx."""
        return self.prefix.with_suffix(".idx")

    @property
    def tokens_path(self) -> Path:
        """The .bin."""
        return self.prefix.with_suffix(".bin")

    @property
    def num_tokens(self) -> int:
        """Tokens of all documents."""
        return int(self.lengths.sum())

    def tokens(self) -> NDArray[np.uint16]:
        """Return the mapped tokens."""
        return np.memmap(self.tokens_path, dtype=np.uint16, mode="r")

    def documents(self) -> list[NDArray[np.uint16]]:
        """Return a view of each document."""
        return np.split(self.tokens(), np.cumsum(self.lengths)[:-1])


def lengths(name: str, num_documents: int, shortest: int = 0) -> NDArray[np.int64]:
    """Return document lengths of one of the DISTRIBUTIONS, the same at every call."""
    median, sigma, longest = DISTRIBUTIONS[name]
    drawn = np.random.default_rng(0).lognormal(np.log(median), sigma, num_documents)
    return np.clip(drawn, shortest, longest).astype(np.int64)


def write(folder: Path, lengths: NDArray[np.int64]) -> TokenFiles:
    """Write documents of random tokens, each ended by END_OF_TEXT; none is empty."""
    files = TokenFiles(folder / "tokens", lengths)
    random = np.random.default_rng(1)
    ends = np.cumsum(lengths)
    with files.tokens_path.open("wb") as stream:
        for first in range(0, files.num_tokens, _CHUNK):
            stop = min(first + _CHUNK, files.num_tokens)
            chunk = random.integers(0, END_OF_TEXT, stop - first, dtype=np.uint16)
            inside = ends[np.searchsorted(ends, first + 1) : np.searchsorted(ends, stop + 1)]
            chunk[inside - 1 - first] = END_OF_TEXT
            stream.write(chunk.tobytes())
    count = len(lengths)
    header = struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, 8, count, count + 1)
    pointers = 2 * (ends - lengths)
    with files.index.open("wb") as stream:
        stream.write(header + lengths.astype("<i4").tobytes() + pointers.astype("<i8").tobytes())
        stream.write(np.arange(count + 1, dtype="<i8").tobytes())
    return files
