"""The number line as SVG, for several widths in one picture."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from quantviz.figures.number_line import NumberLineData, number_line_sentence, written_value
from quantviz.figures.number_line_layout import LineLayout, LineScale, lay_out, placed_labels, text_width
from quantviz.figures.numbers import number, on_axis
from quantviz.figures.theme import THEMES, Theme
from quantviz.text import DEFAULT_LANGUAGE, text

#: The widths in pixels it is laid out for; each serves from there to the next.
WIDTHS = (320, 560, 880)
#: The usual height in pixels.
HEIGHT = 100
#: Where things stand, in pixels from the top of `HEIGHT`.
_Y: Mapping[str, float] = MappingProxyType(
    {"label": 12, "arrow": 22, "axis": 36, "value": 53, "code": 67, "bar": 78, "words": 97}
)


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
        return head + _LineDrawing(data, language, colours, lay_out(data, width), height).all() + "</svg>"
    drawings = ((each, _LineDrawing(data, language, colours, lay_out(data, each), height)) for each in WIDTHS)
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
class _LineDrawing:
    """Draws one layout; it computes nothing but places."""

    data: NumberLineData
    language: str
    theme: Theme
    layout: LineLayout
    height: int

    def all(self) -> str:
        """Draw everything, what lies below first."""
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
        """Draw brackets where the block's clipping range begins and ends, as far as they are in sight."""
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
        """Draw the error as a span, the arrow along it, x and where it lands."""
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
        """Write value and code under each tick, the one x lands on first."""
        at = self.layout.scale.at
        ticks = sorted(self.layout.ticks, key=lambda tick: abs(tick.value - self.data.x_hat))
        values = [(at(tick.value), on_axis(tick.value, self.data.step)) for tick in ticks]
        codes = [(at(tick.value), number(tick.unscaled, 8 if self.data.integers else 4)) for tick in ticks]
        for row, wanted, colour in (("value", values, self.theme.text), ("code", codes, self.theme.muted)):
            kept = list(placed_labels(wanted, self.layout.width))
            for i, (x, words) in enumerate(kept):
                yield self._words(
                    x,
                    self._y(row),
                    words,
                    f' fill="{colour}"' if i else f' font-weight="700" fill="{self.theme.text}"',
                )
            if min(x - text_width(words) / 2 for x, words in kept) > 18:
                name = html.escape(text(f"number_line.row.{row}", self.language))
                yield self._words(
                    0, self._y(row), name, f' fill="{self.theme.muted}" font-style="italic"', "start"
                )

    def _heading(self) -> Iterator[str]:
        """Write x and the error above the arrow."""
        x = text("number_line.x", self.language, x=written_value(self.data.x, self.data))
        key = "clipped" if self.data.cause == "clipped" else "tie" if self.data.tie else "error"
        error = (
            text(f"number_line.{key}", self.language, error=number(self.data.error, signed=True))
            if self.data.error
            else ""
        )
        width = text_width(f"{x}   {error}")
        middle = (self.layout.x + self.layout.scale.at(self.data.x_hat)) / 2
        middle = min(max(middle, width / 2), self.layout.width - width / 2)
        parts = f'<tspan font-weight="700">{html.escape(x)}</tspan>'
        if error:
            parts += (
                f'<tspan dx="10" fill="{self._error_colour}" font-weight="700">{html.escape(error)}</tspan>'
            )
        yield self._words(middle, self._y("label"), parts)

    def _overview(self) -> Iterator[str]:
        """Draw the whole grid as a bar: what the part above shows of it, 0, x, and the clipping range
        below.
        """
        scale = LineScale(*self.data.extent, self.layout.width)
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
            if text_width(codes) + text_width(words) > self.layout.width:
                codes = text("number_line.count", self.language, count=data.levels)
        yield self._words(0, y, html.escape(codes), f' font-size="11" fill="{self.theme.muted}"', "start")
