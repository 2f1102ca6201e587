"""Metrics of tensors of any size, in streaming passes without full-size temporaries.

Each pass yields the results of the reference (`quantize`, `metrics`): codes and values bit for bit, sums to
within 1e-6 of the mean magnitude of their terms (`vector_sums.TERMS`), most of them to far less.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from quantviz.compiled.partial_sums import CELLS, Tally
from quantviz.door import checked_fields, public
from quantviz.errors import Note, QuantVizError
from quantviz.evaluation.metric_formulas import METRICS, bits_per_element, metrics_of
from quantviz.evaluation.moments import Moments, joined
from quantviz.pickling import Picklable
from quantviz.quantization.input_dtype import on_stored, rounded_to
from quantviz.quantization.qparams import qparams_of_range, stored_qparams
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
from quantviz.streaming.coding import Coder, codes, reference_on_run
from quantviz.streaming.kernel_access import compiling_seconds, fixed_ready
from quantviz.streaming.pieces import Buffers, MeasureOptions, Pieces, rest_of, rows_of_piece, size_of_piece
from quantviz.streaming.programs import compiled_program, types_of_params, types_of_scheme
from quantviz.streaming.ranges import qparams, ranges, ranges_of_values
from quantviz.streaming.readiness import is_compiled, scheme_ready
from quantviz.streaming.regions import Band, in_line, layout_of_rows, place_of, read_whole
from quantviz.streaming.tensor_facts import Facts, facts
from quantviz.streaming.threads import InOrder, runs_between, shared_out, shares_of
from quantviz.tensors.conversion import as_input
from quantviz.tensors.lazy import Stored, as_stored
from quantviz.text.notebook_tables import table

Array = npt.NDArray[Any]


@checked_fields
@dataclass(frozen=True, eq=False)
class Measured(Picklable):
    """The metrics of a scheme on a tensor, and the way they were computed."""

    scheme: Scheme
    shape: Shape
    layout: BlockLayout
    #: The requested metrics, by id.
    metrics: Mapping[str, float]
    #: "reference", "fused" (compiled for this arithmetic) or "chunked" (the reference's own operations, a
    #: piece at a time).
    path: str
    #: Seconds this call spent compiling.
    compiled_seconds: float
    notes: tuple[Note, ...]
    #: The index of the first error of largest magnitude.
    largest_error: Shape
    #: The sums that all metrics of one pass are computed from.
    moments: Moments
    #: Σx² and Σe² of each index of each axis of the tensor, with `by_axis`.
    axes: tuple[Moments, ...]
    #: The number of elements that count: all but NaN and Inf that are left out.
    counted: int

    def __repr__(self) -> str:
        shown = [name for name in ("mse", "sqnr_db", "effective_bits") if name in self.metrics]
        own = ", ".join(f"{name}={self.metrics[name]:.6g}" for name in shown)
        return f"Measured({self.scheme!r}, shape={self.shape}, {own})"

    def _repr_html_(self) -> str:
        return table(
            [
                ("scheme", repr(self.scheme)),
                ("shape", self.shape),
                *((name, f"{value:.6g}") for name, value in self.metrics.items()),
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
    wanted = metrics_named(metrics)
    stored, notes = as_stored(x)
    given = stored
    stored, scheme, said = on_stored(given, as_scheme(scheme))
    known = known if stored is given else None
    notes = (*notes, *said)
    for problem in scheme.problems(stored.shape):
        raise problem
    weights = importance_of(importance, scheme, stored.shape)
    if weights is not None:
        if qparams is not None:
            raise QuantVizError("importance_and_qparams")
        known = known or facts(stored)
        nonfinite_notes(x, scheme, known)
        found = ranges(stored, scheme, importance=weights)
        assert isinstance(found, QParams)
        qparams = found
        scheme = scheme.weighted
    if path == "reference" or (path is None and not _takes_fused_path(scheme, stored.shape, by_axis=by_axis)):
        if path is None and qparams is None and isinstance(x, Stored):
            r = quantized(stored, scheme, known)
        else:
            r = quantize(read_whole(stored) if isinstance(x, Stored) else x, scheme, qparams=qparams)
        r = dataclasses.replace(r, notes=(*(each for each in notes if each not in r.notes), *r.notes))
        return measured(r, by_axis=by_axis, metrics=wanted)
    if path is None and not scheme_ready(scheme, stored.shape):
        path = "chunked"
    if qparams is not None:
        scheme = scheme.replace(calibration=External())
    spent = compiling_seconds()
    # Counting codes costs hardly anything if their lowest byte identifies them.
    reads = {name for metric in wanted for name in METRICS[metric].reads}
    counted = "code_counts" in reads and scheme.number_format.bits <= 8
    how = MeasureOptions(scheme, qparams, by_axis, path, piece, threads, counted)
    tally = None
    try:
        tally, ran = _streamed(stored, how, known)
    except QuantVizError:
        if scheme.leaves_out or (known or facts(stored)).found is None:
            # Raise the error of the whole tensor, not that of a part of it.
            _params_of_whole(stored, scheme, qparams, known)
            raise
    if tally is None or not tally.finite or tally.left_out:
        # Search for NaN and Inf only if the sums show that there are any.
        known = known or facts(stored)
        notes = (*notes, *nonfinite_notes(x, scheme, known))
        assert tally
        if not tally.finite:
            params = _params_of_whole(stored, scheme, qparams, known)
            at = tally.largest_at
            value = float(codes(stored, scheme, params, at, at + 1)[1][0])
            raise infinite_value(
                value, place_of(at, stored.shape), stored.shape, params, scheme, scheme.layout(stored.shape)
            )
    if not scheme.shifted and not scheme.number_format.signed:
        negative = (known or facts(stored)).negative
        notes = (*notes, Note.of("negatives_clip", count=negative)) if negative else notes
    if not kernel_access.has_kernels():
        notes = (*notes, Note.of("without_numba"))
    moments = tally.moments()
    missing = {name for name in reads if getattr(moments, name) is None}
    if missing:
        coder = None
        if not missing.isdisjoint(_OF_CELLS):
            params = _params_of_whole(stored, scheme, qparams, known)
            coder = Coder(scheme, params, stored.shape, path)
        moments = dataclasses.replace(moments, **_more_moments(stored, coder, missing, scheme, threads))
    return Measured(
        scheme,
        stored.shape,
        scheme.layout(stored.shape),
        MappingProxyType(metrics_of(moments, bits_per_element(scheme, stored.shape), wanted)),
        ran,
        compiling_seconds() - spent,
        notes,
        place_of(tally.largest_at, stored.shape),
        moments,
        tally.along_axes(),
        int(tally.counts[CELLS]),
    )


#: The fields of `Moments` that one pass over a tensor computes.
_ONE_PASS = frozenset(
    each.name
    for each in dataclasses.fields(Moments)
    if getattr(Tally(0, 1, ()).moments(), each.name) is not None
)
#: Those of its other fields for which codes or errors are computed again.
_OF_CELLS = frozenset({"abs_e", "code_counts"})


def metrics_named(ids: Iterable[str] | None) -> tuple[str, ...]:
    """Return the ids of the requested metrics; by default those of one pass.

    Raises:
        QuantVizError: There is no metric of one of the ids.
    """
    if ids is None:
        return tuple(name for name, metric in METRICS.items() if metric.reads <= _ONE_PASS)
    wanted = tuple(ids)
    for name in wanted:
        if name not in METRICS:
            raise QuantVizError("unknown_metric", got=name, known=", ".join(METRICS))
    return wanted


def _takes_fused_path(scheme: Scheme, shape: Shape, *, by_axis: bool) -> bool:
    """Return whether compiled kernels are faster: for large tensors, and from `limits.FUSED` elements on if
    nothing has to be compiled or imported for it.
    """
    count = math.prod(shape)
    if count <= limits.FUSED or count > limits.SMALL:
        return count > limits.SMALL
    return "quantviz.compiled.compiler" in sys.modules and bool(is_compiled(scheme, shape, by_axis=by_axis))


def _more_moments(
    x: Stored, coder: Coder | None, wanted: Collection[str], scheme: Scheme, threads: int | None = None
) -> dict[str, torch.Tensor]:
    """Return those fields of `Moments` that take one more pass, in which the coder computes the cells again.

    The coder may be None if no field in `_OF_CELLS` is wanted.
    """
    pieces = list(runs_between(x.count, limits.PIECE))
    found: list[Moments | None] = [None] * len(pieces)

    def work(numbers: Iterator[int]) -> None:
        made = Buffers(limits.CHUNK if coder else 0)
        for k in numbers:
            for start, stop in runs_between(pieces[k][1] - pieces[k][0], limits.CHUNK):
                start = start + pieces[k][0]
                stop = stop + pieces[k][0]
                own = x.run(start, stop)
                part = made.part(0, stop - start)
                if coder is not None:
                    coder.put(own, start, part)
                moments = _moments_of_chunk(own, part, wanted, scheme)
                before = found[k]
                found[k] = moments if before is None else before.join(moments)

    shared_out(work, range(len(pieces)), threads)
    whole = joined(each for each in found if each is not None)
    return {name: getattr(whole, name) for name in wanted}


def _moments_of_chunk(values: Array, made: Buffers, wanted: Collection[str], scheme: Scheme) -> Moments:
    keep = np.isfinite(values) if scheme.leaves_out else slice(None)
    x = values[keep].astype(np.float64)
    sums = {}
    if not {"x", "x3", "x4"}.isdisjoint(wanted):
        square = x * x
        sums = {"x": x.sum(), "x3": (square * x).sum(), "x4": (square * square).sum()}
    found = {name: torch.tensor(total, dtype=torch.float64) for name, total in sums.items() if name in wanted}
    if "abs_e" in wanted:
        found["abs_e"] = torch.tensor(
            np.abs(made.arrays[2][keep].astype(np.float64)).sum(), dtype=torch.float64
        )
    if "code_counts" in wanted:
        fmt = scheme.number_format
        found["code_counts"] = torch.from_numpy(
            np.bincount(made.arrays[0][keep] - fmt.code_min, minlength=fmt.levels)
        ).to(torch.float64)
    return Moments(**found)


def _params_of_whole(x: Stored, scheme: Scheme, given: QParams | None, known: Facts | None) -> QParams:
    if given is None:
        return qparams(x, scheme, absmax=known.absmax if known else None)
    absmax = (known or facts(x)).absmax if scheme.arithmetic.scale.global_rule else 0.0
    return stored_qparams(given, torch.tensor(absmax), scheme, scheme.layout(x.shape))


def _streamed(x: Stored, asked: MeasureOptions, known: Facts | None) -> tuple[Tally, str]:
    """Return the sums of all cells, and the name of the path that ran."""
    scheme = asked.scheme
    given = asked.given
    layout = in_line(scheme.layout(x.shape))
    fmt = scheme.number_format
    rows = rows_of_piece(layout, x.shape, asked)
    compiled = asked.path != "chunked" and kernel_access.has_kernels()
    banded = compiled and given is None and rows < layout.view_shape[0] and scheme.calibration.of_values
    absmax = torch.tensor(
        (known or facts(x)).absmax if banded and scheme.arithmetic.scale.global_rule else 0.0
    )
    params: QParams | None = None if banded else _params_of_whole(x, scheme, given, known)
    types = types_of_scheme(scheme) if params is None else types_of_params(params)
    by_element = layout.block_shape[-1] == 1
    program = compiled_program(scheme, types, by_element, asked.counted) if compiled else None
    if program is None:
        params = params or _params_of_whole(x, scheme, given, known)
        whole = Tally(fmt.code_min, fmt.levels, x.shape if asked.by_axis else ())
        return _chunked(x, asked, params, whole), "chunked"
    from quantviz.compiled import driving
    from quantviz.compiled.run_kernels import ROWS

    room = 0
    if program.counted:
        room = max(driving.UNIT, ROWS * layout.view_shape[-1] if by_element else 0)

    def new() -> Tally:
        return Tally(fmt.code_min, fmt.levels, x.shape if asked.by_axis else (), room=room)

    whole = new()
    in_order = InOrder[Pieces](lambda pieces: pieces.add_to(whole))
    tallies = [whole]
    lines = len(whole.signal)

    def tally() -> Tally:
        tallies.append(new())
        return tallies[-1]

    def of_bands(items: Iterator[tuple[int, int]]) -> None:
        own = tally()
        made = Buffers(driving.CELLS_TOGETHER)
        of_row = math.prod(layout.view_shape[1:])
        run = program.of_bands(x, layout, rows * of_row, float(absmax), made, own)
        for first, last in items:
            pieces = Pieces(last - first, rows * of_row, lines)
            row = first * rows
            end = min(last * rows, layout.view_shape[0])
            while row < end:
                k = row // rows
                row = (
                    run(row * of_row, end * of_row, (row - k * rows) * of_row, rest_of(pieces, k - first))
                    // of_row
                )
                if row < end:
                    # The kernel stopped at a band that needs the reference's ranges; do the rest of its
                    # piece.
                    k = row // rows
                    upto = min((k + 1) * rows, end)
                    part = layout_of_rows(layout, row, upto)
                    found = ranges_of_values(
                        Band(x, row * of_row, part.view_shape), scheme, part, asked.piece, alone=True
                    )
                    of_band = qparams_of_range(found, absmax, scheme, part)
                    to = pieces.of(k - first, own)
                    program.run(
                        x,
                        row * of_row,
                        upto * of_row,
                        part,
                        row * of_row,
                        program.of_blocks(of_band),
                        made,
                        to,
                    )
                    row = upto
            in_order.put(first, pieces, last - first)

    def of_runs(items: Iterator[tuple[int, int]]) -> None:
        assert params is not None
        own = tally()
        made = Buffers(driving.CELLS_TOGETHER)
        flat = program.of_blocks(params)
        for first, last in items:
            pieces = Pieces(last - first, size, lines)
            program.of_pieces(x, first * size, min(last * size, x.count), layout, flat, made, own, pieces)
            in_order.put(first, pieces, last - first)

    size = size_of_piece(x.shape, asked)
    count = -(-layout.view_shape[0] // rows) if banded else -(-x.count // size)
    most = max(1, _MOST_LINES // max(lines, 1))
    shares = shares_of(count, 1, in_place=x.in_place, threads=asked.threads)
    shares = (
        (start, min(start + most, last)) for first, last in shares for start in range(first, last, most)
    )
    shared_out(of_bands if banded else of_runs, shares, asked.threads)
    return whole.join(tallies[1:]), "fused"


def _chunked(x: Stored, asked: MeasureOptions, params: QParams, whole: Tally) -> Tally:
    """Return the sums of all cells by the reference's operations; the plan alone decides a piece's sums."""
    in_order = InOrder[Pieces](lambda pieces: pieces.add_to(whole))
    size = size_of_piece(x.shape, asked)
    tallies: list[Tally] = []

    def work(pieces: Iterator[tuple[int, int]]) -> None:
        tallies.append(Tally(whole.code_min, len(whole.seen), tuple(whole.shape.tolist())))
        for begin, end in pieces:
            own = Pieces(1, size, len(whole.signal))
            to = own.of(0, tallies[-1])
            for start, stop in runs_between(end - begin, min(limits.CHUNK, size)):
                to.add(reference_on_run(x, asked.scheme, params, begin + start, begin + stop), begin + start)
            in_order.put(begin // size, own)

    shared_out(work, runs_between(x.count, size), asked.threads)
    return whole.join(tallies)


#: Number of lines whose sums a thread holds at a time: 16 bytes each.
_MOST_LINES = 2**20


def measured(r: QuantResult, *, by_axis: bool = False, metrics: Iterable[str] | None = None) -> Measured:
    """Return the metrics of a quantized tensor, with "reference" as the path."""
    errors = r.error.abs()
    errors = errors if r.counted is None else errors.masked_fill(~r.counted, -1)
    axes = tuple(Moments.along(r, axis) for axis in range(r.x.dim() if by_axis else 0))
    largest = place_of(int(errors.argmax()), r.shape)
    counted = r.x.numel() if r.counted is None else int(r.counted.sum())
    moments = Moments.of(r)
    found = MappingProxyType(
        metrics_of(moments, bits_per_element(r.scheme, r.tensor_shape), metrics_named(metrics))
    )
    return Measured(
        r.scheme, r.shape, r.layout, found, "reference", 0.0, r.notes, largest, moments, axes, counted
    )


def quantized(x: Stored, scheme: Scheme, known: Facts | None = None) -> QuantResult:
    """Return the result of `quantize`, with ranges searched by compiled kernels where these are faster.

    `known` are the `facts` of x, if they were computed before; x and the scheme belong together, as
    `on_stored` returns them.

    >>> from quantviz.tensors.lazy import InMemory
    >>> quantized(InMemory(torch.tensor([1.0, 0.3, -7.0])), Scheme("int4")).q.tolist()
    [1, 0, -7]
    """
    if scheme.calibration.of_values or x.count <= limits.FUSED or not fixed_ready():
        return quantize(read_whole(x), scheme)
    known = known or facts(x)
    if known.found is not None and scheme.nonfinite == "refuse":
        return quantize(read_whole(x), scheme)
    return quantize_in_ranges(read_whole(x), scheme, searched(x, scheme, known))


def searched(x: Stored, scheme: Scheme, known: Facts) -> Range | QParams:
    """Return the clipping range, or scale and zero point, of each block, searched by compiled kernels where
    these are faster.

    `known` are the `facts` of x, and x and the scheme belong together, as `on_stored` returns them.

    Raises:
        QuantVizError: The scheme refuses the tensor.

    >>> from quantviz.tensors.lazy import InMemory
    >>> x = InMemory(torch.tensor([1.0, -3.0]))
    >>> searched(x, Scheme("int4"), facts(x)).lo.tolist()
    [-3.0]
    """
    nonfinite_notes(x, scheme, known)
    if x.count <= limits.FUSED or not fixed_ready():
        return found_by_reference(read_whole(x), scheme)
    return ranges(x, scheme, absmax=known.absmax)


def nonfinite_notes(x: Any, scheme: Scheme, known: Facts) -> tuple[Note, ...]:
    """Return the notes on NaN and Inf in a tensor; raise `QuantVizError` if the scheme refuses them."""
    found = known.found
    if found is None:
        return ()
    if scheme.nonfinite == "refuse" and not isinstance(x, Stored):
        # It may have been finite before it became float32.
        as_input(x, scheme.nonfinite, rounded_to(scheme))
    if scheme.nonfinite == "refuse":
        raise found.refusal()
    return (found.note(scheme.nonfinite),)
