"""The layer of the page as a file that works without a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from quantviz.lab.layer_state import LayerPart, LayerState
from quantviz.ui.layers.hand import hand_of
from quantviz.ui.layers.picture import multiplication_of
from quantviz.ui.shell.words import language, say, say_error, shape_text

if TYPE_CHECKING:
    from quantviz.live.layer_page import LayerPage
    from quantviz.ui.layers.state import SeenLayer


def offer_page(seen: SeenLayer, state: LayerState) -> None:
    """Show a button that saves the layer as a page."""
    page = page_of(seen, state)
    st.download_button(
        say("below.page"),
        page.html,
        "layer.html",
        key="layer_to_page",
        on_click="ignore",
        disabled=page.problem is not None,
        help=say("layers.hand.page_help") if page.problem is None else say_error(page.problem),
    )


def page_of(seen: SeenLayer, state: LayerState) -> LayerPage:
    """Return the whole layer under the state's schemes, with its selected output, as a page."""
    from quantviz.live.layer_page import LayerPage

    cell = state.cell or seen.worst
    channel = int(seen.products(cell).channels[0]) if state.channel is None else state.channel
    hand = hand_of(seen, state)
    whole = seen.picture(LayerPart.whole(seen.result.shape), state.shown)
    selected = (*cell, channel)
    picture = multiplication_of(seen, state, whole, selected, hand=hand.small)
    title = f"{state.source.title(language())} · {shape_text(seen.result.shape)}"
    return LayerPage(hand, picture, title, selected)
