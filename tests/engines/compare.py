"""Compares what an engine gave with what a convention gives, bit for bit."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch

import quantviz as qv
from tests.engines import QUESTIONS, Answer, Path, Refused, Undefined
from tests.engines.data import Trial

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
    values are equal to one unit in the last place, infinities exactly. Where both values are NaN, the code of
    an integer or of a codebook is not looked at: it comes of a cast of NaN.
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
        found["codes"] = answer.codes.to(torch.int64) != result.q.to(torch.int64)
        if result.scheme.number_format.kind != "float":
            found["codes"] &= ~(torch.isnan(theirs) & torch.isnan(ours))
    return found


def ask(path: Path, form: str, trial: Trial) -> Answer:
    """Return what an engine answers; a range from outside is used where the path has cases of that."""
    if trial.question == "half and bfloat16 input":
        answer = path.half[form](trial.x)
        return dataclasses.replace(answer, x_hat=answer.x_hat.to(torch.float32))
    if trial.seen is not None and path.given:
        return path.given[form](trial.seen, trial.x)
    return path.own[form](trial.x)


def ours(path: Path, form: str, trial: Trial) -> qv.QuantResult:
    """Return what our arithmetic answers to the same."""
    scheme = qv.Scheme.parse(form)
    if trial.question in ("infinity", "NaN"):
        scheme = scheme.replace(nonfinite="ignore")
    if trial.seen is None or not path.given:
        return qv.quantize(trial.x, scheme, strict=True)
    return qv.quantize(
        trial.x, scheme, qparams=qv.quantize(trial.seen, scheme, strict=True).qparams, strict=True
    )


@dataclass
class WayTally:
    """What was compared in one of the four ways, and what differed."""

    #: Pairs of a case and a tensor that the engine answered.
    tensors: int = 0
    #: Numbers by part.
    compared: Counter[str] = field(default_factory=Counter)
    different: Counter[str] = field(default_factory=Counter)


@dataclass
class EngineTally:
    """What was compared of a path, by the way, and what was not."""

    #: The schemes that were asked.
    forms: set[str] = field(default_factory=set)
    ways: dict[str, WayTally] = field(default_factory=lambda: defaultdict(WayTally))
    #: The first mismatch of each way and part, in words.
    examples: dict[tuple[str, str], str] = field(default_factory=dict)
    #: Why a question is left open: the path's own reasons, and those of single tensors.
    open: set[tuple[str, str]] = field(default_factory=set)
    #: The shapes that the engine does not take.
    refused: list[tuple[qv.Scheme, tuple[int, ...]]] = field(default_factory=list)
    #: Formats and granularities of which something was compared.
    reached: set[tuple[str, str]] = field(default_factory=set)

    @property
    def different(self) -> int:
        """Return how many numbers differ."""
        return sum(way.different.total() for way in self.ways.values())

    def add(self, path: Path, form: str, trials: Iterable[Trial]) -> None:
        """Run the case of `path` for the scheme `form`, and our own arithmetic, on `trials`; where the engine
        answers, ours answers too or raises.
        """
        scheme = qv.Scheme.parse(form)
        self.forms.add(form)
        self.open |= set(path.open.items())
        for trial in trials:
            if trial.question in path.open or form not in path.cases(trial.question):
                continue
            way = QUESTIONS[trial.question]
            try:
                answer = ask(path, form, trial)
            except Refused:
                self.refused.append((scheme, tuple(trial.x.shape)))
                continue
            except Undefined as why:
                self.open.add((trial.question, str(why)))
                continue
            self.ways[way].tensors += 1
            self.reached.add((scheme.format, scheme.granularity.id))
            for part, differs in mismatches(answer, ours(path, form, trial)).items():
                self._count(way, part, differs, f"{path.name}: {form} on {trial.label}")

    def _count(self, way: str, part: str, differs: torch.Tensor, where: str) -> None:
        count = int(differs.sum())
        self.ways[way].compared[part] += differs.numel()
        self.ways[way].different[part] += count
        if count and (way, part) not in self.examples:
            first = differs.flatten().nonzero()[0].item()
            self.examples[way, part] = f"{where}: {count} {part} differ, first at {first}"
