"""The examples of the README and the docs run as pasted and print what the text says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLE = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)


def examples(document: Path) -> list[tuple[str, str]]:
    return EXAMPLE.findall(document.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("code", "output"),
    [
        pytest.param(*example, id=f"{document.stem}-{number}")
        for document in DOCUMENTS
        for number, example in enumerate(examples(document))
    ],
)
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
    code, _ = examples(DOCUMENTS[0])[0]
    assert len(code.splitlines()) <= 15
