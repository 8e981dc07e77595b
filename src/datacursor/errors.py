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


class CheckpointError(DataCursorError, RuntimeError):
    """A checkpoint that is damaged, incomplete or contradicts itself.

    Base of every refusal to restore a training state; a refused load changes nothing.
    """


class AssociationError(CheckpointError):
    """Parameters that do not belong together: unnamed, missing, unexpected, moved or reshaped."""


class PrecisionError(CheckpointError):
    """Parameters, moments or master weights of another dtype than the saved run's."""


class OptionError(CheckpointError):
    """Optimizers, or the options of their groups, that differ from the saved run's."""


class ScheduleError(CheckpointError):
    """A scheduler that would not go on with the saved run's learning rates."""


class ConventionError(CheckpointError):
    """Counters that were counted by other rules than this loop's."""


class RNGMismatchError(CheckpointError):
    """Random generators that are not the saved run's: other names, kinds or devices."""


class EnvironmentMismatchError(CheckpointError):
    """An environment that differs from the saved run's where equality was required."""
