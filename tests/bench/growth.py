"""Time of everything that a checkpoint's names pass through, and how it grows when the tensors double.

    python -m tests.bench.growth [tensors]

A ratio of 2 is linear, one of 4 grows with the square. The bar is 3: a run is noisy, and sorting grows a
little faster than what is sorted. Kimi K2 has 138,241 tensors.
"""

from __future__ import annotations

import gc
import sys
import time

import numpy as np

from quantviz.checkpoints.allocation.knapsack import solve
from tests.bench import allocate
from tests.helpers.growth import SHAPES, WORKS, Work

COUNT, RUNS, BAR = 4000, 3, 3.0


def seconds(work: Work) -> float:
    """Return the processor time of the quickest of some runs."""
    found = []
    for _ in range(RUNS):
        gc.collect()
        gc.disable()
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
        gc.enable()
    return min(found)


def solving(count: int) -> dict[str, Work]:
    """Return the solver's instances with so many groups, by name."""
    made = {}
    for name, bits, cost in allocate.instances(count):
        fewest, most = int(bits.min(axis=1).sum()), int(bits.max(axis=1).sum())
        budget = fewest + int((most - fewest) * 0.4)
        made[name] = lambda bits=bits, cost=cost, budget=budget: solve(bits, np.asarray(cost), budget)
    return made


def row(name: str, once: Work, twice: Work) -> None:
    before, after = seconds(once), seconds(twice)
    mark = "**" if after > BAR * before else ""
    print(f"| {name} | {before:.3f} | {after:.3f} | {mark}{after / before:.1f}{mark} |", flush=True)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    print(f"| work on {count:,} tensors | s | s, of twice as many | ratio |\n|---|--:|--:|--:|")
    for name, work in WORKS.items():
        for shape, names in SHAPES.items():
            row(f"{name}: {shape}", work(names(count)), work(names(2 * count)))
    once, twice = solving(count), solving(2 * count)
    for name in once:
        row(f"solver: {name}", once[name], twice[name])


if __name__ == "__main__":
    main()
