"""The harness tested on the program itself: faults are planted, and each must be found."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

from datacursor.verify.damage import DAMAGES
from datacursor.verify.harness import Harness, Kill
from datacursor.verify.launch import ProgramError
from datacursor.verify.verdict import EQUAL, NOT_JUDGED, Fault, Verdict

if TYPE_CHECKING:
    from datacursor.verify.log import Log

_RUN = "self-test"


def judge_with_faults(harness: Harness) -> Verdict:
    """Judge a program; if it restarts without a difference, plant faults in restarts of it.

    A harness that misses one of them has proved nothing, so then the program is not judged.
    """
    verdict = harness.judge()
    if verdict.status != EQUAL or verdict.uninterrupted is None:
        return verdict
    update = next(restart.kill for restart in verdict.restarts if not restart.is_rerun)
    try:
        faults = _plant_all(harness, verdict.uninterrupted, Kill(update))
    except ProgramError as error:
        return replace(verdict, status=NOT_JUDGED, reason=str(error))
    missed = [fault.name for fault in faults if fault.is_possible and not fault.is_caught]
    if missed:
        reason = f"a planted fault was not found: {missed[0]}"
        return replace(verdict, status=NOT_JUDGED, reason=reason, faults=faults)
    return replace(verdict, faults=faults)


def _plant_all(harness: Harness, whole: Log, kill: Kill) -> list[Fault]:
    """Kill the program once and resume copies of it, each with another fault."""
    killed = harness.run_killed(kill, _RUN)
    return [_plant(harness, whole, killed, kill, name) for name in DAMAGES]


def _plant(harness: Harness, whole: Log, killed: Log, kill: Kill, name: str) -> Fault:
    function = DAMAGES[name]
    run = f"{_RUN}-{function.__name__}"
    shutil.copytree(harness.run_dir(_RUN), harness.run_dir(run))
    resumed = harness.resume(run, f"{function.__module__}:{function.__name__}")
    if resumed.damaged is None:
        raise ProgramError("the program loaded no TrainingState, so no fault could be planted")
    restart = harness.judge_restart(whole, killed, resumed, kill)
    return Fault(name, resumed.damaged, restart.difference)
