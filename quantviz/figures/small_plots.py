"""Common parts of the small plots: a bare frame, traces, and names beside points that touch no other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from quantviz.figures.theme import Ramp, Theme, rgb, stops, translucent

Numbers: TypeAlias = Sequence[Any] | npt.NDArray[Any]
#: For `st.plotly_chart(config=…)`: nothing to press, nothing to drag by accident on a phone.
SMALL_PLOT_CONFIG: Mapping[str, Any] = MappingProxyType(
    {"displayModeBar": False, "displaylogo": False, "scrollZoom": False, "doubleClick": False}
)
#: Nearer points, by the plot's width, are labelled on one side.
_CLUSTER = 0.15
#: Between a cluster and its labels.
_ASIDE = 0.07
#: Of the plot's width, for a name.
_NAME = 0.35
#: Red's, green's and blue's share in a colour's light, and the light from which text on it is dark.
_BRIGHT = np.array((0.299, 0.587, 0.114))
_LIGHT = 0.52


def bare_layout(theme: Theme, height: int, margin: tuple[int, int, int, int]) -> dict[str, Any]:
    """Return a layout of `height` pixels with `margin` (left, right, top, bottom), without a background."""
    left, right, top, bottom = margin
    axis = {
        "color": theme.muted,
        "gridcolor": translucent(theme.muted, 0.25),
        "zeroline": False,
        "fixedrange": True,
        "automargin": True,
    }
    return {
        # The usual template is 6 kB, copied for each figure.
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


NO_TICKS: Mapping[str, Any] = MappingProxyType({"showticklabels": False, "showgrid": False})


def axis_title(words: str, standoff: int = 6) -> dict[str, Any]:
    return {"text": words, "font": {"size": 12}, "standoff": standoff}


def named_axis(names: Sequence[str], count: int | None = None, *, down: bool = False) -> dict[str, Any]:
    """Return an axis of `count` places or of all `names`, from the first, which stands on top if `down`."""
    last = (len(names) if count is None else count) - 0.5
    ends = [last, -0.5] if down else [-0.5, last]
    return {"range": ends, "tickvals": list(range(len(names))), "ticktext": list(names)}


def shape(
    kind: str, x: tuple[float, float], y: tuple[float, float], line: dict[str, Any], **more: Any
) -> dict[str, Any]:
    # Plotly's "line" or "rect".
    return {"type": kind, "x0": x[0], "x1": x[1], "y0": y[0], "y1": y[1], "line": line, **more}


def heatmap(z: Any, ramp: Ramp, ends: tuple[float, float], **more: Any) -> dict[str, Any]:
    # From the ramp's first colour at one of the `ends` to its last.
    scale = [list(each) for each in zip(stops(ramp), ramp, strict=True)]
    heat = {"type": "heatmap", "z": z, "zmin": ends[0], "zmax": ends[1], "colorscale": scale}
    return {**heat, "showscale": False, **more}


def squares_of(
    x: Numbers, y: Numbers, *, said: Sequence[str], inks: Sequence[str], cards: Sequence[str], **more: Any
) -> dict[str, Any]:
    """Return invisible squares that the pointer finds in a map, with words in them."""
    # Streamlit fades points that are not chosen: these are invisible in any case.
    unseen = {"marker": {"opacity": 0}}
    return scatter(
        "markers+text" if any(said) else "markers",
        x,
        y,
        text=said,
        textfont={"size": 12, "color": inks},
        hovertext=cards,
        hoverinfo="text",
        marker={"symbol": "square", "size": 12, "opacity": 0},
        **{"selected": unseen, "unselected": unseen, **more},
    )


def ink_on(ramp: Ramp, share: float) -> str:
    """Return black or white, whichever is read on a ramp at a share (0 to 1)."""
    light = float(rgb(ramp, 64)[round(share * 63)] @ _BRIGHT) / 255
    return "#000000" if light > _LIGHT else "#ffffff"


def note(words: str, x: float, y: float, colour: str, corner: str, **more: Any) -> dict[str, Any]:
    """Return an annotation, of which a corner such as "top right" stands at the place.

    Places are shares of the plot unless `more` says otherwise; None leaves plotly's own.
    """
    down, across = corner.split()
    found = {
        "text": words,
        "x": x,
        "y": y,
        "xref": "paper",
        "yref": "paper",
        "xanchor": across,
        "yanchor": down,
        "showarrow": False,
        "font": {"size": 12, "color": colour},
        **more,
    }
    return {name: value for name, value in found.items() if value is not None}


def scatter(
    mode: str, x: Numbers, y: Numbers, *, hover: Sequence[str] | None = None, **more: Any
) -> dict[str, Any]:
    # `hover` are the words of each place.
    words = {} if hover is None else {"text": hover, "hovertemplate": "%{text}<extra></extra>"}
    return {"type": "scatter", "mode": mode, "x": x, "y": y, **words, **more}


def name_beside(
    words: str, point: tuple[float, float], place: tuple[float, float], side: str, colour: str, theme: Theme
) -> dict[str, Any]:
    # A thin line ties it to its point.
    return {
        "text": words,
        "x": point[0],
        "y": point[1],
        "ax": place[0],
        "ay": place[1],
        "axref": "x",
        "ayref": "y",
        "xanchor": "left" if side == "right" else "right",
        "showarrow": True,
        "arrowhead": 0,
        "arrowwidth": 1,
        "arrowcolor": translucent(theme.muted, 0.7),
        "standoff": 5,
        "bgcolor": translucent(theme.surface, 0.8),
        "font": {"size": 12, "color": colour},
    }


def label_sides(bits: Sequence[float], bits_range: tuple[float, float]) -> list[tuple[float, str]]:
    """Return where each label begins, in bits, and its side: toward the middle, beside its cluster.

    It is beside the point itself where the cluster leaves no room for a name.
    """
    width = bits_range[1] - bits_range[0]
    middle = sum(bits_range) / 2
    places: dict[int, tuple[float, str]] = {}
    for cluster in _clusters(bits, _CLUSTER * width):
        low = bits[cluster[0]]
        high = bits[cluster[-1]]
        wide = max(low - bits_range[0], bits_range[1] - high) < _NAME * width
        for i in cluster:
            first, last = (bits[i], bits[i]) if wide else (low, high)
            right = (first + last) / 2 <= middle
            places[i] = (last + _ASIDE * width, "right") if right else (first - _ASIDE * width, "left")
    return [places[i] for i in range(len(bits))]


def _clusters(bits: Sequence[float], near: float) -> Iterator[list[int]]:
    # Runs whose neighbours are at most `near` apart, ascending.
    cluster: list[int] = []
    for i in sorted(range(len(bits)), key=lambda i: bits[i]):
        if cluster and bits[i] - bits[cluster[-1]] > near:
            yield cluster
            cluster = []
        cluster.append(i)
    if cluster:
        yield cluster


def spread(wanted: Sequence[float], gap: float, limits: tuple[float, float]) -> list[float]:
    """Return places at least `gap` apart inside the limits, as near to the wanted ones as that allows.

    >>> spread([5.0, 5.0, 9.0], 2.0, (0.0, 10.0))
    [4.0, 6.0, 9.0]
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    low = limits[0] + gap / 2
    high = limits[1] - gap / 2
    # Neighbours that touch are joined, and a joined group stands around the mean of its wanted places.
    groups: list[list[float]] = []
    for rank, i in enumerate(order):
        groups.append([max(low + rank * gap, min(wanted[i], high - (len(order) - 1 - rank) * gap))])
        while len(groups) > 1 and _start(groups[-1], gap) < _start(groups[-2], gap) + len(groups[-2]) * gap:
            last = groups.pop()
            groups[-1] += last
    placed = [_start(group, gap) + i * gap for group in groups for i in range(len(group))]
    return [placed[order.index(i)] for i in range(len(wanted))]


def _start(group: Sequence[float], gap: float) -> float:
    return sum(group) / len(group) - gap * (len(group) - 1) / 2
