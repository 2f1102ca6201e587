"""Quantize cells by scale and zero point of their blocks: all cells of a tensor, a part, or a few."""

from __future__ import annotations

from types import MappingProxyType

import torch

from quantviz.quantization.code_to_value import error_operations, value_operations
from quantviz.quantization.grids import GRIDS
from quantviz.quantization.operations import NamedTensors, run_operations
from quantviz.quantization.result import QParams, QuantResult, block_values, counted_cells
from quantviz.quantization.value_to_code import code_of, code_operations
from quantviz.schemes.granularity import BlockLayout, Shape, Window
from quantviz.schemes.scheme import Scheme
from quantviz.tensors import blocks


def part(r: QuantResult, index: Window) -> QuantResult:
    """Return the part of a result at `index`, a number or slice for each axis; every cell keeps its scale."""
    params, layout = _params_of_cells(r.qparams, r.layout, blocks.flat_indices_of(r.shape, index))
    return QuantResult(
        r.scheme,
        params,
        r.x[index],
        r.q[index],
        r.x_hat[index],
        r.error[index],
        r.clipped[index],
        layout,
        None,
        r.notes,
        r.tensor_shape,
    )


def quantize_part(
    x: torch.Tensor, scheme: Scheme, qparams: QParams, shape: Shape, index: Window
) -> QuantResult:
    """Quantize the part of a tensor at `index` from its own values alone, with the same result as `part`.

    `x` is the part; `shape` and `qparams` are those of the whole tensor.
    """
    return quantize_cells(x, scheme, qparams, shape, blocks.flat_indices_of(shape, index))


def quantize_cells(
    x: torch.Tensor, scheme: Scheme, qparams: QParams, shape: Shape, places: torch.Tensor
) -> QuantResult:
    """Quantize some cells of a tensor of `shape`.

    `x` are their values, `places` their flat indices in the tensor (int64, of the shape of `x`), and
    `qparams` are those of the whole tensor.
    """
    params, layout = _params_of_cells(qparams, scheme.layout(shape), places)
    chance = {"index": places} if scheme.arithmetic.ties == "stochastic" else {}
    return QuantResult(
        scheme,
        params,
        x,
        *quantize_with(x, scheme, {**block_values(params), **chance}),
        layout,
        None,
        whole=shape,
    )


def errors_of_cells(
    x: torch.Tensor, scheme: Scheme, qparams: QParams, layout: BlockLayout, places: torch.Tensor, offset: int
) -> torch.Tensor:
    """Return the errors of some cells of a part of a tensor.

    `qparams` and `layout` are those of the part, which begins at flat index `offset` of the tensor; `places`
    are the cells' flat indices in the whole tensor.
    """
    params, _ = _params_of_cells(qparams, layout, places - offset)
    chance = {"index": places} if scheme.arithmetic.ties == "stochastic" else {}
    return quantize_with(x, scheme, {**block_values(params), **chance})[2]


def cell_index(scheme: Scheme, shape: Shape) -> NamedTensors:
    """Return the flat index of each cell under stochastic rounding; nothing under any other rule."""
    return {"index": blocks.flat_indices(shape)} if scheme.arithmetic.ties == "stochastic" else {}


def _params_of_cells(
    params: QParams, layout: BlockLayout, places: torch.Tensor
) -> tuple[QParams, BlockLayout]:
    values = block_values(params)
    if layout.block_count == 1:
        cells = {name: grid.flatten()[0].expand(places.shape) for name, grid in values.items()}
    else:
        ids = blocks.block_numbers(places, layout)
        cells = {name: grid.flatten()[ids] for name, grid in values.items()}
    scale = cells.pop("scale")
    zero_point = cells.pop("zero_point")
    seen = tuple(places.shape)
    # The global scale stays one number for all cells: the whole tensor shares it.
    return (
        QParams(
            scale,
            zero_point,
            global_scale=params.global_scale,
            zero_domain=params.zero_domain,
            others=MappingProxyType(cells),
            stored=True,
        ),
        BlockLayout(seen, (1,) * len(seen), seen),
    )


def quantize_with(
    x: torch.Tensor, scheme: Scheme, cells: NamedTensors
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return codes, values, errors, and whether saturation changed the code; all of the shape of `x`.

    `cells` has the values of each cell's block by name, as `block_values` has, broadcastable to `x`.
    """
    coded = run_operations(code_operations(scheme), {"x": x, **cells})
    q = code_of(x, coded, scheme)
    x_hat = dequantize_with(q, scheme, cells)
    error = run_operations(error_operations(scheme), {"x": x, "x_hat": x_hat})["error"]
    clipped = coded["y"] != coded["q"]
    counted = counted_cells(x, scheme)
    return q, x_hat, error, clipped if counted is None else clipped & counted


def dequantize_with(q: torch.Tensor, scheme: Scheme, of_cells: NamedTensors) -> torch.Tensor:
    fmt = scheme.number_format
    values = {"q": GRIDS[fmt.kind].decode(q, fmt), **of_cells}
    return run_operations(value_operations(scheme), values)["x_hat"]
