"""shuffle-1 is as good as a true shuffle, and the suite would see it if it were not."""

from __future__ import annotations

import numpy as np
import pytest

import datacursor as dc
from quality.known_bad import KNOWN_BAD, KnownBad
from quality.networks import Network
from quality.report import CERTAIN, FAMILY_ERROR, by_statistic, family_p_value, table
from quality.suite import SHORT, examine, run


def test_shuffle_passes() -> None:
    findings = list(run(dc.Shuffle, SHORT))
    # Where the known bad ones fail, with the same keys.
    for bad in (KNOWN_BAD[0], KNOWN_BAD[2]):
        findings += examine(dc.Shuffle, bad.num_samples, bad.effort)
    assert family_p_value(findings) >= FAMILY_ERROR, table(findings)


@pytest.mark.parametrize("bad", KNOWN_BAD, ids=lambda bad: bad.name)
def test_a_known_bad_order_fails(bad: KnownBad) -> None:
    findings = list(examine(bad.make, bad.num_samples, bad.effort))
    assert family_p_value(findings) < CERTAIN, table(findings)
    caught = by_statistic(findings)[bad.caught_by]
    assert min(finding.p_value for finding in caught) < CERTAIN / len(findings), table(findings)


@pytest.mark.parametrize(("seed", "epoch"), [(0, 0), (11, 3), (2**64 - 1, 2**40 - 1)])
@pytest.mark.parametrize(
    "num_samples", [4097, 5000, 8192, 8193, 65537, 10**6, 2**31, 2**31 + 1, 10**12, 2**63 - 1]
)
def test_the_network_that_is_spoilt_equals_shuffle(num_samples: int, seed: int, epoch: int) -> None:
    count = min(num_samples, 5000)
    for first in (0, (num_samples - count) // 2, num_samples - count):
        out = np.empty(count, dtype=np.int64)
        Network(num_samples, seed).fill(epoch, first, out)
        assert np.array_equal(out, dc.Shuffle(num_samples, seed).indices(epoch, first, count))
