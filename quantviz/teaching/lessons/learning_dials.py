"""Dials on learning while weights are rounded: one weight on a staircase, lost updates, a small layer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from quantviz.quantization.quantizer import quantize
from quantviz.schemes.scheme import Scheme
from quantviz.sources import Source
from quantviz.teaching.lessons.dial_lines import in_lab
from quantviz.teaching.lessons.dial_series import Marks, MarksPicture, Series, Tensor

#: The weight at which the loss (ŵ − best)² is least, in steps.
_BEST = 2.6
#: The factor of the slope in `stairs`, and the updates that a learner can press for.
_RATE = 0.1
_PRESSED = 12
_RATES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
_UPDATES = 200
#: Sizes of an update in steps, and the number of them.
_SIZES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9)
_COUNT = 100


def learned(start: Source, scheme: Scheme, rates: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield w and ŵ before each update of the loss (ŵ − best)², for each rate: straight through, the slope at ŵ
    is taken for that at w.
    """
    w = start.tensor().flatten()[0].expand(len(rates)).double()
    while True:
        w_hat = quantize(w[None].float(), scheme).x_hat[0].double()
        yield w, w_hat
        w = w - rates * 2 * (w_hat - _BEST)


def stairs(weight: Tensor, at: str) -> Series:
    """Return one weight after some updates by the true slope, which is 0, and straight through."""
    now = int(at)
    stops = sorted({0, now, *(min(now + more, _PRESSED) for more in (1, 3) if now < _PRESSED)})
    path = [each for _, each in zip(range(stops[-1] + 1), learned(*weight, torch.tensor([_RATE])), strict=False)]
    start = path[0]
    numbers = [
        {
            "updates": stop,
            "w_true": float(start[0]),
            "loss_true": float((start[1] - _BEST) ** 2),
            "w_straight": float(path[stop][0]),
            "rounded_straight": float(path[stop][1]),
            "loss_straight": float((path[stop][1] - _BEST) ** 2),
        }
        for stop in stops
    ]
    x = torch.linspace(-0.6, 4.4, 500)
    hill = (x.double() - _BEST) ** 2
    stair = (quantize(x[None], weight[1]).x_hat[0].double() - _BEST) ** 2

    def ball(name: str) -> tuple[np.ndarray, np.ndarray]:
        return tuple(np.array([[each[f"{part}_{name}"]] for each in numbers]) for part in ("w", "loss"))

    def picture(name: str, color: str) -> MarksPicture:
        marks = (
            Marks("line", x.numpy(), hill.numpy(), "line", 1.5, dashed=True),
            Marks("line", x.numpy(), stair.numpy(), "text", 1.5),
            Marks("dots", *ball(name), color, 8),
        )
        return MarksPicture(f"learn.{name}", (-0.6, 4.4, -0.4, 7.2), marks, height=170)

    pictures = (picture("straight", "first"), picture("true", "second"))
    return Series(tuple(map(str, stops)), tuple(numbers), pictures, in_lab(weight))


def rates(weight: Tensor) -> Series:
    """Return a weight's way straight through at each learning rate."""
    pairs = zip(range(_UPDATES), learned(*weight, torch.tensor(_RATES)), strict=False)
    ws, hats = (torch.stack(each, 1).numpy() for each in zip(*(pair for _, pair in pairs), strict=True))
    late = slice(_UPDATES // 2, None)
    numbers = [
        {
            "swing": float(np.ptp(w[late])),
            "upper_share": float((hat[late] > _BEST).mean()),
            "mean_rounded": float(hat[late].mean()),
        }
        for w, hat in zip(ws, hats, strict=True)
    ]
    when = np.arange(_UPDATES, dtype=float)
    ends = np.array([0.0, _UPDATES])
    picture = MarksPicture(
        "rate.way",
        (0, _UPDATES, -0.1, 3.8),
        (
            *(Marks("line", ends, np.full(2, tooth), "line", 1) for tooth in (0.0, 1.0, 2.0, 3.0)),
            Marks("line", ends, np.full(2, _BEST), "accent", 1, dashed=True),
            Marks("line", when, ws, "first", 1.5),
        ),
        (("rate.best", "accent"), ("rate.weight", "first")),
    )
    return Series(tuple(map(str, _RATES)), tuple(numbers), (picture,), in_lab(weight))


def lost(weight: Tensor) -> Series:
    """Return a weight of few bits after equal updates, rounded after each to nearest and by chance."""
    sizes = torch.tensor(_SIZES)
    ways: dict[str, list[torch.Tensor]] = {"nearest": [], "chance": []}
    for name, way in ways.items():
        w = torch.zeros(1, len(sizes))
        for seed in range(_COUNT + 1):
            way.append(w[0])
            own = f"course(ties=stochastic,seed={seed})" if name == "chance" else "course"
            w = quantize(w + sizes, weight[1].replace(convention=own)).x_hat
    by_size = {name: torch.stack(way, 1).numpy() for name, way in ways.items()}
    numbers = [
        {"wanted": _COUNT * size, **{f"{name}_moved": float(way[at, -1]) for name, way in by_size.items()}}
        for at, size in enumerate(_SIZES)
    ]
    when = np.arange(_COUNT + 1, dtype=float)
    picture = MarksPicture(
        "lost.ways",
        (0, _COUNT, -2, 1.02 * _COUNT),
        (
            Marks("line", when, np.outer(_SIZES, when), "line", 2, dashed=True),
            Marks("line", when, by_size["nearest"], "second", 3),
            Marks("line", when, by_size["chance"], "first", 1.5),
        ),
        (("lost.wanted", "muted"), ("lost.nearest", "second"), ("lost.chance", "first")),
    )
    return Series(tuple(map(str, _SIZES)), tuple(numbers), (picture,), in_lab(weight))
