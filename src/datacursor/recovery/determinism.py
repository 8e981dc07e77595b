"""What decides the bits of a computation besides program, state and data.

PyTorch promises equal results neither across releases nor across platforms, even with equal
seeds, so a bitwise claim needs two equal records. Equal records are no promise: a program may
be unable to reproduce itself.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from datacursor import _core

EnvironmentValue: TypeAlias = bool | int | str | list[str] | None

_VARIABLES = (
    "ATEN_CPU_CAPABILITY",
    "CUBLAS_WORKSPACE_CONFIG",
    "MKL_CBWR",
    "NCCL_ALGO",
    "ONEDNN_MAX_CPU_ISA",
    "PYTHONHASHSEED",
)


class EnvironmentDifference(NamedTuple):
    """A field of two records that is not the same in both.

    Attributes:
        name: The field.
        saved: Its value in the first record, None where it is not there.
        current: Its value in the second.
    """

    name: str
    saved: EnvironmentValue
    current: EnvironmentValue

    def __str__(self) -> str:
        return f"{self.name}\n  saved:   {self.saved!r}\n  current: {self.current!r}"


def environment() -> dict[str, EnvironmentValue]:
    """Return the determinism record of this process, as JSON values.

    Nothing is changed and no accelerator is initialised: `devices` names those of CUDA once the
    process has used it, and is empty before. A variable that is not set is None.
    Whether an optimizer is foreach, fused or capturable stands with its other options.
    """
    import torch  # differences of records are found without it

    parts = (_versions, _processor, _determinism, _accelerators)
    variables = {name: os.environ.get(name) for name in _VARIABLES}
    return {name: value for part in parts for name, value in part(torch).items()} | variables


def compare_environment(
    saved: Mapping[str, EnvironmentValue], current: Mapping[str, EnvironmentValue]
) -> list[EnvironmentDifference]:
    """Return the fields that differ, in alphabetical order; no difference, an empty list.

    Args:
        saved: A record from `environment()`, possibly by another release with other fields.
        current: The record it is compared with.

    Example:
        >>> [each.name for each in compare_environment({"torch": "2.6.0"}, {"torch": "2.7.0"})]
        ['torch']
    """
    return [
        EnvironmentDifference(name, saved.get(name), current.get(name))
        for name in sorted({*saved, *current})
        if saved.get(name) != current.get(name)
    ]


def _versions(torch: Any) -> dict[str, EnvironmentValue]:
    return {
        "datacursor": _core.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "torch_git": torch.version.git_version,
    }


def _processor(torch: Any) -> dict[str, EnvironmentValue]:
    return {
        "machine": f"{platform.system()} {platform.machine()}",
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "intra_op_threads": torch.get_num_threads(),
        "onednn": torch.backends.mkldnn.is_available() and bool(torch.backends.mkldnn.enabled),
    }


def _determinism(torch: Any) -> dict[str, EnvironmentValue]:
    return {
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "deterministic_warn_only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "fill_uninitialized_memory": torch.utils.deterministic.fill_uninitialized_memory,
        "cudnn_deterministic": torch.backends.cudnn.deterministic,
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "default_dtype": str(torch.get_default_dtype()),
        "matmul_precision": _matmul_precision(torch),
        "replicas": _num_replicas(torch),
    }


def _matmul_precision(torch: Any) -> str:
    cuda, onednn = torch.backends.cuda.matmul, torch.backends.mkldnn
    if not hasattr(torch.backends, "fp32_precision"):  # before torch 2.9
        return str(torch.get_float32_matmul_precision())
    # The older call raises once a backend has a precision of its own.
    return f"cuda {cuda.fp32_precision}, onednn {onednn.matmul.fp32_precision}"


def _num_replicas(torch: Any) -> int:
    dist = torch.distributed
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def _accelerators(torch: Any) -> dict[str, EnvironmentValue]:
    # Names take an initialised CUDA. To initialise it here would add its generators to the
    # random state of a run that does not use it.
    count = torch.cuda.device_count()
    named = range(count) if torch.cuda.is_initialized() else ()
    return {
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "cudnn": torch.backends.cudnn.version(),
        "num_devices": count,
        "devices": [torch.cuda.get_device_name(number) for number in named],
    }
