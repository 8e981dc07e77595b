"""A corpus folder from a source that is read in pieces: resumed, verified, published.

TARGET.lock      held: one process at a time
TARGET.partial   complete data files so far; a killed attempt leaves it to the next one
TARGET           appears when all of it is there and verified
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from datacursor.corpus_folder import (
    Origin,
    begin,
    check_origin,
    data_paths,
    lock_of,
    open_data,
    partial_of,
    publish,
)
from datacursor.corpus_writer import FolderWriter
from datacursor.errors import ArgumentError, CorpusError
from datacursor.file_lock import exclusive
from datacursor.fingerprint import fingerprint_shards
from datacursor.pieces import Piece
from datacursor.shards import TokenShard

BuildProgress: TypeAlias = Callable[[str, int, int], None]


class Source(NamedTuple):
    """What a corpus is built from.

    Attributes:
        origin: Returns what the source is recognised by, now.
        pieces: Returns the documents from a number on.
        num_bytes: Size of the source, for the progress.
        dtype: Narrowest dtype to write, None to tell from the tokens.
    """

    origin: Callable[[], Origin]
    pieces: Callable[[int], Iterator[Piece]]
    num_bytes: int
    dtype: str | None = None


class BuiltCorpus(NamedTuple):
    """A complete and verified corpus folder.

    Attributes:
        path: The folder, for `TokenCorpus.open`.
        num_documents: Number of documents, empty ones included.
        num_tokens: Number of tokens.
        num_null: Number of null documents; they count as empty ones.
        dtype: Name of the integer dtype of the widest file.
        num_files: Number of data files.
        num_bytes: Their size.
        num_found: Number of documents that an earlier attempt had written.
        fingerprint: The sampled fingerprint, 16 bytes.
    """

    path: Path
    num_documents: int
    num_tokens: int
    num_null: int
    dtype: str
    num_files: int
    num_bytes: int
    num_found: int
    fingerprint: bytes


def build(
    source: Source,
    target: Path,
    verify: Callable[[Path, BuildProgress], None],
    progress: BuildProgress | None = None,
) -> BuiltCorpus:
    """Write a source into a folder, or go on where an earlier attempt ended.

    If the folder is there and of the same origin, it is verified and left as it is.

    Args:
        source: The documents.
        target: The folder to make; its parents are made as well. A link stands for what it names.
        verify: Called with the folder before it gets its name; raises if it is wrong.
        progress: Called as progress("write" or "verify", bytes done, bytes to do).

    Raises:
        ArgumentError: The target is the root of a file system.
        CorpusError: The source is damaged or changed, the target is something else, or what was
            written is not the source.
        OSError: The file system refuses; complete files are kept for the next attempt.
    """
    report = progress or _no_progress
    if target.is_symlink():
        target = Path(os.path.realpath(target))  # a folder is renamed beside the real one
    if not target.name:
        raise ArgumentError(f"target must be a folder with a name, got target={target}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(lock_of(target)):
        if os.path.lexists(target) and not target.is_dir():
            raise CorpusError(f"{target}: exists and is not a directory")
        if target.exists() and any(target.iterdir()):
            check_origin(target, source.origin(), "name another target, or remove this one")
            verify(target, report)
            return _describe(target, num_found=None)
        partial = partial_of(target)
        num_found = _write(source, partial, report)
        check_origin(partial, source.origin(), f"remove {partial} to begin again")
        verify(partial, report)
        built = _describe(partial, num_found)
        publish(partial, target, built.fingerprint)
        return built._replace(path=target)


def _write(source: Source, partial: Path, progress: BuildProgress) -> int:
    begin(partial, source.origin())
    with FolderWriter(partial, source.dtype) as writer:
        num_found = writer.num_documents
        for piece in source.pieces(num_found):
            writer.add(piece)
            progress("write", piece.num_bytes_read, source.num_bytes)
        writer.finish()
    return num_found


def _describe(folder: Path, num_found: int | None) -> BuiltCorpus:
    paths = data_paths(folder)
    shards, num_null, _, _ = open_data(folder)
    num_documents = sum(len(shard.begins) for shard in shards)
    return BuiltCorpus(
        path=folder,
        num_documents=num_documents,
        num_tokens=sum(int(shard.lengths().sum()) for shard in shards),
        num_null=num_null,
        dtype=_widest(shards),
        num_files=len(paths),
        num_bytes=sum(path.stat().st_size for path in paths),
        num_found=num_documents if num_found is None else num_found,
        fingerprint=fingerprint_shards(shards),
    )


def _widest(shards: list[TokenShard]) -> str:
    dtypes = [shard.tokens.dtype for shard in shards] or [np.dtype(np.uint16)]
    return max(dtypes, key=lambda dtype: dtype.itemsize).name


def _no_progress(phase: str, num_done: int, num_bytes: int) -> None:
    pass
