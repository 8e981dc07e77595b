"""The demo's corpus: Python's own top-level sources, a byte a token, as an Arrow IPC file."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import numpy as np
import pyarrow as pa

from datacursor.errors import CorpusError

VOCABULARY_SIZE = 257  # the bytes and the token before each document
DOCUMENT_START = 256


def write_corpus(path: Path, max_bytes: int) -> int:
    """Write the smallest top-level modules of the standard library, one document a file.

    Args:
        path: The Arrow IPC file to write; its one column is list<uint8>.
        max_bytes: Size of the corpus, at most.

    Returns:
        The number of documents.

    Raises:
        CorpusError: This Python comes without its sources.
    """
    library = Path(sysconfig.get_path("stdlib"))
    texts = _smallest(library, max_bytes)
    if not texts:
        raise CorpusError(f"this Python has no sources to train on: no *.py file in {library}")
    stops = np.cumsum([0, *map(len, texts)], dtype=np.int32)
    tokens = np.frombuffer(b"".join(texts), dtype=np.uint8)
    table = pa.table({"tokens": pa.ListArray.from_arrays(stops, tokens)})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return len(texts)


def _smallest(library: Path, max_bytes: int) -> list[bytes]:
    texts = []
    left = max_bytes
    for path in sorted(library.glob("*.py"), key=lambda path: (path.stat().st_size, path.name)):
        text = path.read_bytes()
        if len(text) > left:
            break
        texts.append(text)
        left -= len(text)
    return texts
