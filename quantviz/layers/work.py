"""The work that a layer takes, known from its sizes, and a layer with all numbers that a page shows."""

from __future__ import annotations

import dataclasses
import pickle
import time
from collections.abc import Iterable
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeAlias

import torch

from quantviz.errors import Note, QuantVizError
from quantviz.layers.captures import Captured
from quantviz.layers.layer_result import LayerResult, layer
from quantviz.layers.methods.awq import KeptApart, kept_apart
from quantviz.layers.methods.chain import Chain
from quantviz.layers.methods.contract import MethodTask
from quantviz.layers.methods.rotation import RotationTrace
from quantviz.layers.parts import Cells
from quantviz.schemes.calibration import Given
from quantviz.schemes.granularity import Shape
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.lazy import Stored

#: Multiplications that take as long as what is done to each value of W, X and Y for the numbers of a layer,
#: and what is done once; and products of X and W.
_VALUE = 500.0
_ONCE = 8e7
_PRODUCTS = 8
#: Multiplications that take as long as the search for the range of a value's block, by compiled code and by
#: the reference, which methods ask; and an engine's own search for its scales.
_SEARCHED, _BY_REFERENCE, _BY_ENGINE = 6e3, 4e4, 4e3
#: Multiplications of float64 matrices a second of one core.
SPEED = 2e10
#: Bytes of the numbers of a method's picture that are sent with a layer.
_TRACE_BYTES = 2**26
_ALL = slice(None)


#: The schemes of weights and inputs, None for a side that is not rounded.
SchemesOfSides: TypeAlias = tuple[Scheme | None, Scheme | None]


class LayerSource(Protocol):
    def open(self) -> Captured: ...


def products_of(chain: Chain, shape: Shape, schemes: SchemesOfSides = (None, None)) -> float:
    """Return about how many multiplications take as long as a layer under a chain, with all of its numbers.

    `shape` is (tokens, inputs, outputs); a scheme may search for ranges.
    """
    tokens, inputs, outputs = shape
    values = inputs * (tokens + outputs) + tokens * outputs
    plain = _ONCE + _PRODUCTS * tokens * inputs * outputs + _VALUE * values
    searched = 0.0
    roundings = 1 + sum(method.roundings for method in chain.methods)
    for scheme, lines, times in zip(schemes, (outputs, tokens), (roundings, 1), strict=True):
        searched += times * lines * inputs * _search_of(scheme, chain)
    return plain + searched + sum(method.products(shape) for method in chain.methods)


def _search_of(scheme: Scheme | None, chain: Chain) -> float:
    """Return the multiplications that take as long as a scheme's search for ranges, for each value."""
    if scheme is None:
        return 0.0
    if scheme.search is not None:
        return _BY_ENGINE
    if scheme.calibration.of_values or isinstance(scheme.calibration, Given):
        return 0.0
    return _BY_REFERENCE if chain.methods else _SEARCHED


def refuse_long(chain: Chain, shape: Shape, seconds: float, schemes: SchemesOfSides = (None, None)) -> None:
    """Raise `QuantVizError` for a layer that takes longer under a chain; name a square weight that does
    not.
    """
    tokens, inputs, outputs = shape
    needed = products_of(chain, shape, schemes) / SPEED
    if needed <= seconds:
        return
    side = 1
    while products_of(chain, (tokens, 2 * side, 2 * side), schemes) <= seconds * SPEED:
        side *= 2
    about = {"outputs": outputs, "inputs": inputs, "needed": round(needed), "seconds": round(seconds)}
    raise QuantVizError("method.too_large", method=str(chain), side=side, **about)


class ComputedLayer(NamedTuple):
    result: LayerResult
    #: All outputs, where they are few enough.
    cells: Cells | None
    notes: tuple[Note, ...]
    #: Seconds that its quantization took.
    seconds: float


def computed(
    given: Captured | LayerSource,
    schemes: tuple[Scheme | None, Scheme | None],
    most_cells: int,
    **more: Any,
) -> ComputedLayer:
    """Return a quantized layer with its numbers computed, as `layer` makes it.

    Where a layer can be opened anywhere its source is given. A method's picture is left out where its numbers
    would be large.
    """
    opened = given if isinstance(given, Captured) else given.open()
    began = time.perf_counter()
    result = layer(opened.weight, opened.inputs, *schemes, opened.bias, **more)
    seconds = time.perf_counter() - began
    small = {name: trace for name, trace in result.trace.items() if len(pickle.dumps(trace)) <= _TRACE_BYTES}
    left_out = (
        Note.of("layer_no_picture", method=name, most=_TRACE_BYTES)
        for name in result.trace
        if name not in small
    )
    said = (*result.applied.notes, *left_out)
    applied = dataclasses.replace(result.applied, trace=MappingProxyType(small), notes=said)
    result = dataclasses.replace(result, applied=applied)
    tokens, _, outputs = result.shape
    _ = result.rel_out, result.parts, result.channels, result.weights.sqnr_db
    cells = result.cells() if tokens * outputs <= most_cells else None
    read = (stored for stored in (opened.weight, opened.inputs) if isinstance(stored, Stored))
    notes = (*(note for stored in read for note in stored.notes), *opened.notes_under(*schemes))
    return ComputedLayer(result, cells, notes, seconds)


# ---- what pictures of methods ask of a layer -----------------------------------------------------------


def channels_kept_apart(result: LayerResult, share: float) -> KeptApart:
    w, w_hat = result.weights.values(_ALL), result.weights.quantized(_ALL)
    return kept_apart(w, w_hat, result.inputs.values(_ALL), result.held_back, share)


def errors_of_channels(result: LayerResult, group: slice) -> torch.Tensor:
    return result.weights.changes(_ALL)[:, group].square().mean(0).sqrt()


def traces_of_turns(
    result: LayerResult, chain: Chain, field: str, values: Iterable[Any]
) -> dict[Any, RotationTrace]:
    """Return the trace of a chain's rotation with each value of a field that fits the layer."""
    x = result.inputs.values(_ALL)[~result.held_back]
    task = MethodTask(
        result.weights.values(_ALL).double(), x.double(), result.weights.scheme, None, result.seed
    )
    for method in chain.bases:
        if method.id == "rotation":
            break
        task = task.in_basis(method.basis(task))
    traces = {}
    for value in values:
        turn = chain.with_field("rotation", **{field: value})
        with suppress(QuantVizError):
            traces[value] = next(basis for basis in turn.bases if basis.id == "rotation").basis(task).trace
    return traces
