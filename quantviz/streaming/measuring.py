"""Metrics of tensors of any size, in streaming passes without full-size temporaries.

Each pass yields the reference's results: codes and values bit for bit, sums to within 1e-6 of the mean
magnitude of their terms (`vector_sums.TERMS`), most of them to far less.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from quantviz.compiled.partial_sums import CELLS, Tally
from quantviz.errors import Note, QuantVizError
from quantviz.evaluation.metric_formulas import METRICS, bits_per_element, metrics_of
from quantviz.evaluation.moments import Moments, joined, number_of
from quantviz.pickling import Picklable
from quantviz.public_calls import checked_fields, public
from quantviz.quantization.input_dtype import on_stored, rounded_to
from quantviz.quantization.quantizer import (
    found_by_reference,
    infinite_value,
    quantize,
    quantize_in_ranges,
)
from quantviz.quantization.result import QParams, QuantResult
from quantviz.quantization.scale_search import importance_of
from quantviz.schemes.calibration import External, Range
from quantviz.schemes.granularity import BlockLayout, Shape
from quantviz.schemes.recipes import as_scheme
from quantviz.schemes.scheme import Scheme
from quantviz.streaming import kernel_access, limits
from quantviz.streaming.coding import Coder, codes
from quantviz.streaming.kernel_access import compiling_seconds, fixed_ready
from quantviz.streaming.passes import Measurement, pass_over
from quantviz.streaming.pieces import Buffers
from quantviz.streaming.ranges import ranges
from quantviz.streaming.readiness import is_compiled, scheme_ready
from quantviz.streaming.regions import place_of, read_whole
from quantviz.streaming.tensor_facts import Facts, facts
from quantviz.streaming.threads import runs_between, shared_out
from quantviz.tensors.conversion import as_input
from quantviz.tensors.lazy import Stored, as_stored
from quantviz.text import table


@checked_fields
@dataclass(frozen=True, eq=False)
class Measured(Picklable):
    """The metrics of a scheme on a tensor, and the way they were computed."""

    scheme: Scheme
    shape: Shape
    layout: BlockLayout
    #: By id.
    metrics: Mapping[str, float]
    #: "reference", "fused" (compiled arithmetic) or "chunked" (the reference's operations by pieces).
    path: str
    #: Of this call.
    compiled_seconds: float
    notes: tuple[Note, ...]
    #: The index of the first one.
    largest_error: Shape
    #: The sums behind all metrics of one pass.
    moments: Moments
    #: Σx² and Σe² along each axis, with `by_axis`.
    axes: tuple[Moments, ...]
    #: Elements but NaN and Inf that are left out.
    counted: int

    def __repr__(self) -> str:
        shown = [name for name in ("mse", "sqnr_db", "effective_bits") if name in self.metrics]
        numbers = ", ".join(f"{name}={self.metrics[name]:.6g}" for name in shown)
        return f"Measured({self.scheme!r}, shape={self.shape}, {numbers})"

    def _repr_html_(self) -> str:
        return table(
            [
                ("scheme", repr(self.scheme)),
                ("shape", self.shape),
                *self.metrics.items(),
            ]
        )


@public
def measure(
    x: Any,
    scheme: Scheme | str,
    *,
    qparams: QParams | None = None,
    importance: Any = None,
    by_axis: bool = False,
    metrics: Iterable[str] | None = None,
    path: str | None = None,
    piece: int = limits.PIECE,
    threads: int | None = None,
    known: Facts | None = None,
) -> Measured:
    """Return the metrics of a scheme on a tensor, without allocating anything as large as it.

    Args:
        x: A tensor, nested list or array, as in `quantize`, or a `Stored`.
        scheme: The scheme, a recipe or a text form, as in `quantize`.
        qparams: Scale and zero point in place of the scheme's calibration, as in `quantize`.
        importance: Weights of the errors by column while scales are searched, as in `quantize`.
        by_axis: Whether to add up Σx² and Σe² along each axis too.
        metrics: Ids of `METRICS`; all of them by `metrics=METRICS`. By default the metrics that one pass over
            the tensor yields: others, such as those that count each code, take one more.
        path: One of "reference", "fused" and "chunked", to force it.
        piece: About how many elements are read at a time. Sums depend on it, in their last digits.
        threads: The number of threads; by default `default_threads()`. The result has the same bits for any
            number.
        known: The `facts` of `x`, where they are known.

    Raises:
        QuantVizError: As `quantize` does, and for an unknown metric.

    >>> x = [[191.6, -13.5, 728.6], [92.14, 295.5, -184], [0, 684.6, 245.5]]
    >>> round(measure(x, Scheme("int8", "asymmetric")).metrics["mse"], 3)
    1.573
    """
    ids = metrics_named(metrics)
    original, notes = as_stored(x)
    stored, scheme, more_notes = on_stored(original, as_scheme(scheme))
    for problem in scheme.problems(stored.shape):
        raise problem
    if stored is not original:
        known = None
    job = Measurement(x, stored, scheme, qparams, by_axis, path, piece, threads, known)
    weights = importance_of(importance, scheme, stored.shape)
    if weights is not None:
        job = _searched_by_importance(job, weights)
    notes = (*notes, *more_notes)
    if path == "reference" or (path is None and not _takes_fused_path(job)):
        return _by_reference(job, ids, notes)
    return _by_passes(job, ids, notes)


def _searched_by_importance(job: Measurement, weights: torch.Tensor) -> Measurement:
    if job.given is not None:
        raise QuantVizError("importance_and_qparams")
    nonfinite_notes(job.source, job.scheme, job.facts)
    params = ranges(job.x, job.scheme, importance=weights)
    assert isinstance(params, QParams)
    return dataclasses.replace(job, scheme=job.scheme.weighted, given=params, known=job.facts)


def _takes_fused_path(job: Measurement) -> bool:
    # Compiled kernels are faster for large tensors, and from `limits.FUSED` on if all is ready.
    if job.x.count <= limits.FUSED or job.x.count > limits.SMALL:
        return job.x.count > limits.SMALL
    imported = "quantviz.compiled.compiler" in sys.modules
    return imported and bool(is_compiled(job.scheme, job.shape, by_axis=job.by_axis))


def _by_reference(job: Measurement, ids: tuple[str, ...], notes: tuple[Note, ...]) -> Measured:
    if not isinstance(job.source, Stored):
        r = quantize(job.source, job.scheme, qparams=job.given)
    elif job.path is None and job.given is None:
        r = quantized(job.x, job.scheme, job.known)
    else:
        r = quantize(read_whole(job.x), job.scheme, qparams=job.given)
    r = dataclasses.replace(r, notes=(*(note for note in notes if note not in r.notes), *r.notes))
    return measured(r, by_axis=job.by_axis, metrics=ids)


def _by_passes(job: Measurement, ids: tuple[str, ...], notes: tuple[Note, ...]) -> Measured:
    path = job.path
    if path is None and not scheme_ready(job.scheme, job.shape):
        path = "chunked"
    scheme = job.scheme
    if job.given is not None:
        scheme = scheme.replace(calibration=External())
    reads = {name for metric in ids for name in METRICS[metric].reads}
    # Counting codes costs hardly anything if their lowest byte identifies them.
    counts_codes = "code_counts" in reads and scheme.number_format.bits <= 8
    job = dataclasses.replace(job, scheme=scheme, path=path, counts_codes=counts_codes)
    spent = compiling_seconds()
    try:
        one_pass = pass_over(job)
        tally = one_pass.tally()
    except QuantVizError:
        # Raise the error of the whole tensor, if there is one, in place of that of a part of it.
        if not scheme.leaves_out:
            nonfinite_notes(job.source, scheme, job.facts)
        _ = job.params
        raise
    if not tally.finite or tally.left_out:
        # Search for NaN and Inf only if the sums show that there are any.
        notes = (*notes, *nonfinite_notes(job.source, scheme, job.facts))
    if not tally.finite:
        at = tally.largest_at
        value = float(codes(job.x, job.scheme, job.params, at, at + 1)[1][0])
        layout = scheme.layout(job.shape)
        raise infinite_value(value, place_of(at, job.shape), job.shape, job.params, job.scheme, layout)
    moments = _with_fields(job, tally.moments(), reads)
    return Measured(
        scheme,
        job.shape,
        scheme.layout(job.shape),
        MappingProxyType(metrics_of(moments, bits_per_element(scheme, job.shape), ids)),
        one_pass.path,
        compiling_seconds() - spent,
        (*notes, *_notes_on_pass(job)),
        place_of(tally.largest_at, job.shape),
        moments,
        tally.along_axes(),
        int(tally.counts[CELLS]),
    )


#: Fields that one pass computes.
_ONE_PASS = frozenset(
    field.name
    for field in dataclasses.fields(Moments)
    if getattr(Tally(0, 1, ()).moments(), field.name) is not None
)
#: Of the others, sums of powers of x.
_POWERS = frozenset({"x", "x3", "x4"})


def metrics_named(ids: Iterable[str] | None) -> tuple[str, ...]:
    """Return the ids of the metrics, by default those of one pass; raise `QuantVizError` for others."""
    if ids is None:
        return tuple(name for name, metric in METRICS.items() if metric.reads <= _ONE_PASS)
    wanted = tuple(ids)
    for name in wanted:
        if name not in METRICS:
            raise QuantVizError("unknown_metric", got=name, known=", ".join(METRICS))
    return wanted


def _notes_on_pass(job: Measurement) -> Iterator[Note]:
    scheme = job.scheme
    if not scheme.shifted and not scheme.number_format.signed and job.facts.negative:
        yield Note.of("negatives_clip", count=job.facts.negative)
    if not kernel_access.has_kernels():
        yield Note.of("without_numba")


def _with_fields(job: Measurement, moments: Moments, names: Collection[str]) -> Moments:
    """Return the moments with all fields in `names`, by one more pass for those that are None."""
    missing = {name for name in names if getattr(moments, name) is None}
    if not missing:
        return moments
    # Codes are computed again; powers of x need none.
    coder = Coder(job.scheme, job.params, job.shape, job.path) if "code_counts" in missing else None
    more = _more_moments(job, coder, missing)
    return dataclasses.replace(moments, **{name: getattr(more, name) for name in missing})


def _more_moments(job: Measurement, coder: Coder | None, names: Collection[str]) -> Moments:
    pieces = list(runs_between(job.x.count, limits.PIECE))
    of_pieces: list[Moments] = [Moments()] * len(pieces)

    def work(numbers: Iterator[int]) -> None:
        buffers = Buffers(limits.CHUNK if coder else 0)
        for k in numbers:
            of_chunks = (
                _moments_of_run(job, start, stop, coder, buffers, names)
                for start, stop in runs_between(pieces[k][1], limits.CHUNK, pieces[k][0])
            )
            of_pieces[k] = joined(of_chunks)

    shared_out(work, range(len(pieces)), job.threads)
    return joined(of_pieces)


def _moments_of_run(
    job: Measurement, start: int, stop: int, coder: Coder | None, buffers: Buffers, names: Collection[str]
) -> Moments:
    # Codes are counted only with a coder.
    values = job.x.run(start, stop)
    keep = np.isfinite(values) if job.scheme.leaves_out else slice(None)
    sums: dict[str, torch.Tensor] = {}
    if not _POWERS.isdisjoint(names):
        x = values[keep].astype(np.float64)
        square = x * x
        totals = {"x": x.sum(), "x3": (square * x).sum(), "x4": (square * square).sum()}
        sums = {name: number_of(float(total)) for name, total in totals.items()}
    if coder is not None:
        fmt = job.scheme.number_format
        part = buffers.part(0, stop - start)
        coder.put(values, start, part)
        counts = np.bincount(part.arrays[0][keep] - fmt.code_min, minlength=fmt.levels)
        sums["code_counts"] = torch.from_numpy(counts).to(torch.float64)
    return Moments(**sums)


def measured(r: QuantResult, *, by_axis: bool = False, metrics: Iterable[str] | None = None) -> Measured:
    """Return the metrics of a quantized tensor, by the reference."""
    errors = r.error.abs()
    errors = errors if r.counted is None else errors.masked_fill(~r.counted, -1)
    axes = tuple(Moments.along(r, axis) for axis in range(r.x.dim() if by_axis else 0))
    largest = place_of(int(errors.argmax()), r.shape)
    counted = r.x.numel() if r.counted is None else int(r.counted.sum())
    moments = Moments.of(r)
    values = MappingProxyType(
        metrics_of(moments, bits_per_element(r.scheme, r.tensor_shape), metrics_named(metrics))
    )
    return Measured(
        r.scheme, r.shape, r.layout, values, "reference", 0.0, r.notes, largest, moments, axes, counted
    )


def quantized(x: Stored, scheme: Scheme, facts_of_x: Facts | None = None) -> QuantResult:
    """Return the result of `quantize`, with ranges searched by compiled kernels where these are faster.

    x and the scheme belong together, as `on_stored` returns them.

    >>> from quantviz.tensors.lazy import InMemory
    >>> quantized(InMemory(torch.tensor([1.0, 0.3, -7.0])), Scheme("int4")).q.tolist()
    [1, 0, -7]
    """
    if scheme.calibration.of_values or x.count <= limits.FUSED or not fixed_ready():
        return quantize(read_whole(x), scheme)
    facts_of_x = facts_of_x or facts(x)
    if facts_of_x.found is not None and scheme.nonfinite == "refuse":
        return quantize(read_whole(x), scheme)
    return quantize_in_ranges(read_whole(x), scheme, searched(x, scheme, facts_of_x))


def searched(
    x: Stored, scheme: Scheme, facts_of_x: Facts, tensor_absmax: torch.Tensor | None = None
) -> Range | QParams:
    """Return each block's range, or scale and zero point, by compiled kernels where these are faster.

    x and the scheme belong together, as `on_stored` returns them; `tensor_absmax` is as in
    `quantize_in_ranges`.

    Raises:
        QuantVizError: The scheme refuses the tensor.

    >>> from quantviz.tensors.lazy import InMemory
    >>> x = InMemory(torch.tensor([1.0, -3.0]))
    >>> searched(x, Scheme("int4"), facts(x)).lo.tolist()
    [-3.0]
    """
    nonfinite_notes(x, scheme, facts_of_x)
    if x.count <= limits.FUSED or not fixed_ready():
        return found_by_reference(read_whole(x), scheme, tensor_absmax)
    absmax = facts_of_x.absmax if tensor_absmax is None else float(tensor_absmax)
    return ranges(x, scheme, absmax=absmax)


def nonfinite_notes(x: Any, scheme: Scheme, facts_of_x: Facts) -> tuple[Note, ...]:
    """Return notes on NaN and Inf; raise `QuantVizError` if the scheme refuses them."""
    nonfinite = facts_of_x.found
    if nonfinite is None:
        return ()
    if scheme.nonfinite == "refuse" and not isinstance(x, Stored):
        # It may have been finite before it became float32.
        as_input(x, scheme.nonfinite, rounded_to(scheme))
    if scheme.nonfinite == "refuse":
        raise nonfinite.refusal()
    return (nonfinite.note(scheme.nonfinite),)
