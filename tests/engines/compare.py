"""Compares what an engine gave with what a convention gives, bit for bit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch

import quantviz as qv
from tests.engines import Answer, Case, Refused, Undefined

#: What is compared, as the table's columns.
COMPARED_PARTS = ("codes", "scales", "zero points", "values")


def ulps(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """How many float32 numbers lie between the elements of two float32 tensors; 0 for NaN and NaN, or for -0
    and 0.
    """
    ordered = []
    for values in (a, b):
        bits = values.contiguous().view(torch.int32).to(torch.int64)
        ordered.append(torch.where(bits < 0, -(bits & 0x7FFFFFFF), bits))
    return torch.where(torch.isnan(a) & torch.isnan(b), 0, (ordered[0] - ordered[1]).abs())


def mismatches(answer: Answer, result: qv.QuantResult) -> dict[str, torch.Tensor]:
    """Where the two differ, by part: elements of codes and values, blocks of scales and zero points.

    Codes and zero points are equal as numbers and scales as float32 bits, NaN being NaN whatever its bits;
    values are equal to one unit in the last place, infinities exactly. Where both values are NaN, the code is
    not looked at: it comes of a cast of NaN.
    """
    parameters = result.qparams
    scale, its_scale = parameters.scale.to(torch.float32).flatten(), answer.scale.to(torch.float32)
    assert scale.shape == its_scale.shape, (
        f"{its_scale.numel()} scales of the engine, {scale.numel()} of ours"
    )
    found = {
        "scales": (scale.view(torch.int32) != its_scale.view(torch.int32))
        & ~(torch.isnan(scale) & torch.isnan(its_scale))
    }
    if answer.zero_point is None:
        assert not bool(parameters.zero_point.any()), "a zero point that the engine does not have"
    else:
        zero_point, its_zero_point = (
            parameters.zero_point.flatten().to(torch.float64),
            answer.zero_point.to(torch.float64),
        )
        assert zero_point.shape == its_zero_point.shape
        found["zero points"] = (zero_point != its_zero_point) & ~(
            torch.isnan(zero_point) & torch.isnan(its_zero_point)
        )
    theirs, ours = answer.x_hat, result.x_hat
    found["values"] = (ulps(theirs, ours) > 1) | (torch.isinf(theirs) != torch.isinf(ours))
    if answer.codes is not None:
        found["codes"] = (answer.codes.to(torch.int64) != result.q.to(torch.int64)) & ~(
            torch.isnan(theirs) & torch.isnan(ours)
        )
    return found


@dataclass
class EngineTally:
    """What was compared, and what differed."""

    cases: int = 0
    #: Pairs of a case and a tensor that the engine answered.
    tensors: int = 0
    #: Those it did not: the numbers that go wrong in it, and the shapes it does not take.
    undefined: int = 0
    refused: list[tuple[qv.Scheme, tuple[int, ...]]] = field(default_factory=list)
    #: By part.
    compared: Counter[str] = field(default_factory=Counter)
    different: Counter[str] = field(default_factory=Counter)
    #: The first mismatch of each part, in words.
    examples: dict[str, str] = field(default_factory=dict)
    #: Formats and granularities of which something was compared.
    reached: set[tuple[str, str]] = field(default_factory=set)

    def add(self, form: str, case: Case, tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Run `case`, whose scheme is `form`, and our own arithmetic on `tensors`; what the engine answers,
        ours does too or raises.
        """
        scheme = qv.Scheme.parse(form)
        self.cases += 1
        for label, x in tensors:
            try:
                answer = case(x)
            except Refused:
                self.refused.append((scheme, tuple(x.shape)))
                continue
            except Undefined:
                self.undefined += 1
                continue
            result = qv.quantize(x, scheme, strict=True)
            self.tensors += 1
            self.reached.add((scheme.format, scheme.granularity.id))
            for part, differs in mismatches(answer, result).items():
                self.compared[part] += differs.numel()
                count = int(differs.sum())
                self.different[part] += count
                if count and part not in self.examples:
                    first = differs.flatten().nonzero()[0].item()
                    self.examples[part] = f"{form} on {label}: {count} {part} differ, first at {first}"
