"""The multiplication as a picture: X at the left, Wᵀ above, and Y in the corner between them."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quantviz.figures.numbers import short_number
from quantviz.figures.payload import UncheckedFigure
from quantviz.figures.small_plots import axis_title, bare_layout, heatmap, note
from quantviz.figures.theme import THEMES, Theme
from quantviz.text import DEFAULT_LANGUAGE, text

if TYPE_CHECKING:
    from quantviz.layers.layer_picture import LayerPicture, MatrixPixels

#: In the order of their axes: x and y, x2 and y2, x3 and y3.
PARTS = ("x", "w", "y")
#: Pixels around the parts.
_MARGIN = (50, 10, 24, 42)
#: Between the parts, of width and height.
_GAP = (0.095, 0.085)
#: Of the width for X, and of the height for Y.
_LEAST = 0.36
_MOST = 0.58
#: Of the parts' words.
_PLAIN: Any = {"borderpad": 0, "align": "left"}
#: From X up to the legend over its name, in CSS pixels, and the squares of its colours.
_LEGEND = 15
_SQUARES = 7
#: How many times as far as its colours an error reaches that leaves them.
_LEAVING = 1.1


@dataclass(frozen=True)
class ColourEnds:
    """Magnitudes at both ends of the colours."""

    x: float
    w: float
    y: float


@dataclass(frozen=True)
class _PartLayout:
    """The corner between the parts, in shares of the plot."""

    #: X ends and Y begins.
    left: float
    right: float
    #: Y ends and Wᵀ begins.
    low: float
    high: float


def multiplication_figure(
    picture: LayerPicture,
    ends: ColourEnds,
    *,
    height: int,
    language: str = DEFAULT_LANGUAGE,
    theme: str = "light",
) -> UncheckedFigure:
    """Return the figure of a part of a layer, with the `ends` of its colours."""
    colours = THEMES[theme]
    place = _layout_of(picture)
    layout = bare_layout(colours, height, _MARGIN)
    axis = layout.pop("xaxis")
    layout.pop("yaxis")
    axis |= {"fixedrange": False, "showgrid": False, "automargin": False, "ticks": ""}
    layout |= _axes(picture, place, axis, language)
    layout["dragmode"] = "zoom"
    layout["hovermode"] = False
    layout["annotations"] = [*_names(picture, ends, place, language, colours)]
    layout["uirevision"] = None
    traces = [_trace(picture, name, getattr(ends, name), colours) for name in PARTS]
    # Streamlit hands each figure to plotly twice, the second time as a copy, which plotly draws anew unless
    # it names its content: and always where it has a template, even an empty one.
    del layout["template"]
    layout["datarevision"] = zlib.crc32(b"".join(trace["z"].tobytes() for trace in traces))
    return UncheckedFigure({"data": traces, "layout": layout})


def _axes(picture: LayerPicture, place: _PartLayout, axis: dict[str, Any], language: str) -> dict[str, Any]:
    token, channel, output = (
        text(f"{picture.words}.axes.{name}", language) for name in ("token", "input", "output")
    )
    across = {"x": (0.0, place.left), "w": (place.right, 1.0), "y": (place.right, 1.0)}
    up = {"x": (0.0, place.low), "w": (place.high, 1.0), "y": (0.0, place.low)}
    # The outputs of Wᵀ are those of Y below it, and the tokens of Y those of X beside it.
    words = {"x": (channel, token), "w": ("", channel), "y": (output, "")}
    axes = {}
    for at, name in enumerate(PARTS):
        part: MatrixPixels = getattr(picture, name)
        number = str(at + 1) if at else ""
        named_x, named_y = words[name]
        # The marks of tokens held back stand between the axis and its numbers.
        room = {"ticks": "outside", "ticklen": 6, "tickcolor": "rgba(0,0,0,0)"} if name == "x" else {}
        axes[f"xaxis{number}"] = {
            **axis,
            **_cells(part.col_edges, named_x, standoff=4),
            "domain": across[name],
            "anchor": f"y{number}",
            **({"matches": "x3"} if name == "w" else {}),
        }
        axes[f"yaxis{number}"] = {
            **axis,
            **_cells(part.row_edges, named_y, standoff=2),
            "range": [len(part.row_edges) - 1.5, -0.5],
            "domain": up[name],
            "anchor": f"x{number}",
            **({"matches": "y"} if name == "y" else {}),
            **room,
        }
    return axes


def _layout_of(picture: LayerPicture) -> _PartLayout:
    # By numbers of pixels, within bounds.
    tokens, inputs = picture.x.values.shape
    outputs = picture.y.values.shape[1]
    left = (1 - _GAP[0]) * _within(inputs / (inputs + outputs))
    low = (1 - _GAP[1]) * _within(tokens / (tokens + inputs))
    return _PartLayout(left, left + _GAP[0], low, low + _GAP[1])


def _within(share: float) -> float:
    return min(max(share, _LEAST), _MOST)


def _cells(edges: Any, title: str, *, standoff: int) -> dict[str, Any]:
    """Return an axis of pixels with its first and last cell's numbers; without a title it has none."""
    last = len(edges) - 2
    places = sorted({0, last})
    numbers = [str(int(edges[0])), str(int(edges[-1]) - 1)][: len(places)]
    return {
        "range": [-0.5, last + 0.5],
        "tickmode": "array",
        "tickvals": places,
        "ticktext": numbers,
        "showticklabels": bool(title),
        "title": axis_title(title, standoff),
    }


def _trace(picture: LayerPicture, name: str, end: float, theme: Theme) -> dict[str, Any]:
    part: MatrixPixels = getattr(picture, name)
    at = PARTS.index(name)
    number = str(at + 1) if at else ""
    ramp = theme.errors if picture.shown == "error" else theme.values
    end = end or 1.0
    place = {"name": name, "xaxis": f"x{number}", "yaxis": f"y{number}"}
    trace = heatmap(part.values, ramp, (-end, end), hoverinfo="none", **place)
    if picture.prints:
        trace["text"] = [[short_number(float(value)) for value in row] for row in part.printed]
        trace["texttemplate"] = "%{text}"
        trace["textfont"] = {"size": 12}
    return trace


def _names(picture: LayerPicture, ends: ColourEnds, place: _PartLayout, language: str, theme: Theme) -> Any:
    # The ends of colours follow the names; over X's stands the legend.
    shown = picture.shown
    corners = {"x": (0.0, place.low), "w": (place.right, 1.0), "y": (place.right, place.low)}
    for name, (x, y) in corners.items():
        reach = _reach(getattr(picture, name), getattr(ends, name), shown, language)
        words = text(f"{picture.words}.{shown}.{name}", language)
        yield note(f"<b>{words}</b> {reach}", x, y, theme.text, "bottom left", **_PLAIN)
    ramp = theme.errors if shown == "error" else theme.values
    shades = (ramp[round(at * (len(ramp) - 1) / (_SQUARES - 1))] for at in range(_SQUARES))
    squares = "".join(f'<span style="color:{shade}">■</span>' for shade in shades)
    held = f'<span style="color:{theme.accent}">▍</span>{text("layer_picture.held_back", language)}'
    held = held if picture.holds_back else ""
    legend = f"{held}  − {squares} +"
    yield note(legend, place.left, place.low, theme.muted, "bottom right", yshift=_LEGEND, **_PLAIN)


def _reach(part: MatrixPixels, end: float, shown: str, language: str) -> str:
    # Colours of errors stay as they are: how far these leave them is said.
    far = short_number(end)
    if shown != "error":
        return f"±{far}"
    times = part.largest / end if end else 0.0
    left = "_left" if times >= _LEAVING else ""
    return text(f"layer_picture.fixed{left}", language, end=far, times=short_number(times, 2))


def multiplication_alt(picture: LayerPicture, ends: ColourEnds, language: str = DEFAULT_LANGUAGE) -> str:
    # For people who cannot see the picture.
    tokens, inputs, outputs = (
        f"{int(edges[0])}–{int(edges[-1]) - 1}"
        for edges in (picture.x.row_edges, picture.x.col_edges, picture.y.col_edges)
    )
    return text(
        f"{picture.words}.alt",
        language,
        shown=text(f"layer_picture.{picture.shown}.all", language),
        tokens=tokens,
        inputs=inputs,
        outputs=outputs,
        x=short_number(ends.x),
        w=short_number(ends.w),
        y=short_number(ends.y),
    )
