"""Lines in the plot of bits against SQNR: the bounds of any quantizer, and formats over their group sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quantviz.figures.numbers import number
from quantviz.figures.small_plots import scatter
from quantviz.figures.theme import THEMES, Theme, translucent
from quantviz.schemes.axis_names import Axes
from quantviz.schemes.formats import entry_of
from quantviz.schemes.granularity import PerChannel, PerTensor
from quantviz.schemes.recipes import MATRIX, RECIPES, recipe_name
from quantviz.text import DEFAULT_LANGUAGE, text

if TYPE_CHECKING:
    from quantviz.analysis.rate_distortion import RateDistortion, RateLine
    from quantviz.analysis.recipe_ranking import RecipeRow

#: Pixels of lines and gaps.
_DASHES = {
    "lloyd_max": "solid",
    "uniform": "5px,3px",
    "ecsq": "solid",
    "gauss_bound": "9px,3px,2px,3px",
    "laplace_bound": "9px,3px,2px,3px",
    "laplace_lower_bound": "2px,3px",
}
_WIDTH = 1.75


@dataclass(frozen=True)
class LineKey:
    """A line's entry in the legend."""

    words: str
    colour: str
    #: As SVG writes them; "" for none.
    dash: str


def line_keys(
    known: RateDistortion, theme: str = "light", language: str = DEFAULT_LANGUAGE
) -> tuple[LineKey, ...]:
    colours = THEMES[theme]
    dashes = {name: dash.replace("px", "").replace("solid", "") for name, dash in _DASHES.items()}
    return tuple(
        LineKey(line_words(line, language), _colour(line, colours), dashes[line.id]) for line in known.lines
    )


def line_words(line: RateLine, language: str = DEFAULT_LANGUAGE) -> str:
    """Return a line's name, with its coding or the remark that it is a bound."""
    name = text(f"recipe_plot.lines.{line.id}", language)
    key = line.coding if line.attained else "bound_not_attained"
    return text("recipe_plot.line", language, name=name, coding=text(f"recipe_plot.codings.{key}", language))


def _colour(line: RateLine, theme: Theme) -> str:
    if line.coding == "fixed_rate":
        return theme.text
    return {"ecsq": theme.errors[0], "gauss_bound": theme.muted}.get(line.id, theme.clipping)


def line_traces(
    known: RateDistortion, bits_range: tuple[float, float], theme: Theme, language: str
) -> Iterator[dict[str, Any]]:
    for line in known.lines:
        seen = (line.bits >= bits_range[0]) & (line.bits <= bits_range[1])
        words = line_words(line, language)
        places = list(zip(line.bits[seen].tolist(), line.sqnr_db[seen].tolist(), strict=True))
        yield scatter(
            "lines",
            [bits for bits, _ in places],
            [db for _, db in places],
            hover=[
                text("recipe_plot.hover", language, name=words, db=number(db, 3), bits=f"{bits:.3g}")
                for bits, db in places
            ],
            line={"color": _colour(line, theme), "width": _WIDTH, "dash": _DASHES[line.id]},
            name=line.id,
        )


def trails_trace(places: Iterable[tuple[str, float, float]], theme: Theme) -> dict[str, Any]:
    """Return a line through each trail's places (bits, dB), in their order."""
    trails: dict[str, list[tuple[float, float]]] = {}
    for trail, x, y in places:
        if trail:
            trails.setdefault(trail, []).append((x, y))
    xs: list[float | None] = []
    ys: list[float | None] = []
    for along in trails.values():
        xs += [*(x for x, _ in along), None]
        ys += [*(y for _, y in along), None]
    line = {"color": translucent(theme.values[0], 0.3), "width": 1}
    return scatter("lines", xs, ys, line=line, hoverinfo="skip", name="trails")


def row_name(
    row: RecipeRow, language: str = DEFAULT_LANGUAGE, axes: Axes = MATRIX, *, short: bool = False
) -> str:
    """Return a recipe's name, or a name for a scheme in groups of another size.

    >>> from quantviz.analysis.recipe_ranking import RecipeRow
    >>> from quantviz.schemes.granularity import PerGroup
    >>> from quantviz.schemes.scheme import Scheme
    >>> row_name(RecipeRow("int3_g16", Scheme("int3", granularity=PerGroup(16)), trail="int3"))
    'INT3 in groups of 16'
    """
    if row.id in RECIPES:
        return recipe_name(row.id, language, axes, short=short)
    granularity = row.scheme.granularity
    size = getattr(granularity, "size", None)
    if row.trail in RECIPES:
        like = recipe_name(row.trail, language, axes)
        return text("recipe_plot.trail.like", language, name=like, size=size)
    name = text(f"formats.{entry_of(row.scheme.format)}.name", language)
    if isinstance(granularity, PerTensor):
        return text("recipe_plot.trail.per_tensor", language, name=name)
    if isinstance(granularity, PerChannel):
        channel = axes.words(granularity.axis, "channel", language)
        return text("recipe_plot.trail.per_channel", language, name=name, channel=channel)
    return text("recipe_plot.trail.per_group", language, name=name, size=size)
