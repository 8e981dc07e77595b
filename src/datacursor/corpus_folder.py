"""A folder of token documents as this package writes it: a data set that others read as well.

    state.json                    names the data files in order; also Hugging Face's manifest
    dataset_info.json             for Hugging Face, which reads the folder by load_from_disk
    data-000000-9f3ac1d2e4b5a697.arrow    Arrow streams of one column, input_ids: large_list
    data-000001-03b7fe1199c0a2d4.arrow
    _origin.json                  what it was made of

The last part of a data file's name is a digest of its bytes. The files are mapped and their
tokens never copied; null documents stay null. A folder is written under another name
(`partial_of`), file by file, and renamed when it is complete and verified: where there is a
folder, all of it is there.

    write .tmp -> fsync -> rename -> fsync the folder      a file; a restart goes on after the last
    state.json -> rename the folder -> fsync its parent    all of it
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any, TypeAlias

from datacursor.corpus_files import FileSource, OpenedFiles, open_files
from datacursor.durable import sync_directory, temporary_of, write_durably
from datacursor.errors import CorpusError

COLUMN = "input_ids"

Origin: TypeAlias = dict[str, Any]  # JSON values by name, compared one by one

_DATA_NAME = re.compile(r"data-(\d{6,})-([0-9a-f]{16})\.arrow")
_MANIFEST = "state.json"
_ORIGIN = "_origin.json"
_EDGE_BYTES = 4096
_READ_BYTES = 2**22


def partial_of(target: Path) -> Path:
    """Return the name under which a folder is written."""
    return target.with_name(target.name + ".partial")


def lock_of(target: Path) -> Path:
    """Return the lock file of those who write the folder."""
    return target.with_name(target.name + ".lock")


def data_paths(folder: Path) -> list[Path]:
    """Return the complete data files in order.

    Raises:
        CorpusError: One is missing, or there are two of a number.
    """
    found = []
    for path in folder.iterdir():
        match = _DATA_NAME.fullmatch(path.name)
        if match is not None:
            found.append((int(match[1]), path))
    found.sort()
    for expected, (number, path) in enumerate(found):
        if number != expected:
            raise CorpusError(f"{path}: is data file {number}, expected number {expected}")
    return [path for _, path in found]


def data_name(number: int, digest: str) -> str:
    """Return the name of a data file whose bytes have a digest of 16 hexadecimal digits."""
    return f"data-{number:06d}-{digest}.arrow"


def open_data(folder: Path) -> OpenedFiles:
    """Map the complete data files.

    Raises:
        CorpusError: One is missing or damaged.
    """
    paths = tuple(str(path.absolute()) for path in data_paths(folder))
    if not paths:
        return OpenedFiles([], 0, [], FileSource((), "arrow", COLUMN))
    return open_files(FileSource(paths, "arrow", COLUMN))


def identity_of(path: str) -> str:
    """Return what a file is recognised by: name, size, time of change, and first and last 4 KiB."""
    with Path(path).open("rb") as file:
        status = os.fstat(file.fileno())
        digest = hashlib.blake2b(file.read(_EDGE_BYTES), digest_size=8)
        file.seek(max(0, status.st_size - _EDGE_BYTES))
        digest.update(file.read(_EDGE_BYTES))
    return (
        f"{Path(path).name}, {status.st_size} bytes, changed {status.st_mtime_ns} ns, "
        f"digest {digest.hexdigest()}"
    )


def check_digests(folder: Path) -> None:
    """Read all data files and raise unless their bytes are those that were written.

    Raises:
        CorpusError: A file is damaged; names it and both digests.
    """
    for path in data_paths(folder):
        digest = hashlib.blake2b(digest_size=8)
        with path.open("rb") as file:
            while block := file.read(_READ_BYTES):
                digest.update(block)
        if digest.hexdigest() != path.stem[-16:]:
            raise CorpusError(
                f"{path}: damaged: its bytes have the digest {digest.hexdigest()}, its name says "
                f"{path.stem[-16:]}"
            )


def begin(folder: Path, origin: Origin) -> None:
    """Make an unfinished folder, or make sure that it has the same origin.

    Raises:
        CorpusError: It was begun from something else, or is somebody else's.
        OSError: The file system refuses.
    """
    folder.mkdir(parents=True, exist_ok=True)
    names = {path.name for path in folder.iterdir()}
    is_ours = _ORIGIN in names or names <= {temporary_of(folder / _ORIGIN).name}
    if is_ours and not data_paths(folder):
        write_durably(folder / _ORIGIN, json.dumps(origin, indent=1).encode())
        sync_directory(folder.parent)
    check_origin(folder, origin, f"remove {folder} to begin again")


def check_origin(folder: Path, origin: Origin, remedy: str) -> None:
    """Raise unless a folder was made of this.

    Raises:
        CorpusError: It was made of something else, or not by this package.
    """
    try:
        found = json.loads((folder / _ORIGIN).read_bytes())
    except FileNotFoundError:
        found = None
    except (ValueError, RecursionError) as error:
        raise CorpusError(f"{folder / _ORIGIN}: damaged JSON: {error}; {remedy}") from error
    if not isinstance(found, dict):
        raise CorpusError(f"{folder}: exists and is no converted corpus; {remedy}")
    for name in {**origin, **found}:
        if found.get(name) != origin.get(name):
            raise CorpusError(
                f"{folder} was made of something else: {name}\n"
                f"  then: {found.get(name)}\n"
                f"  now:  {origin.get(name)}\n{remedy}"
            )


def publish(partial: Path, target: Path, fingerprint: bytes) -> None:
    """Give a complete folder its name; durable on return.

    Raises:
        OSError: The file system refuses, or there is something at the target.
    """
    state: dict[str, Any] = {
        "_data_files": [{"filename": path.name} for path in data_paths(partial)],
        "_fingerprint": fingerprint.hex(),
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": None,
    }
    write_durably(partial / "dataset_info.json", b"{}")
    write_durably(partial / _MANIFEST, json.dumps(state, indent=1).encode())
    if target.is_dir():
        target.rmdir()  # an empty one
    partial.rename(target)
    sync_directory(target.parent)


def recorded_fingerprint(folder: Path) -> bytes:
    """Return the sampled fingerprint that a complete folder had when it was written.

    Raises:
        CorpusError: The manifest is missing or damaged.
    """
    path = folder / _MANIFEST
    try:
        return bytes.fromhex(json.loads(path.read_bytes())["_fingerprint"])
    except (FileNotFoundError, ValueError, TypeError, KeyError) as error:
        raise CorpusError(f"{path}: missing or damaged: {error}") from error
