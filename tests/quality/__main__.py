"""Print what the suite finds: `python -m quality`, or `python -m quality --short`."""

from __future__ import annotations

import argparse
import sys

import datacursor as dc
from quality.known_bad import KNOWN_BAD
from quality.report import CERTAIN, FAMILY_ERROR, family_p_value, table, worst
from quality.suite import LONG, SHORT, examine


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m quality", description=__doc__)
    parser.add_argument("--short", action="store_true", help="the sizes and keys of `make test`")
    effort = SHORT if parser.parse_args().short else LONG
    findings = []
    for num_samples in (*effort.whole, *effort.single, *effort.windowed):
        found = list(examine(dc.Shuffle, num_samples, effort))
        findings += found
        low = worst(found)
        say(f"n = {num_samples}: {len(found)} p-values, {low.p_value:.2g} ({low.statistic})")
    say(f"\nshuffle-1\n{table(findings)}")
    right = family_p_value(findings) >= FAMILY_ERROR
    say("\nthese must fail:")
    for bad in KNOWN_BAD:
        findings = list(examine(bad.make, bad.num_samples, bad.effort))
        corrected = family_p_value(findings)
        say(f"{bad.name}: family-wise p = {corrected:.2g} ({worst(findings).statistic})")
        right &= corrected < CERTAIN
    return 0 if right else 1


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
