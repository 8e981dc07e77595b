"""What a run of the suite found, and the one rule by which it is judged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# A run of true shuffles fails by chance with at most this probability, however many p-values it
# has: the smallest is multiplied by their number (Bonferroni), which needs no independence.
FAMILY_ERROR = 1e-3
# An order that is known to be bad must fail by more than chance could ever explain.
CERTAIN = 1e-6


@dataclass(frozen=True)
class Finding:
    """One p-value: how often a true shuffle deviates at least as much, in either direction."""

    statistic: str
    num_samples: int
    p_value: float

    def __post_init__(self) -> None:
        """Let no NaN pass for a large p-value."""
        assert 0 <= self.p_value <= 1, self


def family_p_value(findings: Sequence[Finding]) -> float:
    """Return the smallest p-value of a run, corrected for the number of them."""
    return min(1.0, len(findings) * min(finding.p_value for finding in findings))


def worst(findings: Iterable[Finding]) -> Finding:
    return min(findings, key=lambda finding: finding.p_value)


def by_statistic(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.statistic, []).append(finding)
    return groups


def table(findings: Sequence[Finding]) -> str:
    """Show the smallest p-value of every statistic, and the verdict."""
    lines = [f"{'statistic':32}{'p-values':>9}{'smallest':>11}   at n"]
    for statistic, group in by_statistic(findings).items():
        low = worst(group)
        lines.append(f"{statistic:32}{len(group):9}{low.p_value:11.2g}   {low.num_samples}")
    corrected = family_p_value(findings)
    verdict = "fails" if corrected < FAMILY_ERROR else "passes"
    lines.append(f"{verdict}: family-wise p = {corrected:.2g} of {len(findings)} p-values")
    return "\n".join(lines)
