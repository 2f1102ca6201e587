"""The panels, tied to the page, for the Lab and the lessons."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from quantviz.figures.arrangement import USUAL_WIDTH
from quantviz.ui.components.panels_bridge import Picture, bridge_width, chart_bridge
from quantviz.ui.shell.classroom import enlarge
from quantviz.ui.shell.words import language, theme

if TYPE_CHECKING:
    from quantviz.figures.panels_data import PanelsData


def show_panels(
    data: PanelsData,
    *,
    key: str,
    bridge_area: Any,
    area: Any,
    tensor_key: str,
    selected: tuple[int, int] | None = None,
    on_cell: Callable[[], None] | None = None,
    on_window: Callable[[], None] | None = None,
    first: str | None = None,
    height: float | None = None,
    usual_width: float = USUAL_WIDTH,
    larger: float | None = None,
    least_digit: float = 0,
    bars: bool = True,
    picture: Picture | None = None,
    group: str | None = None,
    titles: Sequence[str] | None = None,
    names: Mapping[str, Any] | None = None,
    alt: str | None = None,
) -> None:
    """Draw the panels into `area`, a container or a place whose keyed container is called `key`.

    The bridge goes into `bridge_area`, before the panels: on a phone it shows the switch between them,
    which begins at the panel called `first`, else at the last whose values are shown. `on_window` is run when
    a person zooms in a matrix of which the browser has not every cell; see `chart_bridge`. `height` is the
    figure's where it has its own; `picture` its name and titles when saved. `usual_width` is the width until
    the browser reports its own, `larger` the enlargement where it is not as on every page, and `least_digit`
    the least height of a digit in pixels, below which none is printed. Without `bars` there are no colour
    bars.
    `group` is the key of the panels that these are zoomed and pointed at with; `titles`, `names` (of the
    card's values, see `pack_cells`) and `alt` stand in place of the usual ones.
    """
    from quantviz.figures.panel_captions import panels_alt
    from quantviz.figures.panels import PANELS_CONFIG, panels_figure

    bridge = f"{key}_bridge"
    words = language()
    colours = theme()
    width = bridge_width(bridge, usual_width)
    larger = enlarge(width) if larger is None else larger
    with bridge_area:
        chart_bridge(
            bridge,
            key,
            data,
            selected=selected,
            width=width,
            language=words,
            theme=colours,
            on_cell=on_cell,
            on_window=on_window,
            enlarge=larger,
            first=first,
            picture=picture,
            group=group,
            names=names,
        )
    figure = panels_figure(
        data,
        language=words,
        theme=colours,
        width=width,
        height=height,
        tensor_key=tensor_key,
        enlarge=larger,
        titles=titles,
        least_digit=least_digit,
        bars=bars,
    )
    # A double click shows the whole matrix, which plotly does not have.
    config = {**PANELS_CONFIG, "doubleClick": False}
    if picture:
        config["toImageButtonOptions"] = {**config["toImageButtonOptions"], "filename": picture.name}
    area.plotly_chart(
        figure, key=f"{key}_chart", theme=None, config=config, alt=alt or panels_alt(data, words)
    )
