"""The number of a whole layer's output error, against the two float32 products that it needs.

    python -m tests.bench.layer [--shape 2048x4096x4096] [--rounds 5]

The shape is tokens × inputs × outputs. A product is `x @ w.T` in float32 on as many threads. In each round
both products are computed, and then `rel_out` of a layer with its ranges and its decoding; shortest and
median of the rounds are compared. Memory is what a process of its own holds at its most beyond W and X,
in copies of X, W and Y together.
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

# As the app has it: threads that wait do not keep a core from others.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch

import quantviz as qv

ROOT = Path(__file__).parents[2]
PAIRS = (("int4_g128", None), ("int4_g128", "int8_per_token"), ("int8_per_output", "int8_per_tensor"))
BAR = 1.3

_MEMORY = """
import pathlib, re, torch, quantviz as qv
def held(name):
    return int(re.search(name + r":\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) * 1024
tokens, inputs, outputs = {shape}
x, w = torch.empty(tokens, inputs).normal_(), torch.empty(outputs, inputs).normal_()
def used():
    return qv.layer(w, x, {weights!r}, {inputs!r}).rel_out
# All that is imported and compiled on first use is there before it counts.
used()
pathlib.Path("/proc/self/clear_refs").write_text("5")
before = held("VmRSS")
used()
print((held("VmHWM") - before) / 4 / (x.numel() + w.numel() + tokens * outputs))
"""


def memory(shape: tuple[int, ...], weights: str, inputs: str | None) -> float:
    """What a process holds at its most while it computes the number, in copies of X, W and Y. On Linux."""
    code = _MEMORY.format(shape=shape, weights=weights, inputs=inputs)
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return float(answer.stdout)


def taken(run: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the clock, and of the processor on all threads."""
    start = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - start[0], time.process_time() - start[1]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--shape", default="2048x4096x4096")
    options.add_argument("--rounds", type=int, default=5)
    chosen = options.parse_args()
    torch.set_num_threads(os.cpu_count() or 1)
    tokens, inputs, outputs = shape = tuple(map(int, chosen.shape.split("x")))
    generator = torch.Generator().manual_seed(0)
    x = torch.empty(tokens, inputs).normal_(generator=generator)
    w = torch.empty(outputs, inputs).normal_(generator=generator)

    def both() -> None:
        for _ in range(2):
            _ = x @ w.T

    print(f"{chosen.shape}, torch on {torch.get_num_threads()} threads; the bar is {BAR}\n")
    print("| weights, inputs | shortest | median | of the processor | memory, in copies |")
    print("|---|--:|--:|--:|--:|")
    for pair in PAIRS:

        def number(pair: tuple[str, str | None] = pair) -> object:
            return qv.layer(w, x, *pair).rel_out

        number()
        rounds = [(taken(number), taken(both)) for _ in range(chosen.rounds)]
        ours, products = ([each[side] for each in rounds] for side in range(2))
        wall = [min(of)[0] for of in (ours, products)]
        middle = [statistics.median(each[0] for each in of) for of in (ours, products)]
        spent = [min(each[1] for each in of) for of in (ours, products)]
        ratios = [one / other for one, other in (wall, middle, spent)]
        judged = " | ".join(f"{ratio:.2f}{'' if ratio <= BAR else ' (missed)'}" for ratio in ratios)
        print(f"| {pair[0]}, {pair[1] or 'as they are'} | {judged} | {memory(shape, *pair):.2f} |")


if __name__ == "__main__":
    main()
