"""The reference: choose scale and zero point, quantize, dequantize.

The steps themselves are the operations, see `operations.py`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from quantviz.errors import Note, QuantVizError
from quantviz.public_calls import public
from quantviz.quantization.calibrating import TrialByReference, calibrated
from quantviz.quantization.cells import cell_index, dequantize_with, quantize_with
from quantviz.quantization.code_to_value import block_names
from quantviz.quantization.input_dtype import input_notes, rounded_to
from quantviz.quantization.operations import run_operations
from quantviz.quantization.qparams import (
    given_qparams,
    largest_magnitude,
    qparams_of_range,
    refuse_other_than_qparams,
    stored_qparams,
)
from quantviz.quantization.result import QParams, QuantResult, block_values, counted_cells
from quantviz.quantization.scale_search import importance_of
from quantviz.quantization.stored_scale import given_operations
from quantviz.schemes.calibration import External, Range
from quantviz.schemes.granularity import BlockLayout, Shape
from quantviz.schemes.recipes import as_scheme
from quantviz.schemes.scheme import Scheme
from quantviz.tensors import blocks
from quantviz.tensors.conversion import as_codes, as_input, torch_dtype

#: The version of the reference's arithmetic, part of the key of every result that is cached across versions
#: of QuantViz. Raise it whenever a code, scale, zero point or value of any scheme changes: a test of recorded
#: codes fails until that is done.
ARITHMETIC = 2


@public
def choose_qparams(x: Any, scheme: Scheme | str, *, importance: Any = None) -> QParams:
    """Return scale and zero point of each block of `x`, by the scheme's calibration and convention.

    Args:
        x: The tensor, as in `quantize`.
        scheme: The scheme, as in `quantize`.
        importance: The weights of the errors by column, as in `quantize`.

    Raises:
        QuantVizError: The tensor cannot be quantized, or the scheme does not fit its shape.

    >>> x = [[191.6, -13.5, 728.6], [92.14, 295.5, -184], [0, 684.6, 245.5]]
    >>> params = choose_qparams(x, Scheme("int8", "asymmetric"))
    >>> params.scale.item(), params.zero_point.item()
    (3.578823433670343, -77)
    """
    scheme = as_scheme(scheme)
    tensor, _, dtype = as_input(x, scheme.nonfinite, rounded_to(scheme))
    scheme = scheme.on_input(dtype)
    shape = tuple(tensor.shape)
    _raise_first(scheme, shape)
    return _choose(tensor, scheme, scheme.layout(shape), importance=importance_of(importance, scheme, shape))[
        0
    ]


@public
def quantize(
    x: Any,
    scheme: Scheme | str,
    *,
    qparams: QParams | None = None,
    importance: Any = None,
    strict: bool = False,
) -> QuantResult:
    """Quantize and dequantize `x`: codes, values and error of every element.

    Args:
        x: A real tensor, nested list or NumPy array of 1 to 4 axes. A NumPy array with masked elements is
            refused, because these have no value. The dtype matters: an engine that computes in float16 or
            bfloat16 does so here, which the result's scheme names, as in `torchao(input_dtype=bfloat16)`; if
            values are widened to float32 instead, the result has a note.
        scheme: A `Scheme`, its text form, or a recipe by its id or name, such as "q4_0" or "MXFP4".
        qparams: Scale and zero point, one for all blocks or one a block, in place of the scheme's
            calibration: made by hand, or those of `choose_qparams` or of another result, for example of
            calibration data.
        importance: The weight of the errors in each column, one number of 0 or more for each index of the
            last axis: llama.cpp's importance matrix, for schemes whose engine searches scales.
        strict: Whether to return the arithmetic's own result where it would be refused: for a range wider
            than float32, or an infinite value.

    Returns:
        Codes, values and errors, each block's scale and zero point, and `x`: a float32 input's own memory.

    Raises:
        QuantVizError: The input cannot be quantized, or the scheme does not fit its shape.

    Source notebook 000, cell 61:

    >>> x = [[191.6, -13.5, 728.6], [92.14, 295.5, -184], [0, 684.6, 245.5]]
    >>> quantize(x, Scheme("int8", "asymmetric")).q.tolist()
    [[-23, -81, 127], [-51, 6, -128], [-77, 114, -8]]
    >>> gguf = Scheme.parse("int4,symmetric,per_group(size=32),min_max,gguf_signed")
    >>> x = torch.linspace(-1, 2, 32)
    >>> torch.equal(quantize(x, gguf, qparams=choose_qparams(x, gguf)).q, quantize(x, gguf).q)
    True
    """
    scheme = as_scheme(scheme)
    tensor, notes, dtype = as_input(x, scheme.nonfinite, rounded_to(scheme))
    notes = (*notes, *input_notes(scheme, dtype))
    scheme = scheme.on_input(dtype)
    shape = tuple(tensor.shape)
    _raise_first(scheme, shape)
    layout = scheme.layout(shape)
    weights = importance_of(importance, scheme, shape)
    if qparams is not None and weights is not None:
        raise QuantVizError("importance_and_qparams")
    if qparams is not None:
        refuse_other_than_qparams(qparams)
        scheme = _of_params(scheme, qparams).replace(calibration=External())
        params = stored_qparams(qparams, largest_magnitude(tensor), scheme, layout, strict)
        return _result_of(tensor, scheme, params, None, notes, strict)
    params, chosen_range = _choose(tensor, scheme, layout, strict, weights)
    if weights is not None:
        # The scheme's text form cannot contain the weights, so the result's calibration is `External`.
        scheme = scheme.weighted.replace(calibration=External())
    return _result_of(tensor, scheme, params, chosen_range, notes, strict)


def found_by_reference(
    x: torch.Tensor, scheme: Scheme, tensor_absmax: torch.Tensor | None = None
) -> Range | QParams:
    """Return the clipping range, or scale and zero point, of each block by the reference calibration.

    `quantize_in_ranges` takes this result, and the same `tensor_absmax`.
    """
    tensor, _, _ = as_input(x, scheme.nonfinite, rounded_to(scheme))
    return _calibrated(tensor, scheme, largest_magnitude(tensor) if tensor_absmax is None else tensor_absmax)


def quantize_in_ranges(
    x: torch.Tensor,
    scheme: Scheme,
    calibrated: Range | QParams,
    tensor_absmax: torch.Tensor | None = None,
) -> QuantResult:
    """Return the result of `quantize` from the calibration's ranges, or scale and zero point, of the blocks.

    `tensor_absmax` is the largest magnitude of the tensor that a scale over all blocks is chosen on, where
    that is another one than `x`.
    """
    tensor, notes, _ = as_input(x, scheme.nonfinite, rounded_to(scheme))
    absmax = largest_magnitude(tensor) if tensor_absmax is None else tensor_absmax
    params = qparams_of_range(calibrated, absmax, scheme, scheme.layout(tuple(tensor.shape)))
    found = _result_of(tensor, scheme, params, calibrated if isinstance(calibrated, Range) else None, notes)
    return dataclasses.replace(found, tensor_absmax=tensor_absmax)


@public
def dequantize(q: Any, scheme: Scheme | str, qparams: QParams) -> torch.Tensor:
    """Return the values of codes: float32 of the shape of `q`.

    Args:
        q: The codes: a tensor, nested list or NumPy array of whole numbers, of 1 to 4 axes.
        scheme: The scheme, as in `quantize`.
        qparams: Scale and zero point, one for all blocks or one a block.

    Raises:
        QuantVizError: A code is not in the format, or the scales do not fit.

    >>> dequantize(torch.tensor([-15, 127]), Scheme("int8", "asymmetric"), QParams(3.5, -70)).tolist()
    [192.5, 689.5]
    """
    scheme = as_scheme(scheme)
    return values_of_codes(as_codes(q, scheme.number_format), scheme, qparams, any_scale=False)


def values_of_codes(
    q: torch.Tensor, scheme: Scheme, qparams: QParams, *, any_scale: bool = True
) -> torch.Tensor:
    """Return the values of codes, as `dequantize` does, without a check that the format has such codes.

    Any number is a code of an integer format. With `any_scale`, scales need not be above 0.
    """
    shape = tuple(q.shape)
    _raise_first(scheme, shape)
    layout = scheme.layout(shape)
    refuse_other_than_qparams(qparams)
    params = given_qparams(
        qparams.scale,
        qparams.zero_point,
        scheme,
        layout,
        chosen=any_scale or qparams.stored,
        stored=qparams.stored,
    )
    values = block_values(params)
    values |= run_operations(given_operations(scheme), values) | {
        name: grid for name, grid in qparams.others.items() if name in block_names(scheme)
    }
    return dequantize_with(
        q, scheme, {name: blocks.expand(grid, layout, shape) for name, grid in values.items()}
    )


def infinite_value(
    value: float, index: Shape, shape: Shape, params: QParams, scheme: Scheme, layout: BlockLayout
) -> QuantVizError:
    """Return the error for a cell at `index` whose value or whose error is not finite."""
    block = layout.block_of(index, shape)
    name = str(scheme.chosen)
    if torch.isnan(params.scale[block]):
        return QuantVizError("scale_is_nan", convention=name, index=index, block=block)
    if params.scale[block] == 0:
        return QuantVizError("scale_is_zero", convention=name, index=index, block=block)
    return QuantVizError("value_beyond_float32", convention=name, value=value, index=index, block=block)


def _choose(
    x: torch.Tensor,
    scheme: Scheme,
    layout: BlockLayout,
    strict: bool = False,
    importance: torch.Tensor | None = None,
) -> tuple[QParams, Range | None]:
    absmax = largest_magnitude(x)
    calibrated = _calibrated(x, scheme, absmax, importance)
    used = scheme if importance is None else scheme.weighted
    params = qparams_of_range(calibrated, absmax, used, layout, strict)
    return params, calibrated if isinstance(calibrated, Range) else None


def _calibrated(
    x: torch.Tensor, scheme: Scheme, absmax: torch.Tensor, importance: torch.Tensor | None = None
) -> Range | QParams:
    layout = scheme.layout(tuple(x.shape))
    return calibrated(
        blocks.Blocks(x, layout, torch_dtype(scheme.range_dtype), counted_cells(x, scheme)),
        scheme,
        TrialByReference(x, absmax, scheme, layout),
        lambda: absmax,
        importance,
    )


def _result_of(
    tensor: torch.Tensor,
    scheme: Scheme,
    params: QParams,
    ranges: Range | None,
    notes: tuple[Note, ...],
    strict: bool = False,
) -> QuantResult:
    shape = tuple(tensor.shape)
    layout = scheme.layout(shape)
    cells = {name: blocks.expand(grid, layout, shape) for name, grid in block_values(params).items()}
    q, x_hat, error, clipped = quantize_with(tensor, scheme, {**cell_index(scheme, shape), **cells})
    if not strict:
        _refuse_infinite(tensor, x_hat, error, params, scheme, layout)
    if not scheme.shifted and not scheme.number_format.signed:
        counted = counted_cells(tensor, scheme)
        negative = tensor < 0 if counted is None else (tensor < 0) & counted
        if bool(negative.any()):
            notes = (*notes, Note.of("negatives_clip", count=int(negative.sum())))
    return QuantResult(scheme, params, tensor, q, x_hat, error, clipped, layout, ranges, notes)


def _of_params(scheme: Scheme, qparams: QParams) -> Scheme:
    """Return the scheme of codes made with some scales: those found by weights of columns have an inverse."""
    if "inverse" in qparams.others:
        return scheme.weighted
    return scheme


def _raise_first(scheme: Scheme, shape: Shape) -> None:
    for problem in scheme.problems(shape):
        raise problem


def _refuse_infinite(
    x: torch.Tensor,
    x_hat: torch.Tensor,
    error: torch.Tensor,
    params: QParams,
    scheme: Scheme,
    layout: BlockLayout,
) -> None:
    finite = torch.isfinite(x_hat) & torch.isfinite(error)
    if not bool(finite.all()):
        finite |= ~torch.isfinite(x)
    if not bool(finite.all()):
        first = tuple(int(i) for i in torch.nonzero(~finite)[0])
        raise infinite_value(x_hat[first].item(), first, tuple(x.shape), params, scheme, layout)
