"""Corpora rewritten as corpus folders, which are mapped: quick to open, nothing to decode."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from datacursor.corpus_build import BuildProgress, BuiltCorpus, Source, build
from datacursor.corpus_files import FileSource, files_behind, resolve
from datacursor.corpus_folder import Origin, identity_of, open_data
from datacursor.errors import ArgumentError, CorpusError
from datacursor.fingerprint import TokenStream
from datacursor.flat import Marking
from datacursor.pieces import Piece, read_pieces, size_of
from datacursor.remote import localize


def convert(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    *,
    column: str | None = None,
    format: str | None = None,
    dtype: str | None = None,
    eot: int | None = None,
    eot_at: str | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    progress: BuildProgress | None = None,
) -> BuiltCorpus:
    """Rewrite a corpus as a folder of mapped Arrow files with the same documents.

    Every token is compared with the source before the folder gets its name, so where it exists,
    it is whole. Killed and called again, it goes on after the last complete file (of 2**30
    tokens); the result is the same, byte for byte. Called again afterwards, it compares again.
    Tokens are stored as uint16, uint32 or int64, whatever they need (uint8 stays). Memory: a row
    group of Parquet, and some arrays of 2**24 tokens.

    Args:
        source: What `TokenCorpus.open` reads: paths of files and directories.
        target: The folder to make. `TARGET.partial` and `TARGET.lock` stand beside it meanwhile.
        column: As for `TokenCorpus.open`.
        format: As for `TokenCorpus.open`.
        dtype: As for `TokenCorpus.open`: of the source.
        eot: As for `TokenCorpus.open`.
        eot_at: As for `TokenCorpus.open`.
        cache_dir: Where a source that is a URL is downloaded to.
        progress: Called as progress("download", "write" or "verify", bytes done, bytes to do).

    Raises:
        FileNotFoundError: There is no file at a path.
        CorpusError: The source is damaged, or changed since an earlier attempt; or the target is
            another corpus.
        ArgumentError: An argument does not fit the source.
        OSError: The disk is full, say; complete files are kept for the next attempt.
    """
    paths = [source] if isinstance(source, (str, os.PathLike)) else source
    if not paths:
        raise ArgumentError("source names no path")
    cache = None if cache_dir is None else Path(cache_dir).absolute()
    local = (localize(os.fspath(path), cache, progress) for path in paths)
    absolute = tuple(str(Path(path).absolute()) for path in local)
    files = resolve(FileSource(absolute, format, column, Marking(eot, eot_at, dtype)))
    return convert_files(files, Path(target).absolute(), progress)


def convert_files(
    files: FileSource, target: Path, progress: BuildProgress | None = None
) -> BuiltCorpus:
    """Do as `convert`, for a resolved source."""
    source = Source(
        origin=lambda: origin_of(files),
        pieces=lambda first: read_pieces(files, first),
        num_bytes=size_of(files),
    )
    return build(source, target, lambda folder, report: _compare(folder, files, report), progress)


def origin_of(files: FileSource) -> Origin:
    """Return what a resolved source is recognised by: its files and how they are read."""
    assert files.format is not None
    origin: Origin = {"version": 1, "format": files.format, "column": files.column}
    origin |= files.marking._asdict()
    behind = [path for named in files.paths for path in files_behind(named, files.format)]
    return origin | {f"file {number}": identity_of(path) for number, path in enumerate(behind)}


def _compare(folder: Path, files: FileSource, progress: BuildProgress) -> None:
    """Raise unless a folder holds the documents of a source."""
    shards, num_null, _, _ = open_data(folder)
    found = TokenStream(shards)
    lengths = np.concatenate([np.empty(0, np.int64), *(shard.lengths() for shard in shards)])
    num_bytes = size_of(files)
    document = 0
    token = 0
    for piece in read_pieces(files):
        stop = document + len(piece.lengths)
        if not np.array_equal(lengths[document:stop], piece.lengths):
            raise CorpusError(_difference(folder, "lengths", document, stop))
        if not _same_tokens(found, token, piece):
            raise CorpusError(_difference(folder, "tokens", document, stop))
        document, token = stop, token + len(piece.tokens)
        num_null -= len(piece.nulls)
        progress("verify", piece.num_bytes_read, num_bytes)
    if document != len(lengths) or num_null != 0:
        raise CorpusError(
            f"{folder}: has {len(lengths)} documents, {document} in its source, and {num_null} "
            "more null documents than there; remove it to begin again"
        )


def _same_tokens(found: TokenStream, first: int, piece: Piece) -> bool:
    place = 0
    for tokens in found.read(first, first + len(piece.tokens)):
        expected = piece.tokens[place : place + len(tokens)].astype(np.int64, copy=False)
        if not np.array_equal(tokens, expected):
            return False
        place += len(tokens)
    return True


def _difference(folder: Path, what: str, first: int, stop: int) -> str:
    return (
        f"{folder}: {what} of documents {first} to {stop} are not those of its source; remove it "
        "to begin again"
    )
