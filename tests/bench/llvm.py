"""What each piece of hand-written LLVM gains: the same work with it and with plain numba in its place, side
by side.

    python -m tests.bench.llvm [--rounds 15] [--pieces sums,addresses]

Two processes of one thread each, the one with `QUANTVIZ_PLAIN_NUMBA` naming the piece, do the work in turn.
What is printed is the median of the ratios of their CPU times, round by round. A piece stays where plain
numba takes more than `BAR` times as long in some of its work.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from quantviz.compiled.hand_written import PIECES, PLAIN_VARIABLE
from quantviz.streaming import coding, pieces, ranges

ROOT = Path(__file__).parents[2]
#: Plain numba takes more than so many times as long as a piece that stays.
BAR = 1.5
SHAPE = (2048, 2816)
#: Cells whose codes are made at a time.
RUN = 2**15

SCHEMES = {
    "int8 per tensor": "int8,symmetric,per_tensor,min_max,course",
    "int8 rows": "int8,symmetric,per_channel(axis=0),min_max,course",
    "int8 columns": "int8,symmetric,per_channel(axis=1),min_max,course",
    "int4 groups of 8": "int4,symmetric,per_group(size=8),min_max,course",
    "int4 groups of 32": "int4,symmetric,per_group(size=32),min_max,course",
    "int4 groups of 128": "int4,symmetric,per_group(size=128),min_max,course",
    "float8 rows": "float8_e4m3fn,symmetric,per_channel(axis=0),min_max,course",
    "mxfp4 blocks of 32": "float4_e2m1fn,symmetric,per_group(size=32),min_max,microxcaling",
    "nf4 blocks of 64": "nf4,symmetric,flat(size=64),min_max,bitsandbytes",
    "int8 to float16": "int8,asymmetric,per_channel(axis=0),min_max,course(value_dtype=float16)",
    "int8 fused": "int8,asymmetric,per_channel(axis=0),min_max,course(order=fused_multiply_add_round)",
    "stochastic rows": "int8,symmetric,per_channel(axis=0),min_max,course(ties=stochastic)",
}
#: The work that each piece is for, by the beginning of its name.
WORK = {
    "sums": (
        *("metrics, int8", "metrics, int4 groups of 32", "metrics, int4 groups of 128"),
        *("metrics, float", "metrics, nf4", "metrics, mxfp4"),
    ),
    "prefetch": ("metrics, int8", "metrics, int4 groups of 32", "metrics, int4 groups of 128"),
    "addresses": ("codes", "metrics, int4 groups of 8"),
}


def works() -> dict[str, Callable[[], object]]:
    """Return all that is timed, by its name, in the process that does it."""
    import torch

    import quantviz as qv
    from quantviz.streaming import measuring
    from quantviz.tensors.lazy import InMemory

    torch.set_num_threads(1)
    values = torch.empty(SHAPE).normal_(generator=torch.Generator().manual_seed(0))
    x = InMemory(values)
    flat = values.flatten().numpy()
    flat.flags.writeable = False

    def put(scheme: qv.Scheme) -> None:
        coder, made = (
            coding.Coder(scheme, ranges.qparams(x, scheme), SHAPE, "fused"),
            pieces.Buffers(RUN),
        )
        for start in range(0, len(flat), RUN):
            coder.put(flat[start : start + RUN], start, made)

    found: dict[str, Callable[[], object]] = {}
    for name, form in SCHEMES.items():
        scheme = qv.Scheme.parse(form)
        found[f"metrics, {name}"] = lambda scheme=scheme: measuring.measure(x, scheme)
        found[f"codes, {name}"] = lambda scheme=scheme: put(scheme)
    return found


def serve() -> None:
    """Do what is asked for, a line each, and tell its CPU time."""
    known = works()
    print(";".join(known), flush=True)
    for line in sys.stdin:
        start = time.process_time()
        known[line.rstrip("\n")]()
        print(time.process_time() - start, flush=True)


class Worker:
    """A process that does the work, with a piece turned off or none ("")."""

    def __init__(self, plain: str) -> None:
        env = {**os.environ, PLAIN_VARIABLE: plain, "OMP_NUM_THREADS": "1", "QUANTVIZ_THREADS": "1"}
        command = [sys.executable, "-m", "tests.bench.llvm", "--serve"]
        process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdin
        assert process.stdout
        self._process, self._to, self._from = process, process.stdin, process.stdout
        self.works = self._from.readline().rstrip("\n").split(";")

    def seconds(self, work: str) -> float:
        """CPU time of some work."""
        print(work, file=self._to, flush=True)
        return float(self._from.readline())

    def close(self) -> None:
        """End the process."""
        self._to.close()
        self._process.wait()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--pieces", default=",".join(PIECES))
    options.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.serve:
        serve()
        return
    print(
        f"float32 {SHAPE[0]} × {SHAPE[1]}, one thread; "
        f"CPU time of plain numba over that of the piece written by hand (bar {BAR}).\n"
    )
    print("| piece | work | by hand, ms | ratio |\n|---|---|---|---|")
    usual, gains = Worker(""), {}
    for piece in chosen.pieces.split(","):
        plain = Worker(piece)
        for work in (work for work in usual.works if work.startswith(WORK[piece])):
            # The first call compiles.
            usual.seconds(work), plain.seconds(work)
            pairs = [(usual.seconds(work), plain.seconds(work)) for _ in range(chosen.rounds)]
            own, ratio = (
                statistics.median(own for own, _ in pairs),
                statistics.median(other / own for own, other in pairs),
            )
            gains[piece] = max(ratio, gains.get(piece, 0.0))
            print(f"| {piece} | {work} | {own * 1e3:.1f} | {ratio:.2f} |", flush=True)
        plain.close()
    usual.close()
    print("\n| piece | largest ratio | bar |\n|---|---|---|")
    for piece, gain in gains.items():
        print(f"| {piece} | {gain:.2f} | {'kept' if gain > BAR else 'missed'} |")


if __name__ == "__main__":
    main()
