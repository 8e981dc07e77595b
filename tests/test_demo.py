from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest
import torch

from datacursor import ArgumentError, Cursor, TokenCorpus
from datacursor.demo.__main__ import main, prepare_directory
from datacursor.demo.corpus import write_corpus
from datacursor.demo.launch import read_attempt, run_to_end
from datacursor.demo.parameters import largest_difference
from datacursor.demo.records import (
    AttemptLog,
    Delivery,
    LogWriter,
    Record,
    Saved,
    Start,
    Update,
    read_log,
    split_rows,
)
from datacursor.demo.settings import Attempt, Settings
from datacursor.demo.verdict import (
    Closeness,
    Finding,
    effective_history,
    judge_restart,
    judge_rows,
    rows_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

LAST = 9  # update of the recorded runs
SAVED = 4


# -- recorded runs: two rows an update, in order -------------------------------------------


def cursor_after(update: int, **changes: Any) -> str:
    cursor = Cursor(
        order_id=1,
        packing_id=1,
        data_fingerprint=bytes(16),
        plan_digest=bytes(16),
        base_size=100,
        seed=7,
        seq_len=4,
        epoch=1,
        position=2 * update,
        updates_committed=update,
    )
    return cursor.replace(**changes).token()


def make_update(number: int, **changes: Any) -> Update:
    update = Update(
        attempt=0,
        update=number,
        epoch=1,
        rows=(((number, 0, 4),), ((number, 4, 6), (number + 50, 0, 2))),
        digest=f"{number:032x}",
        loss=(1 / number).hex(),
        parameters=f"parameters {number}",
        cursor=cursor_after(number),
        seconds=0.0,
    )
    return replace(update, **changes)


def make_log(first: int, last: int, *changed: Update) -> AttemptLog:
    """Return an attempt that made updates first to last, some of them changed."""
    start = Start(first - 1, f"parameters {first - 1}", cursor_after(first - 1), seconds=0.0)
    updates = {number: make_update(number) for number in range(first, last + 1)}
    return AttemptLog(start, (), (), updates | {update.update: update for update in changed})


UNINTERRUPTED = make_log(1, LAST).updates
KILLED = make_log(1, SAVED + 3)


def judge(resumed: AttemptLog, closeness: Closeness | None = None) -> dict[str, Finding]:
    findings = judge_restart(UNINTERRUPTED, [KILLED, resumed], closeness)
    return {finding.name: finding for finding in findings}


def failures(findings: dict[str, Finding]) -> dict[str, str]:
    return {name: finding.text for name, finding in findings.items() if not finding.holds}


# -- the verdict ----------------------------------------------------------------------------


def test_a_faultless_restart_passes_every_claim() -> None:
    findings = judge(make_log(SAVED + 1, LAST))
    assert list(findings) == [
        "cursor",
        "loaded",
        "rows lost",
        "rows doubled",
        "identities",
        "parameters",
    ]
    assert failures(findings) == {}
    assert findings["rows lost"].text == "0 of 18"
    assert findings["parameters"].text.startswith("bitwise equal after each of 5 updates")


def test_a_lost_row_is_named() -> None:
    update = make_update(6)
    failed = failures(judge(make_log(5, LAST, replace(update, rows=update.rows[:1]))))
    assert failed["rows lost"] == "1 of 18; the first: epoch 1, [6: 4-6, 56: 0-2]"
    assert failed["identities"].startswith("first difference: rows of update 6")
    assert failed.keys() == {"rows lost", "identities"}


def test_a_doubled_row_is_named() -> None:
    update = make_update(6)
    failed = failures(judge(make_log(5, LAST, replace(update, rows=(*update.rows, ((5, 0, 4),))))))
    assert failed["rows doubled"] == "1 of 18; the first: epoch 1, [5: 0-4]"
    assert failed.keys() == {"rows doubled", "identities"}


def test_a_row_of_another_epoch_is_lost_and_doubled() -> None:
    failed = failures(judge(make_log(5, LAST, make_update(6, epoch=2))))
    assert failed.keys() == {"rows lost", "rows doubled", "identities"}


def test_a_row_that_comes_too_early_is_not_doubled() -> None:
    ahead = make_update(7, rows=make_update(8).rows)
    failed = failures(judge(make_log(5, 7, ahead)))
    assert failed["rows lost"].startswith("2 of 14")
    assert failed.keys() == {"rows lost", "identities"}


def test_rows_exchanged_between_updates_are_named() -> None:
    rows = make_update(6).rows, make_update(7).rows
    changed = make_update(6, rows=rows[1]), make_update(7, rows=rows[0])
    failed = failures(judge(make_log(5, LAST, *changed)))
    assert failed.keys() == {"identities"}


def test_a_changed_digest_is_named() -> None:
    failed = failures(judge(make_log(5, LAST, make_update(8, digest="ff" * 16))))
    assert failed == {
        "identities": f"first difference: identity digest of update 8\n  uninterrupted: {8:032x}\n"
        f"  restarted:     {'ff' * 16}"
    }


def test_a_changed_cursor_is_named() -> None:
    changed = make_update(8, cursor=cursor_after(8, tokens_committed=1))
    failed = failures(judge(make_log(5, LAST, changed)))
    assert failed.keys() == {"identities"}
    assert failed["identities"].startswith("first difference: cursor of update 8")


def test_attempt_and_replicas_of_a_cursor_may_change() -> None:
    changed = make_update(8, cursor=cursor_after(8, attempt=1, replicas=2))
    assert failures(judge(make_log(5, LAST, changed))) == {}


def test_a_changed_parameter_is_named() -> None:
    failed = failures(judge(make_log(5, LAST, make_update(7, parameters="other"))))
    assert failed == {
        "parameters": "first difference: parameters of update 7\n  uninterrupted: parameters 7\n"
        "  restarted:     other"
    }


def test_one_bit_of_a_loss_is_named() -> None:
    changed = make_update(7, loss="0x1.2492492492493p-3")
    assert changed.loss != make_update(7).loss
    failed = failures(judge(make_log(5, LAST, changed)))
    assert failed.keys() == {"parameters"}
    assert failed["parameters"].startswith("first difference: loss of update 7")


def test_a_missing_update_is_named() -> None:
    resumed = make_log(5, LAST)
    del resumed.updates[7]
    failed = failures(judge(resumed))
    assert failed["rows lost"].startswith("2 of 18")
    assert failed["parameters"] == "update 7 is missing in the restarted run"


def test_other_parameters_than_the_saved_ones_are_named() -> None:
    resumed = make_log(5, LAST)
    resumed = replace(resumed, start=replace(resumed.start, parameters="fresh"))
    assert failures(judge(resumed)).keys() == {"loaded"}


def test_a_cursor_that_does_not_fit_the_parameters_is_named() -> None:
    resumed = make_log(5, LAST)
    resumed = replace(resumed, start=replace(resumed.start, cursor=cursor_after(5)))
    failed = failures(judge(resumed))
    assert failed.keys() == {"cursor"}
    assert "row 8" in failed["cursor"]
    assert "row 10" in failed["cursor"]


def test_a_run_from_the_beginning_is_no_restart() -> None:
    assert failures(judge(make_log(1, LAST))).keys() == {"cursor", "loaded"}


def test_what_died_with_the_weights_does_not_hide_a_loss() -> None:
    # It goes on after update 6, which it never saw: 5 and 6 are in attempt 0's log only.
    resumed = make_log(7, LAST)
    start = replace(resumed.start, update=SAVED)
    failed = failures(judge(replace(resumed, start=start)))
    assert failed["rows lost"].startswith("4 of 18")


def test_close_parameters_pass_with_their_difference_and_tolerance() -> None:
    findings = judge(make_log(5, LAST, make_update(7, parameters="other")), Closeness(3e-7, 1e-5))
    assert failures(findings) == {}
    assert findings["parameters"].text.startswith("close: largest difference 3.0e-07")
    assert findings["parameters"].text.endswith("tolerance 1e-05")


@pytest.mark.parametrize(
    ("resumed", "difference"),
    [
        (make_log(5, LAST), 2e-5),
        (make_log(5, LAST, make_update(7, loss=(1 / 7 + 2e-5).hex())), 0.0),
    ],
)
def test_parameters_or_losses_beyond_the_tolerance_fail(
    resumed: AttemptLog, difference: float
) -> None:
    failed = failures(judge(resumed, Closeness(difference, 1e-5)))
    assert failed.keys() == {"parameters"}
    assert failed["parameters"].startswith("not close")


def test_replicas_that_differ_from_each_other_fail() -> None:
    resumed = replace(make_log(5, LAST), ranks_differ=6)
    failed = failures(judge(resumed, Closeness(0.0, 1e-5)))
    assert failed == {"parameters": "the replicas differ from each other after update 6"}


def test_an_attempt_without_an_update_is_judged_too() -> None:
    assert failures(judge(make_log(SAVED + 1, SAVED))) == {}


def test_the_history_follows_the_weights() -> None:
    history = effective_history([KILLED, make_log(5, 6, make_update(5, attempt=1))])
    assert list(history) == [1, 2, 3, 4, 5, 6]
    assert [history[number].attempt for number in (4, 5)] == [0, 1]


def test_rows_outside_the_plan_are_found() -> None:
    planned = rows_of(UNINTERRUPTED.values())
    found = rows_of([*UNINTERRUPTED.values(), make_update(LAST + 1)])
    lost, doubled = judge_rows(planned, found, planned)
    assert lost.holds
    assert not doubled.holds


# -- logs -----------------------------------------------------------------------------------


def write(path: Path, records: Iterable[Record]) -> None:
    with LogWriter(path, io.StringIO()) as log:
        for record in records:
            log.write(record)


RECORDS: list[Record] = [
    Start(4, "parameters 4", cursor_after(4)),
    Delivery(5, 1, committed=8, delivered=9, issued=12),
    make_update(5),
    Saved(5),
    Delivery(6, 1, committed=10, delivered=11, issued=14),
]


def test_a_log_reads_back_as_it_was_written(tmp_path: Path) -> None:
    write(tmp_path / "log", RECORDS)
    assert read_log(tmp_path / "log") == RECORDS


def test_every_line_is_repeated_for_the_watcher(tmp_path: Path) -> None:
    echo = io.StringIO()
    with LogWriter(tmp_path / "log", echo) as log:
        log.write(RECORDS[0])
        assert echo.getvalue() == (tmp_path / "log").read_text()


def test_a_line_that_a_kill_cut_off_is_left_out(tmp_path: Path) -> None:
    write(tmp_path / "log", RECORDS)
    text = (tmp_path / "log").read_text()
    (tmp_path / "log").write_text(text[:-1])
    assert read_log(tmp_path / "log") == RECORDS[:-1]


def test_a_log_is_never_written_over(tmp_path: Path) -> None:
    write(tmp_path / "log", RECORDS)
    with pytest.raises(FileExistsError):
        write(tmp_path / "log", RECORDS)


def test_an_attempt_joins_the_rows_of_its_ranks() -> None:
    first, second = make_update(5, digest="01" * 16), make_update(5, digest="02" * 16)
    first = replace(first, rows=first.rows[:1])
    second = replace(second, rows=second.rows[1:])
    log = AttemptLog.of([[RECORDS[0], first], [RECORDS[0], second]])
    assert log.updates == {5: make_update(5, digest="03" * 16)}
    assert log.ranks_differ is None


def test_an_attempt_says_where_its_ranks_differ() -> None:
    ranks = [[make_update(n) for n in (5, 6, 7)], [make_update(n) for n in (5, 6, 7)]]
    ranks[1][1:] = [replace(update, parameters="other") for update in ranks[1][1:]]
    log = AttemptLog.of([[RECORDS[0], *updates] for updates in ranks])
    assert log.ranks_differ == 6


def test_an_attempt_knows_what_it_committed_and_what_is_durable() -> None:
    log = AttemptLog.of([RECORDS])
    assert (log.committed, log.durable) == (10, 5)
    assert AttemptLog.of([RECORDS[:3]]).committed == 9
    assert AttemptLog.of([RECORDS[:3]]).durable == 4


def test_an_attempt_that_never_began_is_an_error() -> None:
    with pytest.raises(ValueError, match="no start"):
        AttemptLog.of([RECORDS[1:]])


def test_rows_are_split_at_their_offsets() -> None:
    spans = [[0, 0, 3], [1, 0, 1], [1, 1, 2]]
    assert split_rows(spans, [0, 2, 3]) == [((0, 0, 3), (1, 0, 1)), ((1, 1, 2),)]


# -- files ----------------------------------------------------------------------------------


def test_the_largest_difference_looks_at_every_parameter() -> None:
    a = {"v": torch.zeros(3), "w": torch.zeros(2)}
    b = {"v": torch.zeros(3), "w": torch.tensor([0.0, -0.5])}
    assert largest_difference(a, b) == 0.5
    with pytest.raises(ValueError, match="other parameters"):
        largest_difference(a, {"v": torch.zeros(3)})


def test_the_corpus_holds_whole_sources(tmp_path: Path) -> None:
    num_documents = write_corpus(tmp_path / "corpus.arrow", 20_000)
    corpus = TokenCorpus.open(tmp_path / "corpus.arrow")
    assert corpus.num_documents == num_documents > 5
    assert 10_000 < corpus.num_tokens <= 20_000
    assert bytes(corpus.document(num_documents - 1).tolist()).isascii()


def test_a_directory_with_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ArgumentError, match="holds something else"):
        prepare_directory(tmp_path)
    assert (tmp_path / "thesis.tex").exists()


def test_the_directory_of_an_earlier_demo_is_replaced(tmp_path: Path) -> None:
    Settings().write(tmp_path)
    (tmp_path / "corpus.arrow").touch()
    prepare_directory(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_settings_read_back_as_they_were_written(tmp_path: Path) -> None:
    settings = Settings(seed=2**63, learning_rate=0.1)
    settings.write(tmp_path)
    assert Settings.read(tmp_path) == settings


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_every_layout_has_the_same_rows_in_an_update(replicas: int) -> None:
    settings = Settings()
    batch_size = Attempt(0, replicas, workers=1).batch_size(settings)
    assert batch_size * replicas * settings.accumulation_steps == settings.rows_per_update


# -- the programs ---------------------------------------------------------------------------


def test_a_failed_process_shows_its_last_words(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    with pytest.raises(ChildProcessError, match=r"rank 0 ended with status 1(.|\n)*FileNotFound"):
        run_to_end(run, Attempt(0, replicas=1, workers=0))


def test_a_demo_that_cannot_run_exits_with_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.tex").touch()
    monkeypatch.setattr(sys, "argv", ["demo", "--output", str(tmp_path)])
    assert main() == 2
    assert "holds something else" in capsys.readouterr().err


def test_the_quick_demo_holds(tmp_path: Path) -> None:
    output = tmp_path / "run"
    done = subprocess.run(
        [sys.executable, "-m", "datacursor.demo", "--quick", "--output", str(output)],
        check=False,
        capture_output=True,
        encoding="ascii",
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    first, second, epochs = re.split(r"\n  (?:restart \d|all 3 epochs.*)\n", done.stdout)[1:]
    for block in (first, second, epochs):
        assert re.search(r"rows lost +0 of [1-9]", block)
        assert re.search(r"rows doubled +0 of [1-9]", block)
    assert re.search(r"cursor +epoch 1 .* row [1-9]", first)
    assert re.search(r"cursor +epoch 2 .* row [1-9]", second)
    assert re.search(r"parameters +bitwise equal after each of [1-9]", first)
    assert re.search(r"parameters +close: largest difference .* tolerance 1e-05", second)
    assert "All of this holds." in epochs
    for attempt in (Attempt(0, 1, 2), Attempt(1, 1, 1)):
        log = read_attempt(output / "killed", attempt)
        assert log.durable < max(log.updates)
        assert log.deliveries[-1].delivered < log.deliveries[-1].issued
    assert (output / "timeline.png").exists() == (find_spec("matplotlib") is not None)
