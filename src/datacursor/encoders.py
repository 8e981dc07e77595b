"""Texts to token ids: bytes, or a tokenizer of Hugging Face's `tokenizers`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from datacursor.errors import ArgumentError, CorpusError
from datacursor.shards import IntArray

BYTES = "bytes"


class Encoder(Protocol):
    """Turns texts into token ids.

    Attributes:
        identity: Names the tokenizer and its content.
        num_ids: All ids are below it.
    """

    identity: str
    num_ids: int

    def encode(self, texts: Sequence[str]) -> list[IntArray]:
        """Return the ids of each text."""


class BytesEncoder:
    """A token for each byte of UTF-8: ids 0 to 255."""

    identity = BYTES
    num_ids = 256

    def encode(self, texts: Sequence[str]) -> list[IntArray]:
        """Return the bytes of each text."""
        return [np.frombuffer(text.encode(), dtype=np.uint8) for text in texts]


class FileEncoder:
    """What a `tokenizer.json` says, on all cores; it never truncates and never pads."""

    def __init__(self, path: Path, *, add_special_tokens: bool) -> None:
        """Read the tokenizer.

        Raises:
            ImportError: `tokenizers` is not installed.
            FileNotFoundError: There is no such file.
            CorpusError: It is no tokenizer of `tokenizers`.
        """
        data = path.read_bytes()
        try:
            value = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise CorpusError(f"{path}: not a tokenizer, damaged JSON: {error}") from error
        if not isinstance(value, dict) or "model" not in value:
            raise CorpusError(f"{path}: not a tokenizer of `tokenizers`: no field 'model'")
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise ImportError(
                f"{path} needs `tokenizers`, which is not installed: pip install tokenizers"
            ) from error
        self._tokenizer: Any = Tokenizer.from_str(data.decode())
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._add_special_tokens = add_special_tokens
        self.identity = f"{path.name}, digest {hashlib.blake2b(data, digest_size=8).hexdigest()}"
        self.num_ids = max(self._tokenizer.get_vocab(with_added_tokens=True).values()) + 1

    def encode(self, texts: Sequence[str]) -> list[IntArray]:
        """Return the ids of each text."""
        found = self._tokenizer.encode_batch(
            list(texts), add_special_tokens=self._add_special_tokens
        )
        return [np.array(item.ids, dtype=np.uint32) for item in found]


def make_encoder(tokenizer: str, *, add_special_tokens: bool) -> Encoder:
    """Return the encoder that "bytes" or the path of a `tokenizer.json` names.

    Raises:
        ArgumentError: Special tokens are asked of bytes.
    """
    if tokenizer != BYTES:
        return FileEncoder(Path(tokenizer), add_special_tokens=add_special_tokens)
    if add_special_tokens:
        raise ArgumentError("add_special_tokens=True does not apply to tokenizer='bytes'")
    return BytesEncoder()
