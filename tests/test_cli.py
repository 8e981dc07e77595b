"""The command line: what it finds, prints and returns, and what it does not import."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cursor_cases import make_cursor, make_rows

from datacursor.cli import doctor, main
from datacursor.cli.find import find_cursors
from datacursor.cursor import STATE_NUM_BYTES, Cursor, pack_state

VECTORS = Path(__file__).parent / "vectors"
CURSOR = make_cursor(base_size=1000, epoch=3, position=250, updates_committed=31)
OTHER = CURSOR.replace(position=500, updates_committed=62)

REFUSE_ALL = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"numpy", "pyarrow", "torch"}:
            raise ModuleNotFoundError(f"{name} was imported", name=name)

sys.meta_path.insert(0, Refuse())
from datacursor.cli import main
sys.exit(main(sys.argv[1:]))
"""


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    status = main([str(word) for word in words])
    return status, capsys.readouterr().out


def run_json(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, Any]:
    status, text = run(capsys, *words, "--json")
    return status, json.loads(text)


def fail(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """Run a command that cannot answer; return its one complaint."""
    status = main([str(word) for word in words])
    printed = capsys.readouterr()
    assert (status, printed.out) == (2, "")
    assert printed.err.startswith("datacursor: ")
    return printed.err.removeprefix("datacursor: ")


def in_process(*words: str, code: str = REFUSE_ALL) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", code, *words]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False, timeout=60)


# -- inspect ---------------------------------------------------------------------------------------

LOG = f"step 1 cursor={OTHER.token()}\nnothing\nstep 2 cursor={CURSOR.token()} loss=1\n".encode()
TRAINER_STATE = json.dumps({"step": 7, "log": [{"at": CURSOR.token()}], "ok": True}).encode()
FORMS = {
    "record": (bytes(CURSOR), [""]),
    "record with extensions": (bytes(CURSOR.replace(deferred=[(3, 4)])), [""]),
    "state": (pack_state(CURSOR), [""]),
    "token": (CURSOR.token().encode() + b"\n", [""]),
    "JSON": (CURSOR.to_json().encode(), [""]),
    "JSON with tokens": (TRAINER_STATE, ["log[0].at"]),
    "JSON with JSON": (json.dumps({"data": json.loads(CURSOR.to_json())}).encode(), ["data"]),
    "log": (LOG, ["line 1", "line 3"]),
    "JSON lines": (b"{}\n" + TRAINER_STATE, ["line 2"]),
    "any binary": (b"\x00" * 100 + bytes(CURSOR) + b"\xff" * 100, ["byte 100"]),
    "two records": (pack_state(OTHER) + pack_state(CURSOR), ["byte 0", "byte 512"]),
}


@pytest.mark.parametrize(("data", "keys"), FORMS.values(), ids=FORMS.keys())
def test_a_cursor_is_found_in_each_of_its_forms(
    tmp_path: Path, data: bytes, keys: list[str]
) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    found = find_cursors(str(path))
    assert [item.key for item in found] == keys
    assert found[-1].cursor.same_position(CURSOR) or "deferred" in str(found[-1].cursor)


def test_a_token_and_standard_input_are_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    status, text = run(capsys, "inspect", CURSOR.token())
    assert status == 0
    assert text.splitlines()[0] == str(CURSOR)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(bytes(CURSOR))))
    assert run(capsys, "inspect", "-") == (0, text)


@pytest.mark.skipif(os.name != "posix", reason="pipes have no names there")
def test_a_pipe_is_read() -> None:
    ours, theirs = os.pipe()
    try:
        os.write(theirs, bytes(CURSOR))
        os.close(theirs)
        assert find_cursors(f"/dev/fd/{ours}")[0].cursor == CURSOR
    finally:
        os.close(ours)


def test_inspect_prints_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    cursor = make_rows(position=250, reader_position=17).replace(deferred=[(1, 2)], phase=3)
    _, text = run(capsys, "inspect", cursor.token())
    fields = dict(line.split(maxsplit=1) for line in text.splitlines()[1:-1])
    assert fields["packing"] == "concat"
    assert fields["reader_position"] == "17"
    assert fields["deferred"] == "[1, 3)"
    assert fields["phase"] == "3"
    assert fields["identity_digest"] == cursor.identity_digest.hex()
    assert text.splitlines()[-1].strip() == cursor.token()


def test_inspect_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log"
    path.write_bytes(LOG)
    status, found = run_json(capsys, "inspect", path)
    assert status == 0
    assert [item["key"] for item in found] == ["line 1", "line 3"]
    assert Cursor.from_json(json.dumps(found[1]["cursor"])) == CURSOR
    assert Cursor.from_token(found[1]["token"]) == CURSOR
    assert found[1]["text"] == str(CURSOR)


def test_several_cursors_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log"
    path.write_bytes(LOG)
    _, text = run(capsys, "inspect", path)
    assert [line.partition(":")[0] for line in text.splitlines()[::2]] == ["line 1", "line 3"]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint of torch.save with two samplers in it."""
    torch = pytest.importorskip("torch")
    states = {
        name: {"datacursor": torch.frombuffer(bytearray(pack_state(cursor)), dtype=torch.uint8)}
        for name, cursor in (("train", CURSOR), ("valid", OTHER))
    }
    path = tmp_path / "checkpoint.pt"
    other = torch.zeros(STATE_NUM_BYTES, dtype=torch.uint8)
    torch.save({"model": {"w": torch.ones(3), "u8": other}, "data": [states]}, path)
    return path


def test_a_checkpoint_is_searched_by_key(
    checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = ["data[0].train.datacursor", "data[0].valid.datacursor"]
    assert [item.key for item in find_cursors(str(checkpoint))] == keys
    assert find_cursors(str(checkpoint.parent))[0].key == f"checkpoint.pt: {keys[0]}"
    assert "must name one of its cursors: 'data[0].train" in fail(
        capsys, "diff", checkpoint, CURSOR.token()
    )
    assert run(capsys, "diff", checkpoint, checkpoint, "--key", keys[1])[0] == 0


def test_a_checkpoint_that_torch_refuses_is_searched_without_running_it(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "checkpoint.ckpt"
    state = torch.frombuffer(bytearray(pack_state(CURSOR)), dtype=torch.uint8)
    torch.save({"data": state, "config": Path("a class that weights_only refuses")}, path)
    (found,) = find_cursors(str(path))
    assert found.cursor == CURSOR
    assert found.key.startswith("byte ")


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_a_distributed_checkpoint_is_searched(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    dcp = pytest.importorskip("torch.distributed.checkpoint")
    state = torch.frombuffer(bytearray(pack_state(CURSOR)), dtype=torch.uint8)
    tensors = {"w": torch.arange(5.0), "datacursor": state, "b": torch.ones(4)}
    dcp.save(tensors, checkpoint_id=str(tmp_path / "step-7"))
    (found,) = find_cursors(str(tmp_path))
    assert found.cursor == CURSOR
    assert found.key.startswith("step-7/__0_0.distcp: byte ")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "holds no cursor"),
        (b"no cursor here\n", "holds no cursor"),
        (b"{}", "holds no cursor"),
        (bytes(CURSOR)[:-1], "not a cursor"),
        (bytes(CURSOR)[:100], "not a cursor"),
        (pack_state(CURSOR)[:-1] + b"\1", "byte 511 of a state must be 0"),
        (CURSOR.token()[:-1].encode(), "not a cursor"),
        (b"x" * 600 + bytes(CURSOR)[:-1] + b"\0", "byte 600: not a cursor: bad checksum"),
        (b"one\n" + CURSOR.token().replace("A", "B").encode(), "line 2: not a cursor"),
        (json.dumps({"a": CURSOR.token()[:-2]}).encode(), "a: not a cursor"),
        (b"[" * 100_000, "holds no cursor"),
    ],
    ids=range(11),
)
def test_what_is_no_cursor_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes, message: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    assert message in fail(capsys, "inspect", path)


def test_half_a_token_hides_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "run.log"
    log.write_text(f"{CURSOR.token()}\n{OTHER.token()[:-9]}\n{OTHER.token()}\n")
    _, found = run_json(capsys, "inspect", log)
    assert [item["key"] for item in found] == ["line 1", "line 3"]


def test_the_damaged_file_of_a_directory_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "good").write_bytes(bytes(CURSOR))
    (tmp_path / "run.log").write_text(f"\n{CURSOR.token()[:-9]}\n")
    assert "run.log: line 2: not a cursor" in fail(capsys, "inspect", tmp_path)


def test_a_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert str(tmp_path / "none") in fail(capsys, "inspect", tmp_path / "none")


# -- diff ------------------------------------------------------------------------------------------


def test_diff_shows_both_values_of_each_difference(capsys: pytest.CaptureFixture[str]) -> None:
    status, text = run(capsys, "diff", CURSOR.token(), OTHER.token())
    assert status == 1
    assert [line.split() for line in text.splitlines()] == [
        ["A", "B"],
        ["position", "250", "500"],
        ["updates_committed", "31", "62"],
    ]
    assert run_json(capsys, "diff", CURSOR.token(), OTHER.token()) == (
        1,
        {
            "equal": False,
            "same_position": False,
            "differences": {"position": ["250", "500"], "updates_committed": ["31", "62"]},
        },
    )


def test_diff_of_equal_cursors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "state"
    path.write_bytes(pack_state(CURSOR))
    assert run(capsys, "diff", CURSOR.token(), path) == (0, f"equal: {CURSOR}\n")


def test_diff_of_a_restart_says_that_the_position_is_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    restarted = CURSOR.replace(attempt=CURSOR.attempt + 1)
    status, text = run(capsys, "diff", CURSOR.token(), restarted.token())
    assert status == 1
    assert text.endswith("the same position: only attempt and replicas differ\n")


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 8},
        {"optional_flags": 1 << 30},
        {"optional_flags": 1},
        {"accepted": ("seed",)},
        {"extensions": ((5, b"abc"),)},
        {"drop_last": True},
        {"minor": 4},
        {"pending": 3},
        {"last_digest": b"x" * 16},
    ],
    ids=str,
)
def test_diff_sees_every_field(capsys: pytest.CaptureFixture[str], changes: dict[str, Any]) -> None:
    cursor = make_cursor()
    status, answer = run_json(capsys, "diff", cursor.token(), cursor.replace(**changes).token())
    assert status == 1
    assert answer["differences"]


# -- doctor ----------------------------------------------------------------------------------------


def test_doctor_is_content_with_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    status, facts = run_json(capsys, "doctor")
    assert status == 0
    assert facts["healthy"]
    assert facts["python"] == sys.version.split()[0]
    assert facts["cores"] >= 1
    assert facts["kernel"] in facts["kernels"]
    status, text = run(capsys, "doctor")
    assert (status, "known indices are right" in text) == (0, True)


def test_doctor_notices_a_wrong_order(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_GOLDEN", ((4097, 1, 2, 3, -1),))
    status, text = run(capsys, "doctor")
    assert status == 1
    assert "WRONG: Shuffle(4097, seed=1).index_at(2, 3) is" in text


def test_the_known_indices_of_doctor_are_those_of_the_golden_file() -> None:
    lines = (VECTORS / "shuffle.txt").read_text("ascii").splitlines()
    golden = {tuple(map(int, line.split())) for line in lines if not line.startswith("#")}
    assert set(doctor._GOLDEN) <= golden


# -- ledger and items ------------------------------------------------------------------------------


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    pytest.importorskip("pyarrow")
    from ledger_runs import write_run

    end = write_run(tmp_path / "ledger")
    (tmp_path / "end").write_bytes(bytes(end))
    return tmp_path / "ledger"


def test_verify_says_what_holds(ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    end = ledger.parent / "end"
    status, text = run(capsys, "ledger", "verify", ledger, "--cursor", end)
    assert status == 0
    assert "24 rows of 3 attempts, chained; 17 lived and lead to update 17; 17 digests" in text
    assert text.splitlines()[-1].startswith("passes the checkpoint: epoch 1")
    status, facts = run_json(capsys, "ledger", "verify", ledger)
    assert (status, facts["holds"], facts["effective_rows"]) == (0, True, 17)


def test_verify_names_the_bad_row(ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (ledger / "_000001.cursor").write_bytes((ledger / "_000002.cursor").read_bytes())
    status, text = run(capsys, "ledger", "verify", ledger)
    assert status == 1
    assert text.startswith(f"{ledger}: BAD\nattempt 1, row 0 (update 3): is no start")
    status, facts = run_json(capsys, "ledger", "verify", ledger)
    assert (status, facts["holds"]) == (1, False)
    assert "attempt 1, row 0" in facts["reason"]
    assert "attempt 1, row 0" in fail(capsys, "ledger", "show", ledger)


def test_verify_refuses_another_checkpoint(
    ledger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, text = run(capsys, "ledger", "verify", ledger, "--cursor", CURSOR.token())
    assert (status, "at update 31: no row that lived leads there" in text) == (1, True)
    status, text = run(capsys, "ledger", "verify", ledger, "--chain", "nonsense")
    assert (status, "has the chain value nonsense" in text) == (1, True)


def test_show_lists_attempts_and_rows(ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, text = run(capsys, "ledger", "show", ledger, "--rows", 2)
    lines = text.splitlines()
    assert status == 0
    assert [line.split()[0] for line in lines[1:4]] == ["0", "1", "2"]
    assert [line.split()[1] for line in lines[-2:]] == ["16", "17"]
    _, shown = run_json(capsys, "ledger", "show", ledger)
    assert [attempt["lived"] for attempt in shown["attempts"]] == [3, 2, 12]
    assert shown["rows"][-1]["loss"] is None
    assert len(shown["rows"]) == 10


def test_a_directory_without_a_ledger_does_not_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyarrow")
    assert fail(capsys, "ledger", "verify", tmp_path) == f"{tmp_path}: holds no ledger\n"


def test_show_of_an_empty_ledger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    assert run(capsys, "ledger", "show", tmp_path) == (0, f"{tmp_path}: no rows\n")


def test_compact_and_verify(ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = run(capsys, "ledger", "verify", ledger)
    status, text = run(capsys, "ledger", "compact", ledger)
    assert (status, text) == (0, f"{ledger}: 5 files made one of 24 rows\n")
    assert run(capsys, "ledger", "verify", ledger) == before


def test_items_of_an_update(ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from datacursor.order import Shuffle

    status, parts = run_json(capsys, "items", "--ledger", ledger, "--update", 13)
    assert status == 0
    assert [(part["epoch"], part["first"], part["stop"]) for part in parts] == [(1, 20, 30)]
    assert parts[0]["indices"] == Shuffle(100, seed=7).indices(1, 20, 10).tolist()
    _, text = run(capsys, "items", "--ledger", ledger, "--update", 13)
    assert text.splitlines()[-1].split() == list(map(str, parts[0]["indices"]))


def test_items_of_an_update_that_never_lived(
    ledger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "no row that lived has update 18" in fail(
        capsys, "items", "--ledger", ledger, "--update", 18
    )


@pytest.mark.parametrize("update", [-1, 0, 2**64])
def test_an_update_that_cannot_be_is_refused(
    ledger: Path, capsys: pytest.CaptureFixture[str], update: int
) -> None:
    complaint = fail(capsys, "items", "--ledger", ledger, "--update", update)
    assert complaint == f"--update must be in [1, 2**64), got --update={update}\n"


def test_many_items_are_cut_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    from ledger_runs import first_cursor, start

    run_ = start(tmp_path, first_cursor(base_size=1000))
    run_.commit(100)
    run_.save()
    words = ("items", "--ledger", tmp_path, "--update", 1)
    assert "and 36 more (--all)" in run(capsys, *words)[1]
    assert "more" not in run(capsys, *words, "--all")[1]


def test_a_ledger_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    assert "none" in fail(capsys, "ledger", "verify", tmp_path / "none")


# -- the program -----------------------------------------------------------------------------------


def test_a_token_is_read_without_numpy_torch_or_pyarrow() -> None:
    done = in_process("inspect", CURSOR.token())
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == str(CURSOR)


def test_two_tokens_are_compared_without_numpy_torch_or_pyarrow() -> None:
    done = in_process("diff", CURSOR.token(), OTHER.token())
    assert (done.returncode, done.stderr) == (1, "")


def test_the_module_is_the_command() -> None:
    command = [sys.executable, "-W", "error", "-m", "datacursor", "inspect", "dc1.nonsense"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("datacursor: not a cursor")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(os.name != "posix", reason="pipes close otherwise there")
def test_a_closed_pipe_is_no_complaint() -> None:
    command = [sys.executable, "-W", "error", "-m", "datacursor", "inspect", CURSOR.token()]
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        done = subprocess.run(
            command, stdout=theirs, stderr=subprocess.PIPE, check=False, timeout=60
        )
    finally:
        os.close(theirs)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_terminal_without_unicode_is_written_to() -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "datacursor", "inspect", CURSOR.token()]
    done = subprocess.run(
        command, capture_output=True, env=environment, text=True, check=False, timeout=60
    )
    assert done.returncode == 0
    assert done.stdout.startswith("epoch 3 ? sample 250")


@pytest.mark.parametrize("words", [[], ["nonsense"], ["inspect"], ["ledger"], ["diff", "a"]])
def test_wrong_words_show_the_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 64
    assert capsys.readouterr().err.startswith("usage: datacursor")


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    from datacursor import __version__

    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"datacursor {__version__}\n"
