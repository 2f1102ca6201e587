"""A number format's values as teeth around a number, which a hand moves."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence

import numpy as np

from quantviz.figures.format_values import value_label
from quantviz.figures.ruler_data import MOST_BITS, RulerPicture, Single
from quantviz.quantization.format_facts import RoundedNumber, finite_values, float_end, word
from quantviz.schemes.formats import NumberFormat

#: A format is shown whole up to so many values if its teeth lie far enough apart; else so many on each side.
_MOST_WHOLE = 32
_EACH_SIDE = 10
#: Teeth are seen apart from this part of the axis on.
_LEAST_GAP = 1 / 64
#: The axis beyond its teeth, and up to a number outside.
_ROOM = 0.04
_OUTSIDE = 1 / 3
#: Of the way to the next tooth that is not shown.
_NO_OTHER = 0.9


def has_ruler(fmt: NumberFormat) -> bool:
    # Few enough for a comb of teeth.
    return fmt.bits <= MOST_BITS


def ruler_of_format(fmt: NumberFormat, landing: RoundedNumber, unit: float = 1.0) -> RulerPicture:
    """Return a format's teeth around `landing.x`, at most 8 bits, with all values divided by `unit`.

    >>> from quantviz.quantization.format_facts import land
    >>> from quantviz.schemes.formats import FORMATS
    >>> fp4, fp8 = FORMATS["float4_e2m1fn"], FORMATS["float8_e4m3fn"]
    >>> picture = ruler_of_format(fp4, land(2.4, fp4))
    >>> picture.domain, picture.codes[-3:], picture.single.bits[-1]
    ((-8.0, 8.0), ('3', '4', '6'), '0111')
    >>> [round(end, 2) for end in ruler_of_format(fp8, land(2.3, fp8)).domain]
    [0.94, 5.68]
    """
    values = [value / unit for value in finite_values(fmt)]
    words = [word(fmt, code) for code in dict(fmt.finite).values()]
    gaps = [high - low for low, high in itertools.pairwise(values)]
    first, last = _stretch(values, landing.x)
    shown = values[first:last]
    end = float_end(fmt)
    after = end.following / unit - values[-1] if end else gaps[-1]
    return RulerPicture(
        # As float64: a number of any size can be typed.
        values=np.array([landing.x]),
        landed=np.array([landing.value]),
        clipped=np.array([bool(landing.beyond)], dtype=np.uint8),
        selected=0,
        histogram=None,
        levels=np.array(values),
        # By the smaller gap beside each.
        codes=tuple(value_label(each, min(gaps[max(k - 1, 0) : k + 1])) for k, each in enumerate(values)),
        zero=values.index(0.0) if 0.0 in values else -1,
        range=None,
        symmetric=False,
        domain=_domain(values, first, last, landing.x),
        single=Single(
            held=(values[0] - gaps[0] / 2, values[-1] + after / 2),
            part=len(shown) < len(values),
            bits=tuple(words),
        ),
    )


def _stretch(values: Sequence[float], x: float) -> tuple[int, int]:
    """Return the first place in sight and the end; around x if not all are seen apart."""
    if len(values) <= _MOST_WHOLE and _told_apart(values):
        return 0, len(values)
    at = min(max(bisect.bisect_left(values, x), 1), len(values) - 1)
    found = at - 1, at + 1
    for side in range(2, _EACH_SIDE + 1):
        wider = max(at - side, 0), min(at + side, len(values))
        if not _told_apart(values[slice(*wider)]):
            break
        found = wider
    return found


def _told_apart(values: Sequence[float]) -> bool:
    least = min(high - low for low, high in itertools.pairwise(values))
    return least >= _LEAST_GAP * (values[-1] - values[0])


def _domain(values: Sequence[float], first: int, last: int, x: float) -> tuple[float, float]:
    """Return the axis for the values from `first` to before `last`, and no others."""
    lo = values[first]
    hi = values[last - 1]
    span = hi - lo
    low = _end(lo, values[1], span, x)
    high = _end(hi, values[-2], span, x)
    if first:
        low = lo - min(_ROOM * span, _NO_OTHER * (lo - values[first - 1]))
    if last < len(values):
        high = hi + min(_ROOM * span, _NO_OTHER * (values[last] - hi))
    return low, high


def _end(end: float, inner: float, span: float, x: float) -> float:
    """Return the axis' end beyond the format's, with room to bring x there and a near x in sight."""
    out = 1 if end > inner else -1
    room = max(abs(end - inner), _ROOM * span)
    beyond = (x - end) * out
    return end + out * (beyond + _ROOM * span if room < beyond <= _OUTSIDE * span else room)
