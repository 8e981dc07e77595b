"""Digests of state dicts compare bytes."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
import torch

from datacursor.recovery.digest import bytes_of, digest_tree

NAN = float("nan")
PAIRS: list[tuple[Any, Any]] = [
    (0.0, -0.0),
    (1, 1.0),
    (True, 1),
    (0, False),
    ("1", 1),
    ("a", b"a"),
    (None, "None"),
    ({}, []),
    (torch.tensor(0.0), torch.tensor(-0.0)),
    (torch.tensor(0.0), torch.tensor(0)),
    (torch.tensor([0.0]), torch.tensor(0.0)),
    (torch.zeros(2, 3), torch.zeros(3, 2)),
    (torch.zeros(2), torch.zeros(2, dtype=torch.bfloat16)),
    (torch.tensor([1.0, 2.0]), torch.tensor([2.0, 1.0])),
    (torch.tensor([True, False]), torch.tensor([1, 0], dtype=torch.uint8)),
    (torch.tensor([1 + 2j]), torch.tensor([1 + 2j]).conj()),
]


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_other_bytes_have_another_digest(a: Any, b: Any) -> None:
    assert digest_tree({"x": a}) != digest_tree({"x": b})


def test_equal_bytes_have_one_digest() -> None:
    matrix = torch.arange(6.0).reshape(2, 3)
    tree = {"nan": NAN, "t": torch.tensor([NAN]), "m": matrix, "list": [1, (2, None)], 3: b"x"}
    items: list[Any] = [(3, b"x"), ("list", (1, [2, None])), ("m", matrix.t().clone().t())]
    same = OrderedDict(
        items,
        t=torch.nn.Parameter(torch.tensor([NAN])),
        nan=NAN,
    )
    digests = digest_tree(tree)
    assert digest_tree(same) == digests
    assert list(digests) == ["nan", "t", "m", "list/0", "list/1/0", "list/1/1", "3"]
    assert all(len(digest) == 32 for digest in digests.values())


@pytest.mark.parametrize(
    "name",
    [
        *("bool", "uint8", "int16", "int32", "int64", "float8_e4m3fn", "float8_e5m2"),
        *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    ],
)
def test_every_dtype_has_bytes(name: str) -> None:
    dtype = getattr(torch, name)
    ones, zeros = torch.tensor([1, 0]).to(dtype), torch.tensor([0, 0]).to(dtype)
    assert digest_tree(ones) == digest_tree(ones.clone()) != digest_tree(zeros)
    assert bytes_of(ones).size == 2 * dtype.itemsize


def test_an_unknown_leaf_and_a_path_of_two_leaves_are_refused() -> None:
    with pytest.raises(TypeError, match="'a/0': object"):
        digest_tree({"a": [object()]})
    with pytest.raises(ValueError, match="'a/b'"):
        digest_tree({"a": {"b": 1}, "a/b": 1})
