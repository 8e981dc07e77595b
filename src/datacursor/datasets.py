"""Data sets as samplers see them: a length, and an identity where there is one."""

from __future__ import annotations

import hashlib
from collections.abc import Sized

from torch.utils.data import IterableDataset

from datacursor.checks import MAX_COUNT, require_integer


def as_dataset(dataset_or_num_samples: Sized | int) -> Sized:
    """Return the data set, or a range for a length.

    Raises:
        ArgumentError: The length is out of range.
        TypeError: It is a stream, text, or neither data set nor length.
    """
    if isinstance(dataset_or_num_samples, IterableDataset):
        raise TypeError(
            "dataset must be map-style (with __len__ and __getitem__), got an "
            f"IterableDataset: {type(dataset_or_num_samples).__name__}"
        )
    if isinstance(dataset_or_num_samples, (str, bytes)):
        raise TypeError(f"dataset must be a data set or its length, got {dataset_or_num_samples!r}")
    if isinstance(dataset_or_num_samples, Sized):
        return dataset_or_num_samples
    return range(require_integer("num_samples", dataset_or_num_samples, 1, MAX_COUNT))


def fingerprint_of(dataset: Sized, fingerprint: str | bytes | None) -> bytes | None:
    """Return 16 bytes that name the data's content; None if only the length is known."""
    if fingerprint is not None and not isinstance(fingerprint, (str, bytes)):
        raise TypeError(f"fingerprint must be str or bytes, got {type(fingerprint).__name__}")
    for value in (
        fingerprint,
        getattr(dataset, "fingerprint", None),
        getattr(dataset, "_fingerprint", None),  # Hugging Face datasets
    ):
        if isinstance(value, (str, bytes)):
            data = value.encode() if isinstance(value, str) else value
            return data if len(data) == 16 else hashlib.blake2b(data, digest_size=16).digest()
    return None
