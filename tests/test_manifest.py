"""The manifest of a checkpoint: one text, every damage refused, no name outside the directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from datacursor.errors import CheckpointError
from datacursor.recovery.hashed_file import FileRecord, write_hashed
from datacursor.recovery.manifest import MANIFEST_NAME, read_manifest, write_manifest

STEP = 1200
SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"  # of "test"
# Part of the persistent format; add, never change.
GOLDEN = f"""\
{{
  "files": {{
    "state.pt": {{
      "num_bytes": 4,
      "sha256": "{SHA256}"
    }}
  }},
  "format": "datacursor checkpoint",
  "step": 1200,
  "version": 1
}}
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    record = write_hashed(tmp_path / "state.pt", lambda stream: stream.write(b"test"))
    write_manifest(tmp_path, STEP, {"state.pt": record})
    return tmp_path


def read_state(directory: Path) -> bytes:
    with read_manifest(directory, STEP).open_verified("state.pt") as file:
        return file.read()


def refusal(directory: Path, text: bytes | str) -> str:
    """The message with which another manifest is refused."""
    data = text.encode() if isinstance(text, str) else text
    (directory / MANIFEST_NAME).write_bytes(data)
    with pytest.raises(CheckpointError) as raised:
        read_manifest(directory, STEP)
    return str(raised.value)


def changed(**values: Any) -> str:
    return json.dumps(json.loads(GOLDEN) | values, indent=2, sort_keys=True) + "\n"


def test_the_text_is_the_golden_one(directory: Path) -> None:
    assert (directory / MANIFEST_NAME).read_text() == GOLDEN


def test_what_is_written_is_read(directory: Path) -> None:
    manifest = read_manifest(directory, STEP)
    assert manifest == (directory, STEP, {"state.pt": FileRecord(4, SHA256)})
    with manifest.open_verified("state.pt") as file:
        assert file.read() == b"test"


def test_every_flipped_bit_is_refused(directory: Path) -> None:
    for number in range(8 * len(GOLDEN)):
        text = bytearray(GOLDEN.encode())
        text[number // 8] ^= 1 << number % 8
        (directory / MANIFEST_NAME).write_bytes(text)
        with pytest.raises(CheckpointError):
            read_state(directory)


def test_every_truncation_is_refused(directory: Path) -> None:
    for length in range(len(GOLDEN)):
        assert "not a checkpoint's manifest" in refusal(directory, GOLDEN[:length])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (GOLDEN + "\n", "its text is not the one that saving writes"),
        (changed(version=2), "version must be 1, got 2; upgrade datacursor if higher"),
        (changed(version=1.0), "version must be 1, got 1.0"),
        (changed(version=True), "version must be 1, got True"),
        (changed(step=1201), "step must be 1200, as the directory's name says, got 1201"),
        (changed(step="1200"), "step must be 1200, as the directory's name says, got '1200'"),
        (changed(format="zip"), "format must be 'datacursor checkpoint'"),
        (changed(more=1), "keys must be ['files', 'format', 'step', 'version'], got "),
        (changed(files=[]), "files must be an object, got []"),
        (changed(files={"a": 1}), "'a' must have ['num_bytes', 'sha256'], got 1"),
        (
            changed(files={"a": {"num_bytes": -1, "sha256": SHA256}}),
            "num_bytes of 'a' must be a size, got -1",
        ),
        (
            changed(files={"a": {"num_bytes": 1, "sha256": SHA256.upper()}}),
            "sha256 of 'a' must be 64 hexadecimal digits, got '9F86",
        ),
        ("[]", "format must be"),
        ("[" * 100_000, "bad JSON"),
        (b"\xff\xfe", "bad JSON"),
        ("", "bad JSON"),
    ],
)
def test_what_is_wrong_is_named(directory: Path, text: str | bytes, reason: str) -> None:
    message = refusal(directory, text)
    assert reason in message
    assert str(directory / MANIFEST_NAME) in message


@pytest.mark.parametrize(
    "name",
    [
        "../state.pt",
        "/etc/passwd",
        "a/b",
        "a\\b",
        "..",
        ".",
        "",
        "C:state.pt",
        "a\x00b",
        "a\nb",
        "state.pt ",
        MANIFEST_NAME,
        "a" * 300,
    ],
)
def test_a_name_that_leaves_the_directory_is_refused(directory: Path, name: str) -> None:
    text = changed(files={name: {"num_bytes": 4, "sha256": SHA256}})
    assert "must lie in the directory under plain names" in refusal(directory, text)


def test_a_missing_manifest_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"manifest\.json: missing"):
        read_manifest(tmp_path, STEP)


@pytest.mark.parametrize(
    ("data", "field", "found"),
    [(b"tes", "num_bytes", "3"), (b"tests", "num_bytes", "5"), (b"tesT", "sha256", "")],
)
def test_a_damaged_file_is_refused_with_both_values(
    directory: Path, data: bytes, field: str, found: str
) -> None:
    (directory / "state.pt").write_bytes(data)
    expected = f"damaged: {field}\n  in manifest: {4 if found else SHA256}\n  in file:     {found}"
    with pytest.raises(CheckpointError) as raised:
        read_state(directory)
    assert f"{directory / 'state.pt'}: {expected}" in str(raised.value)


def test_a_missing_file_is_named(directory: Path) -> None:
    (directory / "state.pt").unlink()
    with pytest.raises(CheckpointError, match=r"state\.pt: missing"):
        read_state(directory)
