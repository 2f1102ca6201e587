"""The interval of x̂ under a scale, by which a search skips ranges that are too narrow to win."""

from __future__ import annotations

import torch

from quantviz.quantization.result import QParams
from quantviz.schemes.arithmetic import HALVES
from quantviz.schemes.scheme import Scheme

#: Rounding to float32 on the way moves an end by less than this share of it.
_SHARE = 2.0**-20


def reach(params: QParams, scheme: Scheme) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return the ends of an interval that contains x̂ in each block; None if scale and zero point alone do not
    give one.

    The interval of a narrower range around the same 0 lies inside that of a wider one, but for one step by
    which the zero point is rounded.

    >>> low, high = reach(QParams(torch.tensor([0.5]), torch.tensor([0])), Scheme("int8"))
    >>> -65 < low.item() < -64, 63.5 < high.item() < 64.5
    (True, True)
    """
    convention = scheme.arithmetic
    rounded = {convention.value_dtype, convention.result_dtype, convention.input_dtype}
    if (
        scheme.number_format.kind != "integer"
        or not rounded.isdisjoint(HALVES)
        or convention.overflow != "saturate"
        or convention.value_order != "subtract_multiply"
        or scheme.zero_domain not in ("none", "code_int")
    ):
        return None
    scale = params.scale.to(torch.float64)
    zero = params.zero_point.to(torch.float64)
    if scheme.zero_domain == "none":
        zero = torch.zeros_like(zero)
    first, last = (scale * (code - zero) for code in (scheme.code_min, scheme.code_max))
    step = scale.abs() if scheme.mode == "asymmetric" else 0.0
    # Some engines' scales are negative.
    low = torch.minimum(first, last)
    high = torch.maximum(first, last)
    return low - _SHARE * low.abs() - step, high + _SHARE * high.abs() + step
