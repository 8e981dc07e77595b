"""Token shards from flat files: tokens one after another, documents marked by a token.

    format    file                                                       dtype    marker
    flat      tokens alone: nanoGPT's .bin, OLMo's raw .npy              given    at the end
    llm.c     256 int32 (magic, version, number of tokens, zeros) and    by the   at the start
              tokens: llm.c, modded-nanogpt                              magic
    npy       a NumPy file of one dimension                              header   at the end

The marker (end-of-text token) stays with its document, as its last token, or its first one where
the format begins documents with it. A stretch without marker at the end of a file (or before the
first one) is a document too: nothing is dropped, nothing is joined across files. So a file in
which the marker never occurs is one document.

Source:
    llm.c, dev/data/data_common.py; numpy.lib.format; OLMo-core, src/olmo_core/data.
"""

from __future__ import annotations

import io
import struct
from tokenize import TokenError
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from datacursor.checks import require_choice, require_integer
from datacursor.errors import ArgumentError, CorpusError
from datacursor.mapped_file import MappedFile
from datacursor.shards import IntArray, SourceShards, shard_from_offsets

FORMATS = ("flat", "llm.c", "npy")
NPY_MAGIC = b"\x93NUMPY"
DTYPES = ("uint16", "uint32")
MARKER_PLACES = ("end", "start")

_LLMC_HEADER = struct.Struct("<3i")
_LLMC_HEADER_BYTES = 1024
_LLMC_KINDS = {20240520: (1, "<u2"), 20240801: (7, "<u4")}  # magic: version, dtype
LLMC_MAGICS = tuple(struct.pack("<i", magic) for magic in _LLMC_KINDS)

_READ_TOKENS = 2**20
_MAX_NPY_HEADER_BYTES = 2**16
# What NumPy lets through of Python's parser, which reads the header as a literal.
_BAD_LITERAL = (ValueError, TypeError, SyntaxError, TokenError, RecursionError, MemoryError)


class Marking(NamedTuple):
    """How documents are told apart.

    Attributes:
        eot: The end-of-text token, between or before documents. Required.
        eot_at: "end" or "start" of its document; None for what the format does.
        dtype: "uint16" or "uint32", for files that do not say; else None.
    """

    eot: int | None = None
    eot_at: str | None = None
    dtype: str | None = None


def shards_from_file(file: MappedFile, format: str, marking: Marking) -> SourceShards:
    """Return the documents of one flat file; tokens are viewed and read once to find the marker.

    Args:
        file: The mapped file.
        format: "flat", "llm.c" or "npy".
        marking: How documents are told apart.

    Raises:
        ArgumentError: eot, eot_at or dtype is missing, out of range or does not fit the format.
        CorpusError: The header is damaged or does not fit the size, or nothing but markers.
    """
    if marking.eot is None:
        raise ArgumentError(
            f"eot must be given: the token that separates documents in {file.path} "
            f"(format={format!r})"
        )
    tokens = _tokens(file, format, marking.dtype)
    limits = np.iinfo(tokens.dtype)
    eot = require_integer("eot", marking.eot, int(limits.min), int(limits.max) + 1)
    usual = "start" if format == "llm.c" else "end"
    place = usual if marking.eot_at is None else marking.eot_at
    place = require_choice("eot_at", place, MARKER_PLACES)
    markers = _find(file, tokens, eot)
    cuts = markers + 1 if place == "end" else markers
    offsets = np.unique(np.concatenate([[0], cuts, [len(tokens)]]))  # a cut may lie at an end
    shards = [shard_from_offsets(tokens, offsets)] if len(tokens) else []
    return SourceShards(shards, files=(file,))


def _tokens(file: MappedFile, format: str, dtype: str | None) -> IntArray:
    if format == "flat":
        return _headerless_tokens(file, dtype)
    if dtype is not None:
        raise ArgumentError(
            f"dtype={dtype!r} does not apply to format={format!r}: the file states it"
        )
    return _llmc_tokens(file) if format == "llm.c" else _npy_tokens(file)


def _headerless_tokens(file: MappedFile, dtype: str | None) -> IntArray:
    if dtype is None:
        raise ArgumentError(
            f"dtype must be given, one of {', '.join(map(repr, DTYPES))}: {file.path} has no "
            "header that states it"
        )
    dtype = require_choice("dtype", dtype, DTYPES)
    if file.data[:4] in LLMC_MAGICS:
        raise CorpusError(f"{file.path}: starts with a header of llm.c; use format='llm.c'")
    if file.data[: len(NPY_MAGIC)] == NPY_MAGIC:
        raise CorpusError(f"{file.path}: starts with a NumPy header; use format='npy'")
    itemsize = np.dtype(dtype).itemsize
    if file.size % itemsize:
        raise CorpusError(
            f"{file.path}: size is {file.size} bytes, not a multiple of {itemsize} ({dtype})"
        )
    return np.frombuffer(file.data, np.dtype(dtype).newbyteorder("<"))


def _llmc_tokens(file: MappedFile) -> IntArray:
    if file.size < _LLMC_HEADER_BYTES:
        raise CorpusError(
            f"{file.path}: size is {file.size} bytes, expected a header of {_LLMC_HEADER_BYTES}"
        )
    magic, version, num_tokens = _LLMC_HEADER.unpack(file.data[: _LLMC_HEADER.size])
    if magic not in _LLMC_KINDS:
        known = ", ".join(map(str, _LLMC_KINDS))
        raise CorpusError(f"{file.path}: magic is {magic}, expected one of {known}")
    expected_version, dtype = _LLMC_KINDS[magic]
    if version != expected_version:
        raise CorpusError(
            f"{file.path}: version is {version}, expected {expected_version} with magic {magic}"
        )
    _check_count(file, num_tokens, np.dtype(dtype), _LLMC_HEADER_BYTES)
    return np.frombuffer(file.data, dtype, num_tokens, _LLMC_HEADER_BYTES)


def _npy_tokens(file: MappedFile) -> IntArray:
    stream = io.BytesIO(file.data[:_MAX_NPY_HEADER_BYTES])
    try:
        version = np.lib.format.read_magic(stream)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }.get(version)
        if read is None:
            raise CorpusError(f"{file.path}: NumPy version is {version}, expected (1, 0), (2, 0)")
        shape, _, dtype = read(stream)
    except CorpusError:
        raise
    except _BAD_LITERAL as error:
        raise CorpusError(f"{file.path}: damaged NumPy header: {error}") from error
    if dtype.kind not in "iu" or not dtype.isnative:
        raise CorpusError(f"{file.path}: dtype is {dtype.str!r}, expected little-endian integers")
    if len(shape) != 1:
        raise CorpusError(f"{file.path}: shape is {shape}, expected one dimension")
    _check_count(file, shape[0], dtype, stream.tell())
    return np.frombuffer(file.data, dtype, shape[0], stream.tell())


def _check_count(
    file: MappedFile, num_tokens: int, dtype: np.dtype[Any], header_bytes: int
) -> None:
    expected = header_bytes + num_tokens * dtype.itemsize
    if num_tokens < 0 or file.size != expected:
        raise CorpusError(
            f"{file.path}: size is {file.size} bytes, expected {expected} for {num_tokens} tokens "
            f"({dtype.name}) after a header of {header_bytes}"
        )


def _find(file: MappedFile, tokens: IntArray, eot: int) -> NDArray[np.int64]:
    """Return the places of a token, in order, by one pass."""
    places = [np.empty(0, dtype=np.int64)]
    num_found = 0
    for first in range(0, len(tokens), _READ_TOKENS):
        file.check()
        found = np.flatnonzero(tokens[first : first + _READ_TOKENS] == eot) + first
        num_found += len(found)
        places.append(found)
        num_read = min(first + _READ_TOKENS, len(tokens))
        # Padding taken for the marker would need four times the file's size in memory.
        if num_found > _READ_TOKENS // 2 and 2 * num_found > num_read:
            raise CorpusError(
                f"{file.path}: {num_found} of the first {num_read} tokens are eot={eot}, which "
                "leaves no documents between them"
            )
    return np.concatenate(places)
