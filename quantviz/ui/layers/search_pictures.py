"""The pictures of searches: learned rounding, the course of a search, and the columns of GPTQ."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from quantviz.browser.packing import pack
from quantviz.errors import QuantVizError
from quantviz.figures.numbers import WRITING, short_number
from quantviz.figures.theme import THEMES
from quantviz.lab.layer_state import LayerState
from quantviz.text import templates
from quantviz.ui.components.component import component
from quantviz.ui.components.controls import choose_among
from quantviz.ui.components.small_parts import show_plot
from quantviz.ui.layers.scaling_pictures import show_series
from quantviz.ui.layers.state import SeenLayer
from quantviz.ui.layers.words import percent, share_of, show_sentence, show_terms
from quantviz.ui.shell.words import language, plain, say, say_error, theme

if TYPE_CHECKING:
    import torch

    from quantviz.layers.methods.column_sweep import SweepTrace
    from quantviz.layers.methods.learned_rounding import LearningTrace

_SCRIPT = "sweep_component"
#: Outputs whose weights are shown: more would be lines of less than three pixels.
_MOST_OUTPUTS = 28
#: Channels of the square of cosines, and its height in CSS pixels.
_MOST_CHANNELS = 48
_LIKENESS_HEIGHT = 260
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
    show_series(shown, "likeness", say("layers.pictures.likeness.alt"), _LIKENESS_HEIGHT)
    show_terms("hessian", "cosine")


def _single(values: torch.Tensor) -> np.ndarray[Any, Any]:
    """Return numbers as float32, row by row."""
    return values.flatten().numpy().astype(np.float32)


_FIRST = "layers_every_first"
#: The looks of a search by its method, where they are no steps: words under `[rounding_plots]`.
_AXES = {"svdquant": "alpha", "loftq": "round"}
_HEIGHT = 150
_TALL = 190


def show_rounding(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show what a learned rounding did, and every rounding of eight weights of the selected output."""
    from quantviz.figures.line_plots import learning_figure
    from quantviz.layers.methods.learned_rounding import LearningTrace

    trace = next(trace for trace in seen.result.trace.values() if isinstance(trace, LearningTrace))
    show_sentence(_words(trace))
    _show_every(seen, cell[1])
    figure = learning_figure(trace, height=_HEIGHT, language=language(), theme=theme())
    show_plot(figure, "layers_learning", say("layers.pictures.rounding.alt"))


def show_course(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show the output error at each look of a search, and the look that was kept."""
    from quantviz.figures.line_plots import learning_figure
    from quantviz.layers.methods.contract import CourseTrace

    traces = seen.result.trace.items()
    method, trace = next((name, trace) for name, trace in traces if isinstance(trace, CourseTrace))
    axis = _AXES.get(method, "step")
    show_sentence(
        say(
            "layers.pictures.course.found",
            look=say(f"rounding_plots.{axis}"),
            at=short_number(float(trace.steps[trace.best])),
            before=percent(float(trace.errors[0])),
            after=percent(float(trace.errors[trace.best])),
        )
    )
    figure = learning_figure(trace, height=_HEIGHT, axis=axis, language=language(), theme=theme())
    show_plot(figure, "layers_course", say("layers.pictures.course.alt"))


def _words(trace: LearningTrace) -> str:
    """Return the sentence on the weights whose code is another than the nearest."""
    step = int(trace.steps[trace.best])
    return say(
        f"layers.pictures.rounding.{'found' if step else 'none'}",
        flipped=share_of(float(trace.flipped.double().mean())),
        before=percent(float(trace.errors[0])),
        after=percent(float(trace.errors[trace.best])),
        step=step,
    )


def _show_every(seen: SeenLayer, output: int) -> None:
    """Show the roundings of eight weights, and the slider that takes others."""
    from quantviz.figures.line_plots import every_figure
    from quantviz.layers.methods.every_rounding import WEIGHTS, every_rounding, most_telling

    inputs = seen.result.shape[1]
    if inputs < WEIGHTS or seen.result.method.bases:
        return
    starts = list(range(0, inputs - WEIGHTS + 1, WEIGHTS))
    held = st.session_state.get(_FIRST)
    try:
        first = held if held in starts else most_telling(seen.result, output)
        every = every_rounding(seen.result, output, first)
    except QuantVizError as problem:
        st.caption(say_error(problem))
        return
    choose_among(
        "layers_every_choice",
        "range",
        say("layers.pictures.rounding.first"),
        {start: str(start) for start in starts},
        first,
        lambda start: st.session_state.update({_FIRST: start}),
    )
    st.markdown(
        plain(
            say(
                f"layers.pictures.rounding.{'every' if every.better else 'best'}",
                output=output,
                first=first,
                last=first + WEIGHTS - 1,
                better=every.better,
                count=len(every.errors),
                times=short_number(every.times),
            )
        )
    )
    figure = every_figure(every, height=_TALL, language=language(), theme=theme())
    show_plot(figure, "layers_every", say("layers.pictures.rounding.every_alt"))
