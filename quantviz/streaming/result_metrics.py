"""All metrics of a result that is there already."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from quantviz.compiled.gaps import gaps_of
from quantviz.evaluation.metric_formulas import METRICS, bits_per_element, metrics_of
from quantviz.evaluation.moments import Moments, number_of
from quantviz.public_calls import public
from quantviz.quantization.result import QuantResult, refuse_other_than_results
from quantviz.streaming import limits
from quantviz.streaming.kernel_access import fixed_ready
from quantviz.streaming.regions import bases_of
from quantviz.streaming.threads import runs_between, shared_out

Array = npt.NDArray[Any]


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
    moments = None
    if isinstance(r, QuantResult) and r.x.numel() > limits.SMALL and fixed_ready():
        moments = _added_up(r)
    if moments is None:
        refuse_other_than_results(r)
        moments = Moments.of(r)
    return metrics_of(moments, bits_per_element(r.scheme, r.tensor_shape), METRICS)


def _added_up(r: QuantResult) -> Moments | None:
    """Return the moments of a result, from one pass of a kernel; None if an error is not the value less x.

    They have the same bits for any number of threads.
    """
    from quantviz.compiled.result_sums import SUMS, TABLES, add_result

    fmt = r.scheme.number_format
    layout = r.layout
    length = layout.view_shape[-1]
    x, x_hat, error, clipped, q = (each.flatten().numpy() for each in (r.x, r.x_hat, r.error, r.clipped, r.q))
    # The lowest byte of a code is enough, with a sign or without.
    codes = q.view(np.uint8) if q.itemsize == 1 else q
    scale = r.qparams.scale.to(torch.float32).flatten().numpy()
    gaps = gaps_of(fmt)
    pieces = list(runs_between(x.size, limits.PIECE))
    sums = np.zeros((len(pieces), len(SUMS)))
    of_pieces = np.zeros((len(pieces), 3), np.int64)
    counts: list[Array] = []

    def work(numbers: Iterator[int]) -> None:
        of_codes = np.zeros((TABLES, 2**fmt.bits), np.int64)
        for k in numbers:
            start, stop = pieces[k]
            here = slice(start, stop)
            of_pieces[k] = add_result(
                (x[here], x_hat[here], error[here], clipped[here], codes[here]),
                start,
                (length, layout.block_shape[-1], start // length, bases_of(layout, start, stop)),
                scale,
                gaps,
                r.scheme.leaves_out,
                (fmt.code_min, of_codes),
                sums[k],
            )
        counts.append(of_codes.sum(0)[: fmt.levels])

    shared_out(work, range(len(pieces)))
    cells, largest, others = of_pieces.T
    if others.any():
        return None
    return moments_of_sums(np.add.reduce(sums), int(cells.sum()), largest.max(), np.add.reduce(counts))


def moments_of_sums(sums: Array, cells: int, largest: int, counts: Array) -> Moments:
    """Return moments from `result_sums.SUMS`, cells, the bits of the largest error, and codes' counts."""
    from quantviz.compiled.result_sums import SUMS

    of_sums = dict(zip(SUMS, torch.tensor(sums, dtype=torch.float64).unbind(), strict=True))
    code_counts = torch.from_numpy(counts).to(torch.float64)
    size = float(np.int32(largest).view(np.float32))
    return Moments(
        **of_sums,
        cells=number_of(cells),
        e2=of_sums["kept_e2"] + of_sums["clipped_e2"],
        max_error=number_of(size if cells else -torch.inf),
        codes_seen=(code_counts > 0).to(torch.float64),
        code_counts=code_counts,
    )
