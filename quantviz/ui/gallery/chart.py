"""One row of panels: of the correct program, or of the broken one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import streamlit as st

from quantviz.figures.arrangement import arrange, arrangement_name
from quantviz.ui.components.panels import show_panels
from quantviz.ui.components.panels_bridge import bridge_width, clicked_cell
from quantviz.ui.gallery.state import change_state
from quantviz.ui.shell import session
from quantviz.ui.shell.classroom import enlarge
from quantviz.ui.shell.words import language, say

if TYPE_CHECKING:
    from quantviz.figures.panels_data import PanelsData


#: The two rows, as their charts and bridges are called.
ROWS = ("correct", "broken")
#: A row's height for a laptop, of which two are to be seen at once; a wider page is also higher.
_LEAST_HEIGHT, _MOST_HEIGHT, _HEIGHT_OF_WIDTH = 184.0, 330.0, 0.1655
SIGNS: Mapping[str, str] = MappingProxyType({"correct": "✓", "broken": "✗"})


def row_name(row: str) -> str:
    return say("bugs.page.row_correct") if row == "correct" else say("bugs.page.row_broken")


def chart_key(row: str) -> str:
    return f"gallery_{row}_panels"


def show_chart(row: str, data: PanelsData, cell: tuple[int, int], group: str, named: bool = True) -> None:
    """Show one row of panels; charts of one `group` are switched and zoomed together."""
    from quantviz.figures.panel_captions import panel_title, panels_alt

    key, words = chart_key(row), language()
    width = bridge_width(f"{key}_bridge")
    larger = enlarge(width)
    # A short tensor needs no more than its own height.
    usual = arrange(width / larger, data.shape).height * larger
    wanted = min(max(_HEIGHT_OF_WIDTH * width, _LEAST_HEIGHT * larger), _MOST_HEIGHT * larger)
    height = min(
        usual, {"row": wanted, "grid": 2 * wanted, "single": usual}[arrangement_name(width / larger)]
    )
    titles = [panel_title(name, data, words) for name in data.panels]
    show_panels(
        data,
        key=key,
        bridge_area=st.container(),
        area=st.container(key=key),
        tensor_key="gallery",
        selected=cell,
        on_cell=session.safely(lambda: _clicked(f"{key}_bridge")),
        group=group,
        height=height,
        titles=[f"{SIGNS[row]} {row_name(row)} · {title}" for title in titles] if named else titles,
        alt=say("bugs.page.alt", row=row_name(row), panels=panels_alt(data, words)),
        modebar=False,
    )


def _clicked(bridge: str) -> None:
    cell = clicked_cell(bridge)
    if cell:
        change_state(cell=cell)
