"""What long commands say meanwhile."""

from __future__ import annotations

import io
import sys

import pytest

from datacursor.cli.progress import shown_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def show(*shown: tuple[str, int, int]) -> None:
    with shown_progress() as progress:
        for phase, num_done, num_bytes in shown:
            progress(phase, num_done, num_bytes)


def test_a_line_for_every_tenth_of_every_phase(capsys: pytest.CaptureFixture[str]) -> None:
    show(*(("write", done, 1000) for done in range(0, 1001, 50)), ("verify", 1, 1000), ("x", 0, 0))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "write: 0 %, 0 of 1,000 bytes"
    assert lines[10:] == [
        "write: 100 %, 1,000 of 1,000 bytes",
        "verify: 0 %, 1 of 1,000 bytes",
        "x: 0 %, 0 of 0 bytes",
    ]


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tqdm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    show(("write", 512, 1024), ("write", 1024, 1024), ("verify", 256, 1024))
    assert "verify:  25%" in terminal.getvalue()
    assert "256/1.00k" in terminal.getvalue()


def test_lines_on_a_terminal_without_tqdm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datacursor.cli.progress.find_spec", lambda _: None)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    show(("write", 1, 2))
    assert terminal.getvalue() == "write: 50 %, 1 of 2 bytes\n"


def test_an_error_of_the_command_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tqdm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with pytest.raises(ImportError, match="of the command"), shown_progress():
        raise ImportError("of the command")
