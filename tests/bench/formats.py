"""Metrics of float formats and codebooks on a large tensor, against int8 of each row in the same run.

    python -m tests.bench.formats [--rounds 5]

Beside each stands the same by the full lines of its cells, which sums were made by before they had short
ones.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from unittest import mock

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch

import quantviz as qv
from quantviz.streaming import programs
from quantviz.tensors.lazy import InMemory

RECIPES = (
    *("fp8_e4m3_per_tensor", "fp8_e4m3_per_row", "mxfp8_e4m3"),
    *("mxfp6_e2m3", "mxfp4", "nvfp4", "nf4_64"),
)


def seconds(x: InMemory, recipe: str) -> float:
    start = time.perf_counter()
    assert qv.measure(x, recipe, path="fused").path == "fused"
    return time.perf_counter() - start


def medians(x: InMemory, rounds: int) -> dict[str, float]:
    """Return the median of each recipe's time over that of int8 a row, run in turn."""
    programs.compiled_program.cache_clear()
    found: dict[str, list[float]] = {recipe: [] for recipe in RECIPES}
    for recipe in ("int8_per_row", *RECIPES):
        seconds(x, recipe)  # compiles
    for _ in range(rounds):
        for recipe in RECIPES:
            found[recipe].append(seconds(x, recipe) / seconds(x, "int8_per_row"))
    return {recipe: statistics.median(ratios) for recipe, ratios in found.items()}


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rounds", type=int, default=5)
    rounds = options.parse_args().rounds
    x = InMemory(torch.randn(4096, 11008, generator=torch.Generator().manual_seed(0)))
    short = medians(x, rounds)
    with mock.patch.object(programs, "short_cell", return_value=None):
        full = medians(x, rounds)
    programs.compiled_program.cache_clear()
    print("4096×11008, times int8 a row:")
    for recipe in RECIPES:
        print(f"{recipe:22} {short[recipe]:5.1f}   full lines {full[recipe]:5.1f}")


if __name__ == "__main__":
    main()
