"""All metrics of a result that is there already, against `measure`, which never makes one, side by side.

    python -m tests.bench.metrics [--shape 4096x11008] [--rounds 3] [--scheme int8_per_row]

Both are asked for every metric. Memory is what a process of its own holds at its most beyond the tensor and
the result, as a share of the tensor. On Linux.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

import quantviz as qv
from quantviz.evaluation.metric_formulas import METRICS
from quantviz.tensors.lazy import InMemory

ROOT = Path(__file__).parents[2]
#: The most that it may take, as a share of what `measure` takes; and the most memory, as one of the tensor.
TIME_BAR, MEMORY_BAR = 1.0, 0.1

_MEMORY = """
import pathlib, re, torch, quantviz as qv
def held(name):
    return int(re.search(name + r":\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) * 1024
x = torch.empty({shape}).normal_(generator=torch.Generator().manual_seed(0))
# What compiles, and the code for such a scheme, are there already.
qv.metrics(qv.quantize(x[:128], {scheme!r}))
r = qv.quantize(x, {scheme!r})
# The most that was held so far is forgotten: what is read afterwards is of this call alone.
pathlib.Path("/proc/self/clear_refs").write_text("5")
before = held("VmRSS")
qv.metrics(r)
print((held("VmHWM") - before) / (4 * x.numel()))
"""


def memory(shape: tuple[int, ...], scheme: str) -> float:
    """What a process holds at its most while it finds the metrics, as a share of the tensor."""
    code = _MEMORY.format(shape=shape, scheme=scheme)
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return float(ran.stdout)


def main() -> None:
    """Print the ratio of times, and the memory."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--shape", default="4096x11008")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--scheme", action="append", help="again for more")
    chosen = options.parse_args()
    shape = tuple(map(int, chosen.shape.split("x")))
    x = torch.empty(shape).normal_(generator=torch.Generator().manual_seed(0))
    print("| scheme | metrics(r) | measure | ratio | memory beyond the tensor and the result |")
    print("|---|--:|--:|--:|--:|")
    for scheme in chosen.scheme or ("int8_per_row", "int4_g128", "nf4_64"):
        stored = InMemory(x)
        taken: dict[str, list[float]] = {"metrics": [], "measure": []}
        qv.measure(stored, scheme, metrics=METRICS, path="fused")
        r = qv.quantize(x, scheme)
        for _ in range(chosen.rounds):
            start = time.perf_counter()
            qv.metrics(r)
            between = time.perf_counter()
            qv.measure(stored, scheme, metrics=METRICS)
            taken["metrics"].append(between - start)
            taken["measure"].append(time.perf_counter() - between)
        del r
        own, other = (statistics.median(taken[name]) for name in ("metrics", "measure"))
        share = memory(shape, scheme)
        ratio = f"{own / other:.2f}{'' if own <= TIME_BAR * other else ' (missed)'}"
        more = f"{share:.3f}{'' if share <= MEMORY_BAR else ' (missed)'}"
        print(f"| {scheme} | {own:.2f} s | {other:.2f} s | {ratio} | {more} |")


if __name__ == "__main__":
    main()
