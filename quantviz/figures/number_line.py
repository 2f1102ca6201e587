"""One cell on its grid: the values the codes stand for, x among them, and where it lands.

`number_line_data` computes, `number_line_svg` draws: a small SVG written by hand, because it is
repainted with every click. It is drawn for several widths in one file and the browser shows the one
that fits; places are percentages and sizes are pixels, so that text stays as large as it is written.
"""

from __future__ import annotations

import base64
import bisect
import functools
import html
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import torch

from quantviz.figures.numbers import columns, digits_for, number, on_axis
from quantviz.figures.theme import THEMES, Theme
from quantviz.quantization.explanation import Explanation
from quantviz.quantization.grids import GRIDS
from quantviz.quantization.operations import run_operations, value_operations
from quantviz.quantization.quantizer import block_values
from quantviz.schemes.formats import NumberFormat
from quantviz.schemes.granularity import Shape
from quantviz.schemes.scheme import Scheme
from quantviz.text import DEFAULT_LANGUAGE, text

if TYPE_CHECKING:
    from quantviz.quantization.quantizer import QParams

#: Codes on each side of the cell's own that are looked at; up to twice as many and one are all of them.
NEIGHBOURS = 8
#: The widths in pixels it is laid out for; each serves from there to the next.
WIDTHS = (320, 560, 880)
#: The usual height in pixels.
HEIGHT = 100


# ---- data ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tick:
    """One value of the grid."""

    code: int
    #: What the code stands for, in the units of x.
    value: float
    #: What it stands for before any scale: of an integer the code itself.
    unscaled: float


@dataclass(frozen=True)
class NumberLineData:
    """A cell, the grid around it, and the whole grid's extent. Values are in the units of x."""

    index: tuple[int, ...]
    x: float
    #: Where x lands.
    landing: Tick
    #: Its code as it is told: the number, or the bits of a format whose codes are no numbers.
    code: str
    #: x_hat - x.
    error: float
    #: One of `explanation.CAUSES`.
    cause: str
    #: Whether x lies exactly half-way between two grid values.
    tie: bool
    #: Whether it became the nearest value there is.
    nearest: bool
    #: The grid values around x, smallest first; at few bits all of them.
    ticks: tuple[Tick, ...]
    #: The distance of two grid values at x; never 0.
    step: float
    format_id: str
    #: Whether codes are numbers themselves.
    integers: bool
    #: The smallest and the largest value there is; under a negative scale that is the last and the first
    #: code.
    first: Tick
    last: Tick
    #: How many codes there are.
    levels: int
    #: Whether rounding changes its mind half-way between two values.
    halves: bool
    #: The block's clipping range; none where scale and zero point were given.
    clipping_range: tuple[float, float] | None

    @property
    def x_hat(self) -> float:
        """Return the value where x lands."""
        return self.landing.value

    @property
    def boundaries(self) -> tuple[float, ...]:
        """Return half-way between neighbouring ticks: where rounding changes its mind. None where it is
        decided otherwise.
        """
        if not self.halves:
            return ()
        return tuple(
            one.value + (other.value - one.value) / 2
            for one, other in zip(self.ticks, self.ticks[1:], strict=False)
        )

    @property
    def extent(self) -> tuple[float, float]:
        """From the lowest to the highest of what there is to see: the grid, x and the clipping range."""
        values = (self.first.value, self.last.value, self.x, *(self.clipping_range or ()))
        return min(values), max(values)


def number_line_data(explanation: Explanation, qparams: QParams) -> NumberLineData:
    """Return the number line of the cell that `explanation` explains, not one that is left out; `qparams` are
    those of its whole tensor.

    The ticks' values come from the operations that dequantize, so that the one x lands on is x̂ bit for bit.

    >>> from quantviz import Scheme, explain, quantize
    >>> r = quantize([[1.0, 0.1], [-2.0, 0.7]], Scheme("int2"))
    >>> data = number_line_data(explain(r, (1, 1)), r.qparams)
    >>> [(tick.code, tick.value) for tick in data.ticks]
    [(-2, -4.0), (-1, -2.0), (0, 0.0), (1, 2.0)]
    >>> data.boundaries, data.landing.value
    ((-3.0, -1.0, 1.0), 0.0)
    """
    scheme, fmt = explanation.scheme, explanation.scheme.number_format
    codes = _codes(scheme)
    place = bisect.bisect_left(codes, explanation.value, key=fmt.value)
    start = max(0, min(place - NEIGHBOURS, len(codes) - 1 - 2 * NEIGHBOURS))
    ticks = _ticks(
        scheme, qparams, explanation.block, [codes[0], *codes[start : start + 2 * NEIGHBOURS + 1], codes[-1]]
    )
    landing = Tick(explanation.q, explanation.x_hat, explanation.value)
    # A scale near float32's end takes the outer codes beyond it, though no cell is there.
    first, last = (_finite(tick, landing, explanation.scale) for tick in (ticks[0], ticks[-1]))
    # Of several codes of one value, such as 0 and -0, the cell's own.
    around = sorted(
        {tick.value: tick for tick in (*ticks[1:-1], landing) if math.isfinite(tick.value)}.values(),
        key=lambda tick: tick.value,
    )
    return NumberLineData(
        index=explanation.index,
        x=explanation.x,
        landing=landing,
        code=number(explanation.q, 8) if fmt.kind == "integer" else " ".join(filter(None, explanation.bits)),
        error=explanation.error,
        cause=explanation.cause,
        tie=explanation.tie,
        nearest=all(
            abs(tick.value - explanation.x) >= abs(explanation.error) * (1 - 1e-5) for tick in around
        ),
        ticks=tuple(around),
        step=_step(explanation),
        format_id=scheme.format,
        integers=fmt.kind == "integer",
        first=min(first, last, key=lambda tick: tick.value),
        last=max(last, first, key=lambda tick: tick.value),
        levels=scheme.code_max - scheme.code_min + 1 if fmt.kind == "integer" else len(fmt.finite),
        halves=explanation.rounding.rule not in _WITHOUT_HALVES,
        clipping_range=explanation.range,
    )


#: Rules of rounding that do not change their mind half-way.
_WITHOUT_HALVES = ("stochastic", "truncate")


def _codes(scheme: Scheme) -> Sequence[int]:
    """Return the codes in use that stand for a number, by that number; of two with the same one the later."""
    fmt = scheme.number_format
    return range(scheme.code_min, scheme.code_max + 1) if fmt.kind == "integer" else _finite_codes(fmt)


@functools.cache
def _finite_codes(fmt: NumberFormat) -> tuple[int, ...]:
    return tuple(dict(fmt.finite).values())


def _ticks(scheme: Scheme, qparams: QParams, block: Shape, codes: Sequence[int]) -> list[Tick]:
    fmt = scheme.number_format
    known = {name: values[block] for name, values in block_values(qparams).items()}
    grid = GRIDS[fmt.kind].decode(torch.tensor(codes), fmt)
    values = run_operations(value_operations(scheme), {**known, "q": grid})["x_hat"].tolist()
    return [Tick(code, value, fmt.value(code)) for code, value in zip(codes, values, strict=True)]


def _finite(tick: Tick, landing: Tick, scale: float) -> Tick:
    """Return the tick by Python's wider arithmetic where float32 overflows."""
    return (
        tick
        if math.isfinite(tick.value)
        else Tick(tick.code, landing.value + scale * (tick.unscaled - landing.unscaled), tick.unscaled)
    )


def _step(explanation: Explanation) -> float:
    """Return the distance of two grid values at x, or of x from where it lands: a scale of 0 has no steps."""
    return next(
        (
            step
            for step in (explanation.local_step, abs(explanation.error), abs(explanation.x))
            if 0 < step < math.inf
        ),
        1.0,
    )


def number_line_sentence(data: NumberLineData, language: str = DEFAULT_LANGUAGE) -> str:
    """What the picture shows, for who cannot see it."""
    key = (
        "clipped"
        if data.cause == "clipped"
        else "exact"
        if data.error == 0
        else "landed"
        if data.nearest
        else "elsewhere"
    )
    return text(
        f"number_line.sentence.{key}",
        language,
        x=_value(data.x, data),
        x_hat=_value(data.x_hat, data),
        code=data.code
        if data.integers
        else text("number_line.code_of", language, bits=data.code, value=number(data.landing.unscaled, 6)),
        error=number(data.error, signed=True),
        count=data.levels,
        first=number(data.first.unscaled, 8),
        last=number(data.last.unscaled, 8),
        low=number(data.first.value),
        high=number(data.last.value),
    )


def _value(value: float, data: NumberLineData) -> str:
    return number(value, digits_for(value, data.step))


# ---- layout -------------------------------------------------------------------------------------

#: Pixels a character takes at most, at the sizes used; wide ones count double.
_CHARACTER = 6.7
#: Free pixels left and right of the line.
_PADDING = 30
#: Where things stand, in pixels from the top of `HEIGHT`.
_Y: Mapping[str, float] = MappingProxyType(
    {"label": 12, "arrow": 22, "axis": 36, "value": 53, "code": 67, "bar": 78, "words": 97}
)
#: Steps from the last tick to an x that lies too far out to be drawn to scale.
_OUT = 1.6


def _text_width(words: str) -> float:
    return _CHARACTER * columns(words)


@dataclass(frozen=True)
class _Scale:
    """Values to pixels at one width."""

    lo: float
    hi: float
    width: float

    def at(self, value: float) -> float:
        """Pixels from the left. Halved first, for float32's whole range is wider than a float32."""
        share = (value / 2 - self.lo / 2) / (self.hi / 2 - self.lo / 2) if self.hi > self.lo else 0.5
        return _PADDING + (self.width - 2 * _PADDING) * min(1.0, max(0.0, share))


@dataclass(frozen=True)
class _Layout:
    """What one width shows."""

    width: float
    ticks: tuple[Tick, ...]
    scale: _Scale
    #: Whether x lies further out than is drawn to scale.
    broken: bool
    #: Pixels of x.
    x: float


def _layout(data: NumberLineData, width: float) -> _Layout:
    room = width - 2 * _PADDING
    widest = max(_text_width(on_axis(tick.value, data.step)) for tick in data.ticks)
    fitting = max(3, int(room / (widest + 10)))
    # Steps that x lies outside its grid value; more than half a step only where it is clipped.
    away = max(0.0, abs(data.x / data.step - data.x_hat / data.step) - 0.5)
    broken = away > max(2.0, fitting - 3)
    outside = math.ceil(_OUT if broken else away)
    ticks = _around(data, max(2, fitting - outside))
    lo, hi = ticks[0].value - data.step / 2, ticks[-1].value + data.step / 2
    seen_x = data.x if not broken else data.x_hat + math.copysign(_OUT * data.step, data.x - data.x_hat)
    scale = _Scale(min(lo, seen_x - data.step / 4), max(hi, seen_x + data.step / 4), width)
    return _Layout(width, ticks, scale, broken, scale.at(seen_x))


def _around(data: NumberLineData, count: int) -> tuple[Tick, ...]:
    """Return the `count` ticks around x, as many on each side as there are."""
    place = data.ticks.index(data.landing)
    # With an even count the one more goes to the side x lies on.
    start = place - (count - 1) // 2 - (count % 2 == 0 and data.x < data.x_hat)
    start = max(0, min(start, len(data.ticks) - count))
    # Where steps grow, what lies many of them away would squeeze the cell's own to nothing.
    gaps = [abs(tick.value - data.x_hat) for tick in data.ticks[max(0, place - 1) : place + 2]]
    reach = count * max(data.step, *gaps)
    return tuple(tick for tick in data.ticks[start : start + count] if abs(tick.value - data.x_hat) <= reach)


def _placed(wanted: Iterable[tuple[float, str]], width: float) -> Iterator[tuple[float, str]]:
    """Those of the labels, the most important first, that do not touch one before them."""
    taken: list[tuple[float, float]] = []
    for x, words in wanted:
        half = _text_width(words) / 2
        x = min(max(x, half), width - half)
        if all(x + half + 4 < left or x - half - 4 > right for left, right in taken):
            taken.append((x - half, x + half))
            yield x, words


# ---- drawing ------------------------------------------------------------------------------------


def number_line_svg(
    data: NumberLineData,
    *,
    language: str = DEFAULT_LANGUAGE,
    theme: str = "light",
    width: int | None = None,
    height: int = HEIGHT,
) -> str:
    """Return the picture as SVG.

    Without `width` it fills its container and shows one of three layouts by how wide that is; with
    `width` in pixels it has that one. `theme` is "light" or "dark"; the background is left open.
    """
    sentence = html.escape(number_line_sentence(data, language))
    colours = THEMES[theme]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width or "100%"}" height="{height}" '
        f'role="img" aria-label="{sentence}" '
        f'font-family="{html.escape(_FONT)}" font-size="12" fill="{colours.text}"><title>{sentence}</title>'
    )
    if width is not None:
        return head + _Drawing(data, language, colours, _layout(data, width), height).all() + "</svg>"
    drawings = ((each, _Drawing(data, language, colours, _layout(data, each), height)) for each in WIDTHS)
    drawn = (f'<g class="qv-line-{each}">{drawing.all()}</g>' for each, drawing in drawings)
    return f"{head}<style>{_RULES}</style>{''.join(drawn)}</svg>"


def number_line_html(
    data: NumberLineData,
    *,
    language: str = DEFAULT_LANGUAGE,
    theme: str = "light",
    height: int = HEIGHT,
    enlarge: float = 1.0,
) -> str:
    """Return the picture as an HTML image, for places that let no SVG element through, such as `st.html`.

    `enlarge` makes all of it so many times larger, text too, in the same width.
    """
    svg = number_line_svg(data, language=language, theme=theme, height=height)
    coded = base64.b64encode(svg.encode()).decode("ascii")
    alt = html.escape(number_line_sentence(data, language))
    style = f"display:block;width:{100 / enlarge:.6g}%;height:{height}px"
    if enlarge != 1:  # laid out for less width, then scaled up to all of it
        style += f";transform:scale({enlarge:.6g});transform-origin:0 0"
        style += f";margin-bottom:{(enlarge - 1) * height:.6g}px"
    return (
        f'<img class="qv-number-line" alt="{alt}" decoding="sync" style="{style}" '
        f'src="data:image/svg+xml;base64,{coded}">'
    )


#: An image sees none of the page's fonts, only those of the system.
_FONT = (
    "'Source Sans 3','Source Sans Pro','Segoe UI',Roboto,'Helvetica Neue',Arial,"
    "'Noto Sans CJK SC','Noto Sans SC','PingFang SC','Microsoft YaHei',sans-serif"
)


def _rules() -> str:
    """Show the layout that fits. In an image, `@media` speaks of the image's own width."""
    rules = []
    for i, own in enumerate(WIDTHS):
        below = f"@media (max-width:{own - 0.02}px){{.qv-line-{own}{{display:none}}}}" if i else ""
        above = (
            f"@media (min-width:{WIDTHS[i + 1]}px){{.qv-line-{own}{{display:none}}}}"
            if i + 1 < len(WIDTHS)
            else ""
        )
        rules.append(below + above)
    return "".join(rules)


_RULES = _rules()


@dataclass(frozen=True)
class _Drawing:
    """Draws one layout; it computes nothing but places."""

    data: NumberLineData
    language: str
    theme: Theme
    layout: _Layout
    height: int

    def all(self) -> str:
        """Everything, what lies below first."""
        return "".join(
            (
                *self._axis(),
                *self._range_ends(),
                *self._arrow(),
                *self._tick_words(),
                *self._heading(),
                *self._overview(),
            )
        )

    @property
    def _error_colour(self) -> str:
        ramp = self.theme.errors
        return ramp[-1] if self.data.error > 0 else ramp[0]

    @property
    def _range_colour(self) -> str:
        return self.theme.values[0]

    def _x(self, pixels: float) -> str:
        """Return a place along the line that keeps its share of the width."""
        return f"{100 * pixels / self.layout.width:.2f}%"

    def _y(self, name: str) -> float:
        return _Y[name] * self.height / HEIGHT

    def _line(
        self, x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1, extra: str = ""
    ) -> str:
        return (
            f'<line x1="{self._x(x1)}" y1="{y1:g}" x2="{self._x(x2)}" y2="{y2:g}" '
            f'stroke="{colour}" stroke-width="{width:g}"{extra}/>'
        )

    def _words(self, x: float, y: float, words: str, extra: str = "", anchor: str = "middle") -> str:
        return f'<text x="{self._x(x)}" y="{y:g}" text-anchor="{anchor}"{extra}>{words}</text>'

    def _shape(self, x: float, y: float, path: str, extra: str) -> str:
        """Return a shape of fixed size at a place that moves with the width."""
        return (
            f'<svg x="{self._x(x)}" y="{y:g}" width="1" height="1" overflow="visible">'
            f'<path d="{path}" {extra}/></svg>'
        )

    def _axis(self) -> Iterator[str]:
        y, at = self._y("axis"), self.layout.scale.at
        lo, hi = self.layout.scale.lo, self.layout.scale.hi
        grid_lo, grid_hi = max(lo, self.data.first.value), min(hi, self.data.last.value)
        yield self._line(at(grid_lo), y, at(grid_hi), y, self.theme.text)
        for left, right in ((lo, grid_lo), (grid_hi, hi)):
            yield self._line(at(left), y, at(right), y, self.theme.muted, 1, ' stroke-dasharray="3 3"')
        if self.layout.broken:
            middle = (self.layout.x + at(self.data.x_hat)) / 2
            yield self._shape(middle, y, "M-7 6L-1 -6M1 6L7 -6", f'stroke="{self.theme.muted}" fill="none"')
        for boundary in self.data.boundaries:
            if self.layout.ticks[0].value <= boundary <= self.layout.ticks[-1].value:
                yield self._line(
                    at(boundary),
                    y - 7,
                    at(boundary),
                    y + 7,
                    self.theme.muted,
                    1,
                    ' stroke-dasharray="1.5 2.5" opacity=".75"',
                )
        if self.data.tie and self.data.boundaries and self.data.cause != "clipped":
            # The one that x lies on, where the rule for ties decides.
            on = min(self.data.boundaries, key=lambda boundary: abs(boundary - self.data.x))
            yield self._line(at(on), y - 9, at(on), y + 9, self.theme.text, 1.5, ' stroke-dasharray="3 2"')
        for tick in self.layout.ticks:
            yield self._line(at(tick.value), y - 5, at(tick.value), y + 5, self.theme.text, 1.5)

    def _range_ends(self) -> Iterator[str]:
        """Brackets where the block's clipping range begins and ends, as far as they are in sight."""
        for end, inward in zip(self.data.clipping_range or (), (1, -1), strict=False):
            if self.layout.scale.lo <= end <= self.layout.scale.hi and not self.layout.broken:
                shape = f"M{4 * inward} -10H0V5H{4 * inward}"
                yield self._shape(
                    self.layout.scale.at(end),
                    self._y("axis"),
                    shape,
                    f'stroke="{self._range_colour}" stroke-width="2" fill="none"',
                )

    def _arrow(self) -> Iterator[str]:
        """The error as a span, the arrow along it, x and where it lands."""
        y, top, start, end = (
            self._y("axis"),
            self._y("arrow"),
            self.layout.x,
            self.layout.scale.at(self.data.x_hat),
        )
        left, right = sorted((start, end))
        colour, direction = self._error_colour, 1 if end > start else -1
        if self.data.error:
            width = f"{100 * (right - left) / self.layout.width:.2f}%"
            yield (
                f'<rect x="{self._x(left)}" y="{top:g}" width="{width}" height="{y - top:g}" '
                f'fill="{colour}" opacity=".22"/>'
            )
            yield self._line(start, top, end, top, colour, 2)
            if right - left > 9:
                yield self._shape(end, top, f"M0 0L{-7 * direction} -4V4Z", f'fill="{colour}"')
        yield self._line(end, top, end, y, colour if self.data.error else self.theme.text, 2)
        yield self._shape(
            end,
            y,
            "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0",
            f'fill="{colour if self.data.error else self.theme.text}"',
        )
        yield self._line(start, top - 4, start, y, self.theme.text, 2)
        yield self._shape(start, top - 4, "M0 4L-4.5 -3H4.5Z", f'fill="{self.theme.text}"')

    def _tick_words(self) -> Iterator[str]:
        """Value and code under each tick, the one x lands on first."""
        at = self.layout.scale.at
        ticks = sorted(self.layout.ticks, key=lambda tick: abs(tick.value - self.data.x_hat))
        values = [(at(tick.value), on_axis(tick.value, self.data.step)) for tick in ticks]
        codes = [(at(tick.value), number(tick.unscaled, 8 if self.data.integers else 4)) for tick in ticks]
        for row, wanted, colour in (("value", values, self.theme.text), ("code", codes, self.theme.muted)):
            kept = list(_placed(wanted, self.layout.width))
            for i, (x, words) in enumerate(kept):
                yield self._words(
                    x,
                    self._y(row),
                    words,
                    f' fill="{colour}"' if i else f' font-weight="700" fill="{self.theme.text}"',
                )
            if min(x - _text_width(words) / 2 for x, words in kept) > 18:
                name = html.escape(text(f"number_line.row.{row}", self.language))
                yield self._words(
                    0, self._y(row), name, f' fill="{self.theme.muted}" font-style="italic"', "start"
                )

    def _heading(self) -> Iterator[str]:
        """x and the error, above the arrow."""
        x = text("number_line.x", self.language, x=_value(self.data.x, self.data))
        key = "clipped" if self.data.cause == "clipped" else "tie" if self.data.tie else "error"
        error = (
            text(f"number_line.{key}", self.language, error=number(self.data.error, signed=True))
            if self.data.error
            else ""
        )
        width = _text_width(f"{x}   {error}")
        middle = (self.layout.x + self.layout.scale.at(self.data.x_hat)) / 2
        middle = min(max(middle, width / 2), self.layout.width - width / 2)
        parts = f'<tspan font-weight="700">{html.escape(x)}</tspan>'
        if error:
            parts += (
                f'<tspan dx="10" fill="{self._error_colour}" font-weight="700">{html.escape(error)}</tspan>'
            )
        yield self._words(middle, self._y("label"), parts)

    def _overview(self) -> Iterator[str]:
        """The whole grid as a bar: what the part above shows of it, 0, x, and the clipping range below."""
        scale = _Scale(*self.data.extent, self.layout.width)
        y, at = self._y("bar"), scale.at
        yield self._bar(
            at(self.data.first.value),
            at(self.data.last.value),
            y,
            5,
            f'fill="{self.theme.muted}" opacity=".4"',
        )
        yield self._bar(
            at(self.layout.ticks[0].value),
            at(self.layout.ticks[-1].value),
            y,
            5,
            f'fill="{self.theme.muted}"',
        )
        if scale.lo <= 0 <= scale.hi:
            yield self._line(at(0), y - 3, at(0), y + 5, self.theme.text, 1.5)
        if self.data.clipping_range:
            lo, hi = self.data.clipping_range
            yield self._bar(at(lo), at(hi), y + 6, 2, f'fill="{self._range_colour}"')
        yield self._shape(at(self.data.x), y, "M0 0L-3.5 -5H3.5Z", f'fill="{self.theme.text}"')
        yield from self._overview_words()

    def _bar(self, left: float, right: float, y: float, height: float, extra: str) -> str:
        share = max(100 * (right - left) / self.layout.width, 0.3)
        return f'<rect x="{self._x(left)}" y="{y:g}" width="{share:.2f}%" height="{height:g}" {extra}/>'

    def _overview_words(self) -> Iterator[str]:
        data, y = self.data, self._y("words")
        ends = {"first": number(data.first.unscaled, 8), "last": number(data.last.unscaled, 8)}
        name = text(f"formats.{data.format_id}.name", self.language)
        codes = text(
            "number_line.codes" if data.integers else "number_line.values",
            self.language,
            count=data.levels,
            format=name,
            **ends,
        )
        if data.clipping_range:
            lo, hi = (number(end) for end in data.clipping_range)
            words = text("number_line.range", self.language, lo=lo, hi=hi)
            yield self._words(
                self.layout.width,
                y,
                html.escape(words),
                f' font-size="11" fill="{self._range_colour}"',
                "end",
            )
            if _text_width(codes) + _text_width(words) > self.layout.width:
                codes = text("number_line.count", self.language, count=data.levels)
        yield self._words(0, y, html.escape(codes), f' font-size="11" fill="{self.theme.muted}"', "start")
