"""The difference of one tensor between two runs, read a part at a time: sums, the largest error, and KL."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from quantviz.errors import QuantVizError
from quantviz.evaluation.metric_formulas import metrics_of
from quantviz.evaluation.moments import Moments, number_of
from quantviz.models.logit_rows import NO_LOGITS, LogitDifference, LogitRows, WithLogits
from quantviz.pickling import Picklable
from quantviz.schemes.granularity import Shape
from quantviz.sources.files import Catalog
from quantviz.sources.files.windows import pieces

#: Elements that are read at a time; a row of logits is always read whole.
_ELEMENTS_PER_READ = 2**20
_METRICS = ("sqnr_db", "cosine", "max_abs_error")

#: The outcomes for a tensor: compared; with NaN or Inf in one run and not in the other; of another shape; not
#: in the run; computed by the run together with an operation after it; not in the reference; not read.
STATUSES = ("compared", "not_finite", "shape", "missing", "fused", "extra", "not_read")


@dataclass(frozen=True)
class TensorDifference(WithLogits, Picklable):
    """A tensor of one run beside the reference's of the same name. A number that is not known is NaN."""

    name: str
    op: str
    #: The run, by its label.
    run: str
    #: One of `STATUSES`.
    status: str
    #: The tensor's lengths in the reference, and in the run; () where it has none of that name.
    shape: Shape
    run_shape: Shape
    sqnr_db: float = math.nan
    cosine: float = math.nan
    #: The largest |run − reference|, and its place.
    max_error: float = math.nan
    max_error_at: Shape = ()
    #: Its rows as logits; NaN where they are none.
    logits: LogitDifference = NO_LOGITS
    #: Numbers of values that are NaN or Inf: alike in both, which are left out; and in one of them alone.
    left_out: int = 0
    not_finite: int = 0
    #: The error of a tensor that was not read.
    problem: QuantVizError | None = None
    #: The run's tensor that stands for it, under the name of an operation before it; "" if it has its own.
    beside: str = ""

    @property
    def name_in_run(self) -> str:
        return self.beside or self.name

    @property
    def is_compared(self) -> bool:
        return self.status == "compared"

    @property
    def differs(self) -> bool:
        """Return whether a value differs from the reference's, as far as it is known."""
        return self.status == "not_finite" or (self.is_compared and self.sqnr_db < math.inf)


@dataclass(frozen=True)
class _PartSums:
    moments: Moments
    largest: tuple[float, Shape]
    left_out: int
    not_finite: int
    rows: LogitDifference


def difference(
    reference: Catalog,
    other: Catalog,
    name: str,
    *,
    labels: tuple[str, str],
    logits: bool,
    targets: torch.Tensor | None = None,
    beside: str = "",
) -> TensorDifference:
    """Return the difference of a tensor of the same shape in two files.

    `labels` are its operation and the label of the run. Targets are the tokens that follow each row of
    logits, negative where none is scored. `beside` is the tensor's name in the run, if it has another.
    """
    op, run = labels
    shape = tuple(reference.info(name).shape)
    if logits and targets is not None:
        _check_targets(targets, shape)
    try:
        sums = _summed(((reference, name), (other, beside or name)), shape, logits, targets)
    except QuantVizError as problem:
        problem = problem.again()
        return TensorDifference(name, op, run, "not_read", shape, shape, problem=problem, beside=beside)
    if sums.not_finite:
        return TensorDifference(
            name,
            op,
            run,
            "not_finite",
            shape,
            shape,
            left_out=sums.left_out,
            not_finite=sums.not_finite,
            beside=beside,
        )
    metrics = metrics_of(sums.moments, math.nan, _METRICS)
    return TensorDifference(
        name,
        op,
        run,
        "compared",
        shape,
        shape,
        metrics["sqnr_db"],
        # Rounding can leave a little more than 1.
        float(np.clip(metrics["cosine"], -1.0, 1.0)),
        metrics["max_abs_error"],
        sums.largest[1],
        sums.rows,
        left_out=sums.left_out,
        beside=beside,
    )


def _check_targets(targets: torch.Tensor, logits: Shape) -> None:
    if tuple(targets.shape) != logits[:-1]:
        raise QuantVizError("runs.tokens_shape", got=tuple(targets.shape), wanted=logits[:-1])
    if int(targets.max()) >= logits[-1]:
        raise QuantVizError("runs.unknown_token", got=int(targets.max()), count=logits[-1])


def _summed(
    tensors: tuple[tuple[Catalog, str], ...], shape: Shape, logits: bool, targets: torch.Tensor | None
) -> _PartSums:
    """Return the sums of the reference's tensor and the run's, each a file and a name in it."""
    most = max(_ELEMENTS_PER_READ, shape[-1] if shape else 1)
    logits = logits and len(shape) > 0 and shape[-1] > 1
    moments: Moments | None = None
    largest: tuple[float, Shape] = (-1.0, ())
    left_out = 0
    not_finite = 0
    rows = LogitRows()
    for window in pieces(tuple(slice(0, length, 1) for length in shape), most):
        x, y = (each.read(name, window).tensor.double() for each, name in tensors)
        if logits:
            rows.add(x, y, None if targets is None else targets[window[:-1]])
        error = y - x
        cells = x.numel()
        if not bool(torch.isfinite(error).all()):
            x, y, (same_kind, apart) = _finite(x, y)
            error = y - x
            left_out += same_kind
            not_finite += apart
            cells -= same_kind + apart
        size = error.abs().flatten()
        at = int(size.argmax()) if len(size) else 0
        if len(size) and float(size[at]) > largest[0]:
            starts = (part.start if isinstance(part, slice) else part for part in window)
            inside = np.unravel_index(at, error.shape)
            place = tuple(start + int(step) for start, step in zip(starts, inside, strict=True))
            largest = float(size[at]), place
        found = _moments(x.flatten(), y.flatten(), size, cells)
        moments = found if moments is None else moments.join(found)
    assert moments is not None
    return _PartSums(moments, largest, left_out, not_finite, rows.difference())


def _finite(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, tuple[int, int]]:
    """Return both with 0 where one is NaN or Inf, and at how many places they are so alike and apart."""
    finite = torch.isfinite(x) & torch.isfinite(y)
    alike = (x == y) | (torch.isnan(x) & torch.isnan(y))
    counts = int((~finite & alike).sum()), int((~finite & ~alike).sum())
    return torch.where(finite, x, 0.0), torch.where(finite, y, 0.0), counts


def _moments(x: torch.Tensor, y: torch.Tensor, size: torch.Tensor, count: int) -> Moments:
    return Moments(
        cells=number_of(count),
        x2=x @ x,
        x_hat2=y @ y,
        x_x_hat=x @ y,
        e2=size @ size,
        max_error=size.max() if len(size) else number_of(-math.inf),
    )
