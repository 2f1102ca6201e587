"""The numbers of a layer under two schemes as one record: for the command, for tables and for maps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from quantviz.errors import Note, QuantVizError
from quantviz.evaluation.metric_formulas import METRICS
from quantviz.evaluation.moments import Moments
from quantviz.layers.captures import Captured, UnreadLayer
from quantviz.layers.causes import Channels
from quantviz.layers.layer_result import LayerResult
from quantviz.layers.layer_result import layer as layer_of
from quantviz.layers.methods.chain import Chain
from quantviz.layers.operands import Operand, scheme_of, weight_operand
from quantviz.pickling import Picklable
from quantviz.quantization.batch_ranges import BatchRanges, ranges_over_batches
from quantviz.schemes.scheme import Scheme
from quantviz.sources.random import Normal
from quantviz.streaming.threads import runs_between
from quantviz.tensors.lazy import Stored, as_stored

_OUTPUTS_PER_READ = 256
#: Batches into which the tokens of a layer are split, to see how its scale grows with them.
_BATCHES = 16


def numbers_of(layer: Captured, result: LayerResult) -> dict[str, Any]:
    """Return the record of a layer; its reason is a note if the tokens held back cannot show an error."""
    used, held_back = result.rel_out
    return {
        **_sizes(layer, result.weights.scheme, result.inputs.scheme),
        "status": "ok",
        "method": str(result.method),
        "rel_out_used": used,
        "rel_out_held_back": held_back,
        "weight_sqnr_db": result.weights.sqnr_db,
        **_loudest(result.channels),
        "reason": Note.of("layer_silent", layer=layer.name) if result.is_silent else None,
    }


def ranges_over_tokens(result: LayerResult) -> BatchRanges | None:
    """Return the scale of X after more and more of the tokens that it is chosen on, in at most 16 batches;
    None where X has no one static scale of an integer format, by its smallest and largest value.
    """
    scheme = result.inputs.scheme
    if scheme is None or not result.static or scheme.number_format.kind != "integer":
        return None
    if scheme.granularity.id != "per_tensor" or scheme.calibration.id != "min_max":
        return None
    used = result.inputs.values(slice(None))[~result.held_back]
    return ranges_over_batches(used.tensor_split(min(_BATCHES, len(used))), "min_max", scheme)


def output_sqnr_db(rel_out: float) -> float:
    """Return an output error as SQNR in dB; inf where there is none."""
    one = torch.ones((), dtype=torch.float64)
    return float(METRICS["sqnr_db"].of(Moments(cells=one, x2=one, e2=one * rel_out)))


def numbers_of_all(
    layers: Iterable[Captured], weights: Scheme | None, inputs: Scheme | None, *, static: bool = True
) -> Iterator[dict[str, Any]]:
    for layer in layers:
        yield numbers_or_reason(layer, weights, inputs, static=static)


def numbers_or_reason(
    layer: Captured,
    weights: Scheme | None,
    inputs: Scheme | None,
    *,
    method: Chain | None = None,
    static: bool = True,
) -> dict[str, Any]:
    """Return the record of a layer: "refused", with a reason, where a scheme or a method does not fit."""
    try:
        return numbers_of(layer, layer.result(weights, inputs, method=method, static=static))
    except QuantVizError as problem:
        return {**_sizes(layer, weights, inputs), "status": "refused", "reason": problem}


def record_unread(layer: UnreadLayer) -> dict[str, Any]:
    return {"layer": layer.name, "kind": layer.kind, "status": "not_read", "reason": layer.reason}


def best_of_all(
    layers: Iterable[Captured],
    weights: Scheme | None,
    inputs: Scheme | None,
    methods: Sequence[Chain],
    *,
    static: bool = True,
) -> Iterator[dict[str, Any]]:
    for layer in layers:
        nearest = numbers_or_reason(layer, weights, inputs, static=static)
        tried = methods if nearest["status"] == "ok" else ()
        yield best_of(
            nearest,
            [numbers_or_reason(layer, weights, inputs, method=method, static=static) for method in tried],
        )


def best_of(nearest: dict[str, Any], others: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the record of a layer with the least error on used tokens: of rounding to nearest or of methods.

    The tokens held back have no part in the choice. `rel_out_nearest` is the error held back of rounding to
    nearest, and `times_less` how many times less the method leaves. Methods that cannot work on the layer are
    left out.
    """
    if nearest["status"] != "ok":
        return nearest
    measured = [nearest, *(record for record in others if record["status"] == "ok")]
    best = min(measured, key=lambda record: record["rel_out_used"])
    before, after = nearest["rel_out_held_back"], best["rel_out_held_back"]
    times = before / after if 0 < after < math.inf else None
    return {**best, "rel_out_nearest": before, "times_less": times}


@dataclass(frozen=True)
class ColumnScaling(Picklable):
    """The output error of a weight on the tokens held back, to nearest and with AWQ's scaling of columns."""

    nearest: float
    scaled: float
    #: Numbers of tokens that the scaling was found on, and of those held back.
    used: int
    held_back: int
    #: Number of outputs that were looked at: all, or of a large weight some, evenly spaced.
    outputs: int


def column_scaling(
    weight: Stored, *, inputs: torch.Tensor, scheme: Scheme, most: int = 2**18
) -> ColumnScaling | None:
    """Return the effect of AWQ's scaling of a weight's columns, which the layer before can do for nothing.

    s_j = mean|x_j|^r, r from a grid. None if it does not fit or leaves no less error, or if a block of the
    scheme is too large for a sample of outputs.

    Args:
        weight: W, (outputs, inputs).
        inputs: X, float32 (tokens, inputs).
        scheme: The scheme of the weight.
        most: Weights above which only some outputs are looked at, evenly spaced.

    >>> from quantviz.layers.built_in import BuiltInLayer
    >>> from quantviz.schemes.recipes import RECIPES
    >>> found = BuiltInLayer("loud_input").open()
    >>> done = column_scaling(found.weight, inputs=found.inputs, scheme=RECIPES["int4_per_row"])
    >>> done.scaled < done.nearest, done.used, done.held_back
    (True, 3, 1)
    """
    try:
        some = some_outputs(weight, scheme, most)
        if some is None:
            return None
        nearest, scaled = (layer_of(some, inputs, scheme, None, method=method) for method in (None, "awq"))
    except QuantVizError:
        return None
    before, after = nearest.rel_out.held_back, scaled.rel_out.held_back
    if not after < before < math.inf:
        return None
    used, held_back = nearest.held_back.long().bincount(minlength=2).tolist()
    return ColumnScaling(before, after, used, held_back, some.shape[0])


def some_outputs(weight: Stored | torch.Tensor, scheme: Scheme, most: int) -> Stored | torch.Tensor | None:
    """Return a weight, or evenly spaced outputs in whole blocks of the scheme with at most `most` elements;
    None if a block is larger.
    """
    stored = as_stored(weight)[0]
    if stored.count <= most:
        return weight
    rows, width = stored.shape
    layout = scheme.layout(stored.shape)
    if len(layout.view_shape) == 2:
        together = layout.block_shape[0]
    else:
        # Blocks of flat elements lie in the rows where these divide into them.
        together = rows if width % layout.block_size else 1
    bands = min(most // (together * width), rows // together)
    if not bands:
        return None
    starts = [rows // together * band // bands * together for band in range(bands)]
    return torch.cat([stored.rows_as_stored(start, start + together) for start in starts])


@dataclass(frozen=True, eq=False)
class MomentErrors:
    """The output error of a layer of which only the inputs' second moments are known."""

    #: Σ H_jj Σ(ŵ − w)² / Σ H_jj Σw²: 0 without an error, inf where only the divisor is 0.
    rel_out: float
    #: The weight's error in each input channel, Σ(ŵ − w)² over outputs, and H_jj times that: float64
    #: (inputs,).
    weight_error: torch.Tensor
    cost: torch.Tensor
    weights: Operand
    notes: tuple[Note, ...]


def errors_by_moments(weight: Any, moments: torch.Tensor, weights: Scheme | str) -> MomentErrors:
    """Return the output error of a quantized weight from the mean squares of its inputs, H_jj.

    It holds for uncorrelated inputs that are not rounded themselves, as the note states.

    Args:
        weight: W, (outputs, inputs).
        moments: The mean square of each input channel, (inputs,), as an importance matrix has them.
        weights: The scheme of the weight.

    Raises:
        QuantVizError: The weight is no matrix of finite numbers, or has another number of inputs; a moment is
            negative, NaN or Inf, or all are 0.
    """
    operand = weight_operand(weight, scheme_of(weights, "weights"))
    outputs, width = operand.shape
    if tuple(moments.shape) != (width,):
        raise QuantVizError("layer.moments_width", got=tuple(moments.shape), wanted=width)
    squares = _mean_squares(moments)
    errors = torch.zeros(width, dtype=torch.float64)
    power = torch.zeros(width, dtype=torch.float64)
    for start, stop in runs_between(outputs, _OUTPUTS_PER_READ):
        errors += operand.changes(slice(start, stop)).square().sum(0)
        power += operand.values(slice(start, stop)).to(torch.float64).square().sum(0)
    cost = squares * errors
    rel_out = float(torch.where(cost.sum() == 0, 0.0, cost.sum() / (squares * power).sum()))
    return MomentErrors(rel_out, errors, cost, operand, (*operand.notes, Note.of("layer_moments")))


def inputs_of_moments(moments: torch.Tensor, tokens: int, seed: int = 0) -> torch.Tensor:
    """Return drawn inputs, (tokens, inputs), with these mean squares: normal, and no two channels correlated.

    Raises:
        QuantVizError: A moment is negative, NaN or Inf, or all are 0; or the size is out of bounds.

    >>> inputs_of_moments(torch.tensor([1.0, 9.0, 0.0]), 8).square().mean(0).round(decimals=3)
    tensor([1., 9., 0.])
    """
    squares = _mean_squares(moments)
    drawn = Normal(rows=tokens, cols=len(squares), seed=seed).tensor().to(torch.float64)
    drawn *= (squares / drawn.square().mean(0)).sqrt()
    return drawn.to(torch.float32)


def _mean_squares(moments: torch.Tensor) -> torch.Tensor:
    squares = moments.to(torch.float64)
    if not bool((squares >= 0).all()) or not 0 < float(squares.sum()) < float("inf"):
        raise QuantVizError("layer.moments")
    return squares


def _sizes(layer: Captured, weights: Scheme | None, inputs: Scheme | None) -> dict[str, Any]:
    tokens, width, outputs = layer.shape
    return {
        "layer": layer.name,
        "kind": layer.kind,
        "tokens": tokens,
        "seen": layer.seen,
        "inputs": width,
        "outputs": outputs,
        "weight_scheme": None if weights is None else str(weights),
        "input_scheme": None if inputs is None else str(inputs),
    }


def _loudest(channels: Channels) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for side, sizes in (("input", channels.x_max), ("weight", channels.w_max)):
        median = float(sizes.median())
        record[f"loud_{side}"] = int(sizes.argmax())
        record[f"loud_{side}_times"] = float(sizes.max()) / median if median else None
    return record
