"""The multiplication as a picture: X, Wᵀ and Y, each with few enough cells to be drawn.

A pixel stands for a rectangle of cells and shows the one of largest magnitude among them, with its sign: a
single loud cell is never lost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from quantviz.layers.layer_result import LayerResult
from quantviz.layers.operands import Operand
from quantviz.layers.parts import Cells

Array = npt.NDArray[Any]
#: The values that can be shown, with their names in `Cells`.
_OF_CELLS = {"x": "y", "codes": "y_hat", "error": "error"}
#: Multiplications of a part whose outputs are all computed; of more, a pixel shows the first of its cells.
_MOST_WORK = 2**29
_CELLS_PER_READ = 2**22
#: Values are printed where no axis has more pixels.
_PRINTED = 6
#: An error is float32's own, and 0 to people, up to this share of the magnitudes that its cell sums up: |x|
#: in X, |w| in W, and Σ|x·w| in Y. A scale and a product with it are each rounded once, so that X̂ and Ŵ are
#: off by at most 2^-23 of a value where their grid has it, and a product of both by twice that.
NOISE = 2.0**-22


@dataclass(frozen=True, eq=False)
class MatrixPixels:
    #: float32 (rows, columns).
    values: Array
    #: The first row of each pixel and the end of the last, int64; likewise columns.
    row_edges: Array
    col_edges: Array
    #: The largest error in each pixel that is float32's own; only where errors are printed.
    noise: Array | float = 0.0

    @property
    def printed(self) -> Array:
        """Return the values to print: 0 in place of an error that is float32's own."""
        return np.where(np.abs(self.values) <= self.noise, np.float32(0), self.values)

    @property
    def exact(self) -> bool:
        cells = (len(edges) - 1 == edges[-1] - edges[0] for edges in (self.row_edges, self.col_edges))
        return all(cells)

    @property
    def largest(self) -> float:
        return float(np.abs(self.values).max(initial=0.0))


@dataclass(frozen=True, eq=False)
class LayerPicture:
    """X (tokens × inputs), Wᵀ (inputs × outputs) and Y (tokens × outputs) of a part of a layer."""

    #: One of "x", "codes" and "error"; Y has no codes, and shows Ŷ.
    shown: str
    x: MatrixPixels
    w: MatrixPixels
    y: MatrixPixels
    #: Whether each pixel of Y shows the first of its cells, as all of them would take too long.
    sampled: bool = False
    #: Where its words are: the names of the matrices and of their axes.
    words: str = "layer_picture"
    holds_back: bool = True

    @property
    def prints(self) -> bool:
        return all(size <= _PRINTED for size in self.x.values.shape + self.y.values.shape)


def layer_picture(
    result: LayerResult,
    tokens: tuple[int, int],
    inputs: tuple[int, int],
    outputs: tuple[int, int],
    shown: str,
    most: int,
    cells: Cells | None = None,
) -> LayerPicture:
    """Return a part of a layer in at most `most` pixels along each of its three axes.

    `shown` is "x" for values, "error", or "codes" for the codes of X and W beside Ŷ. `cells` are all outputs
    of the layer, where they are known.
    """
    token_edges = pixel_edges(*tokens, most)
    input_edges = pixel_edges(*inputs, most)
    output_edges = pixel_edges(*outputs, most)
    x = MatrixPixels(_of_operand(result.inputs, token_edges, input_edges, shown), token_edges, input_edges)
    w = MatrixPixels(
        _of_operand(result.weights, output_edges, input_edges, shown).T, input_edges, output_edges
    )
    work = (tokens[1] - tokens[0]) * (outputs[1] - outputs[0]) * result.shape[1]
    sampled = cells is None and work > _MOST_WORK
    if cells is not None:
        y = getattr(cells, _OF_CELLS[shown])[tokens[0] : tokens[1], outputs[0] : outputs[1]]
        values = pooled_values(y.numpy(), token_edges - tokens[0], output_edges - outputs[0])
    elif sampled:
        values = _sampled(result, token_edges[:-1], output_edges[:-1], shown)
    else:
        values = _of_outputs(result, token_edges, output_edges, shown)
    picture = LayerPicture(shown, x, w, MatrixPixels(values, token_edges, output_edges), sampled)
    return _with_noise(picture, result) if shown == "error" and picture.prints else picture


def _with_noise(picture: LayerPicture, result: LayerResult) -> LayerPicture:
    """Return a picture of few cells with the largest error in each that is float32's own."""
    tokens, inputs, outputs = (
        slice(int(edges[0]), int(edges[-1]))
        for edges in (picture.x.row_edges, picture.x.col_edges, picture.y.col_edges)
    )
    x = NOISE * result.inputs.values(tokens).double().abs().numpy()
    w = result.weights.values(outputs).double().abs().numpy().T
    return replace(
        picture,
        x=replace(picture.x, noise=x[:, inputs]),
        w=replace(picture.w, noise=NOISE * w[inputs]),
        y=replace(picture.y, noise=x @ w),
    )


def pixel_edges(first: int, last: int, most: int) -> Array:
    """Return the first cell of each of at most `most` pixels, and the end of the last."""
    pixels = min(last - first, most)
    return first + np.arange(pixels + 1, dtype=np.int64) * (last - first) // pixels


def pooled_values(values: Array, row_edges: Array, col_edges: Array) -> Array:
    """Return the value of largest magnitude of each rectangle between edges that begin with 0, as float32."""
    pooled = values
    for axis, edges in ((0, row_edges), (1, col_edges)):
        if len(edges) - 1 < values.shape[axis]:
            high = np.maximum.reduceat(pooled, edges[:-1], axis)
            low = np.minimum.reduceat(pooled, edges[:-1], axis)
            pooled = np.where(high >= -low, high, low)
    return np.ascontiguousarray(pooled, dtype=np.float32)


def _of_operand(operand: Operand, line_edges: Array, input_edges: Array, shown: str) -> Array:
    width = slice(int(input_edges[0]), int(input_edges[-1]))
    bands = []
    for start, stop in _bands(line_edges, operand.shape[1]):
        lines = slice(int(line_edges[start]), int(line_edges[stop]))
        if shown == "x":
            values = operand.values(lines)
        elif shown == "codes":
            values = operand.codes(lines)
        else:
            values = operand.changes(lines)
        band = values[:, width].numpy()
        bands.append(
            pooled_values(band, line_edges[start : stop + 1] - lines.start, input_edges - width.start)
        )
    return np.concatenate(bands)


def _of_outputs(result: LayerResult, token_edges: Array, output_edges: Array, shown: str) -> Array:
    outputs = slice(int(output_edges[0]), int(output_edges[-1]))
    bands = []
    for start, stop in _bands(token_edges, outputs.stop - outputs.start):
        tokens = slice(int(token_edges[start]), int(token_edges[stop]))
        values = getattr(result.cells(tokens, outputs), _OF_CELLS[shown]).numpy()
        bands.append(
            pooled_values(values, token_edges[start : stop + 1] - tokens.start, output_edges - outputs.start)
        )
    return np.concatenate(bands)


def _bands(edges: Array, width: int) -> list[tuple[int, int]]:
    pixels = len(edges) - 1
    tall = max(1, int(edges[-1] - edges[0]) // pixels)
    step = max(1, _CELLS_PER_READ // (tall * width))
    return [(start, min(start + step, pixels)) for start in range(0, pixels, step)]


def _sampled(result: LayerResult, tokens: Array, outputs: Array, shown: str) -> Array:
    def lines(operand: Operand, which: Array, *, quantized: bool) -> torch.Tensor:
        read = operand.quantized if quantized else operand.values
        return torch.cat([read(slice(int(i), int(i) + 1)) for i in which]).to(torch.float64)

    def product(*, quantized: bool) -> torch.Tensor:
        x = lines(result.inputs, tokens, quantized=quantized)
        w = lines(result.weights, outputs, quantized=quantized)
        return x @ w.T

    bias = result.bias[torch.from_numpy(outputs)]
    if shown == "error":
        values = product(quantized=True) - product(quantized=False)
    else:
        values = product(quantized=shown == "codes") + bias
    return values.to(torch.float32).numpy()
