"""The source notebooks' printed numbers: reading them, and holding a result against one.

`data/notebooks_expected.json` holds each printed number with its notebook, its cell and the call
that makes it.
"""

import json

import pytest
import torch

from tests.helpers import ROOT

ITEMS = json.loads((ROOT / "tests" / "data" / "notebooks_expected.json").read_text(encoding="utf-8"))
BY_ID = {item["id"]: item for item in ITEMS}
#: How precisely a printed number is known: relative to it, or absolute.
PRINTED = {
    "exact": {"abs": 0.0},
    "repr64": {"rel": 1e-12},
    "repr32": {"rel": 1e-6},
    "4dp": {"abs": 5.1e-5},
    "5sig": {"rel": 5e-5},
    "3sig": {"rel": 1e-3},
}


def read_input(item):
    """The tensor the cell worked on: its numbers, or the generator that makes them."""
    given = item["input"]
    if isinstance(given, dict) and given["kind"] == "torch_randn":
        return torch.randn(given["shape"], generator=torch.Generator().manual_seed(given["manual_seed"]))
    return given


def assert_printed(item, got):
    """`got` has as many values as were printed, and they agree as far as they were printed."""
    got = torch.as_tensor(got, dtype=torch.float64).flatten()
    expected = torch.tensor(item["expected"], dtype=torch.float64).flatten()
    tolerance = item["tolerance"] or (
        {"rel": 1e-6}
        if item["call"]["op"] == "mse" and item["printed_precision"] == "repr64"
        else PRINTED[item["printed_precision"]]
    )
    assert got.shape == expected.shape
    assert got.tolist() == [
        pytest.approx(value, rel=tolerance.get("rel", 0), abs=tolerance.get("abs", 0))
        for value in expected.tolist()
    ]
