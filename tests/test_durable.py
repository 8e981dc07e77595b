"""Files written durably: whole or not at all, and in an order that survives a crash."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from datacursor.durable import create_durably, make_directory, temporary_of, write_durably


def record(monkeypatch: pytest.MonkeyPatch, *names: str) -> list[str]:
    """Return a list that every later call of these functions of `os` is added to."""
    calls: list[str] = []

    def recorded(name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def call(*args: Any, **options: Any) -> Any:
            calls.append(name)
            return real(*args, **options)

        return call

    for name in names:
        monkeypatch.setattr(os, name, recorded(name))
    return calls


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_durably(path, b"old")
    write_durably(path, b"new and longer")
    assert path.read_bytes() == b"new and longer"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name != "posix", reason="a directory cannot be synced there")
def test_content_is_synced_before_the_name_and_the_name_before_the_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = record(monkeypatch, "write", "fsync", "replace")
    write_durably(tmp_path / "file", b"data")
    assert calls == ["write", "fsync", "replace", "fsync"]


@pytest.mark.parametrize("failing", ["write", "fsync"])
def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    path = tmp_path / "file"
    write_durably(path, b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, failing, fail)
        with pytest.raises(OSError, match="No space"):
            write_durably(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, bytes(data)[:3]))
    write_durably(tmp_path / "file", b"0123456789")
    assert (tmp_path / "file").read_bytes() == b"0123456789"


def test_an_existing_file_is_not_created_again(tmp_path: Path) -> None:
    path = tmp_path / "file"
    create_durably(path, b"first")
    with pytest.raises(FileExistsError):
        create_durably(path, b"second")
    assert path.read_bytes() == b"first"


def test_the_temporary_file_is_hidden_beside_the_file(tmp_path: Path) -> None:
    assert temporary_of(tmp_path / "a.arrow") == tmp_path / ".a.arrow.tmp"


@pytest.mark.skipif(os.name != "posix", reason="a directory cannot be synced there")
def test_a_directory_is_made_with_its_parents_and_each_name_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = record(monkeypatch, "mkdir", "fsync")
    make_directory(tmp_path / "a" / "b")
    make_directory(tmp_path / "a" / "b")
    assert calls == ["mkdir", "fsync"] * 2
    assert (tmp_path / "a" / "b").is_dir()


def test_no_directory_is_made_in_place_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileExistsError, match="Not a directory"):
        make_directory(tmp_path / "file")
