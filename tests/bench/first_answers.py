"""The first answers of the tabs Range and Compare on a large tensor, from rows spread over it, against those
from all values.

    python -m tests.bench.first_answers [--rounds 3]

The tensor is 4096×11008 with four loud columns, under one scale for each row. Kernels are compiled before.
Both are asked in turn, and the medians are compared, with by how many dB what they say differs at most.
*Compare* takes minutes for all values, so that it is asked once.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterable
from functools import partial

import torch

from quantviz.analysis.calibration_comparison import compare_calibrations
from quantviz.analysis.recipe_ranking import RecipeRow, recipe_rows
from quantviz.analysis.sampled_part import sampled_rows
from quantviz.schemes.calibration import MSE, MinMax, Percentile

SHAPE, LOUD = (4096, 11008), [5, 777, 8191, 11000]
SCHEME = "int4,symmetric,per_channel(axis=0),min_max,course"
#: What the tab tries at once, on about so many cells.
TRIED, CELLS = (MinMax(), Percentile(99.9), Percentile(99.0), MSE()), 2**20
Answer = dict[object, float]


def gains(x: torch.Tensor, cells: int | None) -> Answer:
    """Return the decibels that each calibration gains."""
    found = compare_calibrations(x, SCHEME, TRIED, cells=cells)
    return {row.calibration: row.gain_db for row in found.rows}


def sqnr(rows: Iterable[RecipeRow]) -> Answer:
    """Return the SQNR of each recipe that fits."""
    return {row.id: row.sqnr_db for row in rows if row.fits}


def timed(ask: Callable[[], Answer]) -> tuple[Answer, float]:
    """Return what is answered, and after how many seconds."""
    began = time.perf_counter()
    return ask(), time.perf_counter() - began


def show(name: str, of_part: Callable[[], Answer], of_all: Callable[[], Answer], rounds: int) -> None:
    """Print a line of the table."""
    of_part()
    quick, slow = [], []
    for _ in range(rounds):
        part, seconds = timed(of_part)
        quick.append(seconds)
        whole, seconds = timed(of_all)
        slow.append(seconds)
    apart = max(abs(part[what] - db) for what, db in whole.items() if what in part)
    one, other = statistics.median(quick), statistics.median(slow)
    print(f"{name:10}{one:10.2f}s{other:12.2f}s{other / one:8.0f}{apart:10.2f} dB", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rounds", type=int, default=3)
    rounds = options.parse_args().rounds
    x = torch.randn(SHAPE, generator=torch.Generator().manual_seed(0))
    x[:, LOUD] *= 30
    print(f"{'':10}{'of a part':>11}{'of all':>13}{'ratio':>8}{'apart':>10}")
    show("Range", partial(gains, x, CELLS), partial(gains, x, None), rounds)
    show(
        "Compare",
        lambda: sqnr(sampled_rows(x, current=SCHEME)),
        lambda: sqnr(recipe_rows(x, current=SCHEME)),
        1,
    )


if __name__ == "__main__":
    main()
