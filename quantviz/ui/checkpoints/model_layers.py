"""The layers of a model that runs: a map with four colourings, cheap numbers against the KL divergence, and
the error through depth.
"""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from quantviz.figures.numbers import short_number
from quantviz.ui.checkpoints.model_state import (
    COLOURS,
    RUNNING,
    ModelState,
    change_model_state,
    effects_of,
    ran,
    tried,
)
from quantviz.ui.components.choice import choose_among
from quantviz.ui.components.small_parts import show_plot
from quantviz.ui.shell.words import language, plain, say, theme

_MAP = "models_map"
_HEIGHT = 230


def show_layers(model: str, state: ModelState) -> None:
    """Show the map of the layers, and the dots of both cheap numbers."""
    if state.bits == 16 and state.inputs == "float":
        st.caption(plain(say("models.nothing_rounded")))
        return
    from quantviz.figures.model_run_plots import effects_figure, predictions_figure
    from quantviz.models.layer_effects import CHEAP, predictions

    effects = effects_of(model, state)
    found = predictions(effects)
    left, right = st.columns([5, 7], gap="medium")
    with left:
        choose_among(
            st.selectbox,
            "models_colour",
            say("models.colour"),
            {name: say(f"models.colours.{name}") for name in COLOURS},
            state.colour,
            lambda name: change_model_state(colour=name),
            label_visibility="collapsed",
        )
        figure = effects_figure(effects, state.colour, language=language(), theme=theme())
        show_plot(figure, _MAP, say("models.map_alt", colour=say(f"models.colours.{state.colour}")))
        st.caption(plain(say(f"models.colours_about.{state.colour}")))
    with right:
        st.markdown(plain(_sentence(found)))
        for column, cheap in zip(st.columns(2, gap="small"), CHEAP, strict=True):
            with column:
                figure = predictions_figure(
                    effects, cheap, height=_HEIGHT, language=language(), theme=theme()
                )
                words = say("models.predicts_alt", number=say(f"models.colours.{cheap}"))
                show_plot(figure, f"models_predicts_{cheap}", words)


def show_depth(chosen: str) -> None:
    """Show the error of the residual stream through depth, a line for each of the last schemes tried."""
    from quantviz.figures.model_run_plots import depth_figure, place_words
    from quantviz.models.running import first_jump

    runs = {state_words(each): ran(RUNNING[chosen], each).depth for each in tried(chosen)}
    jump = first_jump(list(runs.values())[-1])
    words = say("models.no_jump")
    if jump is not None:
        place = place_words(jump[0], language())
        words = say("models.jump", place=place, factor=short_number(jump[1], 2))
    st.markdown(plain(words))
    figure = depth_figure(runs, height=_HEIGHT, language=language(), theme=theme())
    show_plot(figure, "models_depth", say("models.depth_alt"))


def state_words(state: ModelState) -> str:
    """Return the words of a state's schemes."""
    parts = [say("models.of_bits", bits=state.bits), say(f"models.shared.{state.shared}")]
    usual = ModelState()
    for field in ("method", "inputs", "cache"):
        if getattr(state, field) != getattr(usual, field):
            parts.append(say(f"models.{field}_short.{getattr(state, field)}"))
    return ", ".join(parts)


def _sentence(found: Mapping[str, float]) -> str:
    return say(
        "models.predicts",
        weight=f"{found['weight_db']:.2f}".replace("-", "−"),
        output=f"{found['rel_out']:.2f}".replace("-", "−"),
    )
