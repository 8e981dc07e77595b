"""The command line of the demo."""

from __future__ import annotations

import argparse
import io
import shutil
import sys
import time
from pathlib import Path

from datacursor.demo.settings import QUICK, SETTINGS_NAME, Settings
from datacursor.demo.story import tell
from datacursor.errors import ArgumentError

_INTRODUCTION = """\
A small language model learns Python's own sources: once without interruption, once killed
twice (SIGKILL, in the middle of an epoch) and resumed twice. Then the two are compared.
"""


def prepare_directory(directory: Path) -> None:
    """Make an empty directory, in place of an earlier demo's.

    Raises:
        ArgumentError: It holds something else.
    """
    if (directory / SETTINGS_NAME).is_file():
        shutil.rmtree(directory)
    elif directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise ArgumentError(
            f"--output must be a new or empty directory, or that of an earlier demo, "
            f"got {str(directory)!r}, which holds something else"
        )
    directory.mkdir(parents=True, exist_ok=True)


def main() -> int:
    """Run the demo; return 0 if every claim holds, 1 if one fails, 2 if it could not be run."""
    parser = argparse.ArgumentParser(prog="python -m datacursor.demo", description=_INTRODUCTION)
    parser.add_argument("--quick", action="store_true", help="a smaller model and corpus")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("demo-run"),
        metavar="DIR",
        help="where logs, states and the picture are left (default: ./demo-run)",
    )
    options = parser.parse_args()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a cursor's text has a middle dot
    began = time.monotonic()
    print(_INTRODUCTION, flush=True)
    try:
        prepare_directory(options.output)
        failed = tell(options.output, QUICK if options.quick else Settings())
    except (ArgumentError, ChildProcessError, TimeoutError) as error:
        print(f"the demo could not be run: {error}", file=sys.stderr)
        return 2
    verdict = f"DIFFERENT: {'; '.join(failed)}" if failed else "All of this holds."
    print(f"\n{verdict} ({time.monotonic() - began:.0f} s)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
