"""Cursors in whatever holds them: tokens, records, JSON, logs, checkpoints, directories.

A record begins with a magic number that occurs nowhere else, carries its length and ends with a
checksum. So a file of unknown kind is searched for records, and nothing in it is executed.
"""

from __future__ import annotations

import json
import mmap
import pickle
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from datacursor.cursor import STATE_NUM_BYTES, Cursor, unpack_state
from datacursor.errors import ArgumentError, CursorFormatError

_MAGIC = b"\x8bDCUR\r\n\x1a"  # as in cursor.hpp
_TOTAL_LENGTH = slice(10, 12)
_TOKEN = re.compile(rb"dc1\.[\w-]+")
_ZIP = b"PK\x03\x04"  # what torch.save writes
_MAX_TEXT = 2**26  # bytes; a log that is longer is searched for records alone


class Found(NamedTuple):
    """A cursor and where it is: keys in a checkpoint, a line of a log, a byte of a file."""

    key: str
    cursor: Cursor


def find_cursors(source: str) -> list[Found]:
    """Return all cursors in a file, a directory, a token, or standard input for "-".

    Raises:
        CursorFormatError: There is none, or one is damaged.
        FileNotFoundError: There is no such file.
    """
    if source.startswith("dc1."):
        return [Found("", Cursor.from_token(source))]
    if source == "-":
        found = list(_in_bytes(sys.stdin.buffer.read()))
    elif Path(source).is_dir():
        found = list(_in_directory(Path(source)))
    else:
        found = list(_in_file(Path(source)))
    if not found:
        raise CursorFormatError(f"{source}: holds no cursor")
    return found


def find_cursor(source: str, key: str | None = None) -> Cursor:
    """Return the one cursor of a source, or the one at a key.

    Raises:
        ArgumentError: There are several, or none at the key.
        CursorFormatError: There is none at all, or one is damaged.
        FileNotFoundError: There is no such file.
    """
    found = find_cursors(source)
    chosen = [item for item in found if key in (None, item.key)]
    if len({item.cursor for item in chosen}) != 1:
        keys = ", ".join(repr(item.key) for item in found)
        raise ArgumentError(f"{source}: --key must name one of its cursors: {keys}")
    return chosen[0].cursor


def _in_directory(directory: Path) -> Iterator[Found]:
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        name = path.relative_to(directory).as_posix()
        try:
            for key, cursor in _in_file(path):
                yield Found(f"{name}: {key}" if key else name, cursor)
        except CursorFormatError as error:
            raise CursorFormatError(f"{name}: {error}") from error


def _in_file(path: Path) -> Iterator[Found]:
    if not path.is_file():  # a pipe, say
        yield from _in_bytes(path.read_bytes())
        return
    with path.open("rb") as file:
        head = file.read(len(_MAGIC))
        if not head:
            return
        if head.startswith(_ZIP) and path.suffix != ".distcp":  # which is many in one file
            yield from _in_checkpoint(path)
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield from _in_bytes(data)


def _in_bytes(data: bytes | mmap.mmap) -> Iterator[Found]:
    if data[: len(_MAGIC)] == _MAGIC and len(data) <= STATE_NUM_BYTES:
        whole = bytes(data)
        is_state = len(whole) == STATE_NUM_BYTES
        yield Found("", unpack_state(whole) if is_state else Cursor.from_bytes(whole))
    elif data.find(_MAGIC) >= 0:
        yield from _records(data)
    elif len(data) <= _MAX_TEXT:
        yield from _in_text(bytes(data))


def _in_text(data: bytes) -> Iterator[Found]:
    if data.lstrip()[:1] in (b"{", b"["):
        try:
            value = json.loads(data)
        except (RecursionError, ValueError):
            pass  # not JSON after all, or JSON lines
        else:
            yield from _in_value(value, "")
            return
    lines = data.splitlines()
    yield from _intact(
        (f"line {number}" if len(lines) > 1 else "", Cursor.from_token, match[0].decode())
        for number, line in enumerate(lines, 1)
        for match in _TOKEN.finditer(line)
    )


def _in_checkpoint(path: Path) -> Iterator[Found]:
    """Yield the cursors of what `torch.save` wrote, with their keys if torch can read it safely."""
    try:
        import torch

        value = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (ImportError, RuntimeError, pickle.UnpicklingError):
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield from _records(data)
    else:
        yield from _in_value(value, "")


def _in_value(value: Any, key: str) -> Iterator[Found]:
    if isinstance(value, Mapping):
        if {"checksum", "order_id", "position"} <= value.keys():
            yield _read(key, Cursor.from_json, json.dumps(dict(value)))
            return
        for name, item in value.items():
            yield from _in_value(item, f"{key}.{name}" if key else str(name))
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _in_value(item, f"{key}[{number}]")
    elif isinstance(value, str) and value.startswith("dc1."):
        yield _read(key, Cursor.from_token, value)
    elif (record := _bytes_of(value)).startswith(_MAGIC):
        decode = unpack_state if len(record) == STATE_NUM_BYTES else Cursor.from_bytes
        yield _read(key, decode, record)


def _bytes_of(value: Any) -> bytes:
    """Return the bytes of bytes and of what may be a state; of anything else none."""
    if isinstance(value, bytes):
        return value
    if str(getattr(value, "dtype", "")) == "torch.uint8" and value.numel() == STATE_NUM_BYTES:
        return bytes(value.contiguous().numpy())
    return b""


def _records(data: bytes | mmap.mmap) -> Iterator[Found]:
    """Yield the intact records in a file of any kind."""
    yield from _intact(
        (f"byte {place}", Cursor.from_bytes, data[place : place + length])
        for place, length in _places(data)
    )


def _places(data: bytes | mmap.mmap) -> Iterator[tuple[int, int]]:
    """Yield where something begins as a record does, and the length it says it has."""
    place = data.find(_MAGIC)
    while place >= 0:
        head = data[place : place + _TOTAL_LENGTH.stop]
        yield place, int.from_bytes(head[_TOTAL_LENGTH], "little")
        place = data.find(_MAGIC, place + 1)


def _intact(candidates: Iterable[tuple[str, Any, Any]]) -> Iterator[Found]:
    """Yield the intact of what looks like cursors; if there is none, say what is wrong with one.

    A run that was killed leaves half a token in its log, a file half a record that was replaced.
    """
    damage: CursorFormatError | None = None
    num_intact = 0
    for key, decode, value in candidates:
        try:
            found = _read(key, decode, value)
        except CursorFormatError as error:  # noqa: PERF203  # one damaged, and the next
            damage = damage or error
        else:
            num_intact += 1
            yield found
    if damage is not None and num_intact == 0:
        raise damage


def _read(key: str, decode: Any, value: Any) -> Found:
    try:
        return Found(key, decode(value))
    except CursorFormatError as error:
        raise CursorFormatError(f"{key}: {error}" if key else str(error)) from error
