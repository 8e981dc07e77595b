"""The two texts of a cursor: the token and the JSON object.

They hold the record's bytes or its fields; what the fields mean is the cursor module's business.
Reading is strict: a text that writing would not have made is refused, but for the order and the
spacing of JSON.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from reprlib import repr as _short
from typing import Any, NoReturn

from datacursor.errors import CursorFormatError

_MAJOR = 1
_TOKEN_PREFIX = f"dc{_MAJOR}."
_CHECKSUM_NUM_BYTES = 4

# JSON holds these as text: a JSON reader may keep no more than 53 bits of a number.
_LONG_FIELDS = frozenset(
    (
        "base_size",
        "seed",
        "epoch",
        "position",
        "updates_committed",
        "tokens_committed",
        "reader_position",
        "reader_offset",
        "digest_first",
        "skipped",
    )
)
_BYTES_FIELDS = frozenset(("data_fingerprint", "plan_digest", "identity_digest", "last_digest"))


def to_token(record: bytes) -> str:
    """Return the record as one word of ASCII text."""
    return _TOKEN_PREFIX + _base64url(record)


def from_token(token: object) -> bytes:
    """Return the bytes in a token, which need not be a cursor.

    Raises:
        CursorFormatError: Another prefix, a foreign character, or base64url that no encoder makes.
        TypeError: Not a str.
    """
    if not isinstance(token, str):
        raise TypeError(f"token must be a str, got {type(token).__name__}")
    if not token.startswith(_TOKEN_PREFIX):
        remedy = "; upgrade datacursor to read it" if re.match(r"dc[2-9]\.", token) else ""
        _refuse(f"a token must start with {_TOKEN_PREFIX!r}, got {_short(token)}{remedy}")
    body = token[len(_TOKEN_PREFIX) :]
    foreign = re.search(r"[^A-Za-z0-9_-]", body)
    if foreign:
        place = len(_TOKEN_PREFIX) + foreign.start()
        _refuse(f"a token is base64url without padding, got {foreign[0]!r} at character {place}")
    record = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)) if len(body) % 4 != 1 else b""
    if _base64url(record) != body:  # the decoder ignores the unused bits of the last character
        _refuse(f"a token must be canonical base64url, got {body[-4:]!r} at its end")
    return record


def checksum_of(record: bytes) -> str:
    """Return the checksum at the end of a record as hexadecimal text."""
    return f"0x{int.from_bytes(record[-_CHECKSUM_NUM_BYTES:], 'little'):08x}"


def to_json(fields: dict[str, Any], record: bytes) -> str:
    """Return one JSON object: the major version, every field and the record's checksum."""
    values = {name: _to_json_value(name, value) for name, value in fields.items()}
    return json.dumps({"major": _MAJOR, **values, "checksum": checksum_of(record)})


def from_json(text: object, names: Sequence[str]) -> tuple[dict[str, Any], object]:
    """Return the fields and the checksum of a JSON object that has exactly these fields.

    The fields have the right types; their ranges and the checksum are for the caller to check.

    Raises:
        CursorFormatError: Not JSON, a repeated, missing or unknown key, or a value of another type.
        TypeError: Not a str.
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a str, got {type(text).__name__}")
    try:
        values = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise CursorFormatError(f"not a cursor: bad JSON ({error})") from error
    if not isinstance(values, dict):
        _refuse(f"the JSON must be an object, got {_short(values)}")
    major = values.get("major", 0)
    if type(major) is not int or major != _MAJOR:
        _refuse(f"major must be {_MAJOR}, got major={_short(major)}; upgrade datacursor if higher")
    missing = sorted({"checksum", *names} - values.keys())
    unknown = sorted(values.keys() - {"major", "checksum", *names})
    if missing or unknown:
        _refuse(f"missing keys {_short(missing)}, unknown keys {_short(unknown)}")
    return {name: _from_json_value(name, values[name]) for name in names}, values["checksum"]


def _refuse(reason: str) -> NoReturn:
    raise CursorFormatError(f"not a cursor: {reason}")


def _base64url(record: bytes) -> str:
    return base64.urlsafe_b64encode(record).rstrip(b"=").decode("ascii")


def _to_json_value(name: str, value: Any) -> Any:
    if name in _LONG_FIELDS:
        return str(value)
    if name in _BYTES_FIELDS:
        return value.hex()
    if name == "extensions":
        return [[kind, payload.hex()] for kind, payload in value]
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise ValueError(f"the key {_short(name)} stands twice")
        values[name] = value
    return values


def _from_json_value(name: str, value: Any) -> Any:
    if name in _LONG_FIELDS:
        return int(_matching(name, value, r"0|[1-9][0-9]{0,19}", "a decimal string"))
    if name in _BYTES_FIELDS:
        return _from_hex(name, value)
    if name == "extensions":
        return _from_json_extensions(value)
    if type(value) is not int:  # a bool is not an int here
        _refuse(f"{name} must be an integer, got {_short(value)}")
    return value


def _from_json_extensions(value: Any) -> tuple[tuple[int, bytes], ...]:
    if not isinstance(value, list):
        _refuse(f"extensions must be a list, got {_short(value)}")
    for entry in value:
        if not (isinstance(entry, list) and len(entry) == 2 and type(entry[0]) is int):
            _refuse(f"an extension must be a list of type and payload, got {_short(entry)}")
    return tuple((kind, _from_hex("payload", payload)) for kind, payload in value)


def _from_hex(name: str, value: Any) -> bytes:
    return bytes.fromhex(_matching(name, value, r"([0-9a-f]{2})*", "lower-case hexadecimal"))


def _matching(name: str, value: Any, pattern: str, expected: str) -> str:
    if not isinstance(value, str) or re.fullmatch(pattern, value) is None:
        _refuse(f"{name} must be {expected}, got {_short(value)}")
    return value
