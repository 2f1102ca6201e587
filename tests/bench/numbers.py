"""Benchmarks of arithmetic, without a page: `python -m tests.bench.numbers CASE`."""

from __future__ import annotations

import os
import statistics
import time
from functools import cache, partial

import torch

import quantviz as qv
from quantviz.compiled.hand_written import PLAIN_VARIABLE
from quantviz.streaming import coding, kernel_access, measuring, pieces, ranges
from quantviz.tensors.lazy import InMemory
from tests.bench.runner import (
    ONE_THREAD,
    case,
    head,
    held_beyond,
    in_turns,
    judged,
    main,
    process,
    ratio,
    row,
    timed,
)

LARGE = "4096x11008", "16384x8192"
GRANULARITIES = {
    "per tensor": qv.PerTensor(),
    "per channel, axis 0": qv.PerChannel(0),
    "per channel, axis 1": qv.PerChannel(1),
    "groups of 32": qv.PerGroup(32),
    "groups of 128": qv.PerGroup(128),
}


def random(shape: str) -> torch.Tensor:
    sides = tuple(map(int, shape.split("x")))
    return torch.empty(sides).normal_(generator=torch.Generator().manual_seed(0))


def measuring_of(shape, granularity):
    x = random(shape)
    scheme = qv.Scheme(granularity=granularity)
    measuring.measure(InMemory(x[:256]), scheme, path="fused")
    return partial(measuring.measure, InMemory(x), scheme)


@case
def measure(shape: tuple[str, ...] = LARGE, rounds: int = 7) -> None:
    """All metrics of a scheme on a large tensor, as multiples of a plain read, `x.sum()` on as many threads.

    The bar is 1.6 × the reads that are needed, and 2.2 for groups; of memory beyond the tensor 0.05 of it.
    """
    torch.set_num_threads(os.cpu_count() or 1)
    bars = dict(zip(GRANULARITIES, (3.2, 1.6, 3.2, 2.2, 2.2), strict=True))
    print(f"compiled code is kept in {kernel_access.cache_folder() or 'memory'}")
    schemes = {
        "int8": lambda granularity: qv.Scheme("int8", granularity=granularity),
        "int4": lambda granularity: qv.Scheme("int4", granularity=granularity),
        # With a zero point that is added to whole numbers.
        "int8 asymmetric": lambda granularity: qv.Scheme(
            "int8", "asymmetric", granularity=granularity, convention="torchao"
        ),
    }
    for sides in shape:
        x = random(sides)
        stored = InMemory(x)
        head(f"{sides}: × a read", *(f"{name} (bar {bar})" for name, bar in bars.items()))
        for title, scheme_of in schemes.items():
            cells = []
            for name, granularity in GRANULARITIES.items():
                own = partial(measuring.measure, stored, scheme_of(granularity))
                took = in_turns({"own": timed(own), "read": timed(x.sum)}, rounds)
                cells.append(judged(ratio(*took.values()), bars[name], 1))
            row(f"QuantViz {title}", *cells)
        shares = [held_beyond(measuring_of, sides, each) / x.nbytes for each in GRANULARITIES.values()]
        row("QuantViz int8, memory (bar 0.05)", *(judged(share, 0.05, 3) for share in shares))


#: By each piece: what is made, and of which recipes.
LLVM_WORK = {
    "sums": ("metrics", "int8_per_row", "int4_g32", "fp8_e4m3_per_row", "mxfp4", "nf4_64"),
    "prefetch": ("metrics", "int8_per_row", "int4_g32", "int4_g128"),
    "addresses": ("codes", "int8_per_row", "fp8_e4m3_per_row", "mxfp4", "nf4_64"),
}


@cache
def llvm_work(kind, recipe):
    """Return what is timed, in the process that does it."""
    x, scheme, run = InMemory(random("2048x2816")), qv.RECIPES[recipe], 2**15
    if kind == "metrics":
        return timed(partial(measuring.measure, x, scheme), time.process_time)
    flat = random("2048x2816").flatten().numpy()
    flat.flags.writeable = False

    def put():
        coder = coding.Coder(scheme, ranges.qparams(x, scheme), x.shape, "fused")
        made = pieces.Buffers(run)
        for start in range(0, len(flat), run):
            coder.put(flat[start : start + run], start, made)

    return timed(put, time.process_time)


def llvm_seconds(kind, recipe):
    return llvm_work(kind, recipe)()


@case
def llvm(rounds: int = 15) -> None:
    """What each piece of hand-written LLVM gains: CPU time of plain numba over that of the piece.

    Two processes of one thread each do the work in turn, in one of them with plain numba in the piece's
    place. A piece stays where that takes more than 1.5 times as long in some of its work.
    """
    usual = process(**ONE_THREAD, **{PLAIN_VARIABLE: ""})
    head("piece", "work", "by hand, ms", "ratio (some 1.5)")
    for piece, (kind, *recipes) in LLVM_WORK.items():
        with process(**ONE_THREAD, **{PLAIN_VARIABLE: piece}) as plain:
            for recipe in recipes:
                works = {
                    each: lambda each=each, asked=(kind, recipe): each.submit(llvm_seconds, *asked).result()
                    for each in (plain, usual)
                }
                numba, own = in_turns(works, rounds).values()
                took = f"{1e3 * statistics.median(own):.1f}", f"{ratio(numba, own):.2f}"
                row(piece, f"{kind}, {recipe}", *took)
    usual.shutdown()


if __name__ == "__main__":
    main()
