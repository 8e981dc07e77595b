"""`datacursor verify-restart`: kill a training program, resume it, and compare what it did."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from datacursor.cli.output import Commands, add_json, print_json

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from datacursor.verify.harness import Harness
    from datacursor.verify.verdict import Verdict

MIN_UPDATES_AFTER_KILL = 2  # a wrong state may make one right update

_EPILOG = """\
The program calls trace = datacursor.recovery.Trace.from_env() and, once per update,
trace.commit(state, loss=loss). Each run gets a directory of its own: {run_dir} in the command
stands for it, and so does the environment variable DATACURSOR_RUN_DIR.

exit status: 0 equal, 1 a difference, 2 could not be judged, 64 wrong usage
"""


def add_verify_restart(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "verify-restart",
        help="kill a training program, resume it, and compare what it did",
        description="Run a training program uninterrupted, kill it (SIGKILL), resume it, and "
        "compare every update of the resumed run with the uninterrupted one.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--steps", type=int, required=True, metavar="N", help="updates of a run")
    parser.add_argument(
        "--kill-at",
        type=_numbers,
        required=True,
        metavar="K,...",
        help="kill after these updates, each at most N - 2",
    )
    parser.add_argument(
        "--kill-during-save",
        action="store_true",
        help="kill also in the next save behind them: before its first, middle and last file "
        "operation",
    )
    parser.add_argument(
        "--equality",
        choices=("bitwise", "close", "samples"),
        default="bitwise",
        help="what is claimed (default: bitwise)",
    )
    parser.add_argument("--rtol", type=float, default=1e-3, help="of close (default: %(default)g)")
    parser.add_argument("--atol", type=float, default=1e-5, help="of close (default: %(default)g)")
    parser.add_argument(
        "--resume-with",
        type=shlex.split,
        default=[],
        metavar="WORDS",
        help="added to the command that resumes: '--workers 0'",
    )
    parser.add_argument(
        "--self-test",
        action="store_true",
        help="then plant faults in the loaded state, one at a time; each must be found and named",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=600.0,
        metavar="S",
        help="seconds for one process, which is killed then (default: %(default)g)",
    )
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="draw what was compared: .html or .png"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave runs and traces here")
    add_json(parser)
    parser.add_argument("command", nargs="+", metavar="-- PROGRAM ...", help="what is run")
    parser.set_defaults(run=_run, refuse=parser.error)


def _numbers(text: str) -> list[int]:
    return sorted({int(word) for word in text.split(",")})


def _run(options: argparse.Namespace) -> int:
    _check(options)
    from datacursor.verify.selftest import judge_with_faults

    with _directory(options.keep) as name:
        harness = _harness(options, Path(name).resolve())
        verdict = judge_with_faults(harness) if options.self_test else harness.judge()
        if options.report is not None:
            from datacursor.verify.picture import write_report

            write_report(verdict, options.report)
    _print(verdict, as_json=options.json)
    return verdict.exit_status


def _check(options: argparse.Namespace) -> None:
    """Exit with the usage where the options do not fit each other, or the system not at all."""
    if os.name != "posix":
        options.refuse("needs a POSIX system: elsewhere there is no SIGKILL")
    if options.self_test and options.equality != "bitwise":
        options.refuse(f"--self-test needs --equality bitwise, got {options.equality}")
    _check_numbers(options)
    _check_places(options)


def _check_numbers(options: argparse.Namespace) -> None:
    last = options.steps - MIN_UPDATES_AFTER_KILL
    if last < 1:
        options.refuse(f"--steps must be more than {MIN_UPDATES_AFTER_KILL}, got {options.steps}")
    for kill in options.kill_at:
        if not 1 <= kill <= last:
            options.refuse(
                f"--kill-at must be in [1, {last}], so that {MIN_UPDATES_AFTER_KILL} of "
                f"{options.steps} updates follow, got {kill}"
            )
    if not options.timeout > 0:  # nor a NaN
        options.refuse(f"--timeout must be above 0, got {options.timeout:g}")
    for name in ("rtol", "atol"):
        if not getattr(options, name) >= 0:
            options.refuse(f"--{name} must be at least 0, got {getattr(options, name):g}")


def _check_places(options: argparse.Namespace) -> None:
    """Look at them before hours of training, not after."""
    report, keep = options.report, options.keep
    if report is not None and report.suffix not in (".html", ".png"):
        options.refuse(f"--report must end in .html or .png, got {report}")
    if report is not None and not report.absolute().parent.is_dir():
        options.refuse(f"--report must lie in a directory that exists, got {report}")
    if keep is not None and not _is_new_or_empty(keep):
        options.refuse(f"--keep must be a new or empty directory, got {keep}")


def _is_new_or_empty(path: Path) -> bool:
    return not any(path.iterdir()) if path.is_dir() else not path.exists()


def _directory(keep: Path | None) -> AbstractContextManager[str]:
    if keep is None:
        return tempfile.TemporaryDirectory(prefix="datacursor-")
    keep.mkdir(parents=True, exist_ok=True)
    return nullcontext(str(keep))


def _harness(options: argparse.Namespace, directory: Path) -> Harness:
    from datacursor.verify.compare import Tolerance
    from datacursor.verify.harness import Harness, Question
    from datacursor.verify.launch import Program

    question = Question(
        options.steps,
        options.kill_at,
        options.equality,
        Tolerance(options.rtol, options.atol),
        options.kill_during_save,
    )
    return Harness(
        Program(options.command, options.timeout),
        Program([*options.command, *options.resume_with], options.timeout),
        question,
        directory,
        lambda text: print(text, file=sys.stderr, flush=True),
    )


def _print(verdict: Verdict, *, as_json: bool) -> None:
    from datacursor.verify.verdict import facts_of, lines_of

    if as_json:
        print_json(facts_of(verdict))
    else:
        print("\n".join(lines_of(verdict)))
