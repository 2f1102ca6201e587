"""All metrics of a result that is there already."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy.typing as npt

from quantviz.door import public
from quantviz.evaluation.metric_formulas import METRICS, bits_per_element, metrics_of
from quantviz.evaluation.moments import Moments
from quantviz.quantization.input_dtype import on_stored
from quantviz.quantization.result import QuantResult, refuse_other_than_results
from quantviz.schemes.scheme import Scheme
from quantviz.streaming import limits
from quantviz.streaming.coding import Coder
from quantviz.streaming.kernel_access import has_kernels
from quantviz.streaming.measuring import ONE_PASS, measure, more_moments
from quantviz.streaming.pieces import Buffers
from quantviz.streaming.powers import power_sums
from quantviz.streaming.readiness import scheme_ready
from quantviz.tensors.lazy import InMemory

#: Sums that follow from the tensor alone.
_OF_POWERS = frozenset({"x", "x3", "x4"})


@public
def metrics(r: QuantResult) -> dict[str, float]:
    """Return all metrics of a result by id.

    Args:
        r: A result of `quantize`.

    Raises:
        QuantVizError: `r` is not a result, or its tensor was changed after it was quantized.

    Source notebook 003, cell 11:

    >>> from quantviz import Given, Scheme, quantize
    >>> x = [[191.6, -13.5, 728.6], [92.14, 295.5, -184], [0, 684.6, 245.5]]
    >>> round(metrics(quantize(x, Scheme("int8", "asymmetric", calibration=Given(3.5, -70))))["mse"], 4)
    170.8753
    """
    made = _by_kernels(r) if isinstance(r, QuantResult) and r.x.numel() > limits.SMALL else None
    if made is not None:
        return made
    refuse_other_than_results(r)
    return metrics_of(Moments.of(r), bits_per_element(r.scheme, r.tensor_shape), METRICS)


def _by_kernels(r: QuantResult) -> dict[str, float] | None:
    """Return the metrics of a result, from cells that kernels compute again by its scales; None if a cell
    differs from the result's.

    Computing them again takes less time than adding up the result's own tensors.
    """
    ours = not r.own_codes and r.whole is None and r.counted is None
    if not ours or not has_kernels() or not scheme_ready(r.scheme, r.shape):
        return None
    x, scheme, _ = on_stored(InMemory(r.x), r.scheme)
    given = ONE_PASS | ({"code_counts"} if scheme.number_format.bits <= 8 else set())
    asked = [name for name, metric in METRICS.items() if metric.reads <= given]
    given = ONE_PASS.union(*(METRICS[name].reads for name in asked))
    more = {name for metric in METRICS.values() for name in metric.reads} - given
    compared = _Compared(scheme, r)
    # First find cells that were changed since: no metric may be computed from those.
    sums = more_moments(x, compared, more - _OF_POWERS, scheme)
    if compared.differs:
        return None
    one_pass = measure(r.x, r.scheme, qparams=r.qparams, metrics=asked).moments
    powers = power_sums(x)
    moments = dataclasses.replace(
        one_pass, **sums, **{name: getattr(powers, name) for name in _OF_POWERS & more}
    )
    return metrics_of(moments, bits_per_element(r.scheme, r.tensor_shape), METRICS)


class _Compared(Coder):
    """A coder of runs of a result's tensor that compares its errors with the result's."""

    def __init__(self, scheme: Scheme, r: QuantResult) -> None:
        super().__init__(scheme, r.qparams, r.shape)
        self._x_hat, self._error = (each.flatten().numpy() for each in (r.x_hat, r.error))
        #: Whether a cell's error differs from the result's, or the result's from x_hat - x.
        self.differs = False

    def put(self, values: npt.NDArray[Any], start: int, made: Buffers) -> None:
        """Write the errors of `values` into `made`, and compare them."""
        if self.differs:
            return
        if self.is_compiled:
            from quantviz.compiled import driving

            address, place, of_blocks = self.errors(start, start + len(values))
            driving.put(address, values, 0, len(values), start, place, of_blocks, made.arrays, 0)
        else:
            super().put(values, start, made)
        from quantviz.compiled.comparing import holds

        here = slice(start, start + len(values))
        self.differs |= not holds(made.arrays[2], self._error[here], self._x_hat[here], values)
