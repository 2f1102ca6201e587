"""Every rounding of a few weights of one output: 2^n of them, each to the code below or above.

The AdaRound paper's point: rounding each weight to its nearest code is far from the best of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch

from quantviz.errors import QuantVizError
from quantviz.layers.layer_result import LayerResult
from quantviz.layers.methods.contract import MethodTask, RoundingMethod, squared_outputs
from quantviz.layers.methods.gptq import GPTQ
from quantviz.layers.methods.learned_rounding import AdaRound, CodePairs
from quantviz.schemes.calibration import Given
from quantviz.schemes.granularity import PerTensor
from quantviz.tensors import blocks

#: Weights whose roundings are all tried: 256 of them.
WEIGHTS = 8
_MARKED: Mapping[str, RoundingMethod] = MappingProxyType({"gptq": GPTQ(), "adaround": AdaRound(steps=150)})


@dataclass(frozen=True, eq=False)
class EveryRounding:
    output: int
    #: The first input channel.
    first: int
    #: The error of each rounding as a share of these weights' own output, float64 (2^n,), and in how many
    #: weights it is another than the nearest, int64 (2^n,). The first is rounding to nearest.
    errors: torch.Tensor
    flips: torch.Tensor
    #: The error of each marked method on these weights, and its flips, by the method's id.
    marks: Mapping[str, tuple[float, int]]

    @property
    def times(self) -> float:
        """Return how many times the least error rounding to nearest has; inf if the least is 0."""
        least = float(self.errors.min())
        return float(self.errors[0]) / least if least else float("inf")

    @property
    def better(self) -> int:
        return int((self.errors < self.errors[0]).sum())


def every_rounding(result: LayerResult, output: int, first: int) -> EveryRounding:
    """Return every rounding of `WEIGHTS` weights of an output, from input channel `first` on.

    The weights keep the scale that they have in the layer, and its tokens that may be used count.

    Raises:
        QuantVizError: The codes are no whole numbers, or the weights do not share one scale.
    """
    task = _small_task(result, output, first)
    choices = CodePairs.of(task)
    every, errors = _errors(choices)
    marks = {}
    for name, method in _MARKED.items():
        found = method.round(task).result
        marks[name] = (task.output_error(found.x_hat), int((found.q != choices.nearest.q).sum()))
    return EveryRounding(output, first, errors, every.sum(1).to(torch.int64), MappingProxyType(marks))


def most_telling(result: LayerResult, output: int) -> int:
    """Return the first input channel, a multiple of `WEIGHTS`, from which nearest is farthest from the
    best.
    """

    def times(first: int) -> float:
        errors = _errors(CodePairs.of(_small_task(result, output, first)))[1]
        least = float(errors.min())
        return float(errors[0]) / least if least else 0.0

    return max(range(0, result.shape[1] - WEIGHTS + 1, WEIGHTS), key=times)


def _errors(choices: CodePairs) -> tuple[torch.Tensor, torch.Tensor]:
    """Return every combination of flips, float64 (2^n, n), and the error of each, float64 (2^n,)."""
    task = choices.task
    every = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=torch.float64)] * task.w.shape[1])
    change = choices.nearest.error.to(torch.float64) + every * choices.gap
    signal = float(squared_outputs(task.w, task.hessian).sum()) or 1.0
    return every, squared_outputs(change, task.hessian) / signal


def _small_task(result: LayerResult, output: int, first: int) -> MethodTask:
    study = result.weights.study
    if study is None or study.result is None or study.scheme.number_format.kind != "integer":
        raise QuantVizError("method.no_every_rounding")
    r = study.result
    place = (slice(output, output + 1), slice(first, first + WEIGHTS))
    params = [
        blocks.expand(grid, r.layout, r.shape).expand(r.shape)[place].flatten()
        for grid in (r.qparams.scale, r.qparams.zero_point)
    ]
    if any(bool((each != each[0]).any()) for each in params):
        raise QuantVizError("method.no_every_rounding")
    given = Given(float(params[0][0]), float(params[1][0]))
    scheme = study.scheme.replace(granularity=PerTensor(), calibration=given)
    x = result.inputs.values(slice(None))[~result.held_back, first : first + WEIGHTS]
    return MethodTask(r.x[place].to(torch.float64), x.to(torch.float64), scheme, None)
