"""Token shards from datatrove: tokens ``.ds`` and document ends ``.ds.index``.

Both are without headers, little-endian: the tokens uint16 or uint32, the ends uint64, one a
document, counted in tokens. The last end and the size of the tokens tell the width. The
end-of-text token that datatrove adds is a document's last token.

Source:
    Layout: datatrove, src/datatrove/pipeline/tokens/tokenizer.py.
"""

from __future__ import annotations

import numpy as np

from datacursor.errors import CorpusError
from datacursor.mapped_file import MappedFile
from datacursor.shards import SourceShards, shard_from_offsets

SUFFIX = ".ds"

_DTYPE_OF_SIZE = {2: "<u2", 4: "<u4"}


def shards_from_file(file: MappedFile) -> SourceShards:
    """Return the documents of one ``.ds``; tokens are viewed, 8 bytes a document are made.

    Args:
        file: The mapped ``.ds``; its ``.ds.index`` lies beside it.

    Raises:
        FileNotFoundError: There is no ``.ds.index``.
        CorpusError: The ends fall, or are not those of the tokens.
    """
    index = MappedFile(file.path + ".index")
    if index.size % 8:
        raise CorpusError(f"{index.path}: size is {index.size} bytes, not a multiple of 8")
    index.check()
    ends = np.frombuffer(index.data, "<u8")
    falls = ends[1:] < ends[:-1]
    if falls.any():
        row = int(falls.argmax())
        raise CorpusError(
            f"{index.path}: document {row}: end {ends[row]} is past the end after it, "
            f"{ends[row + 1]}"
        )
    num_tokens = int(ends[-1])
    dtype = next((d for n, d in _DTYPE_OF_SIZE.items() if n * num_tokens == file.size), None)
    if dtype is None:
        raise CorpusError(
            f"{file.path}: size is {file.size} bytes, expected {2 * num_tokens} or "
            f"{4 * num_tokens} for the {num_tokens} tokens of {index.path}"
        )
    offsets = np.zeros(len(ends) + 1, dtype=np.int64)
    offsets[1:] = ends
    shard = shard_from_offsets(np.frombuffer(file.data, dtype), offsets)
    return SourceShards([shard], files=(index, file))
