"""Dials on learning while weights are rounded: a weight on a staircase, its swing, and lost updates."""

from __future__ import annotations

import numpy as np
import torch

from quantviz.figures.marks import Marks, Numbers
from quantviz.quantization.quantizer import quantize
from quantviz.schemes.scheme import Scheme
from quantviz.teaching.lessons.dial_lines import in_lab
from quantviz.teaching.lessons.dial_series import MarksPicture, Series, Tensor

#: The weight at which the loss (ŵ − best)² is least, in steps.
_BEST = 2.6
#: The learning rate of `stairs`, and the most updates.
_RATE, _PRESSED = 0.1, 12
_RATES, _UPDATES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8), 200
_SIZES, _COUNT = (0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9), 100


def _rounded(values: Numbers, scheme: Scheme) -> Numbers:
    return quantize(torch.from_numpy(values).float()[None], scheme).x_hat[0].double().numpy()


def learned(weight: Tensor, rates: tuple[float, ...], updates: int) -> tuple[Numbers, Numbers]:
    """Return w and ŵ before and after each update of (ŵ − best)², by rate, with the slope at ŵ for w's."""
    ways = [np.full(len(rates), float(weight[0].tensor().flatten()[0]))]
    hats = [_rounded(ways[0], weight[1])]
    for _ in range(updates):
        ways.append(ways[-1] - np.array(rates) * 2 * (hats[-1] - _BEST))
        hats.append(_rounded(ways[-1], weight[1]))
    return np.stack(ways, 1), np.stack(hats, 1)


def stairs(weight: Tensor, at: str) -> Series:
    """Return a weight after updates straight through, and by the true slope, which is 0."""
    now = int(at)
    stops = sorted({0, now, *(min(now + more, _PRESSED) for more in (1, 3) if now < _PRESSED)})
    (way,), (hat,) = learned(weight, (_RATE,), stops[-1])
    loss = (hat - _BEST) ** 2
    numbers = tuple(
        {
            "updates": stop,
            "w_straight": float(way[stop]),
            "rounded_straight": float(hat[stop]),
            "loss_straight": float(loss[stop]),
            "loss_true": float(loss[0]),
        }
        for stop in stops
    )
    x = np.linspace(-0.6, 4.4, 500)
    lines = (
        Marks("line", x, (x - _BEST) ** 2, "line", 1.5, dashed=True),
        Marks("line", x, (_rounded(x, weight[1]) - _BEST) ** 2, "text", 1.5),
    )
    pictures = []
    for name, places, color in (("straight", stops, "first"), ("true", [0] * len(stops), "second")):
        ball = Marks("dots", way[places, None], loss[places, None], color, 8)
        pictures.append(MarksPicture(f"learn.{name}", (-0.6, 4.4, -0.4, 7.2), (*lines, ball), height=170))
    return Series(tuple(map(str, stops)), numbers, tuple(pictures), in_lab(weight))


def rates(weight: Tensor) -> Series:
    """Return a weight's way straight through at each learning rate."""
    ways, hats = learned(weight, _RATES, _UPDATES)
    late = slice(-_UPDATES // 2, None)
    numbers = tuple(
        {
            "swing": float(np.ptp(way[late])),
            "upper_share": float((hat[late] > _BEST).mean()),
            "mean_rounded": float(hat[late].mean()),
        }
        for way, hat in zip(ways, hats, strict=True)
    )
    ends = np.array([0.0, _UPDATES])
    marks = [Marks("line", ends, np.full(2, tooth), "line", 1) for tooth in (0.0, 1.0, 2.0, 3.0)]
    marks.append(Marks("line", ends, np.full(2, _BEST), "accent", 1, dashed=True))
    marks.append(Marks("line", np.arange(_UPDATES + 1.0), ways, "first", 1.5))
    names = (("rate.best", "accent"), ("rate.weight", "first"))
    picture = MarksPicture("rate.way", (0, _UPDATES, -0.1, 3.8), tuple(marks), names)
    return Series(tuple(map(str, _RATES)), numbers, (picture,), in_lab(weight))


def lost(weight: Tensor) -> Series:
    """Return a weight after equal updates, rounded to nearest and by chance."""
    sizes, when = np.array(_SIZES), np.arange(_COUNT + 1.0)
    ways = {}
    for name, convention in (("nearest", "course"), ("chance", "course(ties=stochastic,seed={})")):
        w = [np.zeros(len(sizes))]
        for update in range(_COUNT):
            w.append(_rounded(w[-1] + sizes, weight[1].replace(convention=convention.format(update))))
        ways[name] = np.stack(w, 1)
    numbers = tuple(
        {"wanted": _COUNT * size, **{f"{name}_moved": float(way[at, -1]) for name, way in ways.items()}}
        for at, size in enumerate(_SIZES)
    )
    marks = (
        Marks("line", when, np.outer(sizes, when), "muted", 2, dashed=True),
        Marks("line", when, ways["nearest"], "second", 3),
        Marks("line", when, ways["chance"], "first", 1.5),
    )
    names = (("lost.wanted", "muted"), ("lost.nearest", "second"), ("lost.chance", "first"))
    picture = MarksPicture("lost.ways", (0, _COUNT, -2, 1.02 * _COUNT), marks, names)
    return Series(tuple(map(str, _SIZES)), numbers, (_first_update(sizes), picture), in_lab(weight))


def _first_update(sizes: Numbers) -> MarksPicture:
    teeth, ends = np.array([0.0, 1.0]), np.stack([np.zeros_like(sizes), sizes], 1)
    marks = (
        Marks("bars", teeth, np.ones(2), "muted", 0.01),
        Marks("words", teeth, np.full(2, -0.4), "muted", labels=("0", "1")),
        Marks("line", ends, np.full(2, 0.5), "first", 3),
        Marks("dots", sizes[:, None], np.full(1, 0.5), "first", 7),
    )
    return MarksPicture("lost.first", (-0.1, 1.1, -0.8, 1.2), marks, height=90)
