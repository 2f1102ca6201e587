"""GPTQ's pictures: a slider over the columns, which the browser answers from what is sent once, and H."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from quantviz.browser.packing import pack
from quantviz.figures.numbers import WRITING, short_number
from quantviz.figures.theme import THEMES
from quantviz.lab.layer_state import LayerState
from quantviz.text import templates
from quantviz.ui.components.component import component
from quantviz.ui.layers.scaling_pictures import show_series
from quantviz.ui.layers.state import SeenLayer
from quantviz.ui.layers.words import show_sentence, show_terms
from quantviz.ui.shell.words import language, say, theme

if TYPE_CHECKING:
    import torch

    from quantviz.layers.methods.column_sweep import SweepTrace

_SCRIPT = "sweep_component"
#: Outputs whose weights are shown: more would be lines of less than three pixels.
_MOST_OUTPUTS = 28
#: Channels of the square of cosines, and its height in CSS pixels.
_MOST_CHANNELS = 48
_HEIGHT = 260
#: The largest whole number that stands for a share of a row's largest push.
_WHOLE = 32767


def show_sweep(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show the sweep, with the selected output's weights first."""
    import torch

    trace = seen.result.trace["gptq"]
    study = seen.result.weights.study
    assert study is not None
    assert study.result is not None
    step = max(1, len(trace.w) // _MOST_OUTPUTS)
    others = (each for each in range(0, len(trace.w), step) if each != cell[1])
    outputs = [cell[1], *others][:_MOST_OUTPUTS]
    weights = trace.w[outputs]
    factor = trace.factor
    largest = factor.abs().amax(1)
    rows, columns = torch.triu_indices(*factor.shape)
    shares = (factor[rows, columns] / largest[rows] * _WHOLE).round().to(torch.int16)
    colours = THEMES[theme()]
    header: dict[str, Any] = {
        "key": f"{seen.key} {cell[1]}",
        "rows": len(outputs),
        "columns": len(factor),
        "reach": float(weights.abs().quantile(0.995)) or 1.0,
        "words": dict(templates("layers.method.sweep", language())),
        "writing": asdict(WRITING),
        "colors": {
            **colours.named("text", "muted", "line", "accent", "font"),
            "positive": colours.values[-1],
            "negative": colours.values[0],
            "output": colours.schemes[0],
            "weight": colours.schemes[1],
        },
    }
    arrays = {
        "weights": _single(weights),
        "pushed": _single(trace.pushed[outputs]),
        "factor": shares.numpy(),
        "largest": _single(largest),
        "diagonal": _single(factor.diagonal()),
        "rounded": _single(study.result.x_hat[cell[1]][trace.order]),
        "loud": _single(trace.hessian.diagonal().sqrt()),
        "order": trace.order.to(torch.int32).numpy(),
        "outputs": np.asarray(outputs, dtype=np.int32),
        "output": _single(trace.output_errors),
        "weight": _single(trace.weight_errors),
        "nearestOutput": _single(trace.nearest_output_errors),
        "nearestWeight": _single(trace.nearest_weight_errors),
    }
    component("quantviz_sweep", _SCRIPT)(key="layers_sweep", data=pack(header, arrays))
    _show_likeness(trace)


def _show_likeness(trace: SweepTrace) -> None:
    """Show the cosines of the loudest input channels, by which one makes up for the error of another."""
    from quantviz.figures.method_plots import Likeness

    loud = trace.hessian.diagonal()
    order = loud.argsort(descending=True, stable=True)[:_MOST_CHANNELS]
    order = order[loud[order] > 0]
    if len(order) < 2:
        return
    roots = loud[order].sqrt().unsqueeze(1)
    cosines = trace.hessian[order][:, order] / (roots * roots.T)
    one, other = divmod(int(cosines.abs().fill_diagonal_(0).argmax()), len(order))
    channels = tuple(trace.order[order].tolist())
    words = {"one": channels[one], "other": channels[other]}
    cosine = short_number(float(cosines[one, other]))
    show_sentence(say("layers.pictures.likeness.found", cosine=cosine, **words))
    shown = Likeness(tuple(map(tuple, cosines.tolist())), channels)
    show_series(shown, "likeness", say("layers.pictures.likeness.alt"), _HEIGHT)
    show_terms("hessian", "cosine")


def _single(values: torch.Tensor) -> np.ndarray[Any, Any]:
    """Return numbers as float32, row by row."""
    return values.flatten().numpy().astype(np.float32)
