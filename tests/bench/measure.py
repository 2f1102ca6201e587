"""Metrics of a scheme on a large tensor, against a plain read of it, side by side with what else does it.

    python -m tests.bench.measure [--shape 4096x11008] [--rounds 7] [--only quantviz]

A read is `x.sum()` on as many threads. Every entry and the read are run in turn, and the medians of the
rounds compared. What is compared with has to quantize, dequantize and give the mean squared error alone;
QuantViz gives all metrics. Memory is what a process of its own holds at its most beyond the tensor, as a
share of it.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

# As the app has it: threads that wait do not keep a core from others.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch

import quantviz as qv
from quantviz.streaming import kernel_access, measuring
from quantviz.tensors.lazy import InMemory

ROOT = Path(__file__).parents[2]
SHAPES = ((4096, 11008), (16384, 8192))
GRANULARITIES = {
    "per tensor": qv.PerTensor(),
    "per channel, axis 0": qv.PerChannel(0),
    "per channel, axis 1": qv.PerChannel(1),
    "groups of 32": qv.PerGroup(32),
    "groups of 128": qv.PerGroup(128),
}
#: Reads that cannot be done without, and how many times their duration it may take.
READS = {
    "per tensor": 2,
    "per channel, axis 0": 1,
    "per channel, axis 1": 2,
    "groups of 32": 1,
    "groups of 128": 1,
}
BARS = {
    "per tensor": 1.6,
    "per channel, axis 0": 1.6,
    "per channel, axis 1": 1.6,
    "groups of 32": 2.2,
    "groups of 128": 2.2,
}
#: Times that what is compared with is run.
SLOW_ROUNDS = 2
#: The most memory, as a share of the tensor.
MEMORY_BAR = 0.05


def _mse(x: torch.Tensor, x_hat: torch.Tensor) -> float:
    return float((x_hat - x).square().mean())


def _course(x: torch.Tensor, name: str) -> Callable[[], float] | None:
    from quantviz.teaching import course

    if name == "per tensor":
        return lambda: _mse(x, course.linear_dequantization(*course.linear_q_symmetric(x), 0))
    if name.startswith("per channel"):
        dim = int(name[-1])

        def by_channel() -> float:
            q, scale = course.linear_q_symmetric_per_channel(x, dim=dim)
            return _mse(x, course.linear_dequantization(q, scale, 0))

        return by_channel
    size = int(name.split()[-1])

    def by_group() -> float:
        q, scale = course.linear_q_symmetric_per_group(x, size)
        return _mse(x, course.linear_dequantization_per_group(q, scale, size))

    return by_group


def _fake_quantize(x: torch.Tensor, name: str) -> Callable[[], float] | None:
    if name == "per tensor":
        return lambda: _mse(
            x, torch.fake_quantize_per_tensor_affine(x, float(x.abs().max()) / 127, 0, -128, 127)
        )
    if name.startswith("per channel"):
        axis = int(name[-1])

        def by_channel() -> float:
            scale = x.abs().amax(1 - axis) / 127
            return _mse(
                x,
                torch.fake_quantize_per_channel_affine(
                    x, scale, torch.zeros(len(scale), dtype=torch.int32), axis, -128, 127
                ),
            )

        return by_channel
    rows = x.reshape(-1, int(name.split()[-1]))

    def by_group() -> float:
        scale = rows.abs().amax(1) / 127
        return _mse(
            rows,
            torch.fake_quantize_per_channel_affine(
                rows, scale, torch.zeros(len(scale), dtype=torch.int32), 0, -128, 127
            ),
        )

    return by_group


def _torchao(x: torch.Tensor, name: str) -> Callable[[], float] | None:
    from torchao.quantization.quant_primitives import (
        MappingType,
        choose_qparams_affine,
        dequantize_affine,
        quantize_affine,
    )

    block = GRANULARITIES[name].block_shape(tuple(x.shape))

    def run() -> float:
        scale, zero = choose_qparams_affine(x, MappingType.SYMMETRIC, block, torch.int8)
        return _mse(
            x,
            dequantize_affine(
                quantize_affine(x, block, scale, zero, torch.int8), block, scale, zero, torch.int8
            ),
        )

    return run


def _onnxruntime(x: torch.Tensor, name: str) -> Callable[[], float] | None:
    import numpy as np
    import onnxruntime
    from onnx import TensorProto, helper

    block, grid = (
        GRANULARITIES[name].block_shape(tuple(x.shape)),
        GRANULARITIES[name].layout(tuple(x.shape)).grid_shape,
    )
    axis = 1 if grid[0] == 1 or name.startswith("groups") else 0
    known = (
        {"axis": axis, **({"block_size": block[1]} if name.startswith("groups") else {})}
        if name != "per tensor"
        else {}
    )
    shape = () if name == "per tensor" else grid if name.startswith("groups") else (max(grid),)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], **known),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], **known),
    ]
    floats, codes = TensorProto.FLOAT, TensorProto.INT8
    inputs = [("x", floats, x.shape), ("s", floats, shape), ("z", codes, shape)]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_tensor_value_info("y", floats, x.shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )

    def run() -> float:
        sizes = (
            x.abs().max()
            if name == "per tensor"
            else x.abs().amax(1 - axis)
            if name.startswith("per")
            else x.abs().reshape(*grid, -1).amax(-1)
        )
        scale = (sizes / 127).numpy()
        return _mse(
            x,
            torch.from_numpy(
                session.run(None, {"x": x.numpy(), "s": scale, "z": np.zeros(shape, np.int8)})[0]
            ),
        )

    return run


OTHERS = {
    "the notebooks' code": _course,
    "torch.fake_quantize": _fake_quantize,
    "torchao": _torchao,
    "onnxruntime": _onnxruntime,
}


def entries(x: torch.Tensor, only: str) -> Iterator[tuple[str, str, Callable[[], object]]]:
    """Everything that is timed: whose it is, of which granularity, and the call."""
    stored = InMemory(x)
    for name, granularity in GRANULARITIES.items():
        for bits in (8, 4):
            scheme = qv.Scheme(f"int{bits}", granularity=granularity)
            yield f"QuantViz int{bits}", name, lambda scheme=scheme: measuring.measure(stored, scheme)
        # With a zero point that is added to whole numbers.
        shifted = qv.Scheme("int8", "asymmetric", granularity=granularity, convention="torchao")
        yield "QuantViz int8 asymmetric", name, lambda scheme=shifted: measuring.measure(stored, scheme)
        for title, make in OTHERS.items():
            run = None if only and only.lower() not in title.lower() else make(x, name)
            if run is not None:
                yield title, name, run


_MEMORY = """
import pathlib, re, torch, quantviz as qv
from quantviz.streaming import measuring
from quantviz.tensors.lazy import InMemory
def held(name):
    return int(re.search(name + r":\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) * 1024
x = torch.empty({shape}).normal_()
scheme = qv.Scheme.parse({scheme!r})
measuring.measure(InMemory(x[:256]), scheme, path="fused"); x.sum()
# The most that was held so far is forgotten: what is read afterwards is of this call alone.
pathlib.Path("/proc/self/clear_refs").write_text("5")
before = held("VmRSS")
measuring.measure(InMemory(x), scheme)
print((held("VmHWM") - before) / (4 * x.numel()))
"""


def memory(shape: tuple[int, ...], scheme: qv.Scheme) -> float:
    """What a process holds at its most while it measures, beyond what it held just before, as a share of the
    tensor. On Linux.
    """
    code = _MEMORY.format(shape=shape, scheme=str(scheme))
    return float(
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
    )


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def limits() -> str:
    """The machine, in a line."""
    lines = (
        Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if Path("/proc/cpuinfo").exists()
        else []
    )
    found = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cpu, cache = found.get("model name", platform.processor()), found.get("cache size", "?")
    threads = torch.get_num_threads()
    return f"{cpu}, {os.cpu_count()} cores, cache {cache}, {memory_gb:.0f} GB, torch on {threads} threads"


def _judged(ratio: float | None, name: str, title: str) -> str:
    """A ratio, and of ours whether it is within its bar."""
    if ratio is None:
        return "–"
    missed = title.startswith("QuantViz") and ratio > READS[name] * BARS[name]
    return f"{ratio:.1f}{' (missed)' if missed else ''}"


def of_middle_size(rounds: int) -> None:
    """Print what a tensor takes that is as quick by the reference as kernels take to compile, where they are
    compiled.
    """
    print("float32 of a middle size, int8 per row, in ms; the bar is the reference.\n")
    print("| side | as it is | which path | by the reference | bar |\n|---|---|---|---|---|")
    scheme = qv.Scheme("int8", granularity=qv.PerChannel(0))
    for side in (128, 192, 256, 512, 1024):
        x = torch.empty(side, side).normal_(generator=torch.Generator().manual_seed(0))
        paths = None, "reference"
        taken: dict[str | None, list[float]] = {path: [] for path in paths}
        measuring.measure(x, scheme, path="fused")
        for _ in range(3 * rounds):
            for path in paths:
                taken[path].append(seconds(lambda path=path, x=x: measuring.measure(x, scheme, path=path)))
        own, reference = (statistics.median(taken[path]) * 1e3 for path in paths)
        judged = "kept" if own <= 1.1 * reference else "missed"
        print(f"| {side} | {own:.2f} | {measuring.measure(x, scheme).path} | {reference:.2f} | {judged} |")
    print()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--shape", help="one shape in place of both, as 4096x11008")
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument(
        "--only", default="", help="of the others those whose name has this in it; 'quantviz' for none"
    )
    chosen = options.parse_args()
    torch.set_num_threads(os.cpu_count() or 1)
    print(limits())
    print(f"compiled code is kept in {kernel_access.cache_folder() or 'memory'}\n")
    start = time.perf_counter()
    for _name, granularity in GRANULARITIES.items():
        measuring.measure(torch.ones(64, 128), qv.Scheme(granularity=granularity), path="fused")
    elapsed = time.perf_counter() - start
    print(f"first use of five granularities, compiled or read from that folder: {elapsed:.1f} s\n")
    of_middle_size(chosen.rounds)
    for shape in [tuple(map(int, chosen.shape.split("x")))] if chosen.shape else SHAPES:
        x = torch.empty(shape).normal_(generator=torch.Generator().manual_seed(0))
        timed = [(title, name, run, [], []) for title, name, run in entries(x, chosen.only)]
        for title, _, run, _, _ in timed:
            if title.startswith("QuantViz"):
                run()
        ours = [each for each in timed if each[0].startswith("QuantViz")]
        # What takes a hundred reads need not be timed as often, and not in between: its threads go on waiting
        # for work.
        for group, rounds in (
            (ours, chosen.rounds),
            ([each for each in timed if each not in ours], SLOW_ROUNDS),
        ):
            for _ in range(rounds):
                for _, _, run, own, reads in group:
                    own.append(seconds(run))
                    reads.append(seconds(x.sum))
        read = statistics.median([each for *_, reads in timed for each in reads])
        print(
            f"float32 {shape[0]} × {shape[1]}, a read takes {read * 1e3:.1f} ms. "
            "Times as multiples of a read; memory as a share of the tensor.\n"
        )
        print("| what | " + " | ".join(f"{name} ({READS[name]})" for name in GRANULARITIES) + " |")
        print("|---|" + "---|" * len(GRANULARITIES))
        print(
            "| bar: reads × | "
            + " | ".join(f"{READS[name] * BARS[name]:.1f}" for name in GRANULARITIES)
            + " |"
        )
        for title in dict.fromkeys(each[0] for each in timed):
            cells = {
                name: statistics.median(own) / statistics.median(reads)
                for other, name, _, own, reads in timed
                if other == title
            }
            print(
                f"| {title} | "
                + " | ".join(_judged(cells.get(name), name, title) for name in GRANULARITIES)
                + " |"
            )
        shares = [memory(shape, qv.Scheme(granularity=granularity)) for granularity in GRANULARITIES.values()]
        judged = [f"{share:.3f}{'' if share <= MEMORY_BAR else ' (missed)'}" for share in shares]
        print(f"| QuantViz int8, memory (bar {MEMORY_BAR}) | " + " | ".join(judged) + " |\n")


if __name__ == "__main__":
    main()
