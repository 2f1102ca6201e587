"""Compares what our calibrations say with what the packages said."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch

import quantviz as qv
from quantviz.quantization.calibrating import errors_of_blocks
from quantviz.quantization.qparams import largest_magnitude
from quantviz.schemes.calibration import Range
from quantviz.tensors import blocks
from tests.calibrations import RECORDED, digest, tensors

#: What a difference of ends can be: none but rounding, up to one bin or step, more with an error that is no
#: larger by what the search looks for, or one that nothing explains.
KINDS = ("equal", "within one", "no worse", "unexplained")
#: Of the largest magnitude: what float32 differs by. OCTAV's package stops sooner, at 1e-5 of the clip.
ROUNDING = {"octav": 1e-4}
#: What sums of float32 differ by.
_SUMS = 1e-5


@cache
def record(package: str) -> Mapping[str, Any]:
    """What a package said."""
    known: Mapping[str, Any] = json.loads((RECORDED / f"{package}.json").read_text(encoding="utf-8"))
    return known


@dataclass
class Tally:
    """What was compared of one calibration."""

    package: str
    cases: int = 0
    tensors: int = 0
    found: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def add(self, form: str, name: str, kinds: list[str]) -> None:
        """Count what was found of a tensor under a scheme."""
        self.tensors += 1
        self.found.update(kinds)
        if "unexplained" in kinds:
            self.examples.append(f"{form} on {name}: {Counter(kinds)}")


def tallies(packages: tuple[str, ...]) -> dict[str, Tally]:
    """What is compared of each calibration, by its id."""
    made: dict[str, Tally] = {}
    known = tensors()
    for package in packages:
        for form, answers in record(package)["answers"].items():
            scheme = qv.Scheme.parse(form)
            tally = made.setdefault(scheme.calibration.id, Tally(package))
            tally.cases += 1
            for name, answer in answers.items():
                tally.add(form, name, list(differences(scheme, known[name], answer)))
    return made


def differences(scheme: qv.Scheme, x: torch.Tensor, answer: Mapping[str, Any]) -> Iterator[str]:
    """How each block's answer differs, as one of `KINDS`."""
    if "zero" in answer:
        yield from _of_zero_points(scheme, x, answer)
        return
    r = qv.quantize(x, scheme)
    assert r.range is not None
    shape = r.layout.grid_shape
    lo, hi = (torch.tensor(answer[name], dtype=torch.float64).reshape(shape) for name in ("lo", "hi"))
    off = torch.maximum((r.range.lo - lo).abs(), (r.range.hi - hi).abs())
    size = r.range.extreme.abs().to(torch.float64)
    equal = off <= size * ROUNDING.get(scheme.calibration.id, 2e-6)
    within = off <= 1.001 * step_of(scheme, x, shape)
    better = _no_worse(r, Range(lo.to(r.range.lo.dtype), hi.to(r.range.hi.dtype), r.range.extreme))
    for block in zip(equal.flatten(), within.flatten(), better.flatten(), strict=True):
        yield next((kind for kind, holds in zip(KINDS, block, strict=False) if bool(holds)), KINDS[-1])


def step_of(scheme: qv.Scheme, x: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """A bin, or a step of the search, of each block."""
    whole = qv.quantize(x, scheme.replace(calibration=qv.MinMax())).range
    assert whole is not None
    lo, hi = whole.lo.to(torch.float64), whole.hi.to(torch.float64)
    largest, own = torch.maximum(lo.abs(), hi.abs()), scheme.calibration
    if own.id == "octav":
        return torch.zeros(shape, dtype=torch.float64)
    if own.id == "mse_modelopt":
        return largest * own.step
    if own.id == "mse_llmcompressor":
        return largest / own.grid
    # A histogram of equal values is 1 wide.
    widths = {"mse_torch": hi - lo, "percentile_onnxruntime": 2 * largest, "entropy_onnxruntime": 2 * largest}
    return widths.get(own.id, largest).clamp(min=0) / own.bins


def _no_worse(r: qv.QuantResult, theirs: Range) -> torch.Tensor:
    """Whether what the search looks for is no larger than with their range; never where it looks for no
    error.
    """
    assert r.range is not None
    if r.scheme.calibration.id == "octav":
        return _modelled(r, r.range.hi) <= _modelled(r, theirs.hi) * (1 + _SUMS)
    if r.scheme.calibration.id not in ("mse_modelopt", "mse_llmcompressor"):
        return torch.zeros(r.layout.grid_shape, dtype=torch.bool)
    power = getattr(r.scheme.calibration, "norm", 2.0)
    own, other = (
        errors_of_blocks(found, r.x, largest_magnitude(r.x), r.scheme, r.layout, power)
        for found in (r.range, theirs)
    )
    return own <= other * (1 + _SUMS)


def _modelled(r: qv.QuantResult, clip: torch.Tensor) -> torch.Tensor:
    """The error that OCTAV looks for the least of: what is clipped, and steps as wide as the clip / 2^(b - 1)
    for the rest.
    """
    sizes = r.x.abs().to(torch.float64)
    ends = blocks.expand(clip, r.layout, r.shape).to(torch.float64)
    noise = 4.0**-r.scheme.number_format.bits / 3
    error = torch.where(sizes >= ends, (sizes - ends).square(), noise * ends.square())
    return blocks.block_sums(error, r.layout)


def _of_zero_points(scheme: qv.Scheme, x: torch.Tensor, answer: Mapping[str, Any]) -> Iterator[str]:
    """Codes are equal, or differ only where the package's zero point, less than a thousandth of a code away,
    puts a value on the other side of a half.
    """
    r = qv.quantize(x, scheme)
    if digest(r.q) == answer["codes"]:
        yield from ["equal"] * r.layout.block_count
        return
    zero = torch.tensor(answer["zero"]).reshape(r.layout.grid_shape)
    near = (zero - r.qparams.zero_point).abs() < 1e-3
    theirs = qv.quantize(
        x,
        scheme,
        qparams=qv.QParams(r.qparams.scale, zero, others={"inverse": r.qparams.others["inverse"]}),
    )
    explained = digest(theirs.q) == answer["codes"]
    for each in near.flatten():
        yield "no worse" if explained and bool(each) else "unexplained"
