"""The texts of a cursor: str, token and JSON, and every damage to them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cursor_cases import RECORDS, flip_bit, make_cursor, make_rows

from datacursor.cursor import Cursor
from datacursor.errors import CursorFormatError


def test_str_of_samples() -> None:
    cursor = make_cursor(
        base_size=1_234_567,
        epoch=3,
        position=307_200,
        updates_committed=31_340,
        data_fingerprint=bytes.fromhex("9f3a" + "00" * 13 + "c1"),
    )
    assert str(cursor) == (
        "epoch 3 \u00b7 sample 307,200 / 1,234,567 (24.9 %) \u00b7 update 31,340"
        " \u00b7 data 9f3a\u2026c1 \u00b7 shuffle-1"
    )


@pytest.mark.parametrize(
    ("packing_id", "place"),
    [
        (1, "row 307,200 \u00b7 document 12,345 / 1,234,567 + 17 tokens"),
        (2, "row 307,200 \u00b7 window 12,345 + 17 rows"),
        (3, "row 307,200"),
    ],
)
def test_str_of_rows(packing_id: int, place: str) -> None:
    cursor = make_rows(
        packing_id=packing_id, position=307_200, reader_position=12_345, reader_offset=17
    )
    assert str(cursor) == (
        f"epoch 0 \u00b7 {place} \u00b7 update 0 \u00b7 data 0000\u202600 \u00b7 shuffle-1"
    )


def test_str_mentions_what_is_unusual() -> None:
    cursor = make_cursor(base_size=9, order_id=0x8001, pending=2, optional_flags=1).replace(
        position=9, deferred=[(0, 2), (7, 2)], accepted=["seed", "plan"]
    )
    assert str(cursor) == (
        "epoch 0 \u00b7 sample 9 \u00b7 update 0 \u00b7 data unverified"
        " \u00b7 order 0x8001 \u00b7 pending 2 \u00b7 deferred 4 \u00b7 accepted seed, plan"
    )


def test_a_token_is_the_record_in_base64url() -> None:
    token = Cursor.from_bytes(RECORDS[2]).token()
    assert token.startswith("dc1.")
    assert base64.urlsafe_b64decode(token[4:] + "=" * (-len(token[4:]) % 4)) == RECORDS[2]
    assert "=" not in token


@pytest.mark.parametrize("number", [0, 5, 6, 8])
def test_every_damage_to_a_token_is_refused(number: int) -> None:
    token = Cursor.from_bytes(RECORDS[number]).token()
    damaged = [token[:size] for size in range(len(token))]
    damaged += [token[:k] + character + token[k:] for k in (0, 4, 9) for character in " \nA=\u00e9"]
    damaged += [token + tail for tail in ("A", "AAAA", "=", "==", " ", "\n", "\0")]
    damaged += [flip_bit(token.encode(), bit).decode("latin-1") for bit in range(8 * len(token))]
    damaged += [token.upper(), token.lower(), token[4:]]
    for text in damaged:
        with pytest.raises(CursorFormatError, match=r"^not a cursor: "):
            Cursor.from_token(text)


def test_a_token_with_unused_bits_set_is_refused() -> None:
    record = RECORDS[0]
    assert len(record) % 3 != 0  # so the last character has unused bits
    token = Cursor.from_bytes(record).token()
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    other = token[:-1] + alphabet[alphabet.index(token[-1]) + 1]
    with pytest.raises(CursorFormatError, match="canonical base64url"):
        Cursor.from_token(other)


def test_a_token_of_a_higher_major_is_refused_with_a_remedy() -> None:
    with pytest.raises(CursorFormatError, match=r"must start with 'dc1\.', .* upgrade datacursor"):
        Cursor.from_token("dc2.AAAA")


@pytest.mark.parametrize("value", [b"dc1.AAAA", None, 3])
def test_a_token_must_be_a_str(value: Any) -> None:
    with pytest.raises(TypeError, match=f"token must be a str, got {type(value).__name__}"):
        Cursor.from_token(value)


def test_json_holds_64_bit_numbers_as_text() -> None:
    values = json.loads(Cursor.from_bytes(RECORDS[3]).to_json())
    assert values["seed"] == "18446744073709551615"
    assert values["data_fingerprint"] == "ff" * 16
    assert values["extensions"][1] == [0x8002, "feffffff00000000"]
    assert values["checksum"] == f"0x{int.from_bytes(RECORDS[3][-4:], 'little'):08x}"
    assert all(value < 2**53 for value in values.values() if isinstance(value, int))


def test_json_may_be_reordered_and_respaced() -> None:
    cursor = Cursor.from_bytes(RECORDS[2])
    values = json.loads(cursor.to_json())
    text = json.dumps(dict(reversed(values.items())), indent=4)
    assert Cursor.from_json(text) == cursor


@pytest.mark.parametrize("number", [2, 6])
def test_every_damage_to_json_is_refused(number: int) -> None:
    text = Cursor.from_bytes(RECORDS[number]).to_json()
    damaged = [text[:size] for size in range(len(text))]
    damaged += [flip_bit(text.encode(), bit).decode("latin-1") for bit in range(8 * len(text))]
    damaged += [text + "}", text + text, f"[{text}]", "[" * 100_000, "NaN", "1", '"dc1."']
    for other in damaged:
        with pytest.raises(CursorFormatError, match=r"^not a cursor: "):
            Cursor.from_json(other)


@pytest.mark.parametrize("name", ["major", "minor", "epoch", "extensions", "checksum"])
def test_a_missing_json_key_is_refused(name: str) -> None:
    values = json.loads(make_cursor().to_json())
    del values[name]
    with pytest.raises(CursorFormatError, match=name):
        Cursor.from_json(json.dumps(values))


def test_an_unknown_json_key_is_refused() -> None:
    values = json.loads(make_cursor().to_json())
    with pytest.raises(CursorFormatError, match=r"unknown keys \['extra'\]"):
        Cursor.from_json(json.dumps({**values, "extra": 1}))


def test_a_repeated_json_key_is_refused() -> None:
    text = make_cursor().to_json()
    with pytest.raises(CursorFormatError, match="the key 'epoch' stands twice"):
        Cursor.from_json(text[:-1] + ', "epoch": "0"}')


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("major", 2, "major must be 1, got major=2; upgrade datacursor"),
        ("major", True, "major must be 1, got major=True"),
        ("minor", "0", "minor must be an integer, got '0'"),
        ("attempt", True, "attempt must be an integer, got True"),
        ("attempt", 0.0, r"attempt must be an integer, got 0\.0"),
        ("attempt", -1, "attempt must be an unsigned 32-bit integer, got attempt=-1"),
        ("epoch", 0, "epoch must be a decimal string, got 0"),
        ("epoch", "00", "epoch must be a decimal string, got '00'"),
        ("epoch", "+0", "epoch must be a decimal string"),
        ("epoch", " 0", "epoch must be a decimal string"),
        ("epoch", "0\n", "epoch must be a decimal string"),
        ("epoch", "\u0660", "epoch must be a decimal string"),
        ("epoch", "1_0", "epoch must be a decimal string"),
        ("seed", "18446744073709551616", "seed must be an unsigned 64-bit integer"),
        ("plan_digest", "AA" * 16, "plan_digest must be lower-case hexadecimal"),
        ("plan_digest", "aa " * 16, "plan_digest must be lower-case hexadecimal"),
        ("plan_digest", "aa", "plan_digest must have 16 bytes, got 1 bytes"),
        ("extensions", {}, "extensions must be a list"),
        ("extensions", [[1, "", 2]], "an extension must be a list of type and payload"),
        ("extensions", [[True, ""]], "an extension must be a list of type and payload"),
        ("extensions", [[1, "0"]], "payload must be lower-case hexadecimal"),
        ("extensions", [[65536, ""]], "an extension's type must be an unsigned 16-bit integer"),
        ("checksum", "0x00000000", "bad checksum"),
        ("checksum", None, "bad checksum"),
    ],
)
def test_a_wrong_json_value_is_refused(name: str, value: object, message: str) -> None:
    values = json.loads(make_cursor().to_json())
    with pytest.raises(CursorFormatError, match=message):
        Cursor.from_json(json.dumps({**values, name: value}))


@pytest.mark.parametrize("value", [b"{}", None, {}])
def test_json_must_be_a_str(value: Any) -> None:
    with pytest.raises(TypeError, match=f"text must be a str, got {type(value).__name__}"):
        Cursor.from_json(value)
