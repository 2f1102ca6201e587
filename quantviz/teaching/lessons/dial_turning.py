"""The dial of rotation: the axes of a tensor's channels turn, and its values are rounded on the new ones."""

from __future__ import annotations

import numpy as np
import torch

from quantviz.evaluation.metric_formulas import METRICS
from quantviz.figures.marks import Marks, Numbers
from quantviz.layers.methods.rotation import FULL_ANGLE, turned_by
from quantviz.quantization.quantizer import quantize
from quantviz.quantization.result import QuantResult
from quantviz.teaching.lessons.dial_series import MarksPicture, Series, Tensor, layer_address

_ANGLES = np.linspace(0, FULL_ANGLE, 31)
#: Decibels by which a goal wants the error to fall.
_GOAL = 10
#: Bins of a histogram, and the share of the frame that its tallest bar takes.
_BINS = 33
_TALL = 0.3


def series(inputs: Tensor, weights: Tensor) -> Series:
    """Return the inputs rounded on axes turned by each angle up to a Hadamard matrix."""
    source, scheme = inputs
    x = source.tensor().double()
    turned = [x @ turned_by(x.shape[1], angle) for angle in _ANGLES.tolist()]
    results = [quantize(values.float(), scheme) for values in turned]
    sqnr = np.array([METRICS["sqnr_db"](result) for result in results])
    gains = sqnr - sqnr[0]
    far = {
        "best_angle": float(_ANGLES[int(sqnr.argmax())]),
        "goal_angle": float(_ANGLES[int((gains >= _GOAL).argmax())]) if (gains >= _GOAL).any() else np.nan,
    }
    numbers = tuple(
        {
            "squares": float(turned[at].square().sum()),
            "peak": float(result.x.abs().max()),
            "turned_mse": float(METRICS["mse"](result)),
            "turned_sqnr": float(sqnr[at]),
            "gain_db": float(gains[at]),
            "turned_step": float(result.qparams.scale.max()),
            **far,
        }
        for at, result in enumerate(results)
    )
    return Series(
        tuple(f"{angle:g}" for angle in _ANGLES),
        numbers,
        (_cloud(results), _falling(sqnr)),
        layer_address(weights, inputs, "rotation(angle={})", ("inputs",)),
    )


def _cloud(results: list[QuantResult]) -> MarksPicture:
    """Draw the loudest channel and its partner on the grid to which both are rounded, with histograms."""
    loud = int(results[0].x.abs().amax(0).argmax())
    x, y = (
        torch.stack([result.x[:, each] for result in results]).double().numpy() for each in (loud, loud ^ 1)
    )
    reach = 1.05 * float(max(np.abs(x).max(), np.abs(y).max()))
    ends = np.linspace(-reach, reach, _BINS + 1)
    middles = (ends[:-1] + ends[1:]) / 2
    across, up = (np.stack([np.histogram(row, ends)[0] for row in side]) for side in (x, y))
    bars = [-reach + 2 * reach * _TALL * counts / counts.max() for counts in (across, up)]
    levels = np.stack([_teeth(result, reach) for result in results])
    line = np.tile([-reach, reach, np.nan], levels.shape[1])
    grid = np.repeat(levels, 3, axis=1)
    thick = 1.6 * reach / _BINS
    return MarksPicture(
        "turning.cloud",
        (-reach, reach, -reach, reach),
        (
            Marks("line", grid, np.broadcast_to(line, grid.shape), "line", 1),
            Marks("line", np.broadcast_to(line, grid.shape), grid, "line", 1),
            Marks("bars", np.broadcast_to(middles, across.shape), bars[0], "second", thick, base=-reach),
            Marks("rows", bars[1], np.broadcast_to(middles, up.shape), "third", thick, base=-reach),
            Marks("dots", x, y, "accent", 2.2),
        ),
        (("turning.first", "second"), ("turning.second", "third")),
        equal=True,
        height=330,
    )


def _teeth(result: QuantResult, reach: float) -> Numbers:
    # NaN out of the frame.
    scheme = result.scheme
    codes = np.arange(scheme.code_min, scheme.code_max + 1)
    levels = codes * float(result.qparams.scale.max())
    return np.where(np.abs(levels) <= reach, levels, np.nan)


def _falling(sqnr: Numbers) -> MarksPicture:
    room = 0.15 * (sqnr.max() - sqnr.min() or 1.0)
    ends = np.array([sqnr.min() - room / 2, sqnr.max() + room / 2])
    return MarksPicture(
        "turning.sqnr",
        (-1, FULL_ANGLE + 1, float(sqnr.min() - room), float(sqnr.max() + room)),
        (
            Marks("line", _ANGLES, sqnr, "first"),
            Marks("dots", _ANGLES[:, None], sqnr[:, None], "accent", 6),
            Marks("words", np.full(2, 3.0), ends, "muted", labels=tuple(f"{end:.1f} dB" for end in ends)),
        ),
    )
