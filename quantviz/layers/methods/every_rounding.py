"""Every rounding of a few weights of one output: 2^n of them, each to the code below or above.

The AdaRound paper's point: rounding each weight to its nearest code is far from the best of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

import torch

from quantviz.errors import QuantVizError
from quantviz.layers.layer_result import LayerResult
from quantviz.layers.methods.contract import MethodTask, RoundingMethod
from quantviz.layers.methods.gptq import GPTQ
from quantviz.layers.methods.learned_rounding import AdaRound, CodePairs
from quantviz.schemes.calibration import Given
from quantviz.schemes.granularity import PerTensor
from quantviz.schemes.scheme import Scheme
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
    scheme, *row = _row(result, output)
    task = _task(scheme, *(each[:, first : first + WEIGHTS] for each in row))
    choices = CodePairs.of(task)
    every = _flips()
    errors = _errors(choices.nearest.error[0], choices.gap[0], task.x)[0] / (task.signal or 1.0)
    marks = {}
    for name, method in _MARKED.items():
        found = method.round(task).result
        marks[name] = (task.output_error(found.x_hat), int((found.q != choices.nearest.q).sum()))
    return EveryRounding(output, first, errors, every.sum(1).to(torch.int64), MappingProxyType(marks))


def most_telling(result: LayerResult, output: int) -> int:
    """Return the first input channel, a multiple of `WEIGHTS`, from which nearest is farthest from the
    best.

    Raises:
        QuantVizError: As `every_rounding`.
    """
    scheme, *row = _row(result, output)
    params, _, x = row
    ends = 1 + torch.nonzero((params[:, 1:] != params[:, :-1]).any(0)).flatten()
    runs = pairwise([0, *ends.tolist(), params.shape[1]])
    # Weights that share a scale are rounded at once.
    pairs = [CodePairs.of(_task(scheme, *(each[:, start:stop] for each in row))) for start, stop in runs]
    nearest = torch.cat([each.nearest.error[0] for each in pairs])
    errors = _errors(nearest, torch.cat([each.gap[0] for each in pairs]), x)
    least = errors.amin(1)
    times = torch.where(least > 0, errors[:, 0] / least, 0.0)
    return WEIGHTS * int(times.numpy().argmax())


def _flips() -> torch.Tensor:
    """Return every combination of flips, float64 (2^n, n)."""
    return torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=torch.float64)] * WEIGHTS)


def _errors(nearest: torch.Tensor, gap: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return the mean squared error of every rounding of each eight weights, float64 (eights, 2^n).

    Args:
        nearest: The error of each weight's nearest code, (inputs,).
        gap: The other value less the nearest one, (inputs,).
        x: Inputs, float64 (tokens, inputs).
    """
    error, step = (each.to(torch.float64).unfold(0, WEIGHTS, WEIGHTS) for each in (nearest, gap))
    tokens = x.unfold(1, WEIGHTS, WEIGHTS)
    hessian = torch.einsum("tni,tnj->nij", tokens, tokens) / len(x)
    change = error.unsqueeze(1) + _flips() * step.unsqueeze(1)
    return ((change @ hessian) * change).sum(2)


def _row(result: LayerResult, output: int) -> tuple[Scheme, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the scheme of an output's weights, and float64: the scale and the zero point of each
    (2, inputs), the weights (1, inputs), and the tokens that may be used (tokens, inputs).
    """
    study = result.weights.study
    if study is None or study.result is None or study.scheme.number_format.kind != "integer":
        raise QuantVizError("method.no_every_rounding")
    r = study.result
    grids = (r.qparams.scale, r.qparams.zero_point)
    params = torch.stack(
        [blocks.expand(grid, r.layout, r.shape).expand(r.shape)[output].to(torch.float64) for grid in grids]
    )
    x = result.inputs.values(slice(None))[~result.held_back]
    return study.scheme, params, r.x[output : output + 1].to(torch.float64), x.to(torch.float64)


def _task(scheme: Scheme, params: torch.Tensor, w: torch.Tensor, x: torch.Tensor) -> MethodTask:
    """Return some weights of an output as a layer, under the one scale that they have."""
    if bool((params != params[:, :1]).any()):
        raise QuantVizError("method.no_every_rounding")
    shared = scheme.replace(granularity=PerTensor(), calibration=Given(*params[:, 0].tolist()))
    return MethodTask(w, x, shared, None)
