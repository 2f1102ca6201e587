"""The fast Hadamard transform of a large matrix, against a read and a write of it.

    python -m tests.bench.hadamard [--shape 4096x11008] [--rounds 7]

Both write into memory that is kept. The matrix is float32; a copy of it on as many threads is the read and
the write. The longest block is the largest that fits the last axis.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator

# As the app has it: threads that wait do not keep a core from others.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import torch

from quantviz.streaming.hadamard import hadamard_transform
from quantviz.streaming.threads import runs_between, shared_out
from quantviz.tensors.hadamard import largest_block

BAR = 4.0


def taken(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--shape", default="4096x11008")
    options.add_argument("--rounds", type=int, default=7)
    chosen = options.parse_args()
    rows, columns = map(int, chosen.shape.split("x"))
    x = torch.randn(rows, columns, generator=torch.Generator().manual_seed(0))
    y = torch.empty_like(x)
    given, copied = x.view(-1).numpy(), y.view(-1).numpy()

    def copy(runs: Iterator[tuple[int, int]]) -> None:
        for start, stop in runs:
            np.copyto(copied[start:stop], given[start:stop])

    print(f"{chosen.shape}; the bar is {BAR}\n")
    print("| block | shortest | median |")
    print("|--:|--:|--:|")
    for block in sorted({64, 256, largest_block(columns)}):
        hadamard_transform(x, block, out=y)
        rounds = [
            (
                taken(lambda block=block: hadamard_transform(x, block, out=y)),
                taken(lambda: shared_out(copy, runs_between(x.numel(), 2**18))),
            )
            for _ in range(chosen.rounds)
        ]
        ratios = [
            of(each[0] for each in rounds) / of(each[1] for each in rounds) for of in (min, statistics.median)
        ]
        judged = " | ".join(f"{ratio:.2f}{'' if ratio <= BAR else ' (missed)'}" for ratio in ratios)
        print(f"| {block} | {judged} |")


if __name__ == "__main__":
    main()
