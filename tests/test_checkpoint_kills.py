"""A saver killed hundreds of times: no checkpoint is damaged, and none is lost that was saved."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

NUM_KILLS = 300
PROGRAM = Path(__file__).with_name("save_loop.py")
TIMEOUT_SECONDS = 300


@pytest.mark.skipif(not hasattr(os, "fork"), reason="savers are forked")
def test_hundreds_of_kills_damage_and_lose_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, PROGRAM, tmp_path / "run", str(NUM_KILLS)],
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        env={"PYTHONPATH": os.pathsep.join(sys.path), "PATH": ""},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counts = {name: int(count) for name, count in map(str.split, done.stdout.splitlines())}
    assert counts["kills"] == NUM_KILLS
    assert (counts["corrupt"], counts["lost"]) == (0, 0)
    assert counts["interrupted"] > NUM_KILLS // 10, "kills must fall into the midst of saves"
    assert counts["saves"] > NUM_KILLS // 3, "saves must come to their end between kills"
