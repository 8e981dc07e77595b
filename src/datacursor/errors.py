"""Every exception the package raises on purpose, in one tree.

Each class also derives from the standard type a caller would already catch, so
``except ValueError`` works for bad arguments, formats, mismatches and corpora.
"""

from __future__ import annotations


class DataCursorError(Exception):
    """Base of every error this package defines."""


class ArgumentError(DataCursorError, ValueError):
    """An argument is out of its range; the message names it and shows the value."""


class CursorFormatError(DataCursorError, ValueError):
    """Bytes, text or a state dict that is not a cursor, or not an intact one."""


class CursorMismatchError(DataCursorError, ValueError):
    """An intact cursor that belongs to other data, another seed or another plan."""


class CommitError(DataCursorError, RuntimeError):
    """A commit of contributions that were not issued, or were committed before."""


class MidUpdateError(DataCursorError, RuntimeError):
    """A position inside an update, where only a position between updates will do."""


class StaleIteratorError(DataCursorError, RuntimeError):
    """An iterator whose sampler was loaded, moved or iterated again since it began."""


class DeliveryError(DataCursorError, RuntimeError):
    """A loader that ended before everything issued was delivered."""


class CorpusError(DataCursorError, ValueError):
    """Token data that is damaged, inconsistent or of an unsupported kind."""


class DivergenceError(DataCursorError, AssertionError):
    """Ranks, or runs, that must be equal and are not."""


class LedgerError(DataCursorError, ValueError):
    """A ledger that is damaged, incomplete, foreign or contradicts itself; names the first row."""
