"""Where the number line's ticks and labels stand at a width in pixels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from quantviz.figures.number_line import NumberLineData, Tick
from quantviz.figures.numbers import columns, on_axis

#: Pixels a character takes at most, at the sizes used; wide ones count double.
_CHARACTER = 6.7
#: Free pixels left and right of the line.
_PADDING = 30
#: Steps from the last tick to an x that lies too far out to be drawn to scale.
_OUT = 1.6


def text_width(words: str) -> float:
    return _CHARACTER * columns(words)


@dataclass(frozen=True)
class LineScale:
    """Values to pixels at one width."""

    lo: float
    hi: float
    width: float

    def at(self, value: float) -> float:
        """Return pixels from the left. Halve first: float32's whole range is wider than a float32."""
        share = (value / 2 - self.lo / 2) / (self.hi / 2 - self.lo / 2) if self.hi > self.lo else 0.5
        return _PADDING + (self.width - 2 * _PADDING) * min(1.0, max(0.0, share))


@dataclass(frozen=True)
class LineLayout:
    """What one width shows."""

    width: float
    ticks: tuple[Tick, ...]
    scale: LineScale
    #: Whether x lies further out than is drawn to scale.
    broken: bool
    #: Pixels of x.
    x: float


def lay_out(data: NumberLineData, width: float) -> LineLayout:
    room = width - 2 * _PADDING
    widest = max(text_width(on_axis(tick.value, data.step)) for tick in data.ticks)
    fitting = max(3, int(room / (widest + 10)))
    # Steps that x lies outside its grid value; more than half a step only where it is clipped.
    away = max(0.0, abs(data.x / data.step - data.x_hat / data.step) - 0.5)
    broken = away > max(2.0, fitting - 3)
    outside = math.ceil(_OUT if broken else away)
    ticks = _around(data, max(2, fitting - outside))
    lo, hi = ticks[0].value - data.step / 2, ticks[-1].value + data.step / 2
    seen_x = data.x if not broken else data.x_hat + math.copysign(_OUT * data.step, data.x - data.x_hat)
    scale = LineScale(min(lo, seen_x - data.step / 4), max(hi, seen_x + data.step / 4), width)
    return LineLayout(width, ticks, scale, broken, scale.at(seen_x))


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


def placed_labels(wanted: Iterable[tuple[float, str]], width: float) -> Iterator[tuple[float, str]]:
    """Yield those labels, the most important first, that do not touch one before them."""
    taken: list[tuple[float, float]] = []
    for x, words in wanted:
        half = text_width(words) / 2
        x = min(max(x, half), width - half)
        if all(x + half + 4 < left or x - half - 4 > right for left, right in taken):
            taken.append((x - half, x + half))
            yield x, words
