"""The README's examples run as pasted and print what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
EXAMPLES = re.findall(
    r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", README.read_text(encoding="utf-8"), re.DOTALL
)


@pytest.mark.parametrize(("code", "output"), EXAMPLES)
def test_an_example_runs_as_pasted(code: str, output: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        check=False,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == output


def test_the_first_example_is_short() -> None:
    assert len(EXAMPLES[0][0].splitlines()) <= 15
