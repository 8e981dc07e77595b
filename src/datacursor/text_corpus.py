"""Token corpora from texts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from datacursor.checks import optional_integer, require_choice
from datacursor.corpus_build import BuildProgress, BuiltCorpus, Source, build
from datacursor.corpus_folder import Origin, check_digests, identity_of
from datacursor.encoders import BYTES, Encoder, make_encoder
from datacursor.errors import ArgumentError
from datacursor.pieces import Piece
from datacursor.shards import IntArray
from datacursor.texts import (
    DEFAULT_COLUMN,
    ERRORS,
    FORMATS,
    TextBatch,
    TextFiles,
    find_texts,
    read_texts,
)


def tokenize(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    *,
    tokenizer: str | os.PathLike[str] = BYTES,
    eos: int | None = None,
    column: str = DEFAULT_COLUMN,
    format: str | None = None,
    errors: str = "strict",
    add_special_tokens: bool = False,
    progress: BuildProgress | None = None,
) -> BuiltCorpus:
    """Turn texts into a corpus folder, for `TokenCorpus.open`.

    Killed and called again, it goes on after the last complete file of 2**30 tokens, and the
    result is the same, byte for byte. Every file is read again before the folder gets its name.
    Ids are stored as uint16 if all of the vocabulary and `eos` fit, else as uint32.

    A null text is a null document: empty, without `eos`. An empty text is a document of `eos`
    alone, or an empty one.

    Args:
        source: Paths of text files (a document each), JSON lines or Parquet, or of directories
            of one of these; see `datacursor.texts`.
        target: The folder to make. `TARGET.partial` and `TARGET.lock` stand beside it meanwhile.
        tokenizer: "bytes" (UTF-8, ids 0 to 255), or the path of a `tokenizer.json`, which needs
            the package `tokenizers`. What it says of truncation and padding is ignored.
        eos: An id to put after each document, 0 <= eos < 2**32; it may lie outside the vocabulary.
        column: Field of JSON lines or column of Parquet with the text.
        format: "text", "jsonl" or "parquet"; None tells by the suffixes.
        errors: "strict" refuses what is not UTF-8, "replace" takes U+FFFD for it.
        add_special_tokens: Let the tokenizer add what its post-processor adds.
        progress: Called as progress("write", bytes done, bytes to do).

    Raises:
        FileNotFoundError: There is no file at a path.
        CorpusError: A text is damaged, or of no such column; the source, the tokenizer or an
            argument changed since an earlier attempt; or the target is another corpus.
        ArgumentError: An argument is out of range, or the files are of several formats.
        ImportError: `tokenizers` is needed and not installed.
        OSError: The disk is full, say; complete files are kept for the next attempt.
    """
    eos = optional_integer("eos", eos, 0, 2**32)
    errors = require_choice("errors", errors, ERRORS)
    if format is not None:
        require_choice("format", format, FORMATS)
    encoder = make_encoder(os.fspath(tokenizer), add_special_tokens=add_special_tokens)
    named = [source] if isinstance(source, (str, os.PathLike)) else source
    folder = Path(target).absolute()
    for path in named:
        if Path(path).is_dir() and folder.is_relative_to(Path(path).absolute()):
            raise ArgumentError(f"target must not lie in a source, {path}, got target={folder}")
    paths, format = find_texts([os.fspath(path) for path in named], format)
    texts = TextFiles(paths, format, column, errors)
    recipe = Recipe(encoder, eos, add_special_tokens)
    documents = Source(
        origin=lambda: _origin_of(texts, recipe),
        pieces=lambda first: (recipe.encode(batch) for batch in read_texts(texts, first)),
        num_bytes=sum(Path(path).stat().st_size for path in paths),
        dtype=recipe.dtype,
    )
    return build(documents, folder, lambda f, _: check_digests(f), progress)


class Recipe(NamedTuple):
    """How a text becomes a document."""

    encoder: Encoder
    eos: int | None
    add_special_tokens: bool

    @property
    def dtype(self) -> str:
        """The narrower of uint16 and uint32 that holds every id."""
        return "uint16" if max(self.encoder.num_ids - 1, self.eos or 0) < 2**16 else "uint32"

    def encode(self, batch: TextBatch) -> Piece:
        """Return the documents of some texts."""
        end = np.array([] if self.eos is None else [self.eos], dtype=self.dtype)
        encoded = iter(self.encoder.encode([text for text in batch.texts if text is not None]))
        parts: list[IntArray] = [np.empty(0, dtype=self.dtype)]
        lengths = np.zeros(len(batch.texts), dtype=np.int64)
        nulls = []
        for number, text in enumerate(batch.texts):
            if text is None:
                nulls.append(number)
                continue
            ids = next(encoded)
            parts += [ids, end]
            lengths[number] = len(ids) + len(end)
        tokens = np.concatenate(parts, dtype=self.dtype, casting="unsafe")
        return Piece(tokens, lengths, np.array(nulls, dtype=np.int64), batch.num_bytes_read)


def _origin_of(texts: TextFiles, recipe: Recipe) -> Origin:
    origin: Origin = {
        "version": 1,
        "tokenizer": recipe.encoder.identity,
        "add_special_tokens": recipe.add_special_tokens,
        "eos": recipe.eos,
        "format": texts.format,
        "column": texts.column,
        "errors": texts.errors,
    }
    return origin | {f"file {n}": identity_of(path) for n, path in enumerate(texts.paths)}
