"""Corpora that are slow to open, converted once into a directory and mapped from there.

The folder's name has a digest of what the source's files are recognised by, so a changed source
has another folder. An old one is never read again, and never removed.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from datacursor.conversion import convert_files, origin_of
from datacursor.corpus_files import FileSource, OpenedFiles, open_files, resolve
from datacursor.corpus_folder import COLUMN, Origin, check_origin, recorded_fingerprint
from datacursor.dataset_folder import shortened
from datacursor.errors import CorpusError
from datacursor.file_lock import exclusive
from datacursor.fingerprint import fingerprint_shards

if TYPE_CHECKING:
    from datacursor.corpus_build import BuildProgress

_SLOW_FORMATS = ("parquet",)


class CachedFiles(NamedTuple):
    """What is mapped in place of a source, and its sampled fingerprint where it is known."""

    opened: OpenedFiles
    fingerprint: bytes | None


def open_cached(
    source: FileSource, cache_dir: Path, progress: BuildProgress | None = None
) -> CachedFiles:
    """Map a source, or what it was converted into if its format is slow to open.

    Of several processes one converts and the others wait. A damaged folder is made again.

    Args:
        source: Paths and arguments, as for `open_files`.
        cache_dir: Where converted corpora are kept; made if it is not there.
        progress: As for `convert`.

    Raises:
        CorpusError: The source is damaged, or changes meanwhile.
        OSError: The file system refuses.
    """
    files = resolve(source)
    if files.format not in _SLOW_FORMATS:
        return CachedFiles(open_files(files), None)
    origin = origin_of(files)
    digest = hashlib.blake2b(json.dumps(origin).encode(), digest_size=8).hexdigest()
    folder = cache_dir / f"{shortened(Path(files.paths[0]).stem)}-{digest}"
    found = _open_intact(folder, origin)
    if found is not None:
        return found
    cache_dir.mkdir(parents=True, exist_ok=True)
    with exclusive(cache_dir / f"{folder.name}.open.lock"):
        found = _open_intact(folder, origin)  # another process may have made it meanwhile
        if found is None:
            _discard(folder)
            convert_files(files, folder, progress)
            found = _open(folder, origin)
    return found


def _open_intact(folder: Path, origin: Origin) -> CachedFiles | None:
    """Map a folder; None if it is not there, or damaged."""
    try:
        return _open(folder, origin)
    except (CorpusError, FileNotFoundError):
        return None


def _open(folder: Path, origin: Origin) -> CachedFiles:
    check_origin(folder, origin, f"remove {folder}")
    opened = open_files(FileSource((str(folder),), "arrow", COLUMN))
    found = fingerprint_shards(opened.shards)
    expected = recorded_fingerprint(folder)
    if found != expected:
        raise CorpusError(
            f"{folder}: damaged: its fingerprint is {found.hex()}, it was {expected.hex()}"
        )
    return CachedFiles(opened, found)


def _discard(folder: Path) -> None:
    """Remove a folder that may be there; under another name first, as removing takes time."""
    damaged = folder.with_name(f"{folder.name}.damaged")
    for path in (damaged, folder):
        if path.exists():
            path.rename(damaged)
            shutil.rmtree(damaged)
