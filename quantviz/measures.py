"""Metrics: what a quantization cost, as numbers.

A metric is added here: one function in `METRICS` and its words in each language. All are computed
in float64 over the whole tensor, cells that are left out (`QuantResult.counted`) excepted: of no cells means are nan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch

from quantviz.quantizer import QuantResult, refuse_other_than_results
from quantviz.scheme import Scheme

#: Root mean square of pure rounding, errors spread evenly over one step: 1/√12.
RMSE_STEPS_OF_ROUNDING = 1 / math.sqrt(12)

Metric = Callable[[QuantResult], float]


def rounding_mse(r: QuantResult) -> float:
    """The part of the MSE in elements that were not clipped."""
    return _mean(_squared_error(r) * ~_cells(r, r.clipped))


def clipping_mse(r: QuantResult) -> float:
    """The part of the MSE in clipped elements: their whole squared error."""
    return _mean(_squared_error(r) * _cells(r, r.clipped))


def mse(r: QuantResult) -> float:
    """Mean squared error, the sum of its two parts."""
    return rounding_mse(r) + clipping_mse(r)


def rmse(r: QuantResult) -> float:
    """Root mean squared error, in units of x."""
    return math.sqrt(mse(r))


def rmse_steps(r: QuantResult) -> float:
    """Root mean square of each element's error in its own steps."""
    return math.sqrt(_mean(_cells(r, steps_of_error(r)).square()))


def unclipped_rmse_steps(r: QuantResult) -> float:
    """The same over the elements that were not clipped; 0 where all were."""
    steps = _cells(r, steps_of_error(r))
    kept = steps[~_cells(r, r.clipped)]
    return math.sqrt(_mean(kept.square())) if kept.numel() or not steps.numel() else 0.0


def max_abs_error(r: QuantResult) -> float:
    """The largest error in size."""
    errors = _cells(r, r.error)
    return float(errors.abs().max()) if errors.numel() else math.nan


def mean_error(r: QuantResult) -> float:
    """Mean of x̂ - x: the bias."""
    return _mean(_cells(r, r.error).to(torch.float64))


def l2_norm_error(r: QuantResult) -> float:
    """Euclidean norm of the error, `torch.norm(x - x_hat)` of source notebook 002."""
    return math.sqrt(float(_squared_error(r).sum()))


def sqnr_db(r: QuantResult) -> float:
    """Signal-to-quantization-noise ratio, 10·log10(Σx² / Σerror²) dB; inf where there is no error, nan where there is no cell."""
    x = _cells(r, r.x)
    noise = float(_squared_error(r).sum())
    signal = float(x.to(torch.float64).square().sum())
    if not x.numel():
        return math.nan
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf


def cosine(r: QuantResult) -> float:
    """Cosine of the angle between x and x̂; nan where one of them is all zero."""
    x, x_hat = (_cells(r, values).to(torch.float64) for values in (r.x, r.x_hat))
    lengths = math.sqrt(float(x.square().sum())) * math.sqrt(float(x_hat.square().sum()))
    return float((x * x_hat).sum()) / lengths if lengths else math.nan


def clipped_share(r: QuantResult) -> float:
    """Share of elements whose code was changed by saturation."""
    return _mean(_cells(r, r.clipped).to(torch.float64))


def zeroed_share(r: QuantResult) -> float:
    """Share of the non-zero elements whose x̂ is 0; 0 where there is no non-zero element."""
    nonzero = _cells(r, r.x) != 0
    count = int(nonzero.sum())
    return int((nonzero & (_cells(r, r.x_hat) == 0)).sum()) / count if count else 0.0


def nonzero_share(r: QuantResult) -> float:
    """Share of elements that are not zero."""
    return _mean((_cells(r, r.x) != 0).to(torch.float64))


def levels_used(r: QuantResult) -> float:
    """How many different codes occur."""
    return float(torch.unique(_cells(r, r.q)).numel())


def effective_bits(r: QuantResult) -> float:
    """Bits an element costs: its code and its share of scales and zero points at stored size."""
    return bits_per_element(r.scheme, r.tensor_shape)


#: Every metric by name.
METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        each.__name__: each
        for each in (
            mse,
            rmse,
            rmse_steps,
            unclipped_rmse_steps,
            max_abs_error,
            mean_error,
            l2_norm_error,
            sqnr_db,
            cosine,
            clipped_share,
            zeroed_share,
            nonzero_share,
            levels_used,
            rounding_mse,
            clipping_mse,
            effective_bits,
        )
    }
)


def metrics(r: QuantResult) -> dict[str, float]:
    """All metrics of a result by name.

    Source notebook 003, cell 11:

    >>> from quantviz import Given, Scheme, quantize
    >>> x = [[191.6, -13.5, 728.6], [92.14, 295.5, -184], [0, 684.6, 245.5]]
    >>> round(metrics(quantize(x, Scheme("int8", "asymmetric", calibration=Given(3.5, -70))))["mse"], 4)
    170.8753
    """
    refuse_other_than_results(r)
    return {name: metric(r) for name, metric in METRICS.items()}


def bits_per_element(scheme: Scheme, shape: tuple[int, ...]) -> float:
    """What `effective_bits` is for a tensor of `shape`, without one at hand.

    >>> from quantviz import PerGroup
    >>> bits_per_element(Scheme("int3", granularity=PerGroup(16)), (256, 256))
    4.0

    MatMulNBits stores whole blocks, 32 codes for the 20 of this row:

    >>> bits_per_element(Scheme("uint4", granularity=PerGroup(32), convention="onnxruntime_nbits"), (1, 20))
    8.0
    """
    stored, layout = stored_bits(scheme), scheme.layout(shape)
    codes = stored.code * (layout.padded_size if stored.whole else math.prod(shape))
    return (codes + (stored.scale + stored.zero_point) * layout.block_count + stored.tensor) / math.prod(shape)


@dataclass(frozen=True)
class StoredBits:
    """What is stored, in bits."""

    #: Of each element.
    code: float
    #: Of each block.
    scale: int
    zero_point: int
    #: Of the whole tensor: its second-level scale.
    tensor: int
    #: Whether a block that does not fill up is stored whole, codes for what fills it included.
    whole: bool = False


def stored_bits(scheme: Scheme) -> StoredBits:
    """What a scheme stores.

    >>> stored_bits(Scheme("int4", "asymmetric"))
    StoredBits(code=4, scale=16, zero_point=4, tensor=0, whole=False)
    """
    convention, fmt = scheme.arithmetic, scheme.number_format
    zero_point = (convention.zero_bits or fmt.bits) if scheme.mode == "asymmetric" else 0
    whole = convention.tail_stored == "whole" or (convention.tail_stored == "whole_if_integer" and fmt.kind == "integer")
    return StoredBits(convention.code_bits or fmt.bits, convention.scale_bits, zero_point, 32 if convention.scale.global_rule else 0, whole)


def steps_of_error(r: QuantResult) -> torch.Tensor:
    """Each element's error in its own steps, float64; inf where a scale of 0 leaves an error, nan where the cell is left out."""
    error = r.error.to(torch.float64)
    # What a scale of 0 has no error in is no step off: 0 / 0 would be NaN.
    return torch.where(error == 0, error, error / r.step_of_cells().to(torch.float64))


def sqnr_db_by_axis(r: QuantResult, axis: int) -> torch.Tensor:
    """SQNR of each index of `axis`, in dB; inf without error, nan where x is all zero."""
    others = tuple(i for i in range(r.x.dim()) if i != axis % r.x.dim())
    signal, noise = r.x.to(torch.float64).square(), r.error.to(torch.float64).square()
    if r.counted is not None:
        signal, noise = (values.masked_fill(~r.counted, 0) for values in (signal, noise))
    if others:
        signal, noise = signal.sum(others), noise.sum(others)
    return 10 * torch.log10(signal / noise)


def _squared_error(r: QuantResult) -> torch.Tensor:
    return _cells(r, r.error).to(torch.float64).square()


def _cells(r: QuantResult, values: torch.Tensor) -> torch.Tensor:
    """Those of the cells that count."""
    return values if r.counted is None else values[r.counted]


def _mean(values: torch.Tensor) -> float:
    return float(values.mean())
