"""The layers of a model that runs: a map with four colourings, and which cheap number predicts the KL
divergence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import streamlit as st

from quantviz.ui.checkpoints.model_state import COLOURS, ModelState, change_model_state, effects_of
from quantviz.ui.components.choice import choose_among
from quantviz.ui.components.small_parts import show_plot
from quantviz.ui.shell.words import language, plain, say, theme

if TYPE_CHECKING:
    pass

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
        st.markdown(f"## {say('models.map')}")
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
        st.markdown(f"## {say('models.which_predicts')}")
        st.markdown(plain(_sentence(found)))
        for column, cheap in zip(st.columns(2, gap="small"), CHEAP, strict=True):
            with column:
                figure = predictions_figure(
                    effects, cheap, height=_HEIGHT, language=language(), theme=theme()
                )
                words = say("models.predicts_alt", number=say(f"models.colours.{cheap}"))
                show_plot(figure, f"models_predicts_{cheap}", words)


def _sentence(found: Mapping[str, float]) -> str:
    return say(
        "models.predicts",
        weight=f"{found['weight_db']:.2f}".replace("-", "−"),
        output=f"{found['rel_out']:.2f}".replace("-", "−"),
    )
