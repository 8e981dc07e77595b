"""The record of what decides the bits of a computation, and its differences."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
import torch

from datacursor.recovery.determinism import (
    EnvironmentDifference,
    compare_environment,
    environment,
)

FIELDS = {
    "ATEN_CPU_CAPABILITY",
    "CUBLAS_WORKSPACE_CONFIG",
    "MKL_CBWR",
    "NCCL_ALGO",
    "ONEDNN_MAX_CPU_ISA",
    "PYTHONHASHSEED",
    "cpu_capability",
    "cuda",
    "cudnn",
    "cudnn_benchmark",
    "cudnn_deterministic",
    "datacursor",
    "default_dtype",
    "deterministic_algorithms",
    "deterministic_warn_only",
    "devices",
    "fill_uninitialized_memory",
    "hip",
    "intra_op_threads",
    "machine",
    "matmul_precision",
    "num_devices",
    "numpy",
    "onednn",
    "python",
    "replicas",
    "torch",
    "torch_git",
}


CHANGE_EVERYTHING = """
import json
import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
from datacursor.recovery.determinism import environment

torch.set_num_threads(torch.get_num_threads() + 1)
torch.use_deterministic_algorithms(True, warn_only=True)
torch.utils.deterministic.fill_uninitialized_memory = False
torch.backends.cudnn.deterministic = True
torch.backends.cudnn.benchmark = True
torch.backends.mkldnn.set_flags(False)
torch.set_float32_matmul_precision("high")
torch.set_default_dtype(torch.float64)
dist.init_process_group("fake", rank=1, world_size=4, store=FakeStore())
print(json.dumps(environment()))
"""


def test_every_field_is_recorded_as_a_json_value() -> None:
    record = environment()
    assert set(record) == FIELDS
    assert json.loads(json.dumps(record)) == record


def test_a_record_equals_itself() -> None:
    assert compare_environment(environment(), environment()) == []


def test_settings_variables_and_replicas_of_another_process_are_found() -> None:
    variables = {
        "ATEN_CPU_CAPABILITY": "default",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "MKL_CBWR": "COMPATIBLE",
        "NCCL_ALGO": "Ring",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "PYTHONHASHSEED": "12345",
    }
    settings = {
        "cpu_capability",  # by ATEN_CPU_CAPABILITY
        "cudnn_benchmark",
        "cudnn_deterministic",
        "default_dtype",
        "deterministic_algorithms",
        "deterministic_warn_only",
        "fill_uninitialized_memory",
        "intra_op_threads",
        "matmul_precision",
        "onednn",
        "replicas",
    }
    done = subprocess.run(
        [sys.executable, "-c", CHANGE_EVERYTHING],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    differences = compare_environment(environment(), json.loads(done.stdout))
    assert {difference.name for difference in differences} == settings | set(variables)


def test_precisions_of_single_backends_are_told_apart() -> None:
    if not hasattr(torch.backends, "fp32_precision"):
        pytest.skip("torch has one precision for all backends")
    backend: Any = torch.backends.mkldnn
    before = environment()
    precision = backend.matmul.fp32_precision
    backend.matmul.fp32_precision = "bf16"
    try:
        differences = compare_environment(before, environment())
    finally:
        backend.matmul.fp32_precision = precision
    assert [difference.name for difference in differences] == ["matmul_precision"]
    assert environment() == before


def test_a_difference_shows_both_values() -> None:
    (difference,) = compare_environment({"intra_op_threads": 1}, {"intra_op_threads": 2})
    assert difference == EnvironmentDifference("intra_op_threads", 1, 2)
    assert str(difference) == "intra_op_threads\n  saved:   1\n  current: 2"


def test_a_field_of_one_record_alone_is_a_difference() -> None:
    assert compare_environment({}, {"cuda": "12.6"}) == [("cuda", None, "12.6")]
    assert compare_environment({"cuda": "12.6"}, {}) == [("cuda", "12.6", None)]


def test_taking_a_record_initialises_no_accelerator() -> None:
    environment()
    cuda: Any = torch.cuda
    assert not cuda.is_initialized()
