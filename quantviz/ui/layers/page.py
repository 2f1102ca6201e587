"""The page of layers, one screen: title, finding, schemes; the channels' sizes over the multiplication, and
beside it the error, its remedy and the stage.
"""

from __future__ import annotations

import dataclasses
import html
from pathlib import Path
from types import MappingProxyType

import streamlit as st

from quantviz.lab.layer_sources import parse_layer, write_layer
from quantviz.lab.layer_state import (
    LayerState,
)
from quantviz.layers.built_in import BUILT_IN_LAYERS, BuiltInLayer
from quantviz.models.model_layer import ModelLayer
from quantviz.ui.components.clipboard import show_copy_link
from quantviz.ui.components.controls import (
    Control,
    number_control,
    show_controls,
    show_undo,
)
from quantviz.ui.components.page_header import show_header
from quantviz.ui.components.small_parts import problem_instead, show_page_errors
from quantviz.ui.layers.own_layer import MORE, refuse_large, show_own_layer
from quantviz.ui.layers.state import OWNER
from quantviz.ui.layers.words import choice, pair_controls, scheme_name
from quantviz.ui.shell.address import turn_to
from quantviz.ui.shell.imports import warm_up
from quantviz.ui.shell.tab import name_tab
from quantviz.ui.shell.words import language, say

#: Whether the list of more choices was ever open.
_OPENED = "layers_more_opened"
#: The letter of each side.
_LETTERS = MappingProxyType({"weights": "W", "inputs": "X"})
#: Among the layers the one without weights, which has a page of its own.
_ATTENTION = "attention"
#: More seeds than anybody tries.
_MOST_SEED = 999_999_999


def show_choices(state: LayerState) -> None:
    """Show the layer and its schemes."""
    layers = {write_layer(each): each.title(language()) for each in map(BuiltInLayer, BUILT_IN_LAYERS)}
    now = write_layer(state.source)
    layers[_ATTENTION] = say("layers.attention")
    layers.setdefault(now, state.source.title(language()))
    named, *sides = pair_controls(
        "layers", lambda: OWNER.state.pair, lambda pair: OWNER.change(pair=pair), state.source.shape
    )
    controls = [choice("layers", "layer", layers, now, _take_layer), named]
    with st.container(key="layers_choices", horizontal=True, gap="small"):
        show_controls("layers_schemes", OWNER, *controls, look="qv-inside")
        st.html(f'<p class="qv-small">{html.escape(_schemes_words(state))}</p>', width="stretch")
        more = st.popover(say("layers.more"), key=MORE, help=say("layers.more_help"), on_change="rerun")
        with more:
            show_controls("layers_sides", OWNER, *sides)
            # Once opened they stay, and with them an upload and a typed value.
            if more.open or st.session_state.get(_OPENED):
                st.session_state[_OPENED] = True
                _show_more(state)


def _take_layer(form: str) -> None:
    if form == _ATTENTION:
        turn_to("pages/explore/attention.py", {})
    else:
        OWNER.put(OWNER.state.of_layer(parse_layer(form)))


def _schemes_words(state: LayerState) -> str:
    """Return the names of both schemes, and on which tokens one static scale of X was chosen."""
    names = [f"{letter} {scheme_name(getattr(state.pair, side), side)}" for side, letter in _LETTERS.items()]
    scheme = state.pair.schemes()[1]
    if scheme is not None and state.pair.static and scheme.layout(state.source.shape[:2]).block_count == 1:
        names.append(say("layers.static_word"))
    return " · ".join(names)


def _show_more(state: LayerState) -> None:
    show_own_layer()
    st.divider()
    static = Control(
        "layers_static",
        "switch",
        say("layers.static"),
        say("layers.static_help"),
        "1" if state.pair.static else "",
        take=lambda form: OWNER.change(pair=dataclasses.replace(OWNER.state.pair, static=form == "1")),
    )
    seed = number_control(
        "layers_seed",
        say("layers.seed"),
        state.seed,
        lambda seed: OWNER.change(seed=seed),
        lowest=0,
        highest=_MOST_SEED,
        help=say("layers.seed_help"),
    )
    show_controls("layers_inputs_of", OWNER, static, seed)


def show_page() -> None:
    """Show the layer of the state under its schemes."""
    st.html(Path(__file__).with_name("layers.css"))
    state = OWNER.state
    source = state.source
    layer = source.title(language())
    look = source.look(language()) if isinstance(source, BuiltInLayer | ModelLayer) else say("layers.hint")
    title = " › ".join((say("pages.layers"), layer))
    name_tab(say("pages.layers"), layer)
    _, actions = show_header(title, "", ("pages/explore/checkpoints.py", say("pages.checkpoints")))
    with actions:
        show_undo(OWNER)
        show_copy_link()
    finding = st.container(key="layers_look")
    show_choices(state)
    warm_up()
    show_page_errors(*OWNER.problems)
    with problem_instead():
        refuse_large(source)
        from quantviz.ui.layers.tabs import show_layer

        show_layer(state, look, finding, actions)
    OWNER.show_link()
