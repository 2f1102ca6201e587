"""Time and gap of an allocation among 1,000 tensors, and 64, and 12 recipes, by kinds of instances.

    python -m tests.bench.allocate

The bar is 1 s of processor time. Easy kinds are what models give; hard ones are made so that nearly equal
slopes, or costs that follow bits, leave many solutions to look at: there the gap that is proven is printed.
"""

from __future__ import annotations

import time

import numpy as np

from quantviz.checkpoints.allocation.knapsack import CORE, solve

GROUPS = 1000
BAR_S = 1.0
PER_WEIGHT = np.array([2.0625, 2.625, 3.0625, 3.4375, 4.25, 4.5, 5.0, 5.5, 6.25, 6.5625, 8.25, 8.5])
SHAPES = ((2048, 2048), (512, 2048), (5632, 2048), (2048, 5632))


def instances(count, seed=0):
    """Yield each kind's name, bits and costs."""
    made = np.random.default_rng(seed)
    sizes = np.array([rows * cols for rows, cols in SHAPES])[made.integers(0, len(SHAPES), count)][:, None]
    any_size = made.integers(10**5, 10**9, (count, 1))
    shape = (count, len(PER_WEIGHT))

    def error(spread_db):
        return 10 ** (-(6.02 * PER_WEIGHT - 4 + made.normal(0, spread_db, shape)) / 10)

    bits = (sizes * PER_WEIGHT).astype(np.int64)
    many = (any_size * PER_WEIGHT * made.uniform(0.98, 1.02, shape)).astype(np.int64)
    yield "a model, errors spread by 1 dB", bits, error(1.0)
    yield "the same, weighed by α", bits, error(1.0) * made.lognormal(0, 0.5, (count, 1))
    yield "sizes of any number of bits", many, error(1.0)
    yield "no relation between bits and costs", made.integers(1, 10**6, shape), made.random(shape)
    yield "errors equal to 0.05 dB", bits, error(0.05)
    yield "equal errors", bits, np.broadcast_to(error(0.0)[:1], shape).copy()
    yield "costs nearly linear in bits", many, (many.max() - many) * (1 + 1e-3 * made.random(shape))
    yield "costs linear in bits", many, (many.max() - many) / 1e9
    yield "costs linear in bits, less a constant", many, 12e9 - many - 1e8 * np.arange(shape[1])


def main():
    print("| tensors | instances | s, at most | gap, at most |\n|--:|---|--:|--:|")
    for groups in (GROUPS, CORE):
        for name, bits, cost in instances(groups):
            fewest, most = int(bits.min(axis=1).sum()), int(bits.max(axis=1).sum())
            seconds, gaps = [], []
            for share in (0.1, 0.4, 0.8):
                start = time.process_time()
                found = solve(bits, cost, fewest + int((most - fewest) * share))
                seconds.append(time.process_time() - start)
                gaps.append(found.gap / cost[np.arange(groups), found.picks].sum())
            late = "**" if max(seconds) > BAR_S else ""
            print(f"| {groups} | {name} | {late}{max(seconds):.2f}{late} | {max(gaps):.1g} |")


if __name__ == "__main__":
    main()
