"""Largest-magnitude pooling of a large matrix to 512×512 pixels, against one plain read of it.

    python -m tests.bench.pooling [--rounds 15]

All in one process on the same threads, in turn: `x.sum()`, ours (exact values and places), the same in two
steps of torch, and `max_pool2d` of |x|, which has neither sign nor pixels of unequal size. Prints medians,
and the median of the ratios to the read beside it; then what the four panels and the survey of a whole tensor
take.
"""

import argparse
import os
import statistics
import time
from functools import partial

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch

from quantviz.schemes.granularity import PerChannel
from quantviz.schemes.scheme import Scheme
from quantviz.streaming import ranges, tensor_facts
from quantviz.streaming.frames import Patch
from quantviz.streaming.overview import overview, pooled
from quantviz.streaming.surveying import survey
from quantviz.tensors.lazy import InMemory

#: The most that pooling may take, as a multiple of one read.
BAR = 1.7
SHAPES = ((4096, 11008), (16384, 8192))
SIDE = 512


def two_steps(x):
    """The largest magnitude of each column of a pixel's rows, then of its columns; as equal pixels as torch
    allows.
    """
    rows, cols = x.shape[0] // SIDE, x.shape[1] // SIDE
    by_row = x[: rows * SIDE].reshape(SIDE, rows, x.shape[1]).abs().amax(1)
    return by_row[:, : cols * SIDE].reshape(SIDE, SIDE, cols).amax(2)


def max_pool(x):
    size = x.shape[0] // SIDE, x.shape[1] // SIDE
    return torch.nn.functional.max_pool2d(x.abs()[None, None], size, size, return_indices=True)


def timed(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(works, rounds):
    """Milliseconds of each, and its ratios to the first, round by round."""
    for work in works.values():
        work()
    taken = [[timed(work) for work in works.values()] for _ in range(rounds)]
    for i, name in enumerate(works):
        ratio = statistics.median(each[i] / each[0] for each in taken)
        yield name, 1000 * statistics.median(each[i] for each in taken), ratio


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    print(f"{torch.get_num_threads()} threads; milliseconds, and as a multiple of one read (bar {BAR})")
    for shape in SHAPES:
        x = torch.zeros(shape).normal_(generator=torch.Generator().manual_seed(0))
        stored, patch, scheme = InMemory(x), Patch(0, 0, *shape), Scheme("int8", granularity=PerChannel(0))
        qparams, known = ranges.qparams(stored, scheme), tensor_facts.facts(stored)
        quick = {
            "one read": x.sum,
            "ours": lambda stored=stored, patch=patch: pooled(stored, patch, (SIDE, SIDE)),
        }
        slow = {
            "one read": x.sum,
            "torch, two steps": lambda x=x: two_steps(x),
            "max_pool2d": lambda x=x: max_pool(x),
        }
        whole = {
            "one read": x.sum,
            "four panels": partial(overview, stored, scheme, qparams, patch, (256, 256)),
            "survey": partial(survey, stored, scheme, qparams, known=known),
        }
        for title, works, count in (
            (f"to {SIDE}×{SIDE}", quick, rounds),
            (f"to {SIDE}×{SIDE}", slow, 3),
            ("int8 per channel, 256×256", whole, 5),
        ):
            for name, taken, ratio in measure(works, count):
                print(f"{shape[0]}×{shape[1]} {title:26} {name:18} {taken:8.1f} ms {ratio:6.2f}×")


if __name__ == "__main__":
    main()
