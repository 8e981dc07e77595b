"""`python -m datacursor`: the command line."""

from __future__ import annotations

import sys

from datacursor.cli import main

if __name__ == "__main__":
    sys.exit(main())
