"""Encoding of K-quants and IQ4 beside libggml's, one thread each, in one run.

    python -m tests.bench.encode LIBRARY

LIBRARY is the shared library `libggml-base` of llama-cpp-python. Its `ggml_quantize_chunk` searches scales,
makes codes and packs them; ours searches scales (`ranges.qparams`) and makes codes, values and errors
(`coding.codes`). Each ratio is the median of rounds in which one is run after the other, by processor time,
so that other work on the machine cancels out. The bar is 1.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import sys
import time

# Both have one thread: set before torch starts its own.
os.environ["OMP_NUM_THREADS"] = os.environ["QUANTVIZ_THREADS"] = "1"

import torch

import quantviz as qv
from quantviz.quantization.qparams import qparams_of_range
from quantviz.streaming.coding import codes
from quantviz.streaming.kernel_access import has_kernels
from quantviz.streaming.ranges import ranges
from quantviz.tensors.lazy import InMemory
from tests.engines.record_llama_cpp import TYPES

SHAPE, ROUNDS, BAR = (512, 4096), 5, 1.0


def seconds(run):
    start = time.process_time()
    run()
    return time.process_time() - start


def encoded(x, scheme, importance):
    """Search scales and make codes, a piece at a time as whoever writes a file would."""
    found = ranges(x, scheme, importance=importance)
    scheme = scheme if importance is None else scheme.weighted
    params = qparams_of_range(found, torch.tensor(0.0), scheme, scheme.layout(x.shape))
    for start in range(0, x.count, 2**18):
        codes(x, scheme, params, start, min(start + 2**18, x.count), path="fused")


def main():
    ask = ctypes.CDLL(sys.argv[1]).ggml_quantize_chunk
    ask.restype = ctypes.c_size_t
    ask.argtypes = [ctypes.c_int, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3, ctypes.c_void_p]
    if not has_kernels():
        print("numba is missing: the reference searches scales and makes codes")
    values = torch.randn(SHAPE, generator=torch.Generator().manual_seed(0)) * 0.02
    importance = torch.rand(SHAPE[1], generator=torch.Generator().manual_seed(1))
    x, packed = InMemory(values), torch.empty(values.numel(), dtype=torch.uint8)
    print(f"load {os.getloadavg()[0]:.1f}\n| type | weights of columns | libggml, M/s | ours, M/s | ratio |")
    print("|---|---|--:|--:|--:|")
    for name, (kind, _) in TYPES.items():
        for weights in (None, importance):
            at = None if weights is None else weights.data_ptr()

            def theirs(kind=kind, at=at):
                ask(kind, values.data_ptr(), packed.data_ptr(), 0, *SHAPE, at)

            def ours(name=name, weights=weights):
                encoded(x, qv.RECIPES[name], weights)

            ours()
            pairs = [(seconds(theirs), seconds(ours)) for _ in range(ROUNDS)]
            ratio = statistics.median(one / other for one, other in pairs)
            rates = " | ".join(f"{x.count / 1e6 / min(each):.0f}" for each in zip(*pairs, strict=True))
            mark = "**" if ratio < BAR else ""
            print(f"| {name} | {'yes' if at else 'no'} | {rates} | {mark}{ratio:.1f}{mark} |", flush=True)


if __name__ == "__main__":
    main()
