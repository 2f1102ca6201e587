"""How loud the input channels are, under a hand, and the layer as a file that works without a server: see
`quantviz.live`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.browser.packing import pack
from quantviz.errors import QuantVizError
from quantviz.lab.layer_moves import moved_layer
from quantviz.lab.layer_state import LayerPart, LayerState
from quantviz.live.hand_words import Looks
from quantviz.live.layer_payload import LayerHand
from quantviz.ui.components.component import component, counted
from quantviz.ui.components.small_parts import show_save_page
from quantviz.ui.layers.picture import PICTURE, multiplication_of
from quantviz.ui.layers.state import OWNER
from quantviz.ui.shell.classroom import is_open
from quantviz.ui.shell.words import language, say, shape_text, theme

if TYPE_CHECKING:
    from quantviz.layers.integer_result import IntegerResult
    from quantviz.live.layer_page import LayerPage
    from quantviz.ui.layers.state import SeenLayer

_KEY = "layers_hand"
_SCRIPT = "layer_hand_component"


def _hand_of(seen: SeenLayer, state: LayerState) -> LayerHand:
    """Return the layer as a hand moves it."""
    return LayerHand(seen.result, seen.channels, state, lambda: seen.unchanged, Looks(language(), theme()))


def show_hand(seen: SeenLayer, state: LayerState, selected: tuple[int, int, int]) -> bool:
    """Show how loud each input channel is, with the ceiling that the one scale of X reaches; of a small layer
    the size of an input channel and a weight can be moved too. Return whether they can.

    Args:
        seen: The layer under the schemes of the state.
        state: The state.
        selected: Token, output and input channel.
    """
    _, inputs, outputs = seen.result.shape

    def move(message: Mapping[str, Any]) -> None:
        if (message["channel"] or 0) < inputs and message.get("output", 0) < outputs:
            OWNER.put(moved_layer(OWNER.state, message))

    released, take = counted(_KEY, move)
    hand = _hand_of(seen, state)
    integers = _integers(seen, state) if hand.small else None
    header, arrays = hand.payload(PICTURE, selected, integers)
    with st.container(key="layers_knobs" if hand.small else "layers_skyline"):
        component("quantviz_layer_hand", _SCRIPT)(
            key=_KEY,
            data=pack({**header, "released": released}, arrays),
            on_release_change=take,
        )
    return hand.small


def _integers(seen: SeenLayer, state: LayerState) -> IntegerResult | None:
    """Return the layer in integers; None where the tab is not open, or the schemes have no such layer."""
    if state.open_tab != "integer":
        return None
    try:
        layer = seen.integers(state.engine, state.output_format, state.activation)
    except QuantVizError:
        return None
    # The server alone has each token's own multiplier.
    return None if layer.inputs.scale.dim() else layer


def offer_page(seen: SeenLayer, state: LayerState) -> None:
    """Show a button that saves the layer as a page."""
    if is_open():
        page = page_of(seen, state)
        show_save_page(page.html, page.problem, "layer.html", "layer_to_page", say("layers.hand.page_help"))


def page_of(seen: SeenLayer, state: LayerState) -> LayerPage:
    """Return the whole layer under the state's schemes, with its selected output, as a page."""
    from quantviz.live.layer_page import LayerPage

    cell = state.cell or seen.worst
    channel = int(seen.products(cell).channels[0]) if state.channel is None else state.channel
    hand = _hand_of(seen, state)
    whole = seen.picture(LayerPart.whole(seen.result.shape), state.shown)
    selected = (*cell, channel)
    picture = multiplication_of(seen, state, whole, selected, hand=hand.small)
    title = f"{state.source.title(language())} · {shape_text(seen.result.shape)}"
    return LayerPage(hand, picture, title, selected)
