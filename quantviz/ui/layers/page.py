"""The page of layers, one screen: title, finding, schemes; the channels' sizes over the multiplication, and
beside it the error, its remedy and the stage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.layer_state import NEAREST, LayerState
from quantviz.layers.built_in import BuiltInLayer
from quantviz.models.model_layer import ModelLayer
from quantviz.ui.components.clipboard import show_copy_link
from quantviz.ui.components.controls import choose_among, show_undo
from quantviz.ui.components.page_header import show_header
from quantviz.ui.components.refusals import show_page_errors
from quantviz.ui.layers.cell_tab import show_cell
from quantviz.ui.layers.channels_tab import show_channels
from quantviz.ui.layers.choices import show_choices
from quantviz.ui.layers.compare_tab import show_compare
from quantviz.ui.layers.hand import offer_page, show_hand
from quantviz.ui.layers.integer_tab import show_integer
from quantviz.ui.layers.method_tab import show_method, show_method_choice
from quantviz.ui.layers.own_layer import refuse_large
from quantviz.ui.layers.picture import settled, show_picture
from quantviz.ui.layers.state import OWNER, SeenLayer, seen_layer
from quantviz.ui.layers.words import show_finding, show_numbers, show_remedy
from quantviz.ui.shell.imports import warm_up
from quantviz.ui.shell.tab import name_tab
from quantviz.ui.shell.words import language, say, say_error, say_note


@dataclass(frozen=True, eq=False)
class TabContent:
    """All that a tab may show: the state, and its layer under its schemes."""

    state: LayerState
    seen: SeenLayer
    #: The selected output.
    cell: tuple[int, int]


#: The tabs of the stage by their ids, in their order, each with the function that shows it.
TABS: Mapping[str, Callable[[TabContent], None]] = MappingProxyType(
    {
        "cell": lambda scene: show_cell(scene.seen, scene.state, scene.cell),
        "channels": lambda scene: show_channels(scene.seen, scene.state),
        "integer": lambda scene: show_integer(scene.seen, scene.state, scene.cell),
        "method": lambda scene: show_method(scene.seen, scene.state, scene.cell),
        "compare": lambda scene: show_compare(scene.state),
    }
)


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
    try:
        refuse_large(source)
        seen = _seen(state)
        state = settled(seen, state)
        OWNER.amend(state)
        with finding:
            show_finding(seen, look)
        with actions:
            offer_page(seen, state)
        _show_layer(state, seen)
    except QuantVizError as problem:
        st.error(say_error(problem))
    OWNER.show_link()


def _seen(state: LayerState) -> SeenLayer:
    """Return the layer of the state; where its method cannot work, show the choice of another one."""
    try:
        return seen_layer(state)
    except QuantVizError:
        if state.method != NEAREST:
            show_method_choice(state)
        raise


def _show_layer(state: LayerState, seen: SeenLayer) -> None:
    cell = state.cell or seen.worst
    channel = int(seen.products(cell).channels[0]) if state.channel is None else state.channel
    with st.container(key="layers_scene"):
        with st.container(key="layers_left", gap="xsmall"):
            hand = show_hand(seen, state, (*cell, channel))
            # With knobs, the picture leaves them room.
            with st.container(key="layers_view_hand" if hand else "layers_view", gap="xsmall"):
                show_picture(seen, state, (*cell, channel if hand else state.channel), hand=hand)
        with st.container(key="layers_right", gap="xsmall"):
            with st.container(key="layers_numbers", gap="xsmall"):
                show_numbers(seen)
                show_remedy(seen, state)
            _show_stage(TabContent(state, seen, cell))
            for note in seen.notes:
                st.caption(say_note(note))


def _show_stage(scene: TabContent) -> None:
    """Show the tabs and the open one."""
    with st.container(key="layers_stage", gap="xsmall"):
        with st.container(key="layers_tabs"):
            tab = choose_among(
                "layers_tab_choice",
                "row",
                say("layers.tabs"),
                {name: say(f"layers.tab.{name}") for name in TABS},
                scene.state.open_tab,
                lambda tab: OWNER.change(tab=tab),
                look="qv-unnamed qv-tabs",
            )
        with st.container(key=f"layers_tab_{tab}", gap="xsmall"):
            TABS[tab](scene)
