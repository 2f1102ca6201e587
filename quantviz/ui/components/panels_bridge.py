"""The chart bridge: events and sizes of the browser that Streamlit does not report.

`st.plotly_chart` does not report a click on a heatmap, loses the zoom with each change of the
data and never reports the page's width. A small component in the page (`quantviz/browser/panels_bridge.js`)
does these things for the chart inside one keyed container:

    style = PanelsStyle(width=bridge_width("panels_bridge"))
    place = PanelsPlace("panels", st.container(), st.container(key="panels"), on_cell=moved)
    chart_bridge(place, data, style, selected=(0, 2))
    place.area.plotly_chart(panels_figure(data, style, tensor_key="…"), theme=None, config=PANELS_CONFIG)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from quantviz.browser.packing import pack
from quantviz.figures.arrangement import USUAL_WIDTH, PanelsStyle
from quantviz.live.cells import Picture, bridge_state, pack_cells
from quantviz.text import templates
from quantviz.ui.components.component import component, last_message
from quantviz.ui.shell.classroom import enlarge, noted
from quantviz.ui.shell.words import language, theme

if TYPE_CHECKING:
    from quantviz.figures.panels_data import PanelsData


@dataclass(frozen=True)
class PanelsWords:
    """The words of panels in place of the usual ones."""

    #: One title a panel.
    titles: Sequence[str] | None = None
    #: The hover card's labels and words of its values, see `pack_cells`.
    card: Mapping[str, Any] = field(default_factory=dict)
    #: The picture in a sentence, for people who cannot see it.
    alt: str | None = None


_USUAL_WORDS = PanelsWords()


def page_style(bridge: str, widest: float = math.inf) -> PanelsStyle:
    """Return the style of panels on this page: the session's language and theme, and the `bridge_width`."""
    width = bridge_width(bridge, widest)
    return PanelsStyle(language(), theme(), width, enlarge=enlarge(width))


def show_panels(
    data: PanelsData,
    place: PanelsPlace,
    style: PanelsStyle | None = None,
    *,
    tensor_key: str,
    selected: tuple[int, int] | None = None,
    first: str | None = None,
    picture: Picture | None = None,
    words: PanelsWords = _USUAL_WORDS,
) -> None:
    """Draw the panels into `place`, in the `page_style` if none is given.

    Args:
        data: The arrays of the panels.
        place: The containers in the page and their callbacks. On a phone the bridge, before the panels, shows
            the switch between them.
        style: The figure's language, colours and size.
        tensor_key: A name of the tensor, with which the zoom stays; see `panels_figure`.
        selected: Row and column of the cell marked in all panels.
        first: The panel that a phone shows first; by default the last one whose values are shown.
        picture: The name and titles of a saved picture.
        words: Titles and labels in place of the usual ones.
    """
    from quantviz.figures.panel_painter import panels_alt
    from quantviz.figures.panels import PANELS_CONFIG, panels_figure

    style = style or page_style(place.bridge)
    with place.bridge_area:
        chart_bridge(
            place, data, style, selected=selected, first=first, picture=picture, card_words=words.card
        )
    # A double click shows the whole matrix, which plotly does not have.
    config = {**PANELS_CONFIG, "doubleClick": False}
    if picture:
        config["toImageButtonOptions"] = {**config["toImageButtonOptions"], "filename": picture.name}
    place.area.plotly_chart(
        panels_figure(data, style, tensor_key=tensor_key, titles=words.titles),
        key=f"{place.key}_chart",
        theme=None,
        config=config,
        alt=words.alt or panels_alt(data, style.language),
    )


_SCRIPT = "panels_bridge"
_CELLS = "quantviz_cells"
_STATE = "quantviz_bridge"


@dataclass(frozen=True)
class PanelsPlace:
    """A place for panels in a page, with the callbacks of the events there."""

    #: The key of the container that holds the chart, as in `st.container(key=…)`.
    key: str
    #: Where the bridge stands: before the panels, for on a phone it shows the switch between them.
    bridge_area: Any
    #: The chart's container, or a place in it.
    area: Any
    #: Called before the page runs when a cell was clicked; `clicked_cell(bridge)` returns its place.
    on_cell: Callable[[object], None] | None = None
    #: Called before the page runs when another part of the matrix is looked at; the next figure is to show
    #: what `zoomed_window(bridge)` returns. Without it a zoom stays in the browser.
    on_window: Callable[[object], None] | None = None
    #: The key of the first of several charts that are zoomed, pointed at and switched together.
    group: str | None = None

    @property
    def bridge(self) -> str:
        """Return the key of the component, for `clicked_cell`, `zoomed_window` and `bridge_width`."""
        return f"{self.key}_bridge"


def chart_bridge(
    place: PanelsPlace,
    data: PanelsData,
    style: PanelsStyle,
    *,
    selected: tuple[int, int] | None = None,
    first: str | None = None,
    picture: Picture | None = None,
    card_words: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Connect the chart of panels in a place to the page: call it before the container that holds the chart.

    Args:
        place: The chart's container and callbacks.
        data: The data of the chart.
        style: The style that the figure was laid out in.
        selected: Row and column of the cell marked in all panels.
        first: The panel that a phone shows first.
        picture: The name and titles of a saved picture.
        card_words: The card's labels and words of its values; see `pack_cells`.
    """
    if data.plain:
        # For readers who have not learned the symbols yet.
        card_words = {**card_words, "labels": dict(templates("panels.plain_field", style.language))}
    component(_CELLS, _SCRIPT)(
        key=f"{place.bridge}_cells", data=pack_cells(data, place.key, style.theme, card_words)
    )
    state = {
        **bridge_state(place.key, data, style, selected=selected, picture=picture),
        "group": place.group or place.key,
        "first": first,
        "windows": place.on_window is not None,
    }
    component(_STATE, _SCRIPT)(
        key=place.bridge,
        data=pack(state, {}),
        on_cell_change=place.on_cell,
        on_window_change=place.on_window,
    )


def clicked_cell(key: str, matrix: tuple[int, int]) -> tuple[int, int] | None:
    """Return the row and column of the cell clicked in this run, or None; `matrix` has so many of them."""
    rows, cols = matrix
    cell = last_message(key, _SCRIPT, "cell", lambda cell: cell["row"] < rows and cell["col"] < cols)
    return cell and (cell["row"], cell["col"])


def zoomed_window(key: str) -> tuple[int, int, int, int] | None:
    """Return the window that the browser asks for in this run: first row, first column, rows, columns. It may
    lie outside of the matrix, which is another one by now.
    """
    window = last_message(key, _SCRIPT, "window")
    return window and (window["top"], window["left"], window["rows"], window["cols"])


def bridge_width(key: str, widest: float = math.inf) -> float:
    """Return the width in pixels that the browser last reported; until it has, the page's, up to `widest`."""
    width = last_message(key, _SCRIPT, "width")
    return float(min(noted("room", USUAL_WIDTH), widest) if width is None else min(max(width, 240), 4000))
