"""The error of a tensor or block against the range: exact for its own bits, estimated for others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from quantviz.analysis.range_error import RangeCurve, range_curve, ranges_to_try
from quantviz.analysis.study import Study
from quantviz.errors import QuantVizError
from quantviz.evaluation.with_pandas import data_frame
from quantviz.public_calls import public
from quantviz.quantization.code_to_value import value_operations
from quantviz.quantization.operations import run_operations
from quantviz.quantization.qparams import params_to_try
from quantviz.quantization.result import block_values
from quantviz.schemes.calibration import MinMax, Range
from quantviz.schemes.granularity import PerTensor, Shape
from quantviz.schemes.recipes import as_scheme
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.blocks import viewed
from quantviz.tensors.lazy import as_stored

if TYPE_CHECKING:
    import pandas

Array = npt.NDArray[Any]

OTHER_BITS = (2, 3, 4, 8)
#: Ranges up to the whole, and wider ones.
STEPS = 64
BEYOND = 8


@dataclass(frozen=True, eq=False)
class ClippingCurve:
    """The error of a tensor, or of one block, against the range that its values are clipped to."""

    scheme: Scheme
    #: Its place in the grid; None for the whole tensor.
    block: Shape | None
    #: Each point a quantization; None where no range has a width.
    exact: RangeCurve | None
    #: By bits of integers, from a histogram.
    estimates: Mapping[int, RangeCurve]

    def table(self) -> pandas.DataFrame:
        """Return a row for each point: the scheme's own, then the estimates.

        Raises:
            QuantVizError: pandas is not installed.
        """
        bits = self.scheme.number_format.bits
        curves = [
            (bits, False, self.exact),
            *((count, True, curve) for count, curve in self.estimates.items()),
        ]
        columns_by_name: dict[str, list[Any]] = {
            name: []
            for name in ("bits", "estimated", "lo", "hi", "rounding_mse", "clipping_mse", "mse", "minimum")
        }
        for bits, estimated, curve in curves:
            if curve is None:
                continue
            count = len(curve.at)
            columns = (
                [bits] * count,
                [estimated] * count,
                *(part.tolist() for part in (curve.lo, curve.at, curve.rounding, curve.clipping, curve.mse)),
                [k in curve.minima for k in range(count)],
            )
            for name, column in zip(columns_by_name, columns, strict=True):
                columns_by_name[name] += column
        return data_frame(columns_by_name)


@public
def clipping_curve(x: Any, scheme: Scheme | str, *, block: Shape | None = None) -> ClippingCurve:
    """Return the error of `x` against the range that every block, or one of them, is clipped to.

    Args:
        x: An input of `quantize`, or a `Stored`.
        scheme: The scheme, a recipe or a text form. Its own calibration does not matter.
        block: The place of a block in the scheme's grid of blocks, whose values alone are looked at.

    Raises:
        QuantVizError: Where the scheme cannot be used on `x`, or a range cannot be set, or there is no such
            block.

    >>> x = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
    >>> found = clipping_curve(x, "int4,symmetric,per_tensor,min_max,course")
    >>> best = found.exact.mse.argmin()
    >>> round(float(found.exact.at[best]), 1), found.exact.minima == (best,), list(found.estimates)
    (2.5, True, [2, 3, 4, 8])
    """
    study = Study.of(as_stored(x)[0], as_scheme(scheme).replace(calibration=MinMax()))
    if block is not None:
        study = study.alone(block)
    return ClippingCurve(study.scheme, block, range_curve(study, STEPS, BEYOND), estimated_curves(study))


def estimated_curves(study: Study) -> Mapping[int, RangeCurve]:
    """Return estimates of the curve for the scheme's bits and `OTHER_BITS`; of integers alone.

    They take a histogram of the values, which a tensor of any size has at once.
    """
    fmt = study.scheme.number_format
    curves = {}
    if fmt.kind == "integer":
        for bits in sorted({fmt.bits, *OTHER_BITS}):
            try:
                scheme = study.scheme.replace(
                    format=f"{'' if fmt.signed else 'u'}int{bits}", calibration=MinMax()
                )
            except QuantVizError:
                continue  # the engine does not offer it
            curve = estimated_curve(study, scheme)
            if curve is not None:
                curves[bits] = curve
    return MappingProxyType(curves)


def estimated_curve(study: Study, scheme: Scheme) -> RangeCurve | None:
    """Return an estimate of the curve that `range_curve` has for `scheme`, of integers.

    Values are taken to lie evenly in each bar of the fine histogram; scale and zero point are the engine's.
    None if no range has a width, or a step is beyond float32.
    """
    ends = ranges_to_try(study, STEPS, BEYOND)
    histogram = study.fine_histogram
    if ends is None or histogram is None:
        return None
    first, step = _grids(scheme, *ends, study.absmax)
    if not np.isfinite(step).all():
        return None
    last = scheme.code_max - scheme.code_min
    spread = np.diff(histogram.edges)
    density = histogram.counts / spread / histogram.counts.sum()
    rounding = np.zeros(len(first))
    clipping = np.zeros(len(first))
    for k, (start, width) in enumerate(zip(first, step, strict=True)):
        # In steps from the value of the lowest code, where a bar's squared errors have a closed form. Beyond
        # half a step outside, values are clipped.
        places = (histogram.edges - start) / width
        inside = np.clip(places, -0.5, last + 0.5)
        nearest = np.rint(inside)
        within = (nearest + 4 * _cubed(inside - nearest)) / 12
        if scheme.arithmetic.ties == "stochastic":
            whole = np.floor(inside)
            share = inside - whole
            within = (whole + share**2 * (3 - 2 * share)) / 6
        outside = (_cubed(np.minimum(places, -0.5)) + _cubed(np.maximum(places - last, 0.5))) / 3
        rounding[k] = width**3 * (density * np.diff(within)).sum()
        clipping[k] = width**3 * (density * np.diff(outside)).sum()
    return RangeCurve(*ends, rounding, clipping)


def _cubed(values: Array) -> Array:
    # Many times as fast as a power.
    return values * values * values


def _grids(scheme: Scheme, lo: Array, hi: Array, absmax: float) -> tuple[Array, Array]:
    """Return the lowest code's value under each range, and the step between codes, float64."""
    layout = PerTensor().layout((1,))
    lower, upper = (viewed(torch.from_numpy(end), (-1, *layout.grid_shape)) for end in (lo, hi))
    params, _ = params_to_try(Range(lower, upper, upper), torch.tensor(absmax), scheme, layout)
    named = {name: values.flatten() for name, values in block_values(params).items()}
    ends = [
        run_operations(value_operations(scheme), {**named, "q": torch.full((len(lo),), float(code))})["x_hat"]
        for code in (scheme.code_min, scheme.code_max)
    ]
    lowest, highest = (end.to(torch.float64).expand(len(lo)).numpy() for end in ends)
    return lowest, (highest - lowest) / (scheme.code_max - scheme.code_min)
