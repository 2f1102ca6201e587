"""The number of a scheme's levels: not all of a format's codes can occur under every rule for the scale."""

from __future__ import annotations

import functools
import itertools
import math

from quantviz.schemes.arithmetic import BY_WIDTH, STORED_AS
from quantviz.schemes.calibration import MinMax
from quantviz.schemes.formats import FORMATS
from quantviz.schemes.scheme import Scheme


@functools.lru_cache(maxsize=512)
def level_count(scheme: Scheme) -> int:
    """Return the number of different values of the codes that can occur.

    A symmetric scale from the largest magnitude leaves no value for the last code below 0 of an integer
    format; a range that leaves values out clips some to it.

    >>> level_count(Scheme("int4")), level_count(Scheme("int4", "asymmetric")), level_count(Scheme("uint4"))
    (15, 16, 16)
    >>> level_count(Scheme.parse("int4,symmetric,per_tensor,percentile(p=99.0),course"))
    16
    >>> level_count(Scheme.parse("int8,asymmetric,per_tensor,min_max,torch(reduce_range=half)"))
    128
    >>> level_count(Scheme("float4_e2m1fn")), level_count(Scheme("float8_e4m3fn"))
    (15, 253)
    """
    levels = _levels(scheme)
    if scheme.arithmetic.lattice:
        return _on_lattice(levels, scheme.arithmetic.lattice)
    reach = _reach(scheme)
    empty = 0
    while empty + 1 < len(levels) and not _is_reached(scheme, levels[empty], levels[empty + 1], reach):
        empty += 1
    return len(levels) - empty


def tooth_count(scheme: Scheme) -> int:
    """Return the number of different values of all codes, also of those that never occur.

    >>> tooth_count(Scheme("int4")), tooth_count(Scheme("float4_e2m1fn"))
    (16, 15)
    """
    return len(_levels(scheme))


def _levels(scheme: Scheme) -> tuple[float, ...]:
    fmt = scheme.number_format
    if fmt.kind == "integer":
        middle = scheme.steps_below if scheme.from_lower_end else scheme.symmetric_zero_point
        zero = middle if scheme.mode == "symmetric" else 0
        low = scheme.code_min
        high = scheme.code_max
        if isinstance(scheme.calibration, MinMax) and scheme.arithmetic.reduce_range != "none":
            # The range holds all values, and is made for these codes.
            low = scheme.range_code_min
            high = scheme.range_code_max
            if scheme.arithmetic.reduce_range == "stretched":
                # The largest magnitude is half of these steps away from 0, which may be rounded up.
                steps = fmt.levels // 2 - 1 if (high - low) % 2 == 0 else fmt.levels // 2 - 2
                most = math.ceil(steps / 2)
                low = zero - most
                high = zero + most
        return tuple(map(float, range(low - zero, high - zero + 1)))
    return tuple(sorted({value for value, _ in fmt.finite}))


def _reach(scheme: Scheme) -> float:
    """Return the largest distance of a value below 0, in scales."""
    spec = scheme.arithmetic.scale
    if scheme.mode == "asymmetric" or not isinstance(scheme.calibration, MinMax):
        return math.inf
    if spec.rule in BY_WIDTH:
        # One step more than there are above 0 lies below, which no value of its own range needs.
        within = spec.rule == "mirrored_end" and scheme.arithmetic.one_sided == "symmetric"
        return (scheme.range_code_max - scheme.range_code_min) // 2 if within else math.inf
    if spec.first != "scale" or spec.rule == "absmax_over_code_max":
        reach = scheme.range_value_max
    elif spec.rule in ("absmax_over_half_range", "double_absmax_over_range"):
        reach = (scheme.range_value_max - scheme.range_value_min) / 2
    else:
        return math.inf
    return reach * (1 + _lost_of_scales(scheme))


def _lost_of_scales(scheme: Scheme) -> float:
    """Return the largest relative error of a scale that is rounded to its format."""
    spec = scheme.arithmetic.scale
    if spec.format is None or spec.codes_from == "exact":
        return 0.0
    layouts = (FORMATS[name].float_bits for name in STORED_AS.get(spec.format, (spec.format,)))
    return sum(2.0 ** -(layout.mantissa + 1) for layout in layouts if layout)


def _is_reached(scheme: Scheme, level: float, above: float, reach: float) -> bool:
    middle = -(level + above) / 2
    if reach != middle:
        return reach > middle
    ties = scheme.arithmetic.ties
    return ties != "toward_zero" and (ties != "even" or level % 2 == 0)


def _on_lattice(levels: tuple[float, ...], count: int) -> int:
    # `count` points are evenly spread from -1 to 1.
    middles = [(low + high) / 2 for low, high in itertools.pairwise(levels)]
    nearest = 0
    for low, high in zip((-1.0, *middles), (*middles, 1.0), strict=True):
        first = math.ceil((low + 1) / 2 * (count - 1))
        nearest += -1 + 2 * first / (count - 1) <= high
    return nearest
