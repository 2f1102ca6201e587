"""The controls of the page of layers: the layer, a pair by name, and the scheme of each side."""

from __future__ import annotations

import dataclasses
from typing import Any

import streamlit as st

from quantviz.lab.layer_sources import parse_layer, write_layer
from quantviz.lab.layer_state import AS_IT_IS, INPUTS, PAIRS, WEIGHTS, LayerState, Pair, name_of_pair
from quantviz.layers.built_in import BUILT_IN_LAYERS, BuiltInLayer
from quantviz.ui.components.choice import choose_among, widen_list
from quantviz.ui.layers.own_layer import MORE, show_own_layer
from quantviz.ui.layers.state import OWNER
from quantviz.ui.layers.words import pair_names, scheme_name
from quantviz.ui.shell import errors, widgets
from quantviz.ui.shell.words import language, say

_SEED = "layers_seed"
_STATIC = "layers_static"
#: Whether the list of more choices was ever open.
_OPENED = "layers_more_opened"
#: More seeds than anybody tries.
_MOST_SEED = 999_999_999


def show_choices(state: LayerState) -> None:
    """Show the layer and its schemes."""
    shape = state.source.shape
    layers = {write_layer(each): each.title(language()) for each in map(BuiltInLayer, BUILT_IN_LAYERS)}
    now = write_layer(state.source)
    layers.setdefault(now, state.source.title(language()))
    with st.container(key="layers_choices", horizontal=True, vertical_alignment="bottom", gap="small"):
        _choose("layer", layers, now, lambda form: OWNER.put(OWNER.state.of_layer(parse_layer(form))))
        pairs = {name: words for name, words in pair_names().items() if not PAIRS[name].problem(shape)}
        known = name_of_pair(state.pair)
        own = {} if known in pairs else {"": say("layers.own_pair")}
        _choose(
            "pair",
            own | pairs,
            known if known in pairs else "",
            lambda name: OWNER.change(pair=PAIRS.get(name, state.pair)),
        )
        for side, offered in (("weights", WEIGHTS), ("inputs", INPUTS)):
            # The present one too, which a link may have brought.
            present = getattr(state.pair, side)
            plain = Pair(AS_IT_IS, AS_IT_IS)
            fitting = (form for form in offered if not plain.with_side(side, form).problem(shape))
            names = {form: scheme_name(form, side) for form in (AS_IT_IS, *fitting, present)}

            def take(form: str, side: str = side) -> None:
                OWNER.change(pair=OWNER.state.pair.with_side(side, form))

            _choose(side, names, present, take)
        more = st.popover(say("layers.more"), key=MORE, help=say("layers.more_help"), on_change="rerun")
        # Once opened they stay, and with them an upload and a typed value.
        if more.open or st.session_state.get(_OPENED):
            st.session_state[_OPENED] = True
            with more:
                _show_more(state)


def _choose(name: str, names: dict[str, str], now: str, take: Any) -> None:
    label = say(f"layers.choice.{name}")
    widen_list(label)
    choose_among(
        st.selectbox,
        f"layers_{name}",
        label,
        names,
        now,
        take,
        help=say(f"layers.choice.{name}_help"),
    )


def _show_more(state: LayerState) -> None:
    show_own_layer()
    st.divider()
    st.toggle(
        say("layers.static"),
        key=widgets.show(_STATIC, state.pair.static),
        on_change=errors.safely(
            lambda: OWNER.change(
                pair=dataclasses.replace(OWNER.state.pair, static=bool(st.session_state[_STATIC]))
            )
        ),
        help=say("layers.static_help"),
    )
    st.number_input(
        say("layers.seed"),
        0,
        _MOST_SEED,
        key=widgets.show(_SEED, state.seed),
        on_change=errors.safely(lambda: OWNER.change(seed=int(st.session_state[_SEED]))),
        help=say("layers.seed_help"),
    )
