"""datacursor: know exactly where a training run stands in its data.

Names load when they are first used, so that importing the package needs neither
torch nor pyarrow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datacursor import recovery as recovery
    from datacursor.block_mask import segment_block_mask as segment_block_mask
    from datacursor.block_mask import segment_mask as segment_mask
    from datacursor.block_shuffle import BlockShuffle as BlockShuffle
    from datacursor.conversion import convert as convert
    from datacursor.cursor import Cursor as Cursor
    from datacursor.document_source import DocumentSource as DocumentSource
    from datacursor.document_source import IterableSource as IterableSource
    from datacursor.errors import ArgumentError as ArgumentError
    from datacursor.errors import AssociationError as AssociationError
    from datacursor.errors import CheckpointError as CheckpointError
    from datacursor.errors import CommitError as CommitError
    from datacursor.errors import ConventionError as ConventionError
    from datacursor.errors import CorpusError as CorpusError
    from datacursor.errors import CursorFormatError as CursorFormatError
    from datacursor.errors import CursorMismatchError as CursorMismatchError
    from datacursor.errors import DataCursorError as DataCursorError
    from datacursor.errors import DeliveryError as DeliveryError
    from datacursor.errors import DivergenceError as DivergenceError
    from datacursor.errors import EnvironmentMismatchError as EnvironmentMismatchError
    from datacursor.errors import LedgerError as LedgerError
    from datacursor.errors import MidUpdateError as MidUpdateError
    from datacursor.errors import OptionError as OptionError
    from datacursor.errors import PrecisionError as PrecisionError
    from datacursor.errors import RNGMismatchError as RNGMismatchError
    from datacursor.errors import ScheduleError as ScheduleError
    from datacursor.errors import StaleIteratorError as StaleIteratorError
    from datacursor.instrument import ModularCounter as ModularCounter
    from datacursor.ledger.writer import Ledger as Ledger
    from datacursor.loader import CursorLoader as CursorLoader
    from datacursor.mixture import Mixture as Mixture
    from datacursor.order import Order as Order
    from datacursor.order import Sequential as Sequential
    from datacursor.order import Shuffle as Shuffle
    from datacursor.outcome import CommitObserver as CommitObserver
    from datacursor.outcome import Outcome as Outcome
    from datacursor.packing import PackedSampler as PackedSampler
    from datacursor.plan import PackingPlan as PackingPlan
    from datacursor.rng import sample_generator as sample_generator
    from datacursor.rng import sample_seed as sample_seed
    from datacursor.sample_seeded import SampleSeeded as SampleSeeded
    from datacursor.sampler import CursorSampler as CursorSampler
    from datacursor.subset import Subset as Subset
    from datacursor.text_corpus import tokenize as tokenize
    from datacursor.token_column import TokenColumn as TokenColumn
    from datacursor.tokens import TokenCorpus as TokenCorpus
    from datacursor.weighted import Weighted as Weighted

_MODULE_OF = {
    "ArgumentError": "errors",
    "AssociationError": "errors",
    "BlockShuffle": "block_shuffle",
    "CheckpointError": "errors",
    "CommitError": "errors",
    "CommitObserver": "outcome",
    "ConventionError": "errors",
    "CorpusError": "errors",
    "Cursor": "cursor",
    "CursorFormatError": "errors",
    "CursorLoader": "loader",
    "CursorMismatchError": "errors",
    "CursorSampler": "sampler",
    "DataCursorError": "errors",
    "DeliveryError": "errors",
    "DivergenceError": "errors",
    "DocumentSource": "document_source",
    "EnvironmentMismatchError": "errors",
    "IterableSource": "document_source",
    "Ledger": "ledger.writer",
    "LedgerError": "errors",
    "MidUpdateError": "errors",
    "Mixture": "mixture",
    "ModularCounter": "instrument",
    "OptionError": "errors",
    "Order": "order",
    "Outcome": "outcome",
    "PackedSampler": "packing",
    "PackingPlan": "plan",
    "PrecisionError": "errors",
    "RNGMismatchError": "errors",
    "SampleSeeded": "sample_seeded",
    "ScheduleError": "errors",
    "Sequential": "order",
    "Shuffle": "order",
    "StaleIteratorError": "errors",
    "Subset": "subset",
    "TokenColumn": "token_column",
    "TokenCorpus": "tokens",
    "Weighted": "weighted",
    "__version__": "_core",
    "convert": "conversion",
    "sample_generator": "rng",
    "sample_seed": "rng",
    "segment_block_mask": "block_mask",
    "segment_mask": "block_mask",
    "tokenize": "text_corpus",
}
__all__ = sorted(_MODULE_OF)  # noqa: PLE0605  # one table for both


def __getattr__(name: str) -> Any:
    if name == "recovery":  # a package with a front door of its own
        return importlib.import_module("datacursor.recovery")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'datacursor' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"datacursor.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF, "recovery"})
