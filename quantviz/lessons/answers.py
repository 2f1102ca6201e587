"""What a learner types, as the number it means."""

from __future__ import annotations

import math
import re
import unicodedata

from quantviz.errors import QuantVizError

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?")


def read_number(typed: str, unit: str = "") -> float:
    """The number typed: with a decimal point or comma, in full-width digits, with the unit or without, or as a fraction.

    >>> read_number("0,35"), read_number("−１２．５ dB", "dB"), read_number("1/4"), read_number("1.234,5")
    (0.35, -12.5, 0.25, 1234.5)
    """
    plain = unicodedata.normalize("NFKC", typed).replace("−", "-").replace("。", ".").replace("×10^", "e").lower()
    plain = re.sub(r"[\s'_]", "", plain).removesuffix(re.sub(r"\s", "", unicodedata.normalize("NFKC", unit).lower()))
    over, slash, under = plain.partition("/")
    try:
        value = _plain(over) / _plain(under) if slash else _plain(plain)
    except (ValueError, ZeroDivisionError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise QuantVizError("lessons.not_a_number", got=typed[:40])
    return value


def _plain(digits: str) -> float:
    # Of two kinds of marks the last is the decimal one; a comma alone is decimal too.
    point, comma = digits.rfind("."), digits.rfind(",")
    if comma > point:
        digits = digits.replace(".", "").replace(",", ".", 1) if digits.count(",") == 1 else digits.replace(",", "")
    elif comma >= 0:
        digits = digits.replace(",", "")
    if not _NUMBER.fullmatch(digits):
        raise ValueError(digits)
    return float(digits)
