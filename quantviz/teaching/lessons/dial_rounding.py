"""The dial of GPTQ: weights of one row are rounded one by one, and those that are left move to make up."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import torch

from quantviz.errors import QuantVizError
from quantviz.figures.marks import Marks, Numbers
from quantviz.layers.methods.column_sweep import SweepTrace
from quantviz.layers.methods.contract import MethodTask
from quantviz.layers.methods.gptq import GPTQ
from quantviz.layers.operands import held_back_tokens
from quantviz.teaching.lessons.dial_series import MarksPicture, Series, Tensor, layer_address

#: No weight is rounded; weights are named by digits from 1.
NONE = "0"
#: Levels of the output's error that are drawn, in that of rounding both to nearest.
_LEVELS = (0.1, 0.4, 1.0, 2.0)
_CIRCLE = np.linspace(0, 2 * np.pi, 73)


def series(weights: Tensor, inputs: Tensor, at: str) -> Series:
    """Return weights under GPTQ after the order `at`, and after each that a press adds or takes back."""
    w, x = weights[0].tensor().double(), inputs[0].tensor().double()
    task = MethodTask(w, x[~held_back_tokens(len(x), 0)], weights[1], None)
    names = tuple(str(place + 1) for place in range(w.shape[1]))
    done = "" if at == NONE else at
    if len({*done}) < len(done) or not {*done} <= {*names}:
        raise QuantVizError("lessons.no_stop", got=at[:40], known=", ".join((NONE, *names)))
    stops = (at, *((done.partition(name)[0] or NONE) if name in done else done + name for name in names))
    sweep = [_Swept.of(task, stop) for stop in stops]
    shared = _of_row(task, names)
    return Series(
        stops,
        tuple({**shared, **each.numbers()} for each in sweep),
        (_comb(sweep), _ellipse(sweep)),
        layer_address(weights, inputs, "gptq", ("weights",)),
        ("", *(f"{name} ✓" if name in done else name for name in names)),
    )


class _Swept:
    def __init__(self, task: MethodTask, order: tuple[int, ...], count: int) -> None:
        self.task = task
        self.count = count
        self.rounded = np.isin(np.arange(len(order)), order[:count])
        columns = list(order)
        swept = GPTQ().round(MethodTask(task.w[:, columns], task.x[:, columns], task.weights, None))
        self.trace: SweepTrace = swept.trace
        moved = torch.empty_like(task.w[0])
        moved[columns] = self.trace.at(count)[0]
        self.values: Numbers = moved.numpy()
        self.nearest: Numbers = task.nearest.x_hat[0].double().numpy()
        self.scale = float(task.nearest.qparams.scale.max())
        #: Rounded weights that went to a tooth which is not their nearest.
        self.wrong = self.rounded & (np.abs(self.values - self.nearest) > self.scale / 2)

    @classmethod
    def of(cls, task: MethodTask, stop: str) -> _Swept:
        """Return the row after the weights of a stop; the others keep their order."""
        first = [] if stop == NONE else [int(name) - 1 for name in stop]
        rest = (place for place in range(task.w.shape[1]) if place not in first)
        return cls(task, (*first, *rest), len(first))

    def numbers(self) -> dict[str, float]:
        return {
            "rounded": float(self.count),
            "wrong_ways": float(self.wrong.sum()),
            "gptq_error": 100 * float(self.trace.output_errors[self.count]),
            "gptq_weight_error": 100 * float(self.trace.weight_errors[self.count]),
            "nearest_error": 100 * float(self.trace.nearest_output_errors[-1]),
            "nearest_weight_error": 100 * float(self.trace.nearest_weight_errors[-1]),
        }


def _of_row(task: MethodTask, names: tuple[str, ...]) -> dict[str, float]:
    """Return the numbers that all stops share."""
    one, other = _pair(task.hessian)
    loud = task.hessian.diagonal()
    falling = loud.argsort(descending=True, stable=True).tolist()
    wrong = next((order for order in accumulate(names) if _Swept.of(task, order).wrong.any()), NONE)
    return {
        "loudest_order": float("".join(names[place] for place in falling)),
        "wrong_order": float(wrong),
        "together": float(task.hessian[one, other] / (loud[one] * loud[other]).sqrt()),
        "one_of_pair": one + 1.0,
        "other_of_pair": other + 1.0,
    }


def _pair(hessian: torch.Tensor) -> tuple[int, int]:
    # The two weights whose inputs go together most.
    roots = hessian.diagonal().sqrt()
    alike = (hessian / torch.outer(roots, roots)).abs().triu(1)
    return divmod(int(alike.argmax()), len(roots))


def _comb(sweep: list[_Swept]) -> MarksPicture:
    """Draw each weight's line: a ring where it was, and a disc where it is, on the teeth of the row."""
    count = len(sweep[0].values)
    start = sweep[0].task.w[0].numpy()
    scale = sweep[0].scale
    places = np.stack([each.values for each in sweep])
    lines = np.broadcast_to(np.arange(count, 0, -1.0), places.shape)
    reach = max(float(np.abs(places).max()), float(np.abs(start).max())) + 0.6 * scale
    teeth = np.arange(-np.floor(reach / scale), np.floor(reach / scale) + 1) * scale
    rounded = np.stack([each.rounded for each in sweep])
    wrong = np.stack([each.wrong for each in sweep])
    broken = np.full_like(places, np.nan)
    ways = np.stack([np.broadcast_to(start, places.shape), places, broken], -1).reshape(len(sweep), -1)
    edges = np.array([0.4, count + 0.6, np.nan])

    def where(these: np.ndarray) -> Numbers:
        return np.where(these, places, np.nan)

    return MarksPicture(
        "sliding.comb",
        (-reach - 0.5 * scale, reach, 0.3, count + 0.7),
        (
            Marks("line", np.repeat(teeth, 3), np.tile(edges, len(teeth)), "line", 1),
            Marks("line", ways, np.repeat(lines, 3, axis=1), "muted", 1, dashed=True),
            Marks("dots", start, lines[0], "muted", 5, hollow=True),
            Marks("dots", where(~rounded), lines, "first", 5),
            Marks("dots", where(rounded & ~wrong), lines, "accent", 7),
            Marks("dots", where(wrong), lines, "red", 7),
            Marks("words", np.full(count, -reach - 0.2 * scale), lines[0], "text", labels=tuple("12345678")),
        ),
        (("sliding.left", "first"), ("sliding.rounded", "accent"), ("sliding.wrong", "red")),
        height=230,
    )


def _ellipse(sweep: list[_Swept]) -> MarksPicture:
    """Draw the two weights that go together most: ellipses of equal error, and the grid of both."""
    pair = list(_pair(sweep[0].task.hessian))
    start, nearest = sweep[0].task.w[0].numpy()[pair], sweep[0].nearest[pair]
    scale = sweep[0].scale
    hessian = sweep[0].task.hessian[pair][:, pair]
    root = torch.linalg.inv(torch.linalg.cholesky(hessian)).numpy()
    error = float((nearest - start) @ hessian.numpy() @ (nearest - start))
    circle = np.stack([np.cos(_CIRCLE), np.sin(_CIRCLE)])
    rings = np.concatenate(
        [np.c_[np.sqrt(level * error) * root.T @ circle, [np.nan, np.nan]] for level in _LEVELS], axis=1
    )
    reach = 1.8 * scale
    teeth = [scale * np.arange(np.ceil((at - reach) / scale), (at + reach) // scale + 1) for at in start]
    ends = [np.array([at - reach, at + reach, np.nan]) for at in start]
    here = np.stack([each.values[pair] for each in sweep])
    return MarksPicture(
        "sliding.ellipse",
        (start[0] - reach, start[0] + reach, start[1] - reach, start[1] + reach),
        (
            Marks("line", np.repeat(teeth[0], 3), np.tile(ends[1], len(teeth[0])), "line", 1),
            Marks("line", np.tile(ends[0], len(teeth[1])), np.repeat(teeth[1], 3), "line", 1),
            Marks("line", start[0] + rings[0], start[1] + rings[1], "second", 1.5),
            Marks("dots", start[:1], start[1:], "muted", 5, hollow=True),
            Marks("dots", nearest[:1], nearest[1:], "text", 5, hollow=True),
            Marks("dots", here[:, :1], here[:, 1:], "accent", 6),
            Marks(
                "words",
                start[0] + 0.94 * reach * np.array([1.0, -1.0]),
                start[1] + 0.94 * reach * np.array([-1.0, 1.0]),
                "muted",
                labels=tuple(str(place + 1) for place in pair),
            ),
        ),
        (("sliding.equal", "second"), ("sliding.nearest", "text"), ("sliding.here", "accent")),
        equal=True,
        height=230,
    )
