"""The table of methods against packages: each row is measured on recorded layers.

    python -m tests.layers.methods.compare

It writes README.md in this folder. A row is explained where a search may end elsewhere: then the error of
both ends is compared, one-sided.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from quantviz.layers.methods.awq import AWQ, AWQClip
from quantviz.layers.methods.block_scales import DoubleQuantization
from quantviz.layers.methods.channel_scales import smooth_scales
from quantviz.layers.methods.contract import Task
from quantviz.schemes.recipes import as_scheme
from quantviz.schemes.scheme import Scheme
from tests.layers.methods.record_scaling import ALPHAS, COUNT, RECORD

PAGE = Path(__file__).with_name("README.md")
#: The packages' codes: torchao's Intx spans −8 to 7, modelopt's scale is the largest magnitude over 7.
TORCHAO = Scheme.parse("int4,symmetric,per_group(size=32),min_max,torchao")
MODELOPT = Scheme.parse("int4,symmetric,per_group(size=32),min_max,modelopt")
#: Matrices whose scales of blocks are recorded.
MATRICES = 20


@dataclass(frozen=True)
class Row:
    """A method beside a package."""

    method: str
    package: str
    layers: int
    #: The numbers that are compared, and how many of them agree.
    compared: str
    agree: int
    total: int
    #: The reason for those that do not.
    why: str = ""

    @property
    def line(self) -> str:
        share = f"{self.agree} of {self.total}"
        return f"| {self.method} | {self.package} | {self.layers} | {self.compared} | {share} | {self.why} |"


@cache
def record() -> dict[str, Any]:
    with np.load(RECORD) as arrays:
        return dict(arrays)


def layer(number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return W and X of a recorded layer."""
    arrays = record()
    return torch.from_numpy(arrays[f"w_{number}"]).float(), torch.from_numpy(arrays[f"x_{number}"]).float()


def rows() -> Iterator[Row]:
    """Yield the rows, measured now."""
    about = json.loads(record()["about"].tobytes())["producers"]
    modelopt, torchao, bitsandbytes = (
        f"{name} {about[name]}" for name in ("nvidia-modelopt", "torchao", "bitsandbytes")
    )
    tie = "another end of the search by a near tie in float32: its error under ours is not less"
    yield _smooth("torchao", torchao, ALPHAS)
    yield _smooth("modelopt", modelopt, (*ALPHAS, 1.0))
    for package, variant, scheme, name in (
        (torchao, "paper", TORCHAO, "torchao_awq"),
        (modelopt, "modelopt", MODELOPT, "modelopt_awq"),
    ):
        agree = 0
        for number in range(COUNT):
            w, x = layer(number)
            trace = AWQ(variant).basis(Task(w.double(), x.double(), scheme, None)).trace
            agree += torch.allclose(trace.scales.float(), torch.from_numpy(record()[name][number]), rtol=1e-5)
        yield Row("AWQ, scales", package, COUNT, "the chosen scales", agree, COUNT, _why(agree, COUNT, tie))
    agree = total = 0
    for number in range(COUNT):
        w, x = layer(number)
        found = AWQClip("modelopt", tokens=64).round(Task(w.double(), x.double(), MODELOPT, None))
        largest = w.abs().unflatten(1, (-1, 32)).amax(2)
        theirs = torch.from_numpy(record()["modelopt_clip"][number]) / largest
        agree += int(torch.isclose(found.trace.chosen.float(), theirs, rtol=1e-5).sum())
        total += theirs.numel()
    yield Row("AWQ, clip", modelopt, COUNT, "the clip of each block", agree, total, _why(agree, total, tie))
    agree = 0
    for number in range(MATRICES):
        matrix = torch.from_numpy(record()[f"matrix_{number}"]).float()
        task = Task(matrix.double(), torch.ones(2, matrix.shape[1]).double(), as_scheme("nf4_64"), None)
        ours = DoubleQuantization().round(task).result.x_hat[:, :64]
        agree += torch.allclose(ours, torch.from_numpy(record()[f"values_{number}"]), rtol=1e-6, atol=1e-7)
    yield Row("Double quantization", bitsandbytes, MATRICES, "all values of a matrix", agree, MATRICES)


def _smooth(variant: str, package: str, alphas: tuple[float, ...]) -> Row:
    agree = total = 0
    for number in range(COUNT):
        w, x = layer(number)
        for alpha in alphas:
            theirs = torch.from_numpy(record()[f"{variant}_smooth_{alpha}"][number]).flatten()
            ours = smooth_scales(x, (w,), alpha, variant)
            ours = 1 / ours if variant == "modelopt" else ours
            agree += int(torch.isclose(ours, theirs, rtol=2e-6, atol=0).sum())
            total += len(theirs)
    exponents = ", ".join(f"{alpha:g}" for alpha in alphas)
    return Row("SmoothQuant", package, COUNT, f"each channel's scale, α = {exponents}", agree, total)


def _why(agree: int, total: int, reason: str) -> str:
    return "" if agree == total else reason


def page(found: list[Row]) -> str:
    """Return the page of some rows."""
    lines = [
        "# Methods against packages",
        "",
        "Written by `python -m tests.layers.methods.compare` from recorded answers, which",
        "`tests/layers/methods/record_scaling.py` makes. Equal means equal to float32's accuracy. Beside",
        "these the tests run torch's `cross_layer_equalization`, bitsandbytes' `int8_vectorwise_quant` and",
        "scipy's `hadamard` live, and HIGGS' grids on the distortions that Max (1960) printed. Four over six",
        "is held to our own convention `fouroversix`, which `tests/engines` holds to its reference.",
        "",
        "| method | package | layers | compared | equal | where not |",
        "|---|---|--:|---|---|---|",
        *(row.line for row in found),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure every row and write the page."""
    torch.set_num_threads(1)
    PAGE.write_text(page(list(rows())), encoding="utf-8")


if __name__ == "__main__":
    main()
