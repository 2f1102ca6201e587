"""All values of a number format on a line, another format's laid against them, and how far apart neighbours
are.

Two figures: the line with a number landing on it, and the gap as a function of the value. A column of the
line is a pixel or two wide; where several values fall into one, one mark stands for all of them and its
length tells how many.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from quantviz.errors import QuantVizError
from quantviz.figures.numbers import columns, digits_for, number
from quantviz.figures.payload import Drawn
from quantviz.figures.small_plots import SMALL_PLOT_CONFIG, bare_layout
from quantviz.figures.theme import THEMES, Theme
from quantviz.quantization.format_facts import (
    Landing,
    brought_to_one,
    finite_values,
    gap_at,
    gap_steps,
    land,
    reach,
)
from quantviz.schemes.formats import NumberFormat
from quantviz.text import DEFAULT_LANGUAGE, text

Array = npt.NDArray[Any]
#: A value on the line and how it is written there.
Label = tuple[float, str]

#: For `st.plotly_chart(config=…)`.
FORMATS_CONFIG = SMALL_PLOT_CONFIG
#: How the line is laid out: by value; by power of two, with equal steps around 0; the neighbourhood of the
#: number.
VIEWS = ("linear", "symlog", "near")
#: The usual width in pixels; heights of the line with one format and with two, and of the gaps.
WIDTH, HEIGHT_ONE, HEIGHT_TWO, GAPS_HEIGHT = 1040, 150, 216, 190
#: Pixels of a column of the line.
COLUMN = 2
#: The other format's ends are in view unless they lie so many times farther out.
_FARTHEST = 4.0
#: Values that are all labelled where there is room, and pixels between two labels.
_MOST_LABELS, _BETWEEN = 48, 7
_CHARACTER = 6.6
_SIDE = 14


# ---- data ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Axis:
    """Values to places along the line."""

    view: str
    #: Of symlog: the magnitude up to which steps are equal; above it each doubling is one step.
    threshold: float
    #: The first and last place in view.
    lo: float
    hi: float

    def at(self, values: npt.ArrayLike) -> Array:
        """Return the places of values, float64 of their shape.

        >>> Axis("symlog", 0.5, -9, 9).at([-1.0, 0.25, 0.5, 4.0]).tolist()
        [-2.0, 0.5, 1.0, 4.0]
        """
        found: Array = np.asarray(values, dtype=np.float64)
        if self.view != "symlog":
            return found
        size = np.abs(found)
        # As a difference of logarithms: the quotient could leave float64.
        outside = 1 + np.log2(np.maximum(size, self.threshold)) - math.log2(self.threshold)
        return np.sign(found) * np.where(size < self.threshold, size / self.threshold, outside)

    def share(self, values: npt.ArrayLike) -> Array:
        """Return the places of values as a share of the line: 0 at its left end, 1 at its right."""
        shares: Array = (self.at(values) - self.lo) / (self.hi - self.lo)
        return shares


@dataclass(frozen=True, eq=False)
class Marks:
    """One format on the line: a mark for each column that holds values."""

    format: NumberFormat
    #: Of each mark: its place, how many values it stands for, the smallest and the largest of them.
    places: Array
    counts: Array
    firsts: Array
    lasts: Array
    #: Values with their number written beside them, the most important ones first.
    labels: tuple[Label, ...]
    #: Whether every value of the format has its number.
    all_labelled: bool
    #: How many values lie out of view below and above.
    out_of_view: tuple[int, int]
    #: Where the number lands.
    landing: Landing | None

    @property
    def shown(self) -> int:
        """Return how many values are in view."""
        return int(self.counts.sum())

    @property
    def most(self) -> int:
        """Return how many values the fullest column holds."""
        return int(self.counts.max(initial=1))


@dataclass(frozen=True, eq=False)
class FormatsData:
    """One or two formats on a line, and a number that lands in each."""

    axis: Axis
    #: The first above the line, the second below.
    rows: tuple[Marks, ...]
    #: Values written at the axis.
    ticks: tuple[Label, ...]
    x: float | None
    width: int


def formats_data(
    first: NumberFormat,
    second: NumberFormat | None = None,
    *,
    x: float | None = None,
    view: str = VIEWS[0],
    ties: str = "even",
    width: int = WIDTH,
    to_one: bool = False,
) -> FormatsData:
    """Lay out the values of one or two formats for a line of `width` pixels, with the number `x` landing by
    `ties`.

    With `to_one` each format is divided by its largest value, as absmax scaling does, and `x` is a share of
    that.

    >>> from quantviz.schemes.formats import FORMATS
    >>> data = formats_data(FORMATS["float4_e2m1fn"], FORMATS["int4"], x=2.5)
    >>> [row.shown for row in data.rows], data.rows[0].most, data.rows[0].landing.value
    ([15, 16], 1, 2.0)
    >>> data = formats_data(FORMATS["float16"], view="symlog")
    >>> data.rows[0].shown, data.rows[0].most > 50, len(data.rows[0].places) <= data.width / COLUMN + 1
    (63487, True, True)
    >>> data = formats_data(FORMATS["nf4"], FORMATS["int4"], to_one=True)
    >>> [(round(float(row.firsts.min()), 3), float(row.lasts.max())) for row in data.rows]
    [(-1.0, 1.0), (-1.143, 1.0)]
    """
    if view not in VIEWS:
        raise QuantVizError("unknown_view", got=view, known=", ".join(VIEWS))
    formats = (first,) if second is None else (first, second)
    landings = [
        None if x is None else land(x, each, ties, reach(each) if to_one else 1.0) for each in formats
    ]
    drawn = tuple(map(brought_to_one, formats)) if to_one else formats
    axis = _axis(drawn, view, x)
    rows = tuple(_marks(fmt, axis, landing, width) for fmt, landing in zip(drawn, landings, strict=True))
    return FormatsData(
        axis, rows, () if all(row.all_labelled for row in rows) else _ticks(axis, width), x, width
    )


def _axis(formats: Sequence[NumberFormat], view: str, x: float | None) -> Axis:
    # The nearest magnitude to 0, and for floats the first normal one: below it steps are equal anyway.
    threshold = min(_threshold(fmt) for fmt in formats)
    if view == "near":
        return Axis(view, threshold, *_neighbourhood(formats[0], 0.0 if x is None else x))
    ends = [(finite_values(fmt)[0], finite_values(fmt)[-1]) for fmt in formats]
    low, high = ends[0]
    size = max(abs(low), abs(high))
    for other in ends[1:]:
        if view == "symlog" or max(map(abs, other)) <= _FARTHEST * size:
            low, high = min(low, other[0]), max(high, other[1])
    low, high = min(low, 0.0), max(high, 0.0)
    # A number a little outside is still in sight; one far outside stands at the edge.
    if x is not None and view == "linear":
        room = (high - low) / 3
        low, high = (min(low, x) if x >= low - room else low), (max(high, x) if x <= high + room else high)
    elif x is not None:
        size = max(abs(low), abs(high))
        low, high = (min(low, x) if x >= -16 * size else low), (max(high, x) if x <= 16 * size else high)
    lo, hi = (float(place) for place in Axis(view, threshold, 0, 1).at([low, high]))
    margin = 0.012 * (hi - lo)
    return Axis(view, threshold, lo - margin, hi + margin)


@functools.cache
def _threshold(fmt: NumberFormat) -> float:
    if fmt.float_bits:
        return math.ldexp(1.0, fmt.float_bits.smallest_exponent)
    return min(abs(value) for value in finite_values(fmt) if value)


def _neighbourhood(fmt: NumberFormat, x: float) -> tuple[float, float]:
    """Return the two neighbours of x and some room around them."""
    values = finite_values(fmt)
    held = min(max(x, values[0]), values[-1])
    landing = land(held, fmt)
    assert landing.below is not None
    assert landing.above is not None
    gap = gap_at(held, fmt) or 1.0
    low, high = landing.below, landing.above
    # Beyond an end: as far as x, if that is not far.
    if x != held:
        away = min(max(abs(x - held), gap), 4 * gap)
        low, high = (low - away, high) if x < held else (low, high + away)
    return low - 1.7 * gap, high + 1.7 * gap


def _marks(fmt: NumberFormat, axis: Axis, landing: Landing | None, width: int) -> Marks:
    values: Array = np.array(finite_values(fmt))
    shares = axis.share(values)
    inside = (shares >= 0) & (shares <= 1)
    seen = values[inside]
    # A value keeps its own place while it is alone in its column.
    columns = np.floor(shares[inside] * width / COLUMN).astype(np.int64)
    _, starts, counts = np.unique(columns, return_index=True, return_counts=True)
    firsts, lasts = seen[starts], seen[starts + counts - 1]
    places = (axis.at(firsts) + axis.at(lasts)) / 2 if len(starts) else np.zeros(0)
    labels = tuple(_labels(fmt, seen, axis, landing, width))
    out = (int((shares < 0).sum()), int((shares > 1).sum()))
    return Marks(fmt, places, counts, firsts, lasts, labels, len(labels) == len(values), out, landing)


def _labels(
    fmt: NumberFormat, seen: Array, axis: Axis, landing: Landing | None, width: int
) -> Iterator[Label]:
    """The values with their numbers written: where x lands, its neighbours, the ends, 0, and the others while
    there is room.
    """
    if not len(seen):
        return
    wanted: list[float] = []
    if landing:
        wanted += [each for each in (landing.value, landing.below, landing.above) if each is not None]
    # The ends of the format, not of the view.
    wanted += [fmt.value_max, fmt.value_min, 0.0]
    if len(seen) <= _MOST_LABELS:
        # Whole numbers first, and those of few digits.
        wanted += sorted(map(float, seen), key=lambda value: (len(number(abs(value))), abs(value)))
    there = set(map(float, seen))
    yield from _free(
        (
            (value, _label(value, gap_at(value, fmt) or 1.0))
            for value in dict.fromkeys(wanted)
            if value in there
        ),
        axis,
        width,
    )


def _free(labels: Iterable[Label], axis: Axis, width: int) -> Iterator[Label]:
    """Those of the labels, the most important first, whose numbers do not touch one before them."""
    taken: list[tuple[float, float]] = []
    for value, words in labels:
        half = _half_width(words)
        middle = min(max(float(axis.share(value)) * width, half - _SIDE), width + _SIDE - half)
        if all(
            middle + half + _BETWEEN <= left or middle - half - _BETWEEN >= right for left, right in taken
        ):
            taken.append((middle - half, middle + half))
            yield value, words


def _label(value: float, step: float) -> str:
    """Return a value as it is written on the line: told from its neighbours, `step` away.

    >>> _label(1000.5, 0.5), _label(-57344.0, 8192.0), _label(0.0078125, 0.001), _label(3.4e38, 1e36)
    ('1000.5', '−57344', '0.007812', '3.4e38')
    """
    digits = digits_for(value, step)
    return number(value, max(6, digits) if value == round(value) and abs(value) < 1e6 else digits)


def _half_width(words: str) -> float:
    """Return half of the pixels that a number takes."""
    return _CHARACTER * len(words) / 2


def _ticks(axis: Axis, width: int) -> tuple[Label, ...]:
    step = 0.0
    if axis.view == "symlog":
        wanted: list[float] = [0.0]
        ends = max(abs(axis.lo), abs(axis.hi))
        decades = ends * math.log10(2)
        first, last = math.ceil(math.log10(axis.threshold)), math.floor(math.log10(axis.threshold) + decades)
        if decades > 3:
            stride = next(
                each for each in (1, 2, 3, 5, 10, 20, 50) if (last - first) / each <= max(4, width / 110)
            )
            sizes = [10.0**power for power in range(first, last + 1) if power % stride == 0]
        else:
            sizes = [axis.threshold * 2.0**power for power in range(int(ends) + 1)]
        wanted += [signed for size in sizes for signed in (size, -size)]
    else:
        step = _round_step((axis.hi - axis.lo) / max(4, width / 110))
        count = range(math.ceil(axis.lo / step), math.floor(axis.hi / step) + 1)
        wanted = sorted((float(f"{each * step:.12g}") for each in count), key=abs)
    return tuple(
        sorted(
            _free(
                (
                    (value, _label(value, step or abs(value) or 1.0))
                    for value in wanted
                    if 0 <= axis.share(value) <= 1
                ),
                axis,
                width,
            )
        )
    )


def _round_step(least: float) -> float:
    """1, 2 or 5 times a power of ten, at least `least`.

    >>> _round_step(0.03), _round_step(7)
    (0.05, 10.0)
    """
    power = 10.0 ** math.floor(math.log10(least))
    return next(float(f"{times * power:.3g}") for times in (1, 2, 5, 10) if times * power >= least * 0.999)


# ---- the line -----------------------------------------------------------------------------------

#: Heights above the line, in units of the tallest mark.
_TALLEST, _SHORTEST, _LABEL, _ARROW, _TOP = 0.8, 0.42, 0.98, 1.28, 1.9
#: Between the axis' numbers and a format's marks, above and below.
_BAND = 0.15
#: Where the axis' numbers stand below a single format.
_BOTTOM = -0.45


def formats_figure(
    data: FormatsData,
    *,
    language: str = DEFAULT_LANGUAGE,
    theme: str = "light",
    height: int | None = None,
    enlarge: float = 1.0,
) -> Drawn:
    """Return the line. Points of the traces named "values" carry the value they stand for as `customdata`."""
    colours, two = THEMES[theme], len(data.rows) > 1
    usual = (HEIGHT_TWO if two else HEIGHT_ONE) * enlarge
    layout = bare_layout(colours, int(height or usual), (_SIDE, _SIDE, 0, 0))
    layout["font"]["size"] = 12 * enlarge
    layout["xaxis"] |= {"range": [data.axis.lo, data.axis.hi], "visible": False}
    layout["yaxis"] |= {"range": [-_TOP + 0.25 if two else _BOTTOM, _TOP], "visible": False}
    layout |= {"hovermode": "closest", "hoverdistance": 24, "clickmode": "event+select"}
    drawing = _Line(data, colours, language, enlarge)
    layout["shapes"] = list(drawing.shapes())
    layout["annotations"] = list(drawing.words())
    return Drawn({"data": list(drawing.traces()), "layout": layout})


def row_colour(theme: str, row: int) -> str:
    """Return the colour of the first or the second format."""
    return _colour(THEMES[theme], row)


def _colour(theme: Theme, row: int) -> str:
    return theme.values[0] if row == 0 else theme.values[-1]


@dataclass(frozen=True)
class _Line:
    """Draws the line; it computes nothing but places."""

    data: FormatsData
    theme: Theme
    language: str
    enlarge: float

    def traces(self) -> Iterator[dict[str, Any]]:
        for row, marks in enumerate(self.data.rows):
            yield from self._marks(row, marks)
        for row, marks in enumerate(self.data.rows):
            if marks.landing and 0 <= self._share(marks.landing.value) <= 1:
                yield self._landed(row, marks.landing)

    def _marks(self, row: int, marks: Marks) -> Iterator[dict[str, Any]]:
        """A line for each mark, all in one trace, and points to be hovered over and clicked."""
        side, colour = self._side(row), _colour(self.theme, row)
        tall = side * _heights(marks)
        few, full = len(marks.places) <= 64, bool(np.median(marks.counts) > 1) if len(marks.counts) else False
        foot = side * self._band
        nothing = np.full(len(marks.places), np.nan)
        yield {
            "type": "scatter",
            "mode": "lines",
            "x": np.stack([marks.places, marks.places, nothing], axis=1).ravel(),
            "y": np.stack([np.full(len(tall), foot), tall, nothing], axis=1).ravel(),
            "line": {"color": colour, "width": (2 if few else COLUMN if full else 1.2) * self.enlarge},
            "hoverinfo": "skip",
        }
        # A single value is its own number; of several the one nearest to 0 stands for all.
        chosen = np.where(np.abs(marks.firsts) <= np.abs(marks.lasts), marks.firsts, marks.lasts)
        yield {
            "type": "scatter",
            "mode": "markers",
            "name": "values",
            "x": marks.places,
            "y": tall if few else tall / 2,
            "customdata": chosen,
            "hovertext": list(self._hover(marks)),
            "hovertemplate": "%{hovertext}<extra></extra>",
            "marker": {"color": colour, "size": (7 if few else 9) * self.enlarge, "opacity": 1 if few else 0},
            "selected": {"marker": {"opacity": 1 if few else 0}},
            "unselected": {"marker": {"opacity": 1 if few else 0}},
        }

    def _hover(self, marks: Marks) -> Iterator[str]:
        name = text(f"formats.{marks.format.id}.name", self.language)
        for first, last, count in zip(
            marks.firsts.tolist(), marks.lasts.tolist(), marks.counts.tolist(), strict=True
        ):
            if count == 1:
                yield f"{name}: {number(first, 9)}"
            else:
                yield text(
                    "formats.figure.several",
                    self.language,
                    name=name,
                    count=f"{count:,}",
                    first=number(first, 6),
                    last=number(last, 6),
                )

    def _landed(self, row: int, landing: Landing) -> dict[str, Any]:
        """Return the value that x lands on, marked on the line."""
        place = self._at(landing.value)
        return {
            "type": "scatter",
            "mode": "lines+markers",
            "x": [place, place],
            "y": [self._side(row) * self._band, self._side(row) * _TALLEST],
            "line": {"color": self._arrow_colour, "width": 4 * self.enlarge},
            "marker": {
                "color": self._arrow_colour,
                "size": [0, 11 * self.enlarge],
                "line": {"color": self.theme.surface, "width": 1.5},
            },
            "hoverinfo": "skip",
        }

    def shapes(self) -> Iterator[dict[str, Any]]:
        for y in {self._band, -self._band}:
            yield self._segment(self.data.axis.lo, self.data.axis.hi, y, y, self.theme.muted, 1.2)
        if self.data.x is None:
            return
        x = self._held(self.data.x)
        for low, high in self._free_of_labels(x):
            yield self._segment(x, x, low, high, self.theme.text, 1.4, "dot")
        for row, marks in enumerate(self.data.rows):
            if marks.landing:
                y = self._side(row) * _ARROW
                for end in (marks.landing.below, marks.landing.above):
                    if end is not None:
                        yield self._segment(x, self._held(end), y, y, self.theme.muted, 1)
                        if 0 <= self._share(end) <= 1:
                            yield self._segment(
                                self._at(end), self._at(end), y - 0.07, y + 0.07, self.theme.muted, 1
                            )

    def _free_of_labels(self, x: float) -> Iterator[tuple[float, float]]:
        """From where to where the line of x goes: not across a number written on the line."""
        ends: list[float] = [_TOP - 0.3]
        for row, marks in enumerate(self.data.rows):
            scale = self.data.width / (self.data.axis.hi - self.data.axis.lo)
            nearby = (
                abs(self._held(value) - x) * scale < _half_width(words) for value, words in marks.labels
            )
            gap = [_LABEL + 0.15, _LABEL - 0.14] if any(nearby) else []
            ends += gap if row == 0 else [-each for each in reversed(gap)]
        ends.append(-_ARROW if self._two else 0.0)
        return zip(ends[1::2], ends[::2], strict=True)

    def words(self) -> Iterator[dict[str, Any]]:
        for row, marks in enumerate(self.data.rows):
            beyond = list(self._beyond(marks))
            for label in marks.labels:
                landed = marks.landing is not None and label[0] == marks.landing.value
                if landed or not any(self._touches(label, words, anchor) for _, words, anchor in beyond):
                    yield self._words(
                        label, self._side(row) * _LABEL, _colour(self.theme, row), 12, bold=landed
                    )
            for place, words, anchor in beyond:
                yield self._note(place, self._side(row) * _LABEL, words, _colour(self.theme, row), 11, anchor)
        for tick in self.data.ticks:
            y, anchor = (0.0, "middle") if self._two else (-0.12, "top")
            yield self._words(tick, y, self.theme.muted, 11) | {"yanchor": anchor}
        if self.data.x is not None:
            yield from self._number(self.data.x)
            for row, marks in enumerate(self.data.rows):
                if marks.landing:
                    yield from self._way(self._side(row) * _ARROW, marks.landing)

    def _beyond(self, marks: Marks) -> Iterator[tuple[float, str, str]]:
        """That a format goes on where the line ends: the end, the words, and the side they begin at."""
        values = finite_values(marks.format)
        for place, count, end, anchor, sign in (
            (self.data.axis.lo, marks.out_of_view[0], values[0], "left", "← "),
            (self.data.axis.hi, marks.out_of_view[1], values[-1], "right", " →"),
        ):
            near_x = marks.landing is not None and abs(self._held(marks.landing.value) - place) < 0.2 * (
                self.data.axis.hi - self.data.axis.lo
            )
            if count and self.data.axis.view != "near" and not near_x:
                goes_on = text("formats.figure.goes_on", self.language, end=number(end, 6))
                yield place, sign + goes_on if anchor == "left" else goes_on + sign, anchor

    def _touches(self, label: Label, words: str, anchor: str) -> bool:
        """Return whether a number would be written into the words at an end of the line."""
        share = float(self.data.axis.share(label[0]))
        reach = _CHARACTER * columns(words) + _half_width(label[1]) + _BETWEEN
        return (share if anchor == "left" else 1 - share) * self.data.width < reach

    def _number(self, x: float) -> Iterator[dict[str, Any]]:
        """x itself, above everything else."""
        share = self._share(x)
        words = f"<b>x = {number(x, 6)}</b>"
        words = f"{words} →" if share > 1 else f"← {words}" if share < 0 else words
        yield self._note(
            self._held(x),
            _TOP - 0.13,
            words,
            self.theme.text,
            13,
            "left" if share < 0.06 else "right" if share > 0.94 else "center",
        )

    def _way(self, y: float, landing: Landing) -> Iterator[dict[str, Any]]:
        """The arrow to where x lands, and the distance to each neighbour where there is room."""
        x, end = self._held(landing.x), self._held(landing.value)
        width = self.data.axis.hi - self.data.axis.lo
        if abs(end - x) * self.data.width > 6 * width:
            yield {
                "x": end, "y": y, "ax": x, "ay": y, "xref": "x", "yref": "y", "axref": "x", "ayref": "y",
                "text": "", "showarrow": True,
                "arrowhead": 2, "arrowsize": 1, "arrowwidth": 2.5 * self.enlarge,
                "arrowcolor": self._arrow_colour,
            }  # fmt: skip
        for neighbour in (landing.below, landing.above):
            if neighbour is None or neighbour == landing.x:
                continue
            words, other = number(abs(neighbour - landing.x), 3), self._held(neighbour)
            if abs(other - x) * self.data.width > (_CHARACTER * len(words) + 12) * width:
                colour = self._arrow_colour if neighbour == landing.value else self.theme.muted
                up = 1 if y > 0 else -1
                yield self._note((x + other) / 2, y + up * 0.17, words, colour, 11, "center")

    @property
    def _two(self) -> bool:
        return len(self.data.rows) > 1

    @property
    def _band(self) -> float:
        """Return half of what lies between the two formats: room for the axis' numbers."""
        return _BAND if self._two and self.data.ticks else 0.0

    @property
    def _arrow_colour(self) -> str:
        return self.theme.errors[-1]

    def _side(self, row: int) -> int:
        return -1 if row else 1

    def _at(self, value: float) -> float:
        return float(self.data.axis.at(value))

    def _share(self, value: float) -> float:
        return float(self.data.axis.share(value))

    def _held(self, value: float) -> float:
        """Return the place of a value, or the edge it lies beyond."""
        return min(max(self._at(value), self.data.axis.lo), self.data.axis.hi)

    def _segment(
        self, x0: float, x1: float, y0: float, y1: float, colour: str, width: float, dash: str = "solid"
    ) -> dict[str, Any]:
        return {
            "type": "line",
            "x0": x0,
            "x1": x1,
            "y0": y0,
            "y1": y1,
            "line": {"color": colour, "width": width * self.enlarge, "dash": dash},
            "layer": "below",
        }

    def _words(
        self, label: Label, y: float, colour: str, size: float, *, bold: bool = False
    ) -> dict[str, Any]:
        value, words = label
        share = self._share(value) * self.data.width
        half = _half_width(words) - _SIDE
        anchor = "left" if share < half else "right" if share > self.data.width - half else "center"
        shift = {"left": -_SIDE, "right": _SIDE, "center": 0}[anchor]
        edge = {"left": self.data.axis.lo, "right": self.data.axis.hi, "center": self._at(value)}[anchor]
        return self._note(edge, y, f"<b>{words}</b>" if bold else words, colour, size, anchor) | {
            "xshift": shift
        }

    def _note(
        self, place: float, y: float, words: str, colour: str, size: float, anchor: str
    ) -> dict[str, Any]:
        font = {"size": size * self.enlarge, "color": colour}
        return {
            "x": place,
            "y": y,
            "xref": "x",
            "yref": "y",
            "text": words,
            "showarrow": False,
            "font": font,
            "xanchor": anchor,
            "yanchor": "middle",
        }


def _heights(marks: Marks) -> Array:
    """Return how tall the marks are: one height for a single value, taller by the logarithm of how many there
    are.
    """
    # Where at most two share a mark, the others are hardly shorter.
    rise = min(_TALLEST - _SHORTEST, 0.06 * math.log2(marks.most))
    return _TALLEST - rise * (1 - np.log2(marks.counts) / max(1.0, math.log2(marks.most)))


def formats_words(data: FormatsData, language: str = DEFAULT_LANGUAGE) -> tuple[str, ...]:
    """What the marks stand for, one sentence for each format."""
    found = []
    for marks in data.rows:
        name = text(f"formats.{marks.format.id}.name", language)
        total = f"{len(finite_values(marks.format)):,}"
        if not sum(marks.out_of_view) and marks.most == 1:
            found.append(text("formats.figure.each", language, name=name, total=total))
        elif marks.most == 1:
            found.append(
                text("formats.figure.part", language, name=name, total=total, shown=f"{marks.shown:,}")
            )
        else:
            least, lines = int(marks.counts.min()), len(marks.counts)
            part = "values_part" if sum(marks.out_of_view) else "values_all"
            values = text(f"formats.figure.{part}", language, shown=f"{marks.shown:,}", total=total)
            words = "columns_one" if lines == 1 else "columns_alike" if least == marks.most else "columns"
            params = {
                "values": values,
                "lines": f"{lines:,}",
                "least": f"{least:,}",
                "most": f"{marks.most:,}",
            }
            found.append(text(f"formats.figure.{words}", language, name=name, **params))
        if sum(marks.out_of_view):
            low, high = finite_values(marks.format)[0], finite_values(marks.format)[-1]
            found.append(text("formats.figure.whole", language, low=number(low, 6), high=number(high, 6)))
    return tuple(found)


# ---- the gap ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class GapLine:
    """The gap of one format over the magnitude: a staircase."""

    format: NumberFormat
    #: Corners of the staircase, magnitudes ascending.
    sizes: Array
    gaps: Array
    #: The gap at x; none beyond the ends.
    at_x: float | None


@dataclass(frozen=True, eq=False)
class GapData:
    """The gaps of one or two formats, on the side of 0 that x lies on."""

    lines: tuple[GapLine, ...]
    x: float | None
    negative: bool


def gap_data(first: NumberFormat, second: NumberFormat | None = None, *, x: float | None = None) -> GapData:
    """Return the staircases of one or two formats.

    >>> from quantviz.schemes.formats import FORMATS
    >>> line = gap_data(FORMATS["float4_e2m1fn"], x=2.5).lines[0]
    >>> line.sizes.tolist(), line.gaps.tolist(), line.at_x
    ([0.25, 2.0, 2.0, 4.0, 4.0, 6.0], [0.5, 0.5, 1.0, 1.0, 2.0, 2.0], 1.0)
    """
    negative = x is not None and x < 0
    formats = (first,) if second is None else (first, second)
    steps = {fmt.id: gap_steps(fmt, negative) for fmt in formats}
    at_x = {fmt.id: None if x is None else gap_at(x, fmt) for fmt in formats}
    # On a logarithmic axis there is no 0: the first step begins at half its width, and x is in view.
    starts = [each[0].gap / 2 for each in steps.values() if each and not each[0].start]
    start = min(
        [*starts, *([abs(x)] if x and any(gap is not None for gap in at_x.values()) else [])], default=0.0
    )
    lines = []
    for fmt in formats:
        corners = [(size or start, step.gap) for step in steps[fmt.id] for size in (step.start, step.end)]
        sizes, gaps = (np.array([corner[i] for corner in corners], dtype=np.float64) for i in (0, 1))
        lines.append(GapLine(fmt, sizes, gaps, at_x[fmt.id]))
    return GapData(tuple(lines), x, negative)


def gap_figure(
    data: GapData,
    *,
    language: str = DEFAULT_LANGUAGE,
    theme: str = "light",
    height: int = GAPS_HEIGHT,
    enlarge: float = 1.0,
) -> Drawn:
    """Return the staircases on two logarithmic axes, x marked on each."""
    colours = THEMES[theme]
    layout = bare_layout(colours, int(height * enlarge), (round(52 * enlarge), 10, 8, round(40 * enlarge)))
    layout["font"]["size"] = 12 * enlarge
    for name, key in (("xaxis", "size_negative" if data.negative else "size"), ("yaxis", "gap")):
        found = np.concatenate(
            [line.sizes if name == "xaxis" else line.gaps for line in data.lines] or [np.zeros(0)]
        )
        low, high = (math.log10(found.min()), math.log10(found.max())) if len(found) else (0.0, 1.0)
        room = 0.04 * (high - low) + 0.05
        title = {
            "text": text(f"formats.figure.{key}", language),
            "standoff": 4,
            "font": {"size": 12 * enlarge},
        }
        span = high - low
        base = 10 if span > 2 else 2
        stride = next(
            each
            for each in (1, 2, 3, 5, 10, 20)
            if span / math.log10(base) / each <= (8 if name == "xaxis" else 5)
        )
        powers = range(math.floor(low / math.log10(base)), math.ceil(high / math.log10(base)) + 1)
        ticks = [float(base) ** power for power in powers if power % stride == 0]
        layout[name] |= {
            "type": "log", "range": [low - room, high + room], "title": title,
            "ticks": "outside", "ticklen": 3, "tickvals": ticks,
            "ticktext": [number(tick) for tick in ticks], "tickfont": {"size": 11 * enlarge},
        }  # fmt: skip
    return Drawn({"data": list(_gap_traces(data, colours, language, enlarge)), "layout": layout})


def _gap_traces(data: GapData, theme: Theme, language: str, enlarge: float) -> Iterator[dict[str, Any]]:
    for row, line in enumerate(data.lines):
        colour = _colour(theme, row)
        name = text(f"formats.{line.format.id}.name", language)
        said = text("formats.figure.gap_hover", language, name=name, size="%{x:.4g}", gap="%{y:.4g}")
        yield {
            "type": "scatter",
            "mode": "lines",
            "x": line.sizes,
            "y": line.gaps,
            "line": {"color": colour, "width": 2 * enlarge, "dash": "dot" if row else "solid"},
            "hovertemplate": f"{said}<extra></extra>",
        }
        if data.x and line.at_x:
            yield {
                "type": "scatter",
                "mode": "markers",
                "x": [abs(data.x)],
                "y": [line.at_x],
                "marker": {
                    "color": colour,
                    "size": 11 * enlarge,
                    "line": {"color": theme.surface, "width": 1.5},
                },
                "hovertemplate": f"{said}<extra></extra>",
            }
