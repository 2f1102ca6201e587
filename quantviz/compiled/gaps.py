"""The gap between a format's values around a number, as kernels find it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from quantviz.schemes.formats import NumberFormat

#: Starts that a number is compared with at a time.
STARTS_TOGETHER = 4
_BIAS = 127
_WIDE_BIAS = 1023

Array = npt.NDArray[np.float32]


@cache
def gaps_of(fmt: NumberFormat) -> tuple[Array, Array, np.float32, np.float32, np.int32, np.int64]:
    """Return the gap between the two values of a format around any number.

    The result has the numbers from which on the gap is another one, ascending, filled up with NaN to a
    multiple of `STARTS_TOGETHER`; the gaps, the first one below all of those; the smallest and the largest
    value, as which numbers beyond count. A float format has neither starts nor gaps: its gap follows from the
    least exponent field of float32 with a gap of its own, and what to take from it for float64's, both last.

    >>> from quantviz.schemes.formats import FORMATS
    >>> starts, gaps, *_ = gaps_of(FORMATS["int2"])
    >>> starts.tolist(), gaps.tolist()
    ([], [1.0])
    """
    ends: Any = (np.float32(fmt.value_min), np.float32(fmt.value_max))
    none = np.empty(0, np.float32)
    if fmt.float_bits is not None:
        layout = fmt.float_bits
        least = np.int32(layout.smallest_exponent + _BIAS)
        return none, none, *ends, least, np.int64(layout.mantissa + _BIAS - _WIDE_BIAS)
    if fmt.kind == "integer":
        return none, np.ones(1, np.float32), *ends, np.int32(0), np.int64(0)
    values = np.unique([value for value, _ in fmt.finite])
    inner = values[1:-1]
    starts = inner.astype(np.float32)
    # The smallest float32 that is not less than the value.
    starts = np.where(starts < inner, np.nextafter(starts, np.float32(np.inf)), starts)
    missing = -len(starts) % STARTS_TOGETHER
    starts = np.pad(starts, (0, missing), constant_values=np.nan)
    gaps = np.pad(np.diff(values).astype(np.float32), (0, missing))
    return starts, gaps, *ends, np.int32(0), np.int64(0)
