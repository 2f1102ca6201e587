"""The stage beside the picture: tabs, of which only the open one is computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

import streamlit as st

from quantviz.lab.layer_state import LayerState
from quantviz.ui.components.choice import choose_among
from quantviz.ui.layers.cell_tab import show_cell
from quantviz.ui.layers.channels_tab import show_channels
from quantviz.ui.layers.compare_tab import show_compare
from quantviz.ui.shell.words import say

if TYPE_CHECKING:
    from quantviz.ui.layers.reading import SeenLayer

_TAB = "layers_tab"


@dataclass(frozen=True, eq=False)
class Scene:
    """All that a tab may show: the state, and its layer under its schemes."""

    state: LayerState
    seen: SeenLayer
    #: The selected output.
    cell: tuple[int, int]


#: What shows each tab, by the tab's id, in their order.
TABS: Mapping[str, Callable[[Scene], None]] = MappingProxyType(
    {
        "cell": lambda scene: show_cell(scene.seen, scene.state, scene.cell),
        "channels": lambda scene: show_channels(scene.seen, scene.state),
        "compare": lambda scene: show_compare(scene.state),
    }
)


def show_stage(scene: Scene) -> None:
    """Show the tabs and the open one."""
    held = cast("str | None", st.session_state.get(_TAB))
    now = held if held in TABS else next(iter(TABS))
    with st.container(key="layers_stage", gap="xsmall"):
        with st.container(key="layers_tabs"):
            tab = choose_among(
                st.segmented_control,
                "layers_tab_choice",
                say("layers.tabs"),
                {name: say(f"layers.tab.{name}") for name in TABS},
                now,
                _turn,
                required=True,
                label_visibility="collapsed",
            )
        with st.container(key=f"layers_tab_{tab}", gap="xsmall"):
            TABS[tab](scene)


def _turn(tab: str) -> None:
    st.session_state[_TAB] = tab
