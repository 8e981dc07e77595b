"""The manifest of a checkpoint directory: which files it has, and what they must hold.

    {
      "files": {
        "state.pt": {
          "num_bytes": 123456,
          "sha256": "9f86d081884c7d65..."
        }
      },
      "format": "datacursor checkpoint",
      "step": 1200,
      "version": 1
    }

A manifest has exactly one text, so that no bit of it can change unnoticed. This is part of the
persistent format; add, never change.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from datacursor.durable import create_durably
from datacursor.errors import CheckpointError
from datacursor.recovery.hashed_file import FileRecord, hash_file, open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from io import BufferedReader
    from pathlib import Path

MANIFEST_NAME = "manifest.json"

_FORMAT = "datacursor checkpoint"
_VERSION = 1
_MAX_NUM_BYTES = 2**26  # some 400,000 files
_KEYS = ("files", "format", "step", "version")
_FILE_NAME = re.compile(r"\.?[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Manifest(NamedTuple):
    """What a checkpoint directory holds.

    Attributes:
        directory: Where it is.
        step: The step it was saved at.
        files: Records by name of file.
    """

    directory: Path
    step: int
    files: dict[str, FileRecord]

    @contextmanager
    def open_verified(self, name: str) -> Iterator[BufferedReader]:
        """Open a file once all of it has been read and found intact.

        Raises:
            CheckpointError: The manifest has no such file, the file is missing or unreadable, or
                its size or SHA-256 is another; names the file and both values.
        """
        path = self.directory / name
        if name not in self.files:
            raise CheckpointError(f"{path}: the manifest has no such file, only {[*self.files]}")
        expected = self.files[name]
        with _open(path) as file:
            found = hash_file(file)
            for field, right, wrong in zip(expected._fields, expected, found, strict=True):
                if right != wrong:
                    raise CheckpointError(
                        f"{path}: damaged: {field}\n  in manifest: {right}\n  in file:     {wrong}"
                    )
            file.seek(0)
            yield file


def write_manifest(directory: Path, step: int, files: Mapping[str, FileRecord]) -> None:
    """Write the manifest of files that are synced; on return it and all names are durable.

    Raises:
        OSError: The file system refuses.
    """
    create_durably(directory / MANIFEST_NAME, _encode(step, files))


def read_manifest(directory: Path, step: int) -> Manifest:
    """Return the manifest of the checkpoint of a step; its files are not looked at.

    Raises:
        CheckpointError: Missing, damaged, of another step, or of a newer version.
    """
    path = directory / MANIFEST_NAME
    with _open(path) as file:
        text = file.read(_MAX_NUM_BYTES)
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        _refuse(path, f"bad JSON ({error})")
    _check_head(path, values, step)
    files = {name: _record(path, name, value) for name, value in values["files"].items()}
    if _encode(step, files) != text:
        _refuse(path, "its text is not the one that saving writes")
    return Manifest(directory, step, files)


def _encode(step: int, files: Mapping[str, FileRecord]) -> bytes:
    records = {name: record._asdict() for name, record in files.items()}
    values = dict(zip(_KEYS, (records, _FORMAT, step, _VERSION), strict=True))
    return (json.dumps(values, indent=2, sort_keys=True) + "\n").encode("ascii")


def _check_head(path: Path, values: Any, step: int) -> None:
    if not isinstance(values, dict) or values.get("format") != _FORMAT:
        _refuse(path, f"format must be {_FORMAT!r}")
    version = values.get("version")
    if type(version) is not int or version != _VERSION:
        _refuse(path, f"version must be {_VERSION}, got {version!r}; upgrade datacursor if higher")
    if sorted(values) != sorted(_KEYS):
        _refuse(path, f"keys must be {sorted(_KEYS)}, got {sorted(values)}")
    if type(values["step"]) is not int or values["step"] != step:
        _refuse(path, f"step must be {step}, as the directory's name says, got {values['step']!r}")
    if not isinstance(values["files"], dict):
        _refuse(path, f"files must be an object, got {values['files']!r}")


def _record(path: Path, name: str, value: Any) -> FileRecord:
    if _FILE_NAME.fullmatch(name) is None or name == MANIFEST_NAME:
        _refuse(path, f"files must lie in the directory under plain names, got {name!r}")
    if not isinstance(value, dict) or sorted(value) != sorted(FileRecord._fields):
        _refuse(path, f"{name!r} must have {list(FileRecord._fields)}, got {value!r}")
    record = FileRecord(**value)
    if type(record.num_bytes) is not int or record.num_bytes < 0:
        _refuse(path, f"num_bytes of {name!r} must be a size, got {record.num_bytes!r}")
    if type(record.sha256) is not str or _SHA256.fullmatch(record.sha256) is None:
        _refuse(path, f"sha256 of {name!r} must be 64 hexadecimal digits, got {record.sha256!r}")
    return record


def _open(path: Path) -> BufferedReader:
    try:
        return open_regular(path)
    except ValueError as error:
        raise CheckpointError(str(error)) from error
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CheckpointError(f"{path}: missing") from error


def _refuse(path: Path, reason: str) -> NoReturn:
    raise CheckpointError(f"{path}: not a checkpoint's manifest: {reason}")
