"""Decoding of every quantized GGUF type beside the package gguf's (numpy), one thread each, in one run.

    python -m tests.bench.decode

Blocks are random bytes. Each ratio is the median of rounds in which one is run after the other, by processor
time. The bar is 1.
"""

from __future__ import annotations

import os
import statistics
import time

os.environ["OMP_NUM_THREADS"] = "1"

import gguf
import numpy as np
import torch

from quantviz.sources.files.gguf_blocks import BLOCK_TYPES, decode_blocks

COUNT, ROUNDS, BAR = 2**21, 5, 1.0


def seconds(run):
    start = time.process_time()
    run()
    return time.process_time() - start


def main():
    made = np.random.default_rng(0)
    print(f"load {os.getloadavg()[0]:.1f}\n| type | gguf, M/s | ours, M/s | ratio |\n|---|--:|--:|--:|")
    for kind in BLOCK_TYPES.values():
        if kind.plain or kind.name in ("Q1_0", "Q2_0"):  # which the package does not decode
            continue
        raw = made.integers(0, 256, (COUNT // kind.length, kind.size), dtype=np.uint8)
        own, number = torch.from_numpy(raw), gguf.GGMLQuantizationType(kind.id)

        def theirs(raw=raw, number=number):
            with np.errstate(all="ignore"):
                gguf.quants.dequantize(raw, number)

        def ours(kind=kind, own=own):
            decode_blocks(kind, own)

        pairs = [(seconds(theirs), seconds(ours)) for _ in range(ROUNDS)]
        ratio = statistics.median(one / other for one, other in pairs)
        rates = " | ".join(f"{COUNT / 1e6 / min(each):.0f}" for each in zip(*pairs, strict=True))
        mark = "**" if ratio < BAR else ""
        print(f"| {kind.name} | {rates} | {mark}{ratio:.1f}{mark} |", flush=True)


if __name__ == "__main__":
    main()
