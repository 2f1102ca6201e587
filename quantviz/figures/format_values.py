"""All values of a number format on a line, another format's laid against them: the marks and their places.

`format_line` draws them; `format_gaps` shows the distances of neighbours.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from quantviz.errors import QuantVizError
from quantviz.figures.colour_ranges import Array
from quantviz.figures.numbers import digits_for, number
from quantviz.quantization.format_facts import (
    RoundedNumber,
    brought_to_one,
    finite_values,
    gap_at,
    land,
    reach,
)
from quantviz.schemes.formats import MOST_KEPT, NumberFormat

#: And how it is written.
Label = tuple[float, str]
#: By value; by power of two, with equal steps around 0; around the number.
VIEWS = ("linear", "symlog", "near")
#: In pixels.
WIDTH = 1040
COLUMN = 2
#: Another format's ends are in view unless they lie so many times farther out.
_FARTHEST = 4.0
#: All are labelled where there is room; and pixels between two labels.
_MOST_LABELS = 48
BETWEEN_LABELS = 7
CHARACTER_WIDTH = 6.6
SIDE_MARGIN = 14


@dataclass(frozen=True)
class Axis:
    #: Of symlog: above it each doubling is a step.
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
        numbers: Array = np.asarray(values, dtype=np.float64)
        if self.view != "symlog":
            return numbers
        size = np.abs(numbers)
        # As a difference of logarithms: the quotient could leave float64.
        outside = 1 + np.log2(np.maximum(size, self.threshold)) - math.log2(self.threshold)
        return np.sign(numbers) * np.where(size < self.threshold, size / self.threshold, outside)

    def share(self, values: npt.ArrayLike) -> Array:
        """Return places as shares of the line: 0 at its left end, 1 at its right."""
        shares: Array = (self.at(values) - self.lo) / (self.hi - self.lo)
        return shares


@dataclass(frozen=True, eq=False)
class Marks:
    """One format: a mark for each column with values."""

    format: NumberFormat
    #: Of each mark: its place, count, smallest and largest value.
    places: Array
    counts: Array
    firsts: Array
    lasts: Array
    #: The most important first.
    labels: tuple[Label, ...]
    all_labelled: bool
    #: Values below and above.
    out_of_view: tuple[int, int]
    landing: RoundedNumber | None

    @property
    def shown(self) -> int:
        # Values in view.
        return int(self.counts.sum())

    @property
    def most(self) -> int:
        # In the fullest column.
        return int(self.counts.max(initial=1))


@dataclass(frozen=True, eq=False)
class FormatsData:
    axis: Axis
    #: Above and below the line.
    rows: tuple[Marks, ...]
    #: At the axis.
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
    """Return one or two formats on a line of `width` pixels, with the number `x` landing by `ties`.

    With `to_one` a format is divided by its largest value, as absmax scaling does, and `x` is a share of it.

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
    landings: list[RoundedNumber | None] = [None] * len(formats)
    if x is not None:
        landings = [land(x, fmt, ties, reach(fmt) if to_one else 1.0) for fmt in formats]
    drawn = tuple(map(brought_to_one, formats)) if to_one else formats
    axis = _axis(drawn, view, x)
    rows = tuple(_marks(fmt, axis, landing, width) for fmt, landing in zip(drawn, landings, strict=True))
    ticks = () if all(row.all_labelled for row in rows) else _ticks(axis, width)
    return FormatsData(axis, rows, ticks, x, width)


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
            low = min(low, other[0])
            high = max(high, other[1])
    low = min(low, 0.0)
    high = max(high, 0.0)
    # A number a little outside is still in sight; one far outside stands at the edge.
    far = 16 * max(abs(low), abs(high))
    room = (high - low) / 3
    farthest = (low - room, high + room) if view == "linear" else (-far, far)
    if x is not None and farthest[0] <= x <= farthest[1]:
        low = min(low, x)
        high = max(high, x)
    lo, hi = (float(place) for place in Axis(view, threshold, 0, 1).at([low, high]))
    margin = 0.012 * (hi - lo)
    return Axis(view, threshold, lo - margin, hi + margin)


@functools.lru_cache(maxsize=MOST_KEPT)
def _threshold(fmt: NumberFormat) -> float:
    if fmt.float_bits:
        return math.ldexp(1.0, fmt.float_bits.smallest_exponent)
    return min(abs(value) for value in finite_values(fmt) if value)


def _neighbourhood(fmt: NumberFormat, x: float) -> tuple[float, float]:
    # With some room around them.
    values = finite_values(fmt)
    held = min(max(x, values[0]), values[-1])
    landing = land(held, fmt)
    assert landing.below is not None
    assert landing.above is not None
    gap = gap_at(held, fmt) or 1.0
    low = landing.below
    high = landing.above
    # Beyond an end: as far as x, if that is not far.
    if x != held:
        away = min(max(abs(x - held), gap), 4 * gap)
        low, high = (low - away, high) if x < held else (low, high + away)
    return low - 1.7 * gap, high + 1.7 * gap


def _marks(fmt: NumberFormat, axis: Axis, landing: RoundedNumber | None, width: int) -> Marks:
    values: Array = np.array(finite_values(fmt))
    shares = axis.share(values)
    inside = (shares >= 0) & (shares <= 1)
    seen = values[inside]
    # A value keeps its own place while it is alone in its column.
    columns = np.floor(shares[inside] * width / COLUMN).astype(np.int64)
    _, starts, counts = np.unique(columns, return_index=True, return_counts=True)
    firsts = seen[starts]
    lasts = seen[starts + counts - 1]
    places = (axis.at(firsts) + axis.at(lasts)) / 2 if len(starts) else np.zeros(0)
    labels = tuple(_labels(fmt, seen, axis, landing, width))
    out = (int((shares < 0).sum()), int((shares > 1).sum()))
    return Marks(fmt, places, counts, firsts, lasts, labels, len(labels) == len(values), out, landing)


def _labels(
    fmt: NumberFormat, seen: Array, axis: Axis, landing: RoundedNumber | None, width: int
) -> Iterator[Label]:
    """Return labels of x's value, its neighbours, the ends, 0, and others while there is room."""
    if not len(seen):
        return
    wanted: list[float] = []
    if landing:
        wanted += [value for value in (landing.value, landing.below, landing.above) if value is not None]
    # The ends of the format, not of the view.
    wanted += [fmt.value_max, fmt.value_min, 0.0]
    if len(seen) <= _MOST_LABELS:
        # Whole numbers first, and those of few digits.
        wanted += sorted(map(float, seen), key=lambda value: (len(number(abs(value))), abs(value)))
    there = set(map(float, seen))
    seen_once = (value for value in dict.fromkeys(wanted) if value in there)
    labels = ((value, value_label(value, gap_at(value, fmt) or 1.0)) for value in seen_once)
    yield from _free(labels, axis, width)


def _free(labels: Iterable[Label], axis: Axis, width: int) -> Iterator[Label]:
    # The most important come first; none touches one before.
    taken: list[tuple[float, float]] = []
    for value, words in labels:
        half = half_width(words)
        middle = min(max(float(axis.share(value)) * width, half - SIDE_MARGIN), width + SIDE_MARGIN - half)
        if all(
            middle + half + BETWEEN_LABELS <= left or middle - half - BETWEEN_LABELS >= right
            for left, right in taken
        ):
            taken.append((middle - half, middle + half))
            yield value, words


def value_label(value: float, step: float) -> str:
    """Return a value with the digits that differ from neighbours `step` away.

    >>> value_label(1000.5, 0.5), value_label(-57344.0, 8192.0), value_label(0.0078125, 0.001)
    ('1000.5', '−57344', '0.007812')
    >>> value_label(3.4e38, 1e36)
    '3.4e38'
    """
    digits = digits_for(value, step)
    return number(value, max(6, digits) if value == round(value) and abs(value) < 1e6 else digits)


def half_width(words: str) -> float:
    return CHARACTER_WIDTH * len(words) / 2


def _ticks(axis: Axis, width: int) -> tuple[Label, ...]:
    step = 0.0
    if axis.view == "symlog":
        wanted: list[float] = [0.0]
        ends = max(abs(axis.lo), abs(axis.hi))
        decades = ends * math.log10(2)
        first = math.ceil(math.log10(axis.threshold))
        last = math.floor(math.log10(axis.threshold) + decades)
        if decades > 3:
            stride = next(
                step_size
                for step_size in (1, 2, 3, 5, 10, 20, 50)
                if (last - first) / step_size <= max(4, width / 110)
            )
            sizes = [10.0**power for power in range(first, last + 1) if power % stride == 0]
        else:
            sizes = [axis.threshold * 2.0**power for power in range(int(ends) + 1)]
        wanted += [signed for size in sizes for signed in (size, -size)]
    else:
        step = round_step((axis.hi - axis.lo) / max(4, width / 110))
        count = range(math.ceil(axis.lo / step), math.floor(axis.hi / step) + 1)
        wanted = sorted((float(f"{multiple * step:.12g}") for multiple in count), key=abs)
    in_view = (value for value in wanted if 0 <= axis.share(value) <= 1)
    labels = ((value, value_label(value, step or abs(value) or 1.0)) for value in in_view)
    return tuple(sorted(_free(labels, axis, width)))


def round_step(least: float) -> float:
    """Return 1, 2 or 5 times a power of ten, at least `least`.

    >>> round_step(0.03), round_step(7)
    (0.05, 10.0)
    """
    power = 10.0 ** math.floor(math.log10(least))
    return next(float(f"{times * power:.3g}") for times in (1, 2, 5, 10) if times * power >= least * 0.999)
