"""A loop killed a thousand times: what is left of it is every contribution once, in order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

NUM_KILLS = 1000
PROGRAM = Path(__file__).with_name("kill_loop.py")
TIMEOUT_SECONDS = 300


def test_a_thousand_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, PROGRAM, tmp_path, str(NUM_KILLS)],
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        env={"PYTHONPATH": ":".join(sys.path), "PATH": ""},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counts = dict(line.split() for line in done.stdout.splitlines())
    assert int(counts["kills"]) == NUM_KILLS
    assert (counts["lost"], counts["doubled"]) == ("0", "0")
    assert int(counts["epochs"]) >= 2, "some kills must lie on the far side of an epoch's end"
    assert int(counts["rewound"]) > NUM_KILLS // 10, "kills must cost work that was not saved"
