"""Remote files, downloaded once into a directory and read from there.

    memory://, s3://, gs://, hf://, ..    what fsspec knows, else what pyarrow.fs knows
    file://                               the path itself; nothing is downloaded

Mapping needs a file, and every format is read at random, so whole files are downloaded: each under
a temporary name, renamed when it is complete and durable. The folder's name has a digest of the
URL and of name, size and version (ETag, or time of change) of every file; a remote file that
changes is downloaded again. A listing is untrusted: its names never leave the folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from datacursor.dataset_folder import is_plain_name, shortened
from datacursor.durable import sync_directory, temporary_of
from datacursor.errors import ArgumentError, CorpusError
from datacursor.file_lock import exclusive

_SUFFIXES = (
    *(".arrow", ".feather", ".ipc", ".parquet", ".json"),
    *(".bin", ".idx", ".ds", ".index", ".npy"),
)
# A file that is read together with another one, by its suffix.
_COMPANIONS = {"idx": "bin", "bin": "idx", "ds": "ds.index"}
# Where file systems of fsspec say which version of a file it is, the surest first.
_VERSIONS = (
    *("ETag", "etag", "generation", "md5Hash"),
    *("LastModified", "last_modified", "mtime", "created"),
)
_COPY_BYTES = 2**20


class RemoteFile(NamedTuple):
    """A file, or a directory if it has no size.

    Attributes:
        path: As the store names it.
        size: Number of bytes, None for a directory.
        version: Changes when the content does; "" where the store does not say.
    """

    path: str
    size: int | None
    version: str


class Store(Protocol):
    """A remote file system, as far as it is needed here."""

    def stat(self, path: str) -> RemoteFile:
        """Return what is at a path; FileNotFoundError if nothing is."""

    def listed(self, path: str) -> Sequence[str]:
        """Return the paths of what is directly inside a directory."""

    def open(self, path: str) -> Any:
        """Return a binary file to read."""


class FsspecStore:
    """A file system of fsspec."""

    def __init__(self, filesystem: Any) -> None:
        self._filesystem = filesystem

    def stat(self, path: str) -> RemoteFile:
        """Return what is at a path, now: listings are kept, and some say another version."""
        self._filesystem.invalidate_cache(path)
        info = self._filesystem.info(path)
        if info["type"] != "file":
            return RemoteFile(path, None, "")
        if info["size"] is None:
            raise CorpusError(f"{path}: its size is not known, so a download cannot be checked")
        version = next((str(info[name]) for name in _VERSIONS if info.get(name)), "")
        return RemoteFile(path, int(info["size"]), version)

    def listed(self, path: str) -> Sequence[str]:
        """Return the paths of what is directly inside a directory."""
        paths: list[str] = self._filesystem.ls(path, detail=False)
        return paths

    def open(self, path: str) -> Any:
        """Return a binary file to read."""
        return self._filesystem.open(path, "rb")


class ArrowStore:
    """A file system of pyarrow.fs."""

    def __init__(self, filesystem: Any) -> None:
        self._filesystem = filesystem

    def stat(self, path: str) -> RemoteFile:
        """Return what is at a path."""
        info = self._filesystem.get_file_info(path)
        if info.type.name == "NotFound":
            raise FileNotFoundError(f"there is no {path}")
        size = int(info.size) if info.is_file else None
        return RemoteFile(path, size, str(info.mtime_ns or ""))

    def listed(self, path: str) -> Sequence[str]:
        """Return the paths of what is directly inside a directory."""
        from pyarrow.fs import FileSelector

        return [info.path for info in self._filesystem.get_file_info(FileSelector(path))]

    def open(self, path: str) -> Any:
        """Return a binary file to read."""
        return self._filesystem.open_input_stream(path)


def is_url(path: str) -> bool:
    """Return whether a path names something remote, or a local file as a URL."""
    scheme, separator, _ = path.partition("://")
    return bool(separator) and len(scheme) > 1 and scheme.replace("+", "").isalnum()


def localize(
    path: str,
    cache_dir: Path | None,
    progress: Callable[[str, int, int], None] | None = None,
) -> str:
    """Return the local path of what a URL names, downloaded if need be; a path as it is.

    Args:
        path: A path or URL of a file or directory.
        cache_dir: Where downloaded files are kept; needed for what is remote.
        progress: Called as progress("download", bytes done, bytes to do).

    Raises:
        ArgumentError: `cache_dir` is missing.
        ImportError: The package that reads such URLs is not installed.
        FileNotFoundError: There is nothing at the URL.
        CorpusError: A name of the listing is not plain, or a file is not what was listed.
        OSError: The file system, or the remote one, refuses.
    """
    if not is_url(path):
        return path
    parts = urlsplit(path)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        from urllib.request import url2pathname  # it brings http and ssl along

        return url2pathname(parts.path)
    if cache_dir is None:
        raise ArgumentError(f"cache_dir must be given, to keep what is downloaded from {path}")
    store, root = _store_of(path)
    return str(download(store, root, path, cache_dir, progress))


def download(
    store: Store,
    root: str,
    url: str,
    cache_dir: Path,
    progress: Callable[[str, int, int], None] | None = None,
) -> Path:
    """Return the local copy of a remote file or directory; see `localize`."""
    files = _files_at(store, root.rstrip("/"), url)
    versions = [(name, file.size, file.version) for name, file in files.items()]
    digest = hashlib.blake2b(json.dumps([url, versions]).encode(), digest_size=8).hexdigest()
    is_directory = store.stat(root).size is None
    first = next(iter(files))
    folder = cache_dir / f"{'remote' if is_directory else shortened(first)}-{digest}"
    num_bytes = sum(file.size or 0 for file in files.values())
    num_done = 0
    if not all(_is_there(folder / name, file) for name, file in files.items()):
        folder.mkdir(parents=True, exist_ok=True)
        with exclusive(folder / ".lock"):
            for name, file in files.items():
                if not _is_there(folder / name, file):
                    _download_file(store, file, folder / name, url)
                num_done += file.size or 0
                if progress is not None:
                    progress("download", num_done, num_bytes)
    return folder if is_directory else folder / first


def _store_of(url: str) -> tuple[Store, str]:
    try:
        import fsspec

        filesystem, root = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:  # not installed, or no such protocol
        from pyarrow.fs import FileSystem

        try:
            filesystem, root = FileSystem.from_uri(url)
        except ValueError:
            raise ImportError(f"{url}: nothing installed reads such URLs: {error}") from error
        return ArrowStore(filesystem), root
    return FsspecStore(filesystem), root


def _files_at(store: Store, root: str, url: str) -> dict[str, RemoteFile]:
    """Return the files to download by their names, the named one first."""
    found = store.stat(root)
    if found.size is not None:
        head, _, name = _checked_path(root, url).rpartition("/")
        files = {name: found}
        stem, _, suffix = name.rpartition(".")
        if suffix in _COMPANIONS:
            companion = f"{stem}.{_COMPANIONS[suffix]}"
            with suppress(FileNotFoundError):  # opening says what is missing, if it is
                files[companion] = store.stat(f"{head}/{companion}" if head else companion)
        return files
    files = {}
    for listed in sorted(store.listed(root)):
        if listed.strip("/") == root.strip("/"):
            continue  # the object that stands for the directory in some stores
        head, _, name = listed.rpartition("/")
        if head.strip("/") != root.strip("/"):
            raise CorpusError(f"{url}: lists {listed!r}, which is not directly inside")
        if name.endswith(_SUFFIXES) and not name.startswith("."):
            file = store.stat(_checked_path(listed, url))
            if file.size is not None:
                files[name] = file
    if not files:
        listed = ", ".join("*" + suffix for suffix in _SUFFIXES)
        raise CorpusError(f"{url}: no file named {listed}")
    return files


def _checked_path(path: str, url: str) -> str:
    name = path.rpartition("/")[2]
    if not is_plain_name(name):
        raise CorpusError(f"{url}: lists {name!r}, expected the plain name of a file")
    return path


def _is_there(local: Path, file: RemoteFile) -> bool:
    return local.exists() and local.stat().st_size == file.size


def _download_file(store: Store, file: RemoteFile, local: Path, url: str) -> None:
    temporary = temporary_of(local)
    try:
        with store.open(file.path) as remote, temporary.open("wb") as copy:
            shutil.copyfileobj(remote, copy, _COPY_BYTES)
            copy.flush()
            os.fsync(copy.fileno())
            num_bytes = copy.tell()
        now = store.stat(file.path)
        if (num_bytes, now) != (file.size, file):
            raise CorpusError(
                f"{url}: {local.name} is not what was listed\n"
                f"  listed:     {file.size} bytes, version {file.version!r}\n"
                f"  downloaded: {num_bytes} bytes, version {now.version!r}"
            )
        temporary.replace(local)
    except (OSError, CorpusError):
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(local.parent)
