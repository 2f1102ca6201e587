"""The common layout of the small plots below the panels: a bare frame that follows the page."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from quantviz.figures.theme import Theme

#: For `st.plotly_chart(config=…)`: a plot with nothing to press and nothing to drag by accident on a phone.
SMALL_PLOT_CONFIG: Mapping[str, Any] = MappingProxyType(
    {"displayModeBar": False, "displaylogo": False, "scrollZoom": False, "doubleClick": False}
)


def bare_layout(theme: Theme, height: int, margin: tuple[int, int, int, int]) -> dict[str, Any]:
    """Return the layout of a plot of `height` pixels with `margin` (left, right, top, bottom) around it,
    without a background.
    """
    left, right, top, bottom = margin
    axis = {
        "color": theme.muted,
        "gridcolor": faint(theme.muted, 0.25),
        "zeroline": False,
        "fixedrange": True,
        "tickfont": {"size": 11},
        "automargin": True,
    }
    return {
        # An empty template: the usual one is 6 kB, copied for each figure, and all of it that would show is
        # said here.
        "template": {},
        "height": height,
        "margin": {"l": left, "r": right, "t": top, "b": bottom},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": theme.font, "size": 12, "color": theme.text},
        "xaxis": dict(axis),
        "yaxis": dict(axis),
        "hoverlabel": {"bgcolor": theme.surface, "bordercolor": theme.muted, "font": {"color": theme.text}},
        "dragmode": False,
        "showlegend": False,
    }


def faint(colour: str, opacity: float) -> str:
    """Return a colour "#rrggbb" as a translucent one.

    >>> faint("#0b4f57", 0.25)
    'rgba(11,79,87,0.25)'
    """
    red, green, blue = bytes.fromhex(colour[1:])
    return f"rgba({red},{green},{blue},{opacity:g})"
