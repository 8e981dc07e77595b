"""The command `datacursor verify-restart` and how it starts, kills and reports."""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from forked import TRAIN

from datacursor.cli import main

# Traces as a training program does, without torch: loss = update, and what argv[2] names.
PROGRAM = """
import json, os, signal, sys
from pathlib import Path

trace = Path(os.environ["DATACURSOR_TRACE"])
orders = json.loads((trace / "orders.json").read_text())
run_dir, fault = Path(sys.argv[1]), sys.argv[2]
assert str(run_dir) == os.environ["DATACURSOR_RUN_DIR"] == orders["run_dir"]
saved = run_dir / "saved"
first = int(saved.read_text()) + 1 if saved.exists() and fault != "rerun" else 1
names = "cursor ids outcome RNG loss lr schedule scale optimizer model extra".split()
with (trace / "updates.jsonl").open("w") as file:
    for number in range(first, 9):
        aspects = {name: {} for name in (*names, "growth tracker")}
        loss = number + (fault == "drift" and first > 1 and number > 5)
        aspects["loss"][""] = f"{float(loss).hex()} = {loss}"
        line = {"update": number, "operations": 0, "aspects": aspects}
        print(json.dumps(line), file=file, flush=True)
        if number == orders["stop_at"]:
            os.killpg(0, signal.SIGKILL)
        if fault == "crash" and number == 3:
            sys.exit("out of memory")
        if fault == "hurry" and number == 2 and trace.name.endswith("killed"):
            break
        if number % 2 == 0:
            saved.write_text(str(number))
"""


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return ["--", sys.executable, str(path), "{run_dir}"]


def verify(*words: str) -> int:
    return main(["verify-restart", "--steps", "8", "--kill-at", "3,5", *words])


def test_an_equal_restart_exits_with_0(
    program: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(*program, "none") == 0
    assert capsys.readouterr().out.splitlines() == [
        "EQUAL (bitwise): 2 restarts up to update 8; no difference",
        "  killed at update 3: updates 3 to 8 equal, 1 of them made again",
        "  killed at update 5: updates 5 to 8 equal, 1 of them made again",
    ]


def test_a_difference_exits_with_1_and_names_it_first(
    program: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(*program, "drift") == 1
    assert capsys.readouterr().out.splitlines() == [
        "DIFFERENT (bitwise): killed at 3, update 6: loss",
        "restart differs at update 6: loss",
        "  uninterrupted: 0x1.8000000000000p+2 = 6",
        "  restarted:     0x1.c000000000000p+2 = 7",
        "  killed at update 3: updates 3 to 8 DIFFERENT, 1 of them made again",
        "  killed at update 5: updates 5 to 8 DIFFERENT, 1 of them made again",
    ]


def test_what_cannot_be_judged_exits_with_2(
    program: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(*program, "rerun") == 2
    assert capsys.readouterr().out.startswith("NOT JUDGED (bitwise): nothing was resumed")
    assert verify(*program, "crash") == 2
    assert capsys.readouterr().out.splitlines() == [
        "NOT JUDGED (bitwise): uninterrupted-1 ended with status 1, its last words:",
        "  out of memory",
    ]
    assert verify(*program, "hurry") == 2
    assert capsys.readouterr().out.splitlines() == [
        "NOT JUDGED (bitwise): kill-3-killed was not killed: it ended after update 2",
    ]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["true"], "traced no update: does it call Trace.commit()?"),
        (["sleep", "1000"], "did not end in 0.3 s"),
    ],
)
def test_a_program_that_is_silent_or_hangs_is_not_judged(
    command: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify("--timeout", "0.3", "--", *command) == 2
    assert capsys.readouterr().out == f"NOT JUDGED (bitwise): uninterrupted-1 {reason}\n"


def test_a_program_that_is_not_there_is_not_judged(capsys: pytest.CaptureFixture[str]) -> None:
    assert verify("--", "no-such-program") == 2
    assert "no-such-program" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["--steps", "8", "--kill-at", "3"],
        ["--steps", "8", "--kill-at", "7", "--", "true"],
        ["--steps", "8", "--kill-at", "0", "--", "true"],
        ["--steps", "8", "--kill-at", "x", "--", "true"],
        ["--steps", "8", "--kill-at", "3", "--equality", "near", "--", "true"],
        ["--steps", "8", "--kill-at", "3", "--equality", "close", "--self-test", "--", "true"],
        ["--steps", "8", "--kill-at", "3", "--report", "out.pdf", "--", "true"],
        ["--steps", "8", "--kill-at", "3", "--report", "no/such/place.png", "--", "true"],
        ["--steps", "8", "--kill-at", "3", "--keep", str(TRAIN.parent), "--", "true"],
        ["--steps", "8", "--kill-at", "3", "--keep", str(TRAIN), "--", "true"],
        ["--steps", "2", "--kill-at", "1", "--", "true"],
        ["--steps", "8", "--kill-at", "3", "--timeout", "0", "--", "true"],
        ["--steps", "8", "--kill-at", "3", "--timeout", "nan", "--", "true"],
        ["--steps", "8", "--kill-at", "3", "--rtol", "-1", "--", "true"],
        ["--steps", "8", "--kill-at", "3", "--atol", "nan", "--", "true"],
    ],
)
def test_wrong_usage_exits_with_64(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["verify-restart", *words])
    assert ended.value.code == 64


def test_json_says_the_same(program: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert verify("--json", *program, "drift") == 1
    facts = json.loads(capsys.readouterr().out)
    assert (facts["verdict"], facts["claim"]) == ("different", "bitwise")
    first, second = facts["restarts"]
    assert (first["killed_at"], first["resumed_at"], second["killed_at"]) == (3, 3, 5)
    assert first["difference"]["update"] == 6
    assert first["difference"]["aspect"] == "loss"


def test_runs_and_traces_can_be_kept(program: list[str], tmp_path: Path) -> None:
    assert verify("--keep", str(tmp_path / "kept"), *program, "none") == 0
    assert (tmp_path / "kept/runs/kill-3/saved").read_text() == "6"
    assert (tmp_path / "kept/traces/kill-3-killed/updates.jsonl").exists()


def test_what_resumes_may_have_more_words(program: list[str], tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    assert verify("--keep", str(kept), "--resume-with", "'two words'", *program, "none") == 0


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs matplotlib")
@pytest.mark.parametrize("fault", ["none", "drift", "crash"])
def test_a_report_is_a_page_that_needs_nothing_else(
    fault: str, program: list[str], tmp_path: Path
) -> None:
    verify("--report", str(tmp_path / "report.html"), *program, fault)
    page = (tmp_path / "report.html").read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert ("<svg" in page) == (fault != "crash")
    assert not any(word in page for word in ("<script", "<link", "<img", "src=", "@import"))


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs matplotlib")
@pytest.mark.parametrize("fault", ["drift", "crash"])
def test_a_report_is_a_picture(fault: str, program: list[str], tmp_path: Path) -> None:
    verify("--report", str(tmp_path / "report.png"), *program, fault)
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")


def test_the_example_restarts_in_processes_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = [sys.executable, str(TRAIN), "{run_dir}", "--workers", "1"]
    assert main(["verify-restart", "--steps", "5", "--kill-at", "3", "--", *program]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "EQUAL (bitwise): 1 restart up to update 5; no difference",
        "  killed at update 3: updates 3 to 5 equal, 1 of them made again",
    ]


def test_nothing_is_left_behind(
    program: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    assert verify(*program, "none") == 0
    assert list((tmp_path / "temporary").iterdir()) == []
