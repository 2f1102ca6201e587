"""The search for the range of least error on a small tensor: many ranges tried at once by the reference,
against one of each block after the other.

    python -m tests.bench.range_search [--rounds 5]

Both find the same ranges. The rounds take turns, and the medians are compared.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial

import torch

import quantviz as qv
from quantviz.quantization import quantizer
from quantviz.quantization.calibrating import TrialByReference, errors_of_blocks, one_by_one
from quantviz.schemes.calibration import Trial
from quantviz.schemes.granularity import BlockLayout

CASES = {
    "8×8, per tensor": ((8, 8), qv.PerTensor()),
    "8×8, per row": ((8, 8), qv.PerChannel(0)),
    "64×64, per tensor": ((64, 64), qv.PerTensor()),
    "64×64, groups of 32": ((64, 64), qv.PerGroup(32)),
}


def one_after_the_other(
    x: torch.Tensor, absmax: torch.Tensor, scheme: qv.Scheme, layout: BlockLayout
) -> Trial:
    """Return a trial that makes the whole tensor anew for one range of each block."""
    return one_by_one(lambda found, power: errors_of_blocks(found, x, absmax, scheme, layout, power))


def timed(trial: Callable[..., Trial], search: Callable[[], qv.QuantResult]) -> tuple[float, qv.QuantResult]:
    """Return the seconds of a search with one kind of trial, and what it found."""
    usual, quantizer.TrialByReference = quantizer.TrialByReference, trial
    try:
        start = time.perf_counter()
        found = search()
        return time.perf_counter() - start, found
    finally:
        quantizer.TrialByReference = usual


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rounds", type=int, default=5)
    rounds = options.parse_args().rounds
    print(f"{'':36}{'at once':>10}{'in turn':>10}{'ratio':>8}")
    for name, (shape, granularity) in CASES.items():
        x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        for mode in qv.MODES:
            search = partial(qv.quantize, x, qv.Scheme("int4", mode, granularity, qv.MSE()))
            seconds: tuple[list[float], list[float]] = [], []
            for _ in range(rounds):
                found = []
                for own, trial in zip(seconds, (TrialByReference, one_after_the_other), strict=True):
                    took, result = timed(trial, search)
                    own.append(took)
                    found.append(result)
                assert torch.equal(found[0].range.lo, found[1].range.lo)
                assert torch.equal(found[0].range.hi, found[1].range.hi)
            quick, slow = map(statistics.median, seconds)
            print(f"{name + ', ' + mode:36}{quick:9.3f}s{slow:9.3f}s{slow / quick:8.1f}")


if __name__ == "__main__":
    main()
