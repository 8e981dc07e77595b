"""The command `datacursor`: look at cursors and ledgers without their program, make corpora.

find       cursors in files of any kind
output     tables and JSON
progress   a bar, or a line now and then
convert, diff, doctor, inspect, instrument, items, ledger, tokenize, verify_restart   the commands

Nothing is imported before a command needs it, so a token is read in about a tenth of a second.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from datacursor import _core
from datacursor.cli.convert import add_convert
from datacursor.cli.diff import add_diff
from datacursor.cli.doctor import add_doctor
from datacursor.cli.inspect import add_inspect
from datacursor.cli.instrument import add_instrument
from datacursor.cli.items import add_items
from datacursor.cli.ledger import add_ledger
from datacursor.cli.tokenize import add_tokenize
from datacursor.cli.verify_restart import add_verify_restart
from datacursor.errors import DataCursorError

_COMMANDS = (
    add_inspect,
    add_diff,
    add_items,
    add_ledger,
    add_verify_restart,
    add_instrument,
    add_convert,
    add_tokenize,
    add_doctor,
)
_USAGE = 64  # EX_USAGE of sysexits.h; 2 says that something could not be told
_CLOSED_PIPE = 128 + 13  # as a shell reports SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Its words; None takes the process's.

    Returns:
        0, or 1 if what was compared differs or does not hold, or 2 if it could not be told.
    """
    options = _parser().parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a cursor's text has a middle dot
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # Python would complain when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _CLOSED_PIPE
    except (DataCursorError, OSError, ImportError) as error:
        print(f"datacursor: {error}", file=sys.stderr)
        return 2
    return status


class _Parser(argparse.ArgumentParser):
    """Exits with a status of its own where it is misused, and so do its commands' parsers."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(_USAGE, f"{self.prog}: error: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="datacursor", description="Look at cursors and ledgers of training runs; make corpora."
    )
    parser.add_argument("--version", action="version", version=f"datacursor {_core.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in _COMMANDS:
        add(commands)
    return parser
