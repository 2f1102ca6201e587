"""All metrics of a result that is there already, against `measure`, which never makes one, side by side.

    python -m tests.bench.metrics [--shape 4096x11008] [--rounds 3] [--scheme int8_per_row]

Both are asked for every metric, of a recipe of each kind: the first of a group with its kind of format, its
granularity, and scales by their formula or searched. Of several rounds the shortest counts. The processor's
time says more on a machine that is busy, the clock's on one that is not. Memory is what a process of its
own holds at its most beyond the tensor and the result, as a share of the tensor. On Linux.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

import quantviz as qv
from quantviz.evaluation.metric_formulas import METRICS
from quantviz.schemes.recipes import RECIPE_GROUPS
from quantviz.streaming import limits
from quantviz.tensors.lazy import InMemory

ROOT = Path(__file__).parents[2]
#: The most that it may take, as a share of what `measure` takes; and the most memory, as one of the tensor.
TIME_BAR, MEMORY_BAR = 1.0, 0.1

_MEMORY = """
import pathlib, re, torch, quantviz as qv
def held(name):
    return int(re.search(name + r":\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) * 1024
x = torch.empty({shape}).normal_(generator=torch.Generator().manual_seed(0))
# The kernels are there already: what is no larger than SMALL takes none.
rows = 2 * {small} // x[0].numel()
qv.metrics(qv.quantize(x[:rows], {scheme!r}))
r = qv.quantize(x, {scheme!r})
# The most that was held so far is forgotten: what is read afterwards is of this call alone.
pathlib.Path("/proc/self/clear_refs").write_text("5")
before = held("VmRSS")
qv.metrics(r)
print((held("VmHWM") - before) / (4 * x.numel()))
"""


def memory(shape: tuple[int, ...], scheme: str) -> float:
    """What a process holds at its most while it finds the metrics, as a share of the tensor."""
    code = _MEMORY.format(shape=shape, scheme=scheme, small=limits.SMALL)
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return float(ran.stdout)


def recipes() -> list[str]:
    """Return one recipe of each kind."""
    found: dict[tuple[object, ...], str] = {}
    for group, schemes in RECIPE_GROUPS.items():
        for name, scheme in schemes.items():
            calculated = scheme.calibration.of_values
            found.setdefault((group, scheme.number_format.kind, str(scheme.granularity), calculated), name)
    return list(found.values())


def seconds(work: Callable[[], object]) -> tuple[float, float]:
    """Return the time of some work by the clock, and that of the processor."""
    start = time.perf_counter()
    start_of_processor = time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - start_of_processor


def ratio(own: float, other: float) -> str:
    """Return a ratio of times in words."""
    return f"{own / other:.2f}{'' if own <= TIME_BAR * other else ' (missed)'}"


def main() -> None:
    """Print the ratios of times, and the memory."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--shape", default="4096x11008")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--scheme", action="append", help="again for more")
    chosen = options.parse_args()
    shape = tuple(map(int, chosen.shape.split("x")))
    x = torch.empty(shape).normal_(generator=torch.Generator().manual_seed(0))
    stored = InMemory(x)
    print("| scheme | metrics(r) | measure | by the clock | of the processor | memory beyond both |")
    print("|---|--:|--:|--:|--:|--:|")
    for scheme in chosen.scheme or recipes():
        qv.measure(stored, scheme, metrics=METRICS, path="fused")
        r = qv.quantize(x, scheme)
        own, other = [], []
        for _ in range(chosen.rounds):
            own.append(seconds(lambda r=r: qv.metrics(r)))
            other.append(seconds(lambda scheme=scheme: qv.measure(stored, scheme, metrics=METRICS)))
        del r
        (clock, processor), (other_clock, other_processor) = (
            tuple(map(min, zip(*each, strict=True))) for each in (own, other)
        )
        share = memory(shape, scheme)
        more = f"{share:.3f}{'' if share <= MEMORY_BAR else ' (missed)'}"
        ratios = f"{ratio(clock, other_clock)} | {ratio(processor, other_processor)}"
        print(f"| {scheme} | {clock:.3f} s | {other_clock:.3f} s | {ratios} | {more} |", flush=True)


if __name__ == "__main__":
    main()
