"""The picture of learned rounding: what flipped, the error by step, and every rounding of eight weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.figures.numbers import short_number
from quantviz.lab.layer_state import LayerState
from quantviz.ui.components.controls import choose_among
from quantviz.ui.components.small_parts import show_plot
from quantviz.ui.layers.state import SeenLayer
from quantviz.ui.layers.words import percent, share_of, show_sentence
from quantviz.ui.shell.words import language, plain, say, say_error, theme

if TYPE_CHECKING:
    from quantviz.layers.methods.learned_rounding import LearningTrace

_FIRST = "layers_every_first"
#: The looks of a search by its method, where they are no steps: words under `[rounding_plots]`.
_AXES = {"svdquant": "alpha", "loftq": "round"}
_HEIGHT = 150
_TALL = 190


def show_rounding(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show what a learned rounding did, and every rounding of eight weights of the selected output."""
    from quantviz.figures.rounding_plots import learning_figure

    trace = next(seen.result.trace[name] for name in ("adaround", "signround") if name in seen.result.trace)
    show_sentence(_words(trace))
    _show_every(seen, cell[1])
    figure = learning_figure(trace, height=_HEIGHT, language=language(), theme=theme())
    show_plot(figure, "layers_learning", say("layers.pictures.rounding.alt"))


def show_course(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show the output error at each look of a search, and the look that was kept."""
    from quantviz.figures.rounding_plots import learning_figure
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
    from quantviz.figures.rounding_plots import every_figure
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
