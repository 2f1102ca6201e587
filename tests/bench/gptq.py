"""GPTQ of a small layer in seconds, and of a large one against llm-compressor where that is installed.

    python -m tests.bench.gptq [--inputs 4096] [--tokens 2048] [--rounds 3]

Both are given W and X, take H, scales and codes, int4 in groups of 128. Times are the process's, so that
neighbours on the machine count little. llm-compressor needs other versions of packages than the tests: run it
from an environment that has both.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from importlib.util import find_spec

# As the app has it: threads that wait do not keep a core from others.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch

from quantviz.layers.methods.contract import Task
from quantviz.layers.methods.gptq import GPTQ
from quantviz.schemes.recipes import as_scheme

#: Seconds for 384 × 384 with 320 tokens, and times the package for a large layer.
SECONDS = 0.3
TIMES = 1.5
GROUP = 128


def taken(run: Callable[[], object], rounds: int) -> float:
    """Return the least processor time of some runs, in seconds."""
    found = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return min(found)


def layer(inputs: int, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return W (inputs, inputs) and X (tokens, inputs)."""
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(inputs, inputs, generator=generator)
    return w, torch.randn(tokens, inputs, generator=generator)


def ours(w: torch.Tensor, x: torch.Tensor) -> None:
    GPTQ().round(Task(w.double(), x.double(), as_scheme("int4_g128"), None))


def theirs(w: torch.Tensor, x: torch.Tensor) -> None:
    from compressed_tensors.quantization import QuantizationArgs
    from compressed_tensors.quantization.utils import calculate_qparams
    from llmcompressor.modifiers.gptq.gptq_quantize import quantize_weight

    wanted = QuantizationArgs(num_bits=4, symmetric=True, strategy="group", group_size=GROUP)
    groups = w.reshape(len(w), -1, GROUP)
    scale, zero = calculate_qparams(groups.amin(-1), groups.amax(-1), wanted)
    hessian = 2 * x.T @ x / len(x)
    quantize_weight(w.clone()[None], hessian[None], scale[None], zero[None], None, wanted)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--inputs", type=int, default=4096)
    options.add_argument("--tokens", type=int, default=2048)
    options.add_argument("--rounds", type=int, default=3)
    chosen = options.parse_args()
    small = layer(384, 320)
    ours(*layer(256, 64))
    print(
        f"384 × 384, 320 tokens: {taken(lambda: ours(*small), chosen.rounds):.3f} s; the bar is {SECONDS} s"
    )
    if find_spec("llmcompressor") is None:
        return
    large = layer(chosen.inputs, chosen.tokens)
    times = [taken(lambda run=run: run(*large), chosen.rounds) for run in (ours, theirs)]
    judged = f"{times[0]:.2f} s against {times[1]:.2f} s, {times[0] / times[1]:.2f} times; the bar is {TIMES}"
    print(f"{chosen.inputs} × {chosen.inputs}, {chosen.tokens} tokens: {judged}")


if __name__ == "__main__":
    main()
