"""All metrics of a result that is there already."""

from __future__ import annotations

import math

import torch

from quantviz.door import public
from quantviz.evaluation.metric_formulas import METRICS, bits_per_element, metrics_of
from quantviz.evaluation.moments import Moments
from quantviz.quantization.result import QuantResult, refuse_other_than_results
from quantviz.streaming import limits
from quantviz.streaming.kernel_access import has_kernels
from quantviz.streaming.measuring import measure
from quantviz.streaming.readiness import scheme_ready
from quantviz.streaming.threads import runs_between

#: Sums of one arithmetic agree to this.
_SAME = 1e-9


@public
def metrics(r: QuantResult) -> dict[str, float]:
    """Return all metrics of a result by id.

    Source notebook 003, cell 11:

    >>> from quantviz import Given, Scheme, quantize
    >>> x = [[191.6, -13.5, 728.6], [92.14, 295.5, -184], [0, 684.6, 245.5]]
    >>> round(metrics(quantize(x, Scheme("int8", "asymmetric", calibration=Given(3.5, -70))))["mse"], 4)
    170.8753
    """
    refuse_other_than_results(r)
    made = _by_kernels(r) if r.x.numel() > limits.SMALL else None
    return made or metrics_of(Moments.of(r), bits_per_element(r.scheme, r.tensor_shape), METRICS)


def _by_kernels(r: QuantResult) -> dict[str, float] | None:
    """Return the metrics of what the result's scales give, made anew by kernels, which takes less time than
    adding up what is there; None where that is not what is there.
    """
    ours = not r.own_codes and r.whole is None and r.counted is None
    if not ours or not has_kernels() or not scheme_ready(r.scheme, r.shape):
        return None
    done = measure(r.x, r.scheme, qparams=r.qparams, metrics=METRICS)
    error = r.error.flatten()
    parts = [error[start:stop] for start, stop in runs_between(len(error), limits.CHUNK // 2)]
    norm = math.hypot(*(float(torch.linalg.vector_norm(part, dtype=torch.float64)) for part in parts))
    is_same = math.isclose(done.metrics["l2_norm_error"], norm, rel_tol=_SAME)
    return dict(done.metrics) if is_same else None
