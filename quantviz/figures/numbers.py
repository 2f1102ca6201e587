"""Numbers as a figure prints them: with the minus sign people read, as many digits as are needed."""

from __future__ import annotations

import math
import unicodedata
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from quantviz.text import LEAST
from quantviz.text import number as number

#: Of a power.
_RAISED = str.maketrans("-−0123456789", "⁻⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def raised(power: str) -> str:
    """Return a whole number as a power is written.

    >>> "2" + raised("-20")
    '2⁻²⁰'
    """
    return power.translate(_RAISED)


def decibels(value: float, *, signed: bool = False) -> str:
    """Return decibels with one decimal, from 100 on without.

    >>> decibels(9.21), decibels(9.3, signed=True), decibels(-0.04), decibels(123.4), decibels(float("inf"))
    ('9.2', '+9.3', '0.0', '123', '∞')
    """
    if not math.isfinite(value):
        return number(value)
    places = 0 if abs(value) >= 100 else 1
    rounded = round(value, places) + 0.0  # -0.0 is 0 to people
    sign = "+" if signed and rounded > 0 else ""
    return sign + f"{rounded:.{places}f}".replace("-", "−")


@dataclass(frozen=True)
class NumberStyle:
    """The writing of a panel's number: the browser is handed this and has no rule of its own.

    `printing` chooses the decimals in the cells.
    """

    #: Between these magnitudes no power of ten is written, which a beginner cannot read: 2.55e−7 is read at
    #: once, 0.000000255 is counted.
    least: float = LEAST
    most: float = 1e6
    minus: str = "−"
    infinite: str = "∞"
    nan: str = "NaN"
    #: Of a missing number.
    none: str = "–"
    #: On the hover card.
    card: int = 6
    #: The smallest font in a cell, in pixels, and the share of a cell's height and width that is filled.
    smallest: float = 9
    tall: float = 0.62
    wide: float = 0.9
    #: Of a digit or a sign, and of the point, for a font of size 1.
    digit: float = 0.5
    point: float = 0.25


WRITING = NumberStyle()


def short_number(value: float, digits: int = 3) -> str:
    """Return a number to so many significant digits, whole ones whole, ties to the even digit.

    >>> short_number(-1.6449), short_number(1.93e-5), short_number(1e-9), short_number(127.0, 2)
    ('−1.64', '0.0000193', '1e−9', '127')
    >>> short_number(float("nan")), short_number(1234.5), short_number(2.125)
    ('NaN', '1230', '2.12')
    """
    if not math.isfinite(value):
        if math.isnan(value):
            return WRITING.nan
        if value > 0:
            return WRITING.infinite
        return WRITING.minus + WRITING.infinite
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    rounded = float(f"{mantissa}e{exponent}")
    if value == round(value) and abs(value) < WRITING.most:
        shown = str(round(value))
    elif WRITING.least <= abs(rounded) < WRITING.most:
        shown = f"{Decimal(repr(rounded)):f}".removesuffix(".0")
    else:
        shown = f"{float(mantissa):g}e{int(exponent)}"
    return shown.replace("-", WRITING.minus)


def digits_for(value: float, step: float) -> int:
    """Return the digits, at least 4, by which `value` differs from neighbours `step` away; 4 without a step.

    >>> digits_for(1.35, 3.3), digits_for(12.34567, 0.0004)
    (4, 7)
    """
    step = abs(step)
    if value == 0 or not math.isfinite(value) or not 0 < step < math.inf:
        return 4
    return min(9, max(4, math.floor(math.log10(abs(value))) - math.floor(math.log10(step)) + 2))


def text_width(words: str, size: float) -> float:
    """Return about how many pixels a text takes.

    >>> text_width("−1.64", 12), text_width("误差", 12)
    (27.0, 24)
    """
    return size * sum(map(_em, words))


@lru_cache(maxsize=4096)
def _em(character: str) -> float:
    if unicodedata.combining(character):
        return 0
    if character > "\u2e7f":
        return 1
    if character in " .,:|'·il()":
        return 0.25
    if character in "mwMW%":
        return 0.8
    return 0.5


def columns(words: str) -> int:
    """Return a text's width in characters; Chinese ones are as wide as two.

    >>> columns("q = 3"), columns("编码 3")
    (5, 6)
    """
    return sum(2 if ord(character) > 0x2E7F else 1 for character in words)


def time_words(seconds: float) -> str:
    """Return a duration as minutes and seconds, or with hours, rounded up.

    >>> time_words(75.2), time_words(3.2), time_words(7300)
    ('1:16', '0:04', '2:01:40')
    """
    whole = -int(-seconds // 1)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
