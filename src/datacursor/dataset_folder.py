"""The files of a Hugging Face data set that was saved to disk.

    state.json            names the data files, in order
    dataset_info.json
    data-00000-of-00002.arrow, ..    Arrow streams

A folder of several splits has dataset_dict.json and such a folder for each split.

The manifest is untrusted: a name in it never leaves the folder.

Source:
    Layout: datasets, Dataset.save_to_disk.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

from datacursor.errors import CorpusError
from datacursor.mapped_file import MappedFile

_MANIFEST = "state.json"
_SPLITS = "dataset_dict.json"
_MAX_MANIFEST_BYTES = 2**24
_MAX_NAME_BYTES = 150


def data_files(folder: str) -> list[str] | None:
    """Return the paths of a data set's files in order, None if the folder is no data set.

    Raises:
        CorpusError: The manifest is damaged, names a file outside the folder or an order of rows
            of its own, or the folder holds several splits.
    """
    manifest = str(Path(folder) / _MANIFEST)
    if os.path.lexists(manifest):
        return _listed_files(folder, manifest)
    splits = str(Path(folder) / _SPLITS)
    if os.path.lexists(splits):
        names = _read(splits).get("splits")
        raise CorpusError(f"{folder}: holds several splits, {names!r}; open one of their folders")
    return None


def is_plain_name(name: str) -> bool:
    """Return whether a name, joined to a folder, is a file directly inside it on every system."""
    leaves_folder = any(letter in name for letter in "/\\:")  # a colon: Windows' drives
    return name.isprintable() and name not in {"", ".", ".."} and not leaves_folder


def shortened(name: str) -> str:
    """Return the beginning of a name, so that words may follow: file systems hold 255 bytes."""
    data = os.fsencode(name)
    return name if len(data) <= _MAX_NAME_BYTES else data[:_MAX_NAME_BYTES].decode(errors="ignore")


def _listed_files(folder: str, manifest: str) -> list[str]:
    state = _read(manifest)
    if state.get("_indices_data_files"):
        raise CorpusError(
            f"{manifest}: _indices_data_files is {state['_indices_data_files']!r}, expected none; "
            "flatten_indices() and save the data set again"
        )
    entries = state.get("_data_files")
    if not isinstance(entries, list) or not entries:
        raise CorpusError(f"{manifest}: _data_files is {entries!r}, expected a list of file names")
    names = [_checked_name(entry, manifest) for entry in entries]
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise CorpusError(f"{manifest}: _data_files names {name!r} {count} times")
    return [str(Path(folder) / name) for name in names]


def _checked_name(entry: Any, manifest: str) -> str:
    name = entry.get("filename") if isinstance(entry, dict) else entry
    if not isinstance(name, str) or not is_plain_name(name):
        raise CorpusError(
            f"{manifest}: filename is {name!r}, expected the plain name of a file in its folder"
        )
    return name


def _read(path: str) -> dict[str, Any]:
    file = MappedFile(path)
    if file.size > _MAX_MANIFEST_BYTES:
        raise CorpusError(
            f"{path}: size is {file.size} bytes, expected at most {_MAX_MANIFEST_BYTES}"
        )
    try:
        value = json.loads(file.data[:])
    except (ValueError, RecursionError) as error:
        raise CorpusError(f"{path}: damaged JSON: {error}") from error
    if not isinstance(value, dict):
        raise CorpusError(f"{path}: is a JSON {type(value).__name__}, expected an object")
    return value
