"""The panels, tied to the page, for the Lab and the lessons."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quantviz.figures.arrangement import PanelsStyle
from quantviz.live.cells import Picture
from quantviz.ui.components.panels_bridge import PanelsPlace, bridge_width, chart_bridge
from quantviz.ui.shell.classroom import enlarge
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
