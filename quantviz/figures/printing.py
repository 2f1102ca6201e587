"""The printed values of a panel's cells, all with the same number of decimals.

The styles are chosen here. The browser takes the first one in which all values in view fit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from quantviz.figures.colour_ranges import Array
from quantviz.figures.numbers import WRITING

#: Of the largest value.
_DIGITS = 3
#: Values that need so few decimals keep them: teaching tensors have two.
_EXACT = 3
#: So many units of the last decimal are distinct in float32.
_EXACT_UNITS = 2**20
#: Of more values a sample tells sizes and decimals.
_SAMPLE = 4096
#: Beyond so many decimals values are written by powers of ten.
_MOST_DECIMALS = 5


@dataclass(frozen=True)
class Style:
    #: Of the mantissa where `power`.
    decimals: int
    #: The 0 before the point.
    zero: bool = True
    #: By the power of ten.
    power: bool = False


def printing_styles(values: Array, like: Array | None = None) -> tuple[Style, ...]:
    """Return the styles to print all of `values` in, the one with most decimals first.

    Values of few decimals keep them. Others have three digits of the largest, and at least two of the median
    but 0; without room fewer, down to one of the median. Decimals are no fewer than those of `like`.

    >>> printing_styles(np.array([1.79, -1.63, 23.02], dtype=np.float32))[0]
    Style(decimals=2, zero=True, power=False)
    >>> [style.decimals for style in printing_styles(np.array([1.6449, -0.731]))]
    [2, 1, 0, 2, 1, 1, 0]
    >>> printing_styles(np.array([-3, 7]))
    (Style(decimals=0, zero=True, power=False),)
    """
    sample = values.ravel()
    if sample.size > _SAMPLE:
        # The ends and evenly chosen others are enough.
        ends = (np.fmin.reduce(sample), np.fmax.reduce(sample))
        sample = np.append(sample[:: sample.size // _SAMPLE + 1], ends)
    found = np.abs(sample[np.isfinite(sample)].astype(np.float64))
    found = found[found > 0]
    if not len(found):
        return (Style(0),)
    largest = float(found.max())
    typical = float(np.median(found))
    powers = tuple(Style(decimals, power=True) for decimals in (1, 0))
    whole = _exact(found)
    most = _most_decimals(largest, typical) if whole is None else whole
    if like is not None:
        most = max(most, printing_styles(like)[0].decimals)
    if not WRITING.least <= largest < WRITING.most or most > _MOST_DECIMALS:
        return (Style(2, power=True), *powers)
    least = min(most, max(0, -_exponent(typical)))
    plain = tuple(Style(decimals) for decimals in range(most, least - 1, -1))
    short = tuple(Style(style.decimals, zero=False) for style in plain if style.decimals)
    return (*plain, *short, *powers) if whole != 0 else plain


def _most_decimals(largest: float, typical: float) -> int:
    # A median from 0.1 to 10 has two decimals.
    exponent = _exponent(typical)
    return max(0, _DIGITS - 1 - _exponent(largest), _DIGITS - 1 - exponent - (exponent < 0))


def _exponent(value: float) -> int:
    return math.floor(math.log10(value))


def _exact(magnitudes: Array) -> int | None:
    """Return the decimals that write all in full, within float32; None if they are too many."""
    largest = float(magnitudes.max())
    for decimals in range(_EXACT + 1):
        units = magnitudes * 10.0**decimals
        if largest * 10.0**decimals > _EXACT_UNITS and decimals:
            return None
        if np.all(np.abs(units - np.rint(units)) <= 2.0**-23 * units):
            return decimals
    return None


def printed(value: float, style: Style) -> str:
    """Return a value as a panel's cells show it, as `written` in `browser/panels/numbers.js` does.

    >>> printed(-1.5, Style(2)), printed(-0.001, Style(2)), printed(-0.25, Style(1, zero=False))
    ('−1.50', '0.00', '−.2')
    >>> printed(0.0000257, Style(1, power=True)), printed(0.0, Style(1, power=True))
    ('2.6e−5', '0')
    """
    if math.isnan(value):
        return WRITING.nan
    if math.isinf(value):
        return WRITING.infinite if value > 0 else WRITING.minus + WRITING.infinite
    if style.power:
        mantissa, _, exponent = f"{value:.{style.decimals}e}".partition("e")
        shown = f"{mantissa}e{int(exponent)}" if value else "0"
    else:
        shown = f"{value:.{style.decimals}f}"
        if float(shown) == 0:
            shown = shown.removeprefix("-")
        if not style.zero:
            shown = shown.replace("0.", ".", 1) if shown.lstrip("-").startswith("0.") else shown
    return shown.replace("-", WRITING.minus)


def ems(shown: str) -> float:
    """Return a printed value's width for a font of size 1: digits are all of one width.

    >>> ems("−1.35"), ems("17")
    (2.25, 1.0)
    """
    return sum(WRITING.point if character == "." else WRITING.digit for character in shown)


def fitting(
    values: Sequence[Sequence[float]], styles: Sequence[Style], width: float, height: float, most: float
) -> tuple[list[list[str]], float] | None:
    """Return values as printed into cells of so many pixels, and the size of their font; None if none fits.

    >>> fitting([[1.25, -10.5]], [Style(2), Style(1)], 25, 20, 12)
    ([['1.2', '−10.5']], 10.0)
    """
    room = width * WRITING.wide
    tallest = height * WRITING.tall
    if tallest < WRITING.smallest:
        return None
    for style in styles:
        shown = [[printed(value, style) for value in row] for row in values]
        size = min(most, tallest, room / max(ems(each) for row in shown for each in row))
        if size >= WRITING.smallest:
            return shown, size
    return None
