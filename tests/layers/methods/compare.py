"""The table of methods against packages: each row is measured on recorded layers.

    python -m tests.layers.methods.compare

It writes README.md in this folder. A row is explained where a search may end elsewhere: then the error of
both ends is compared, one-sided.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from quantviz.layers.methods.awq import AWQ, AWQClip, awq_scales
from quantviz.layers.methods.block_scales import DoubleQuantization
from quantviz.layers.methods.channel_scales import smooth_scales
from quantviz.layers.methods.contract import MethodTask
from quantviz.quantization.quantizer import quantize
from quantviz.schemes.recipes import as_scheme
from quantviz.schemes.scheme import Scheme
from tests.layers.methods.compare_gptq import PAGE as GPTQ
from tests.layers.methods.compare_trained import trained_rows
from tests.layers.methods.record_gptq import RECORD as GPTQ_RECORD
from tests.layers.methods.record_scaling import ALPHAS, COUNT, RECORD
from tests.layers.methods.record_trained import RECORD as TRAINED
from tests.layers.methods.rows_apart import Row, rows_apart

PAGE = Path(__file__).with_name("README.md")
#: The packages' codes: torchao's Intx spans −8 to 7, modelopt's scale is the largest magnitude over 7.
TORCHAO = Scheme.parse("int4,symmetric,per_group(size=32),min_max,torchao")
MODELOPT = Scheme.parse("int4,symmetric,per_group(size=32),min_max,modelopt")
LLM_COMPRESSOR = Scheme.parse("int4,symmetric,per_group(size=32),min_max,compressed_tensors")
#: What each variant of AWQ is asked to quantize to.
OF_VARIANTS = {"paper": TORCHAO, "modelopt": MODELOPT, "llm_compressor": LLM_COMPRESSOR}
#: A weight lies on a tie within so many parts of itself: float32 has 24 bits, and the scale is rounded too.
NEAR_TIE = 2**-21
#: Matrices whose scales of blocks are recorded.
MATRICES = 20


@cache
def record() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path, prefix in ((RECORD, ""), (TRAINED, "llm_compressor_")):
        with np.load(path) as arrays:
            found |= {f"{prefix}{name}": arrays[name] for name in arrays.files}
    return found


def layer(number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return W and X of a recorded layer."""
    arrays = record()
    return torch.from_numpy(arrays[f"w_{number}"]).float(), torch.from_numpy(arrays[f"x_{number}"]).float()


@cache
def awq_trace(variant: str, number: int) -> Any:
    """Return the trace of AWQ's search on a recorded layer. The page and its tests ask for the same ones."""
    w, x = layer(number)
    return AWQ(variant).basis(MethodTask(w.double(), x.double(), OF_VARIANTS[variant], None)).trace


def rows() -> Iterator[Row]:
    """Yield the rows, measured now."""
    about = json.loads(record()["about"].tobytes())["producers"]
    modelopt, torchao, bitsandbytes = (
        f"{name} {about[name]}" for name in ("nvidia-modelopt", "torchao", "bitsandbytes")
    )
    tie = "another end of the search by a near tie in float32: its error under ours is not less"
    # A test of its own holds that page to its numbers.
    verdicts = [line for line in GPTQ.read_text(encoding="utf-8").splitlines() if line.startswith("| ")][1:]
    agree = sum(line.endswith("| agrees |") for line in verdicts)
    with np.load(GPTQ_RECORD) as arrays:
        package = json.loads(arrays["about"].tobytes())["producers"]["llmcompressor"]
    layers = "layers, see [gptq.md](gptq.md)"
    yield Row("GPTQ, static groups", f"llm-compressor {package}", len(verdicts), layers, agree, len(verdicts))
    yield _smooth("torchao", torchao, ALPHAS)
    yield _smooth("modelopt", modelopt, (*ALPHAS, 1.0))
    producers = json.loads(record()["llm_compressor_about"].tobytes())["producers"]
    llm = f"llm-compressor {producers['llmcompressor']}"
    yield _smooth("llm_compressor", llm, ALPHAS)
    for package, variant, name in (
        (torchao, "paper", "torchao_awq"),
        (modelopt, "modelopt", "modelopt_awq"),
    ):
        agree = 0
        for number in range(COUNT):
            theirs = torch.from_numpy(record()[name][number]).float()
            agree += torch.allclose(awq_trace(variant, number).scales.float(), theirs, rtol=2e-5)
        yield Row("AWQ, scales", package, COUNT, "the chosen scales", agree, COUNT, _why(agree, COUNT, tie))
    yield llm_compressor_awq(llm)
    agree = total = 0
    for number in range(COUNT):
        w, x = layer(number)
        found = AWQClip("modelopt").round(MethodTask(w.double(), x.double(), MODELOPT, None))
        largest = w.abs().unflatten(1, (-1, 32)).amax(2)
        theirs = torch.from_numpy(record()["modelopt_clip"][number]) / largest
        agree += int(torch.isclose(found.trace.chosen.float(), theirs, rtol=1e-5).sum())
        total += theirs.numel()
    yield Row("AWQ, clip", modelopt, COUNT, "the clip of each block", agree, total, _why(agree, total, tie))
    agree = 0
    for number in range(MATRICES):
        matrix = torch.from_numpy(record()[f"matrix_{number}"]).float()
        task = MethodTask(matrix.double(), torch.ones(2, matrix.shape[1]).double(), as_scheme("nf4_64"), None)
        ours = DoubleQuantization().round(task).result.x_hat[:, :64]
        agree += torch.allclose(ours, torch.from_numpy(record()[f"values_{number}"]), rtol=1e-6, atol=1e-7)
    yield Row("Double quantization", bitsandbytes, MATRICES, "all values of a matrix", agree, MATRICES)
    yield from trained_rows()
    yield from rows_apart()


def llm_compressor_awq(package: str) -> Row:
    """Return the row of llm-compressor's search. Its scale is the largest magnitude over 7.5, so the largest
    weight of each group lies on a tie, which float32 rounds either way: a search may have several ends.
    """
    equal = agree = 0
    for number in range(COUNT):
        ours = awq_trace("llm_compressor", number).scales
        theirs = torch.from_numpy(record()["llm_compressor_awq"][number]).double()
        same = torch.allclose(ours, theirs, rtol=2e-5)
        equal += same
        agree += same or any(torch.allclose(each, theirs, rtol=2e-5) for each in ends_of_search(number))
    others = f"; in {agree - equal} layers an end that ties at 7.5 steps allow" if agree > equal else ""
    return Row("AWQ, scales", package, COUNT, f"the chosen scales{others}", agree, COUNT)


@cache
def ends_of_search(number: int) -> list[torch.Tensor]:
    """Return the scales that llm-compressor's search may end with, by how it rounds ties: those whose error
    is the least of all for some rounding of its own ties and of the others'.
    """
    w, x = layer(number)
    task = MethodTask(w.double(), x.double(), LLM_COMPRESSOR, None)
    trace = awq_trace("llm_compressor", number)
    tried = [awq_scales(trace.x_mean, trace.w_mean, each, "llm_compressor") for each in trace.ratios]
    tried.append(torch.ones_like(tried[0]))
    errors = [errors_by_ties(task, scales) for scales in tried]
    most = min(high for _, high in errors)
    return [scales for scales, (low, _) in zip(tried, errors, strict=True) if low <= most]


def errors_by_ties(task: MethodTask, scales: torch.Tensor) -> tuple[float, float]:
    """Return the least and the largest squared error of the outputs over all roundings of those weights that
    lie on a tie, or so near that float32 may take it for one.
    """
    found = quantize((task.w * scales).to(torch.float32), task.scheme)
    steps = found.qparams.scale.double().repeat_interleave(found.shape[1] // found.qparams.scale.shape[1], 1)
    units = task.w * scales / steps
    tied = (units.abs() % 1 - 0.5).abs() < NEAR_TIE * units.abs()
    low, high = task.scheme.code_min, task.scheme.code_max
    least = largest = 0.0
    for row in range(len(units)):
        places = tied[row].nonzero().flatten().tolist()
        sides = [{units[row, at].floor().item(), units[row, at].ceil().item()} for at in places]
        codes = found.q[row].double()
        sums = []
        for chosen in itertools.product(*sides):
            codes[places] = torch.tensor(chosen, dtype=torch.float64).clamp(low, high)
            change = codes * steps[row] / scales - task.w[row]
            sums.append(float((task.x @ change).square().sum()))
        least += min(sums)
        largest += max(sums)
    return least, largest


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
    differing = [row for row in found if row.agree < row.total]
    unexplained = sum(not row.why for row in differing)
    lines = [
        "# Methods against packages",
        "",
        "Written by `python -m tests.layers.methods.compare`. Answers of packages are recorded by",
        "`tests/layers/methods/record_scaling.py`, `record_gptq`, `record_apart` and `record_trained`; torch",
        "and bitsandbytes run live. Equal means to float32's accuracy. LoftQ's own loop runs on a GPU alone:",
        "low rank is held to its decomposition. HIGGS asks for a kernel of a GPU: scipy's Hadamard matrix",
        "stands in its place. Where no package runs on a CPU, numpy computes the definition another way.",
        "",
        "In no row: rotations, held to scipy's `hadamard` and to HHᵀ = nI; four over six, which is the",
        "convention `fouroversix`, held to its reference by `tests/engines`. HIGGS' grids are also held to",
        "the distortions that Max (1960) printed.",
        "",
        f"{len(found) - len(differing)} of {len(found)} rows agree in all; unexplained: {unexplained}.",
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
