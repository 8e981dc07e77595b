"""The benchmarks run, and their claims hold on a small scale."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
SCRIPTS = sorted(BENCHMARKS.glob("bench_*.py"))


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import report

    return report


@pytest.mark.parametrize("script", SCRIPTS, ids=[script.stem for script in SCRIPTS])
def test_claims_hold(script: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    figures = tmp_path / "figures.json"
    command: list[str | Path] = [sys.executable, script, "--check", "--json", figures]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    claims = json.loads(figures.read_text())["claims"]
    assert claims
    assert all(claim["holds"] for claim in claims)


def test_a_claim_that_fails_fails_the_run(
    report: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = report.at_least("ratio", 2.0, 2.0)
    broken = report.at_most("milliseconds", 1.5, 1.0)
    assert report.conclude([kept], {}, None) == 0
    assert report.conclude([kept, broken], {}, None) == 1
    assert "NO" in capsys.readouterr().out


def test_units_keep_three_digits(report: ModuleType) -> None:
    shown = [report.seconds(value) for value in (2.5, 1.234e-3, 68.94e-6, 1.5e-9)]
    assert shown == ["2.5 s", "1.23 ms", "68.9 us", "1.5 ns"]
    assert [report.num_bytes(value) for value in (None, 512, 405_123_456)] == [
        "-",
        "512 B",
        "405 MB",
    ]
    assert [report.count(value) for value in (10**7, 2**30, 2**40 + 1, 12_345)] == [
        "10^7",
        "2^30",
        "2^40 + 1",
        "12,345",
    ]
