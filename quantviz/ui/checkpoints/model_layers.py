"""The layers of a model that runs: a map with four colourings, cheap numbers against the KL divergence, and
the error through depth.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import streamlit as st

from quantviz.figures.numbers import short_number
from quantviz.lab.layer_state import AS_IT_IS, LayerState, SchemePair
from quantviz.models.model_layer import ModelLayer
from quantviz.schemes.recipes import RECIPES
from quantviz.schemes.scheme import Scheme
from quantviz.ui.checkpoints.model_state import (
    ADDERS,
    COLOURS,
    INPUTS,
    RUNNING,
    ModelState,
    effects_of,
    ran,
    state_words,
    tried,
)
from quantviz.ui.checkpoints.state import OWNER, change_model
from quantviz.ui.components.component import clicked_mark
from quantviz.ui.components.controls import choose_among
from quantviz.ui.components.small_parts import legend_html, show_plot, table_html
from quantviz.ui.shell import errors
from quantviz.ui.shell.address import turn_to
from quantviz.ui.shell.classroom import parameters
from quantviz.ui.shell.words import language, plain, say, sentences, theme

if TYPE_CHECKING:
    from quantviz.figures.payload import UncheckedFigure
    from quantviz.models.layer_effects import LayerEffect

_LAYERS = "pages/explore/layers.py"
_MAP = "models_map"
_HEIGHT = 215


def show_layers(model: str, state: ModelState) -> None:
    """Show the map of the layers, and the dots of both cheap numbers."""
    if state.is_stored and state.inputs == "float":
        st.caption(plain(say("models.nothing_rounded")))
        return
    from quantviz.figures.model_run_plots import coloured, effects_figure, kinds_of, predictions_figure
    from quantviz.models.layer_effects import CHEAP, predictions

    effects = effects_of(model, state)
    found = predictions(effects)
    colours = _colours(model)
    with st.container(key="models_layers"):
        left, right = st.columns([5, 7], gap="medium")
    with left:
        choose_among(
            "models_colour",
            "list",
            say("models.colour"),
            {name: say(f"models.colours.{name}") for name in colours},
            state.colour,
            lambda name: change_model(colour=name),
            look="qv-unnamed",
        )
        figure = effects_figure(effects, state.colour, language=language(), theme=theme())
        words = say("models.map_alt", colour=say(f"models.colours.{state.colour}"))
        _show_clickable(figure, _MAP, words, model, effects)
        st.caption(plain(sentences(say(f"models.colours_about.{state.colour}"), say("models.map_opens"))))
    with right:
        st.markdown(plain(_sentence(found)))
        _show_legend(coloured(kinds_of(effects).values(), theme()))
        for column, cheap in zip(st.columns(2, gap="small"), CHEAP, strict=True):
            with column:
                figure = predictions_figure(
                    effects, cheap, height=_HEIGHT, language=language(), theme=theme()
                )
                words = say("models.predicts_alt", number=say(f"models.colours.{cheap}"))
                _show_clickable(figure, f"models_predicts_{cheap}", words, model, effects)
    opened = st.expander(say("models.table"), key="models_table", on_change="rerun")
    if opened.open:
        with opened:
            st.html(f'<div class="qv-mixes">{_table(model, state, effects)}</div>')


def _colours(model: str) -> Sequence[str]:
    return COLOURS if model in ADDERS else COLOURS[1:]


def _table(model: str, state: ModelState, effects: Sequence[LayerEffect]) -> str:
    """Return the numbers of each layer as HTML: its name leads to its page."""
    from quantviz.figures.model_run_plots import written

    colours = _colours(model)
    heads = [say("models.choice.layer"), *(say(f"models.colours.{name}") for name in colours)]
    rows = []
    for effect in effects:
        link = state_of_layer(model, effect.name, state).written()
        place = html.escape(urlencode({**link, "lang": language(), **parameters()}))
        name = html.escape(effect.name.removeprefix("model."))
        numbers = "".join(f"<td>{written(getattr(effect, each), each)}</td>" for each in colours)
        rows.append(f'<tr><th><a href="layers?{place}" target="_self">{name}</a></th>{numbers}</tr>')
    return table_html(heads, rows)


def _show_clickable(
    figure: UncheckedFigure, key: str, alt: str, model: str, effects: Sequence[LayerEffect]
) -> None:
    """Show a plot in which a click on the mark of an effect opens its layer."""

    def open_clicked() -> None:
        at = clicked_mark(key, lambda number: number in range(len(effects)))
        if at is not None:
            found = state_of_layer(model, effects[int(at)].name, OWNER.state.model)
            turn_to(_LAYERS, found.written())

    show_plot(figure, key, alt, on_select=errors.safely(open_clicked), selection_mode="points")


def state_of_layer(model: str, name: str, state: ModelState) -> LayerState:
    """Return the state of the page of layers with a layer of a model under the schemes of a state."""
    schemes = state.layer_schemes()
    weights = AS_IT_IS
    if isinstance(schemes.weights, Scheme) and not state.is_stored:
        named = (name for name, recipe in RECIPES.items() if recipe == schemes.weights)
        weights = next(named, str(schemes.weights))
    pair = SchemePair(weights, INPUTS[state.inputs] or AS_IT_IS)
    return LayerState(ModelLayer(model, name), pair, method=schemes.method).fitting()


def show_depth(chosen: str, state: ModelState) -> None:
    """Show the error of the residual stream through depth, a line for each of the last schemes tried."""
    from quantviz.figures.model_run_plots import coloured, depth_figure, place_words
    from quantviz.models.running import first_jump

    runs = {state_words(each): ran(RUNNING[chosen], each).depth for each in tried(chosen, state)}
    jump = first_jump(list(runs.values())[-1])
    words = say("models.no_jump")
    if jump is not None:
        place = place_words(jump[0], language())
        words = say("models.jump", place=place, factor=short_number(jump[1], 2))
    st.markdown(plain(words))
    _show_legend(coloured(runs, theme()))
    figure = depth_figure(runs, height=_HEIGHT, language=language(), theme=theme())
    show_plot(figure, "models_depth", say("models.depth_alt"))
    st.caption(plain(say("models.tries")))


def _show_legend(colours: Iterable[tuple[str, str]]) -> None:
    """Show names and their colours above a plot, where they wrap and leave the plot its room."""
    st.html(f'<p class="qv-small qv-legend">{legend_html(colours)}</p>')


def _sentence(found: Mapping[str, float]) -> str:
    return say(
        "models.predicts",
        weight=f"{found['weight_db']:.2f}".replace("-", "−"),
        output=f"{found['rel_out']:.2f}".replace("-", "−"),
    )
