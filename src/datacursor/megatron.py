"""Token shards from Megatron's indexed data sets: an index ``.idx`` beside the tokens ``.bin``.

    offset  size     .idx, little-endian
    0       9        magic "MMIDIDX", 0, 0
    9       8        version, 1
    17      1        code of the token's dtype
    18      8 + 8    number of sequences S, number of document indices D
    34      4 * S    tokens of each sequence, int32
    ..      8 * S    byte in .bin where each sequence begins, int64
    ..      8 * D    sequence each document begins with, and S at the end, int64
    ..      S        int8 modes, in multimodal data sets alone

A document of this package is a document of the index: the sentences of one text, which Megatron
stores as several sequences, are read as one. An index whose writer never ended a document (D = 1)
has sequences only, and each of them is a document, as it is for Megatron.

Source:
    Layout and dtype codes: Megatron-LM, megatron/core/datasets/indexed_dataset.py.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datacursor.errors import CorpusError
from datacursor.mapped_file import MappedFile
from datacursor.shards import SourceShards, shard_from_offsets

MAGIC = b"MMIDIDX\x00\x00"

_HEADER = struct.Struct("<9sQBQQ")
_VERSION = 1
_DTYPES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}
_FLOATS = (6, 7)


def shards_from_file(index: MappedFile) -> SourceShards:
    """Return the documents of one data set; tokens are viewed, 8 bytes a document are made.

    Args:
        index: The mapped ``.idx``; the ``.bin`` of the same name lies beside it.

    Raises:
        FileNotFoundError: There is no ``.bin``.
        CorpusError: The index is damaged, of another kind, or does not fit the ``.bin``.
    """
    dtype, num_sequences, num_indices = _read_header(index)
    index.check()
    place = _HEADER.size
    lengths = np.frombuffer(index.data, "<i4", num_sequences, place)
    place += lengths.nbytes
    pointers = np.frombuffer(index.data, "<i8", num_sequences, place)
    place += pointers.nbytes
    document_indices = np.frombuffer(index.data, "<i8", num_indices, place)
    bin_file = MappedFile(Path(index.path).with_suffix(".bin"))
    _check_sequences(index, lengths, pointers, bin_file, dtype.itemsize)
    _check_documents(index, document_indices, num_sequences)
    offsets = np.append(pointers, bin_file.size) // dtype.itemsize
    if num_indices > 1:
        offsets = offsets[document_indices]
    tokens = np.frombuffer(bin_file.data, dtype)
    shards = [shard_from_offsets(tokens, offsets)] if len(offsets) > 1 else []
    return SourceShards(shards, files=(index, bin_file))


def _read_header(index: MappedFile) -> tuple[np.dtype[np.integer[Any]], int, int]:
    """Return the tokens' dtype and the two counts, which fit the size of the index."""
    head = index.data[: _HEADER.size]
    if head[: len(MAGIC)] != MAGIC:
        raise CorpusError(f"{index.path}: magic is {head[:9]!r}, expected {MAGIC!r}")
    if len(head) < _HEADER.size:
        raise CorpusError(f"{index.path}: header has {len(head)} bytes, expected {_HEADER.size}")
    _, version, code, num_sequences, num_indices = _HEADER.unpack(head)
    if version != _VERSION:
        raise CorpusError(f"{index.path}: version is {version}, expected {_VERSION}")
    if code not in _DTYPES:
        kind = "a float, not an integer" if code in _FLOATS else "unknown"
        known = ", ".join(map(str, _DTYPES))
        raise CorpusError(f"{index.path}: dtype code {code} is {kind}, expected one of {known}")
    expected = _HEADER.size + 12 * num_sequences + 8 * num_indices
    if index.size != expected:
        modes = " (sequence modes: a multimodal data set)"
        raise CorpusError(
            f"{index.path}: size is {index.size} bytes, expected {expected} for {num_sequences} "
            f"sequences and {num_indices} document indices"
            + (modes if index.size == expected + num_sequences else "")
        )
    return np.dtype(_DTYPES[code]), num_sequences, num_indices


def _check_sequences(
    index: MappedFile,
    lengths: NDArray[np.int32],
    pointers: NDArray[np.int64],
    bin_file: MappedFile,
    itemsize: int,
) -> None:
    """Raise unless the sequences follow one another from the first to the last byte."""
    if (lengths < 0).any():
        row = int((lengths < 0).argmax())
        raise CorpusError(f"{index.path}: sequence {row}: length {lengths[row]} is negative")
    stops = pointers + lengths * np.int64(itemsize)
    begins = np.append(pointers, bin_file.size)
    expected = np.insert(stops, 0, 0)
    if not np.array_equal(begins, expected):
        row = int((begins != expected).argmax())
        if row < len(pointers):
            raise CorpusError(
                f"{index.path}: sequence {row}: pointer is byte {pointers[row]}, expected "
                f"{expected[row]}, where the sequence before it ends"
            )
        raise CorpusError(
            f"{bin_file.path}: size is {bin_file.size} bytes, expected {expected[row]} for the "
            f"sequences of {index.path}"
        )


def _check_documents(
    index: MappedFile, document_indices: NDArray[np.int64], num_sequences: int
) -> None:
    """Raise unless the document indices rise from 0 to the number of sequences."""
    if len(document_indices) == 0 or document_indices[0] != 0:
        first = document_indices[0] if len(document_indices) else "missing"
        raise CorpusError(f"{index.path}: document index 0 is {first}, expected 0")
    falls = document_indices[1:] < document_indices[:-1]
    if falls.any():
        row = int(falls.argmax())
        raise CorpusError(
            f"{index.path}: document index {row} is {document_indices[row]}, past the one after "
            f"it, {document_indices[row + 1]}"
        )
    last = int(document_indices[-1])
    if len(document_indices) > 1 and last != num_sequences:
        raise CorpusError(
            f"{index.path}: the last document index is {last}, expected the number of sequences, "
            f"{num_sequences}"
        )
