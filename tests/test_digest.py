"""Philox and the identity digest: the core gives the golden values."""

from __future__ import annotations

import struct

import make_vectors
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from reference import digest

from datacursor import _core


def test_philox_gives_the_golden_blocks() -> None:
    for line in make_vectors.read("philox.txt"):
        c0, c1, c2, c3, k0, k1, *output = (int(word, 16) for word in line)
        assert list(_core.philox((c0, c1, c2, c3), (k0, k1))) == output


def test_digests_have_the_golden_bytes() -> None:
    for epoch_word, _, *numbers, lane0, lane1 in make_vectors.read("digest.txt"):
        epoch = int(epoch_word)
        spans = np.array(numbers, dtype=np.int64).reshape(-1, 3)
        expected = struct.pack("<QQ", int(lane0, 16), int(lane1, 16))
        assert _core.digest_spans(epoch, spans) == expected
        if not spans[:, 1:].any():
            assert _core.digest_samples(epoch, spans[:, 0].copy()) == expected


@given(
    epoch=st.integers(0, 2**40 - 1),
    samples=st.lists(st.integers(0, 2**63 - 1), max_size=40),
)
def test_digest_of_samples_equals_the_reference(epoch: int, samples: list[int]) -> None:
    expected = struct.pack("<QQ", *digest(epoch, [(sample, 0, 0) for sample in samples]))
    assert _core.digest_samples(epoch, np.array(samples, dtype=np.int64)) == expected
