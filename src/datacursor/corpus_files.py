"""From paths to token shards: which files, of which format, read by which module.

    format       recognised by                       documents end where
    arrow        magic; *.arrow, *.ipc, *.feather    the list column says
    parquet      magic; *.parquet                    the list column says
    megatron     magic of *.idx; *.bin beside it     the index says
    datatrove    *.ds, with *.ds.index               the index says
    llm.c        magic; *.bin                        eot= begins a document
    npy          magic; *.npy                        eot= ends a document
    flat         format="flat" alone                 eot= ends a document

The first file decides the format and the column for all.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from datacursor import datatrove, flat, megatron
from datacursor.dataset_folder import data_files
from datacursor.errors import ArgumentError, CorpusError
from datacursor.flat import Marking
from datacursor.mapped_file import MappedFile
from datacursor.shards import SourceShards, TokenShard

# Names of a format's files in a directory.
_SUFFIXES = {
    "arrow": (".arrow", ".ipc", ".feather"),
    "parquet": (".parquet",),
    "megatron": (".idx",),
    "datatrove": (datatrove.SUFFIX,),
    "llm.c": (".bin",),
    "npy": (".npy",),
    "flat": (".bin", ".npy"),
}
FORMATS = tuple(_SUFFIXES)
# Of several kinds in a directory the user must name one; "flat" has the names of two others.
_KINDS = tuple(suffixes for format, suffixes in _SUFFIXES.items() if format != "flat")
_MAGICS = (
    (b"ARROW1", "arrow"),
    (b"\xff\xff\xff\xff", "arrow"),
    (b"PAR1", "parquet"),
    (megatron.MAGIC, "megatron"),
    (flat.NPY_MAGIC, "npy"),
    *((magic, "llm.c") for magic in flat.LLMC_MAGICS),
)


class FileSource(NamedTuple):
    """What opens the same files again.

    Attributes:
        paths: Absolute paths of files or directories.
        format: One of `FORMATS`, or None to tell from the first file.
        column: Name of the token column, or None.
        marking: How documents are told apart in flat files.
    """

    paths: tuple[str, ...]
    format: str | None = None
    column: str | None = None
    marking: Marking = Marking()


class OpenedFiles(NamedTuple):
    """The documents of all files.

    Attributes:
        shards: In order.
        num_null: Number of null documents.
        files: Every file with the number of its first document. An index stands before its
            tokens, as a file without documents of its own.
        source: Opens these very files, without looking at directories again.
    """

    shards: list[TokenShard]
    num_null: int
    files: list[tuple[MappedFile, int]]
    source: FileSource


def open_files(source: FileSource) -> OpenedFiles:
    """Map every file and check its metadata.

    Raises:
        FileNotFoundError: There is no file at a path.
        CorpusError: A file is damaged or of another format, or the format cannot be told.
        ArgumentError: An argument is missing or does not apply to the format.
    """
    paths, format, column, marking = resolve(source)
    assert format is not None
    shards: list[TokenShard] = []
    files: list[tuple[MappedFile, int]] = []
    num_null = 0
    num_documents = 0
    for path in paths:
        part = read_file(MappedFile(path), format, column, marking)
        column = part.column
        files += [(mapped, num_documents) for mapped in part.files]
        shards += part.shards
        num_null += len(part.nulls)
        num_documents += sum(len(shard.begins) for shard in part.shards)
    return OpenedFiles(shards, num_null, files, FileSource(paths, format, column, marking))


def resolve(source: FileSource) -> FileSource:
    """Return the source with the files of its directories, in order, and their format.

    Raises:
        FileNotFoundError: There is no file at a path.
        CorpusError: The format cannot be told.
        ArgumentError: An argument does not apply to the format.
    """
    paths = tuple(file for path in source.paths for file in _expand(path, source.format))
    format = source.format or _format_of(MappedFile(paths[0]))
    _check_arguments(format, source.column, source.marking)
    return source._replace(paths=paths, format=format)


def files_behind(path: str, format: str) -> list[str]:
    """Return every file that a resolved path stands for, itself first."""
    if format == "megatron":
        return [path, str(Path(path).with_suffix(".bin"))]
    return [path, path + ".index"] if format == "datatrove" else [path]


def read_file(file: MappedFile, format: str, column: str | None, marking: Marking) -> SourceShards:
    """Return the documents of one file of a known format.

    Raises:
        CorpusError: It is damaged or of another format.
    """
    if format == "arrow":
        from datacursor import arrow

        return arrow.shards_from_file(file, column)
    if format == "parquet":
        from datacursor import parquet

        return parquet.shards_from_file(file, column)
    if format == "megatron":
        return megatron.shards_from_file(file)
    if format == "datatrove":
        return datatrove.shards_from_file(file)
    return flat.shards_from_file(file, format, marking)


def _check_arguments(format: str, column: str | None, marking: Marking) -> None:
    if column is not None and format not in {"arrow", "parquet"}:
        raise ArgumentError(f"column={column!r} does not apply to format={format!r}")
    if format in flat.FORMATS:
        return
    for name, value in marking._asdict().items():
        if value is not None:
            raise ArgumentError(
                f"{name}={value!r} does not apply to format={format!r}: the file states it"
            )


def _format_of(file: MappedFile) -> str:
    path = Path(file.path)
    if path.suffix == datatrove.SUFFIX:
        return "datatrove"
    for magic, format in _MAGICS:
        if file.data[: len(magic)] == magic:
            return format
    raise CorpusError(
        f"{path}: format not recognised, it starts with {file.data[:8]!r}; tokens without a header "
        "(nanoGPT's .bin, OLMo's .npy) need format='flat', dtype= and eot="
    )


def _expand(path: str, format: str | None) -> Sequence[str]:
    """Return the files that a path stands for, in order."""
    if os.path.isdir(path):  # noqa: PTH112  # False for a loop of links on every Python
        listed = data_files(path) if format in {None, "arrow"} else None
        return _files_in(path, format) if listed is None else listed
    index = _index_of(path) if format in {None, "megatron"} else None
    return [path if index is None else index]


def _index_of(path: str) -> str | None:
    """Return Megatron's index if a path is the data set's name or its tokens, else None."""
    if path.endswith(".bin"):
        index = path.removesuffix(".bin") + ".idx"
    elif os.path.lexists(path):
        return None
    else:
        index = path + ".idx"
    return index if os.path.lexists(index) else None


def _files_in(directory: str, format: str | None) -> list[str]:
    """Return the files of one kind directly inside a directory, sorted by name."""
    entries = sorted(path for path in Path(directory).iterdir() if not path.name.startswith("."))
    kinds = _KINDS if format is None else (_SUFFIXES[format],)
    names = {path.name for path in entries}
    found = []
    for suffixes in kinds:
        paths = [path for path in entries if path.suffix in suffixes]
        if format is None:
            paths = [path for path in paths if not _is_tokens_of_index(path, names)]
        if paths:
            found.append(paths)
    listed = ", ".join("*" + suffix for suffixes in kinds for suffix in suffixes)
    if not found:
        raise CorpusError(f"{directory}: no file named {listed}")
    if len(found) > 1:
        firsts = ", ".join(paths[0].name for paths in found)
        raise CorpusError(
            f"{directory}: holds files of several formats ({firsts}); name one with format="
        )
    return [str(path) for path in found[0]]


def _is_tokens_of_index(path: Path, names: set[str]) -> bool:
    return path.suffix == ".bin" and path.with_suffix(".idx").name in names
