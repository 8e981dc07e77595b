"""Token corpora: documents of token ids from memory or from files, by number.

A corpus is the data side of packing. It knows how long each document is, where its tokens lie
and what the whole says (the fingerprint); it knows no order, no rows and no cursor.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datacursor import corpus_files
from datacursor.checks import require_integer
from datacursor.corpus_files import FileSource, OpenedFiles
from datacursor.errors import ArgumentError, CorpusError
from datacursor.fingerprint import Progress, fingerprint_shards
from datacursor.flat import Marking
from datacursor.mapped_file import MappedFile
from datacursor.remote import localize
from datacursor.shards import IntArray, TokenShard, shard_from_sequences

__all__ = ["TokenCorpus", "TokenShard"]

_FEW_FILES = 4  # checked sooner than it is found out which are touched

FORMATS = ("memory", *corpus_files.FORMATS)


class TokenCorpus:
    """A fixed, numbered collection of token documents.

    Made by `open`. Files are mapped, so opening reads their metadata and offsets and no tokens,
    and processes share the memory. Thread safe: nothing changes after opening.

    A corpus pickles by its arrays if it came from memory; one from files pickles by their paths
    and is opened again, which raises CorpusError if a file is no longer the same.

    Attributes:
        shards: The documents in order, zero-copy where the source allows it.
        num_documents: Number of documents, empty ones included.
        num_tokens: Number of tokens in all documents.
        num_null: Number of null documents; they count as empty ones.
        dtype: Integer dtype of the widest shard.

    Example:
        >>> corpus = TokenCorpus.open([[1, 2, 3], [], [4, 5]])
        >>> corpus.num_documents, corpus.num_tokens
        (3, 5)
        >>> corpus.lengths
        array([3, 0, 2])
        >>> corpus.document(2)
        array([4, 5])
    """

    def __init__(
        self,
        shards: Sequence[TokenShard],
        *,
        num_null: int = 0,
        files: Sequence[tuple[MappedFile, int]] = (),
        source: FileSource | None = None,
        fingerprint: bytes | None = None,
    ) -> None:
        """Take checked shards; `open` is the way in.

        Args:
            shards: The documents, each with at least one; extents already checked.
            num_null: Number of null documents among them.
            files: Every file behind the shards, with the number of its first document.
            source: Opens the files again; None if the shards came from memory.
            fingerprint: The fingerprint, when it is known.
        """
        self.shards = tuple(shards)
        self.num_null = num_null
        counts = np.array([len(shard.begins) for shard in self.shards], dtype=np.int64)
        self._stops = np.cumsum(counts)  # number of documents up to and with each shard
        self.num_documents = int(counts.sum())
        self.num_tokens = sum(int(shard.lengths().sum()) for shard in self.shards)
        dtypes = [shard.tokens.dtype for shard in self.shards]
        self.dtype = max(dtypes, key=lambda dtype: dtype.itemsize, default=np.dtype(np.int64))
        self._files = tuple(file for file, _ in files)
        self._file_starts = np.array([first for _, first in files], dtype=np.int64)
        self._source = source
        self._fingerprint = fingerprint

    @classmethod
    def open(
        cls,
        source: Any,
        *,
        column: str | None = None,
        format: str | None = None,
        dtype: str | None = None,
        eot: int | None = None,
        eot_at: str | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> TokenCorpus:
        """Open a corpus.

        Args:
            source: One of

                - a sequence of documents, each a sequence or array of integers (copied once);
                - a pyarrow Array or ChunkedArray of list, large_list or fixed_size_list of
                  integers, or a Table or RecordBatch with such a column (not copied);
                - the path of a file, which is mapped: an Arrow IPC file or stream, Megatron's
                  .idx (.bin beside it), datatrove's .ds (.ds.index beside it), tokens of llm.c,
                  a NumPy file, or tokens without a header; Parquet is decoded into memory;
                - the path of a directory of such files of one format, read in order of name, or
                  of a Hugging Face data set saved to disk;
                - a sequence of such paths, read as given;
                - in the place of a path, a URL that fsspec or pyarrow.fs reads.
            column: Name of the token column. None takes the only column of integer lists, else
                the only such column called input_ids, tokens or token_ids.
            format: "memory", "arrow", "parquet", "megatron", "datatrove", "llm.c", "npy" or
                "flat"; None tells from the source, but never takes a file for "flat".
            dtype: "uint16" or "uint32", needed by "flat" alone: nothing in the file says it.
            eot: The end-of-text token that tells documents apart in "flat", "llm.c" and "npy",
                and needed by them. It stays a token of its document.
            eot_at: Where a document has it, "end" or "start". None for what the format does:
                "start" in "llm.c", else "end".
            cache_dir: A directory for what should happen once: Parquet is converted into mapped
                files (see `convert`), remote files are downloaded. One process does it, others
                wait; what is there is used as long as the source is the same.
            progress: Called as progress("download", "write" or "verify", bytes done, bytes to do)
                meanwhile.

        Raises:
            FileNotFoundError: There is no file at a path.
            CorpusError: The data is damaged, of another kind, or has no token column.
            ArgumentError: An argument is missing, unknown, or does not fit the source.
        """
        if format is not None and format not in FORMATS:
            raise ArgumentError(f"format must be one of {FORMATS} or None, got {format!r}")
        paths = _paths(source)
        marking = Marking(eot, eot_at, dtype)
        if paths is not None:
            if format == "memory":
                raise ArgumentError(f"format='memory' needs data, got a path: {source!r}")
            cache = None if cache_dir is None else Path(cache_dir).absolute()
            local = (localize(path, cache, progress) for path in paths)
            absolute = tuple(str(Path(path).absolute()) for path in local)
            files = FileSource(absolute, format, column, marking)
            if cache is None:
                return cls._from_files(corpus_files.open_files(files))
            from datacursor import corpus_cache

            return cls._from_files(*corpus_cache.open_cached(files, cache, progress))
        if cache_dir is not None:
            kind = type(source).__name__
            raise ArgumentError(f"cache_dir={str(cache_dir)!r} is for files, got {kind}")
        if marking != Marking():
            raise ArgumentError(f"dtype, eot and eot_at are for files, got {type(source).__name__}")
        is_arrow = _is_pyarrow(source)
        if format not in {None, "memory"} and not (is_arrow and format == "arrow"):
            raise ArgumentError(f"format={format!r} needs a path, got {type(source).__name__}")
        if is_arrow:
            from datacursor import arrow

            part = arrow.shards_from_object(source, column)
            return cls(part.shards, num_null=len(part.nulls))
        if column is not None:
            raise ArgumentError(f"a list of documents has no columns, got column={column!r}")
        shard, num_null = shard_from_sequences(_documents(source))
        return cls([shard] if len(shard.begins) else [], num_null=num_null)

    @classmethod
    def _from_files(cls, opened: OpenedFiles, fingerprint: bytes | None = None) -> TokenCorpus:
        shards, num_null, files, source = opened
        return cls(shards, num_null=num_null, files=files, source=source, fingerprint=fingerprint)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of tokens of each document, as a fresh int64 array of shape (documents,)."""
        lengths = [shard.lengths() for shard in self.shards]
        return np.concatenate(lengths) if lengths else np.empty(0, dtype=np.int64)

    @property
    def fingerprint(self) -> bytes:
        """The sampled fingerprint, 16 bytes, computed once; see `compute_fingerprint`."""
        if self._fingerprint is None:
            self._fingerprint = self.compute_fingerprint()
        return self._fingerprint

    def compute_fingerprint(self, *, full: bool = False, progress: Progress | None = None) -> bytes:
        """Digest the corpus: equal for every layout of the same documents.

        Sampled (the default) hashes the number of documents, every length, and all tokens of a
        corpus of up to 2**20 tokens. Of a larger one it hashes 64 blocks of 1024 tokens, spread
        evenly: it notices other data, another tokenizer or another order of documents, and
        misses a few changed tokens. Full hashes every token (about 2 s for 10**8 tokens).

        Args:
            full: Hash every token. Up to 2**20 tokens both are the same.
            progress: Called as progress(tokens done, tokens to do) after every read.

        Returns:
            16 bytes.

        Raises:
            CorpusError: A file changed its size since it was opened.
        """
        return fingerprint_shards(
            self.shards, full=full, progress=progress, check=self.check_unchanged
        )

    def document(self, index: int) -> IntArray:
        """Return a copy of one document's tokens, in the dtype of its shard.

        Args:
            index: Number of the document, 0 <= index < num_documents.

        Raises:
            ArgumentError: index is out of range.
            CorpusError: The document's file changed its size since it was opened.
        """
        index = require_integer("index", index, 0, self.num_documents)
        self.check_unchanged(np.array([index], dtype=np.int64))
        number = int(np.searchsorted(self._stops, index, side="right"))
        tokens, begins, ends = self.shards[number]
        place = index - int(self._stops[number])  # counted from the shard's end
        return tokens[begins[place] : ends[place]].copy()

    def check_unchanged(self, documents: NDArray[np.int64] | None = None) -> None:
        """Raise if a file no longer has the size it had when it was opened.

        Memory mapped from a truncated file kills the process that reads it; this check, about a
        microsecond a file, goes before the reading.

        Args:
            documents: Check the files of these documents, which must be in range, and no others
                where there are many. None checks every file.

        Raises:
            CorpusError: A file grew or was truncated; names the file and both sizes.
        """
        files: Sequence[MappedFile] = self._files
        if documents is not None and len(files) > _FEW_FILES:
            # Files without documents share their start with the next one, which is the last.
            touched = self._file_starts.searchsorted(documents, side="right") - 1
            files = [files[number] for number in sorted(set(touched.tolist()))]
        for file in files:
            file.check()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._source is None:
            shards = [_compact(shard) for shard in self.shards]
            return _from_arrays, (shards, self.num_null, self._fingerprint)
        identities = [(file.path, file.identity()) for file in self._files]
        return _reopen, (self._source, identities, self._fingerprint)

    def __repr__(self) -> str:
        return (
            f"TokenCorpus(num_documents={self.num_documents}, num_tokens={self.num_tokens}, "
            f"dtype={self.dtype})"
        )


def _paths(source: Any) -> list[str] | None:
    """Return the paths that a source names, or None if it is data."""
    if isinstance(source, (str, os.PathLike)):
        return [os.fspath(source)]
    if not isinstance(source, (list, tuple)) or not source:
        return None
    if not all(isinstance(item, (str, os.PathLike)) for item in source):
        return None
    return [os.fspath(item) for item in source]


def _is_pyarrow(source: Any) -> bool:
    return type(source).__module__.partition(".")[0] == "pyarrow"  # without importing it


def _documents(source: Any) -> Sequence[Any]:
    if not hasattr(source, "__len__") or not hasattr(source, "__getitem__"):
        raise CorpusError(
            f"a corpus is a sequence of documents, an Arrow object or a path, "
            f"got {type(source).__name__}"
        )
    if isinstance(source, np.ndarray) and source.ndim == 1 and source.dtype != object:
        raise CorpusError("a flat array of tokens has no documents; pass a list of arrays")
    documents: Sequence[Any] = source
    return documents


def _compact(shard: TokenShard) -> TokenShard:
    """Return the shard without the tokens before its first and after its last document."""
    tokens, begins, ends = shard
    low, high = begins.min(), ends.max()
    return TokenShard(tokens[low:high], begins - low, ends - low)


def _from_arrays(shards: list[TokenShard], num_null: int, fingerprint: bytes | None) -> TokenCorpus:
    return TokenCorpus(shards, num_null=num_null, fingerprint=fingerprint)


def _reopen(
    source: FileSource, identities: list[tuple[str, tuple[int, bytes]]], fingerprint: bytes | None
) -> TokenCorpus:
    corpus = TokenCorpus._from_files(corpus_files.open_files(source), fingerprint)
    for file, (path, (size, digest)) in zip(corpus._files, identities, strict=True):
        size_now, digest_now = file.identity()
        if (size_now, digest_now) != (size, digest):
            raise CorpusError(
                f"{path} is not the file that was pickled\n"
                f"  then: {size} bytes, digest {digest.hex()}\n"
                f"  now:  {size_now} bytes, digest {digest_now.hex()}"
            )
    return corpus
