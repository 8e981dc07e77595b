"""What names a plan: everything that decides its rows, in 16 bytes."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from datacursor.checks import to_json

if TYPE_CHECKING:
    from datacursor.order import Order
    from datacursor.skip_table import Lengths

_BLOCK = 2**16  # lengths hashed at a time


def plan_digest(data: bytes, order: Order, packing: str, parameters: dict[str, Any]) -> bytes:
    """Return the digest of a plan.

    Args:
        data: Digest of the documents.
        order: Over the documents.
        packing: How they become rows.
        parameters: What else decides the rows, seq_len included, as JSON values.

    Raises:
        TypeError: A parameter of the order is no JSON value.
    """
    text = to_json(f"parameters of {order!r}", [order.description, packing, parameters])
    return hashlib.blake2b(data + text.encode(), digest_size=16).digest()


def lengths_digest(lengths: Lengths) -> bytes:
    """Return a digest of the length of every document, about a second for 10**8 of them."""
    digest = hashlib.blake2b(digest_size=16)
    num_documents = lengths.index.num_documents
    for first in range(0, num_documents, _BLOCK):
        part = lengths.index.lengths(first, min(_BLOCK, num_documents - first))
        digest.update(part.astype("<i8").tobytes())
    return digest.digest()
