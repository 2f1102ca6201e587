"""The line of a format's values as a figure, with a number landing on it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from quantviz.figures.colour_ranges import Array
from quantviz.figures.format_values import (
    BETWEEN_LABELS,
    CHARACTER_WIDTH,
    COLUMN,
    SIDE_MARGIN,
    FormatsData,
    Label,
    Marks,
    half_width,
)
from quantviz.figures.numbers import columns, number
from quantviz.figures.payload import UncheckedFigure
from quantviz.figures.small_plots import bare_layout, note, scatter, shape
from quantviz.figures.theme import THEMES, Theme
from quantviz.quantization.format_facts import RoundedNumber, finite_values
from quantviz.text import DEFAULT_LANGUAGE, text

#: The usual width in pixels; heights of the line with one format and with two, and of the gaps.
HEIGHT_ONE = 150
HEIGHT_TWO = 196
#: Heights above the line, in units of the tallest mark.
_TALLEST = 0.8
_SHORTEST = 0.42
_LABEL = 0.98
_ARROW = 1.28
_TOP = 1.9
#: Between the axis' numbers and a format's marks, above and below.
_BAND = 0.15
#: Where the axis' numbers stand below a single format.
_BOTTOM = -0.45


def formats_figure(
    data: FormatsData,
    *,
    language: str = DEFAULT_LANGUAGE,
    theme: str = "light",
    enlarge: float = 1.0,
) -> UncheckedFigure:
    """Return the line. Points of the traces named "values" carry the value they stand for as `customdata`."""
    colours = THEMES[theme]
    two = len(data.rows) > 1
    height = int((HEIGHT_TWO if two else HEIGHT_ONE) * enlarge)
    layout = bare_layout(colours, height, (SIDE_MARGIN, SIDE_MARGIN, 0, 0))
    layout["font"]["size"] = 12 * enlarge
    layout["xaxis"] |= {"range": [data.axis.lo, data.axis.hi], "visible": False}
    layout["yaxis"] |= {"range": [-_TOP + 0.25 if two else _BOTTOM, _TOP], "visible": False}
    layout |= {"hovermode": "closest", "hoverdistance": 24, "clickmode": "event+select"}
    drawing = _LinePainter(data, colours, language, enlarge)
    layout["shapes"] = list(drawing.shapes())
    layout["annotations"] = list(drawing.words())
    return UncheckedFigure({"data": list(drawing.traces()), "layout": layout})


def row_colour(theme: str, row: int) -> str:
    return row_paint(THEMES[theme], row)


def row_paint(theme: Theme, row: int) -> str:
    return theme.values[0] if row == 0 else theme.values[-1]


@dataclass(frozen=True)
class _LinePainter:
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
        # All lines are one trace; points are hovered over and clicked.
        side = self._side(row)
        colour = row_paint(self.theme, row)
        tall = side * _heights(marks)
        few = len(marks.places) <= 64
        full = bool(np.median(marks.counts) > 1) if len(marks.counts) else False
        foot = side * self._band
        nothing = np.full(len(marks.places), np.nan)
        width = COLUMN if full else 1.2
        yield scatter(
            "lines",
            np.stack([marks.places, marks.places, nothing], axis=1).ravel(),
            np.stack([np.full(len(tall), foot), tall, nothing], axis=1).ravel(),
            line={"color": colour, "width": (2 if few else width) * self.enlarge},
            hoverinfo="skip",
        )
        # A single value is its own number; of several the one nearest to 0 stands for all.
        chosen = np.where(np.abs(marks.firsts) <= np.abs(marks.lasts), marks.firsts, marks.lasts)
        seen = {"marker": {"opacity": 1 if few else 0}}
        yield scatter(
            "markers",
            marks.places,
            tall if few else tall / 2,
            name="values",
            customdata=chosen,
            hovertext=list(self._hover(marks)),
            hovertemplate="%{hovertext}<extra></extra>",
            marker={"color": colour, "size": (7 if few else 9) * self.enlarge, **seen["marker"]},
            selected=seen,
            unselected=seen,
        )

    def _hover(self, marks: Marks) -> Iterator[str]:
        name = text(f"formats.{marks.format.id}.name", self.language)
        marked = (marks.firsts.tolist(), marks.lasts.tolist(), marks.counts.tolist())
        for first, last, count in zip(*marked, strict=True):
            if count == 1:
                yield f"{name}: {number(first, 9)}"
            else:
                ends = {"first": number(first, 6), "last": number(last, 6)}
                yield text("formats.figure.several", self.language, name=name, count=f"{count:,}", **ends)

    def _landed(self, row: int, landing: RoundedNumber) -> dict[str, Any]:
        place = self._at(landing.value)
        rim = {"color": self.theme.surface, "width": 1.5}
        return scatter(
            "lines+markers",
            [place, place],
            [self._side(row) * self._band, self._side(row) * _TALLEST],
            line={"color": self._arrow_colour, "width": 4 * self.enlarge},
            marker={"color": self._arrow_colour, "size": [0, 11 * self.enlarge], "line": rim},
            hoverinfo="skip",
        )

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
        """Yield the ends of the line of x: not across a number on the axis."""
        ends: list[float] = [_TOP - 0.3]
        for row, marks in enumerate(self.data.rows):
            scale = self.data.width / (self.data.axis.hi - self.data.axis.lo)
            nearby = (abs(self._held(value) - x) * scale < half_width(words) for value, words in marks.labels)
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
                        label, self._side(row) * _LABEL, row_paint(self.theme, row), 12, bold=landed
                    )
            for place, words, anchor in beyond:
                yield self._note(
                    place, self._side(row) * _LABEL, words, row_paint(self.theme, row), 12, anchor
                )
        for tick in self.data.ticks:
            y, anchor = (0.0, "middle") if self._two else (-0.12, "top")
            yield self._words(tick, y, self.theme.muted, 12) | {"yanchor": anchor}
        if self.data.x is not None:
            yield from self._number(self.data.x)
            for row, marks in enumerate(self.data.rows):
                if marks.landing:
                    yield from self._way(self._side(row) * _ARROW, marks.landing)

    def _beyond(self, marks: Marks) -> Iterator[tuple[float, str, str]]:
        """Yield the remarks on values beyond the line's ends: the end, the words, and their side."""
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
        # Words stand at an end of the line.
        share = float(self.data.axis.share(label[0]))
        reach = CHARACTER_WIDTH * columns(words) + half_width(label[1]) + BETWEEN_LABELS
        return (share if anchor == "left" else 1 - share) * self.data.width < reach

    def _number(self, x: float) -> Iterator[dict[str, Any]]:
        share = self._share(x)
        words = f"<b>x = {number(x, 6)}</b>"
        if share > 1:
            words = f"{words} →"
        elif share < 0:
            words = f"← {words}"
        anchor = "center"
        if share < 0.06:
            anchor = "left"
        elif share > 0.94:
            anchor = "right"
        yield self._note(self._held(x), _TOP - 0.13, words, self.theme.text, 14, anchor)

    def _way(self, y: float, landing: RoundedNumber) -> Iterator[dict[str, Any]]:
        """Draw the arrow to where x lands, and each neighbour's distance if there is room."""
        x = self._held(landing.x)
        end = self._held(landing.value)
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
            words = number(abs(neighbour - landing.x), 3)
            other = self._held(neighbour)
            if abs(other - x) * self.data.width > (CHARACTER_WIDTH * len(words) + 12) * width:
                colour = self._arrow_colour if neighbour == landing.value else self.theme.muted
                up = 1 if y > 0 else -1
                yield self._note((x + other) / 2, y + up * 0.19, words, colour, 12, "center")

    @property
    def _two(self) -> bool:
        return len(self.data.rows) > 1

    @property
    def _band(self) -> float:
        # Half of the gap between the formats, with room for the axis' numbers.
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
        # At the edge that it lies beyond.
        return min(max(self._at(value), self.data.axis.lo), self.data.axis.hi)

    def _segment(
        self, x0: float, x1: float, y0: float, y1: float, colour: str, width: float, dash: str = "solid"
    ) -> dict[str, Any]:
        line = {"color": colour, "width": width * self.enlarge, "dash": dash}
        return shape("line", (x0, x1), (y0, y1), line, layer="below")

    def _words(
        self, label: Label, y: float, colour: str, size: float, *, bold: bool = False
    ) -> dict[str, Any]:
        value, words = label
        share = self._share(value) * self.data.width
        half = half_width(words) - SIDE_MARGIN
        if share < half:
            anchor = "left"
        elif share > self.data.width - half:
            anchor = "right"
        else:
            anchor = "center"
        shift = {"left": -SIDE_MARGIN, "right": SIDE_MARGIN, "center": 0}[anchor]
        edge = {"left": self.data.axis.lo, "right": self.data.axis.hi, "center": self._at(value)}[anchor]
        return self._note(edge, y, f"<b>{words}</b>" if bold else words, colour, size, anchor) | {
            "xshift": shift
        }

    def _note(
        self, place: float, y: float, words: str, colour: str, size: float, anchor: str
    ) -> dict[str, Any]:
        font = {"size": size * self.enlarge, "color": colour}
        return note(words, place, y, colour, f"middle {anchor}", xref="x", yref="y", font=font)


def _heights(marks: Marks) -> Array:
    # They grow with the logarithm of the number of values.
    # Where at most two share a mark, the others are hardly shorter.
    rise = min(_TALLEST - _SHORTEST, 0.06 * math.log2(marks.most))
    return _TALLEST - rise * (1 - np.log2(marks.counts) / max(1.0, math.log2(marks.most)))


def formats_words(data: FormatsData, language: str = DEFAULT_LANGUAGE) -> tuple[str, ...]:
    """Return a sentence on each format's marks."""
    found = []
    for marks in data.rows:
        name = text(f"formats.{marks.format.id}.name", language)
        total = f"{len(finite_values(marks.format)):,}"
        hidden = sum(marks.out_of_view)
        counts = {"shown": f"{marks.shown:,}", "total": total}
        if marks.most == 1:
            key = "part" if hidden else "each"
            found.append(text(f"formats.figure.{key}", language, name=name, **counts))
        else:
            least = int(marks.counts.min())
            lines = len(marks.counts)
            part = "values_part" if hidden else "values_all"
            values = text(f"formats.figure.{part}", language, **counts)
            words = "columns_alike" if least == marks.most else "columns"
            if lines == 1:
                words = "columns_one"
            params = {"least": f"{least:,}", "most": f"{marks.most:,}"}
            found.append(text(f"formats.figure.{words}", language, name=name, values=values, **params))
    return tuple(found)
