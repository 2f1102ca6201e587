"""Dials on the gradients of a small network that learns: its step, and the loss scale."""

from __future__ import annotations

import math

import numpy as np
import torch

from quantviz.figures.marks import Marks, Numbers
from quantviz.quantization.format_facts import finite_values
from quantviz.quantization.quantizer import quantize
from quantviz.schemes.calibration import Given
from quantviz.schemes.formats import find_format
from quantviz.schemes.scheme import Scheme
from quantviz.sources import Source
from quantviz.teaching.lessons.dial_lines import FORMATS_PAGE, against
from quantviz.teaching.lessons.dial_series import MarksPicture, Series, Tensor

_STEPS = (0, 1, 2, 4, 8, 16, 32, 64, 128)
#: The step whose gradients get a loss scale, and these, as powers of two.
_LATE = 64
_POWERS = tuple(range(0, 31, 2))
_FORMATS = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}
_BATCH, _OUTPUTS, _RATE = 256, 32, 2.0
#: Ends of the axis, as powers of two.
_LEAST, _MOST = -30, 20


def gradients(start: Source) -> tuple[Numbers, ...]:
    """Return the gradients of a network's hidden units after each of `_STEPS` steps from the weights `start`.

    It learns the outputs of a network of its shape by gradient descent on the mean squared error.
    """
    draw = np.random.default_rng(0)
    w = start.tensor().double().numpy()
    units, inputs = w.shape
    goal, goal_out = draw.normal(0, inputs**-0.5, w.shape), draw.normal(0, units**-0.5, (_OUTPUTS, units))
    out = draw.normal(0, units**-0.5, (_OUTPUTS, units))
    found = []
    for step in range(_STEPS[-1] + 1):
        x = draw.normal(size=(_BATCH, inputs))
        before = x @ w.T
        error = np.maximum(before, 0) @ out.T - np.maximum(x @ goal.T, 0) @ goal_out.T
        of_outputs = 2 * error / error.size
        of_units = (of_outputs @ out) * (before > 0)
        if step in _STEPS:
            found.append(of_units[of_units != 0])
        out = out - _RATE * of_outputs.T @ np.maximum(before, 0)
        w = w - _RATE * of_units.T @ x
    return tuple(found)


def step(weights: Tensor) -> Series:
    """Return the gradients after each step, in both formats."""
    every = gradients(weights[0])
    numbers = [_lost(found, 0) for found in every]
    return Series(tuple(map(str, _STEPS)), tuple(numbers), (_combs("gradient", every),), _app)


def loss_scale(weights: Tensor) -> Series:
    """Return late gradients times 2 to the power of the stop, in both formats."""
    late = gradients(weights[0])[_STEPS.index(_LATE)]
    numbers = [_lost(late, power) for power in _POWERS]
    least = min(each["wrong_e4m3"] for each in numbers)
    places = [power for power, each in zip(_POWERS, numbers, strict=True) if each["wrong_e4m3"] == least]
    best = float(places[len(places) // 2])
    numbers = [{**each, "best_power": best} for each in numbers]
    lines = {"wrong_e4m3": "first", "wrong_e5m2": "second"}
    costs = against("loss_scale.costs", np.array(_POWERS, float), numbers, lines)
    picture = _combs("loss_scale", tuple(late * 2.0**power for power in _POWERS))
    return Series(tuple(map(str, _POWERS)), tuple(numbers), (picture, costs), _app)


def _lost(found: Numbers, power: int) -> dict[str, float]:
    """Return percentages that become 0 and that are clipped, of values times a power of two."""
    x = torch.from_numpy(found * 2.0**power).float()[None]
    shares: dict[str, float] = {}
    for name, form in _FORMATS.items():
        result = quantize(x, Scheme(form, calibration=Given(1.0, 0)))
        zeroed, clipped = (100 * float(each.float().mean()) for each in (result.x_hat == 0, result.clipped))
        shares |= {f"zeroed_{name}": zeroed, f"clipped_{name}": clipped, f"wrong_{name}": zeroed + clipped}
    return shares


def _combs(words: str, every: tuple[Numbers, ...]) -> MarksPicture:
    """Draw the histogram of magnitudes at each stop, above the reach of both formats."""
    edges = np.arange(_LEAST, _MOST + 1.0)
    heights = np.stack([np.histogram(np.log2(np.abs(each)), edges)[0] / len(each) for each in every])
    marks, names = [Marks("bars", edges[:-1] + 0.5, heights, "muted", 0.8)], []
    for at, (name, color) in enumerate((("e4m3", "first"), ("e5m2", "second"))):
        values = np.array(finite_values(find_format(_FORMATS[name])))
        ends = np.array([math.log2(values[values > 0].min() / 2), math.log2(values.max())])
        marks.append(Marks("line", ends, np.full(2, -0.04 * (at + 1)), color, 5))
        names.append((f"{words}.{name}", color))
    frame = (_LEAST, _MOST, -0.12, 1.05 * float(heights.max()))
    return MarksPicture(f"{words}.combs", frame, tuple(marks), tuple(names))


def _app(_: str) -> tuple[str, dict[str, str]]:
    return FORMATS_PAGE, dict(zip("ab", _FORMATS.values(), strict=True))
