"""Texts from files, one document each, in batches and from any document on.

    format    by suffix, any case   a document is
    text      anything else         a file, byte for byte: no line end and no mark is changed
    jsonl     .jsonl, .ndjson       a line that is not blank: a JSON object, its field `column`;
                                    a byte order mark before the first is left out
    parquet   .parquet              a row: a string column

A null is a null document. Bytes that are not UTF-8 (or a lone surrogate in JSON) are an error
that names file and place, or become U+FFFD.
"""

from __future__ import annotations

import codecs
import json
import os
import stat
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

from datacursor.errors import ArgumentError, CorpusError

FORMATS = ("text", "jsonl", "parquet")
ERRORS = ("strict", "replace")
DEFAULT_COLUMN = "text"

_FORMAT_OF = {".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
_BATCH_TEXTS = 1024
_BATCH_CHARACTERS = 2**22


class TextFiles(NamedTuple):
    """Files of texts.

    Attributes:
        paths: Absolute paths of files, in order.
        format: One of `FORMATS`.
        column: Field or column of the text.
        errors: One of `ERRORS`.
    """

    paths: tuple[str, ...]
    format: str
    column: str = DEFAULT_COLUMN
    errors: str = "strict"


class TextBatch(NamedTuple):
    """Some texts; None for a null document.

    Attributes:
        texts: The texts.
        num_bytes_read: Size of the source up to the end of the batch, about.
    """

    texts: list[str | None]
    num_bytes_read: int


def find_texts(paths: Sequence[str], format: str | None) -> tuple[tuple[str, ...], str]:
    """Return the files that paths stand for, and their format.

    A directory stands for all files in it and below it that are not hidden, in order of path; if
    a format other than "text" is given, for those with its suffixes. None is left out in silence:
    what cannot be listed or read is an error.

    Raises:
        FileNotFoundError: There is nothing at a path, or where a link leads.
        ArgumentError: The files are of several formats and none is given.
        CorpusError: There is no file, or something else than files and directories.
        OSError: A directory cannot be listed.
    """
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            below = sorted(_files_below(path))
            found += [file for file in below if format in {None, "text", _format_of(file)}]
        else:
            found.append(_regular(path))
    if not found:
        raise CorpusError(f"{', '.join(paths)}: no file of texts")
    firsts = {_format_of(file): file for file in reversed(found)}
    if format is None and len(firsts) > 1:
        listed = ", ".join(map(str, firsts.values()))
        raise ArgumentError(f"files of several formats ({listed}); name one with format=")
    return tuple(str(file.absolute()) for file in found), format or next(iter(firsts))


def read_texts(source: TextFiles, first_document: int = 0) -> Iterator[TextBatch]:
    """Yield all texts from a document on, in batches.

    Where batches end depends only on where the reading began.

    Raises:
        CorpusError: A file is damaged, has no such column, or is not UTF-8.
    """
    skip = first_document
    num_bytes_before = 0
    batch: list[str | None] = []
    num_characters = 0
    for path in source.paths:
        num_bytes = Path(path).stat().st_size
        count = _count(path, source.format) if skip else 0
        if skip and skip >= count:
            skip -= count
        else:
            for text, share in islice(_texts_of(path, source), skip, None):
                batch.append(text)
                num_characters += len(text or "")
                if len(batch) >= _BATCH_TEXTS or num_characters >= _BATCH_CHARACTERS:
                    yield TextBatch(batch, num_bytes_before + int(num_bytes * share))
                    batch, num_characters = [], 0
            skip = 0
        num_bytes_before += num_bytes
    if batch:
        yield TextBatch(batch, num_bytes_before)


def _files_below(folder: Path) -> Iterator[Path]:
    for parent, directories, names in os.walk(folder, onerror=_raise):
        directories[:] = [name for name in directories if not name.startswith(".")]
        for name in directories:
            link = Path(parent, name)
            if link.is_symlink():
                raise CorpusError(
                    f"{link}: is a link to a directory, which is not followed: it may lead in a "
                    "circle; name the directory as a source of its own, or remove the link"
                )
        yield from (_regular(Path(parent, name)) for name in names if not name.startswith("."))


def _regular(path: Path) -> Path:
    """Return the path of a file that can be read again from its start.

    Raises:
        FileNotFoundError: There is nothing, or where the link leads.
        CorpusError: It is something else.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise CorpusError(f"{path}: is a pipe or device, not a regular file")
    return path


def _raise(error: OSError) -> None:
    raise error


def _format_of(path: Path) -> str:
    return _FORMAT_OF.get(path.suffix.lower(), "text")


def _count(path: str, format: str) -> int:
    """Return the number of documents in a file without looking at the texts."""
    if format == "text":
        return 1
    if format == "jsonl":
        with Path(path).open("rb") as file:
            return sum(1 for _ in _json_lines(file))
    from datacursor.parquet_texts import count_rows

    return count_rows(path)


def _texts_of(path: str, source: TextFiles) -> Iterator[tuple[str | None, float]]:
    """Yield the texts of a file, each with the share of the file up to it."""
    if source.format == "text":
        yield _decoded(Path(path).read_bytes(), source.errors, path), 1.0
    elif source.format == "jsonl":
        yield from _lines_of(path, source)
    else:
        from datacursor.parquet_texts import read_rows

        for row, (value, share) in enumerate(read_rows(path, source.column)):
            where = f"{path}: row {row}"
            yield None if value is None else _decoded(value, source.errors, where), share


def _lines_of(path: str, source: TextFiles) -> Iterator[tuple[str | None, float]]:
    with Path(path).open("rb") as file:
        num_bytes = max(1, os.fstat(file.fileno()).st_size)
        for number, line, num_read in _json_lines(file):
            where = f"{path}: line {number}"
            yield _field(line, source, where), min(1.0, num_read / num_bytes)


def _json_lines(file: IO[bytes]) -> Iterator[tuple[int, bytes, int]]:
    """Yield the lines that are not blank: number, bytes, and bytes of the file up to its end.

    A byte order mark, which some editors put before the first line, is not JSON and is left out.
    """
    num_read = 0
    for number, line in enumerate(file, 1):
        num_read += len(line)
        text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        if text and not text.isspace():
            yield number, text, num_read


def _field(line: bytes, source: TextFiles, where: str) -> str | None:
    try:
        value: Any = json.loads(_decoded(line, source.errors, where))
    except (ValueError, RecursionError) as error:
        if isinstance(error, CorpusError):
            raise
        raise CorpusError(f"{where}: damaged JSON: {error}") from error
    if not isinstance(value, dict) or source.column not in value:
        found = sorted(value) if isinstance(value, dict) else type(value).__name__
        raise CorpusError(f"{where}: no field {source.column!r}, found {found}")
    text = value[source.column]
    if text is None:
        return None
    if not isinstance(text, str):
        kind = type(text).__name__
        raise CorpusError(f"{where}: field {source.column!r} is a {kind}, expected a string")
    return _without_surrogates(text, source.errors, where)


def _decoded(data: bytes, errors: str, where: str) -> str:
    try:
        return data.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"{where}: byte {error.start} is 0x{data[error.start]:02x}, not UTF-8 ({error.reason})"
            "; errors='replace' takes U+FFFD for it"
        ) from error


def _without_surrogates(text: str, errors: str, where: str) -> str:
    """Return the text if it can be encoded; JSON may escape halves of a surrogate pair alone."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        if errors == "replace":
            return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        raise CorpusError(
            f"{where}: character {error.start} is {text[error.start]!r}, half of a surrogate pair"
            "; errors='replace' takes U+FFFD for it"
        ) from error
    return text
