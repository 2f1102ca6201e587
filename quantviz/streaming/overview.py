"""Pictures of a tensor larger than the screen, downsampled; nothing as large as it is allocated."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from quantviz.quantization.cells import quantize_cells
from quantviz.quantization.grids import GRIDS
from quantviz.quantization.result import QParams
from quantviz.schemes.formats import NumberFormat
from quantviz.schemes.scheme import Scheme
from quantviz.streaming import limits
from quantviz.streaming.coding import Coder
from quantviz.streaming.frames import FrameStretch, Patch, PixelFrame
from quantviz.streaming.pieces import Buffers
from quantviz.streaming.pools import LargestCells, pool_of
from quantviz.streaming.threads import shared_out
from quantviz.tensors.lazy import InMemory, Stored
from quantviz.tensors.views import View

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Overview:
    """A picture of h × w pixels of a patch: each pixel pools a block of cells.

    With "largest", `x`, `q` and `x_hat` are those of the first cell of largest |x|, and `error` is the
    largest error, which another cell may have. With "mean" and "rms" each is taken by itself. NaN is left
    out; a pixel is NaN where all its cells are. Inf is larger than any number.
    """

    #: float32 (h, w), as `x_hat` and `error`.
    x: Array
    #: With "largest" the codes, else float32: their mean or RMS as numbers, or, of formats whose codes are
    #: none, of their values in units of the scale.
    q: Array
    x_hat: Array
    error: Array
    #: With "largest" the cell shown, row-major in its pixel, uint32 (h, w); else 0.
    x_at: Array
    error_at: Array
    #: Where pixels begin in the matrix, and the end: int64 (h + 1,) and (w + 1,).
    row_edges: Array
    col_edges: Array
    how: str
    #: Of the cell whose error is shown, float32 (h, w); None without weights.
    loudness: Array | None = None

    @property
    def quiet(self) -> Array | None:
        """Return 1 over the loudness, inf where that is 0."""
        with np.errstate(divide="ignore"):
            return None if self.loudness is None else 1 / self.loudness


def overview(
    x: Stored,
    scheme: Scheme,
    qparams: QParams,
    patch: Patch,
    pixels: tuple[int, int],
    how: str = "largest",
    view: View | None = None,
    *,
    known: tuple[Array, Array] | None = None,
) -> Overview:
    """Return the four panels of a patch of x in at most `pixels` (height, width), at most a pixel a cell.

    `qparams` are the whole tensor's. `view` names the axes, by default the last two; its corner is ignored.
    `known` is the result of `pooled` for the same pixels, under whichever scheme.

    >>> from quantviz import choose_qparams
    >>> from quantviz.tensors.lazy import InMemory
    >>> x, scheme = torch.tensor([[1.0, -8.0, 2.0, 3.0], [0.4, 4.0, 0.0, 7.0]]), Scheme("int4")
    >>> seen = overview(InMemory(x), scheme, choose_qparams(x, scheme), Patch(0, 0, 2, 4), (1, 2))
    >>> seen.x.tolist(), seen.q.tolist(), seen.x_at.tolist()
    ([[-8.0, 7.0]], [[-7, 6]], [[1, 3]])
    """
    x_values, x_at = known or pooled(x, patch, pixels, how, view)
    frame = PixelFrame.of(x.shape, patch, pixels, view)
    largest = how == "largest"
    coder = Coder(scheme, qparams, x.shape)
    if largest:
        errors, error_at = _largest_errors(x, frame, coder)
        chosen = quantize_cells(torch.tensor(x_values), scheme, qparams, x.shape, frame.places_in(x_at))
        q = chosen.q.numpy()
        x_hat = chosen.x_hat.numpy()
    else:
        q, x_hat, (errors, error_at) = _averages(x, frame, coder, scheme.number_format, how)
    return Overview(x_values, q, x_hat, errors, x_at, error_at, frame.row_edges, frame.col_edges, how)


def _largest_errors(x: Stored, frame: PixelFrame, coder: Coder) -> tuple[Array, Array]:
    """Return each pixel's error of largest magnitude, and its place there."""
    pool = LargestCells(frame)
    compiled = coder.is_compiled and frame.strides[-1] == 1
    if not compiled:
        cells_per_step = limits.CELLS_PER_STEP
    elif x.in_place:
        cells_per_step = limits.CELLS_IN_PLACE
    else:
        cells_per_step = limits.CELLS_PER_READ

    def add(parts: Iterator[list[FrameStretch]]) -> None:
        buffers = Buffers(max(cells_per_step, limits.ERRORS_PER_STEP), errors_alone=not coder.is_compiled)
        for part in itertools.chain.from_iterable(parts):
            values = frame.read(x, part)
            if compiled:
                pool.add_errors(values, part, coder, buffers)
                continue
            part_of_buffers = buffers.part(0, len(values))
            frame.put(values, part, coder, part_of_buffers)
            pool.add(part_of_buffers.arrays[2], part)

    shared_out(add, frame.parts(cells_per_step))
    return pool.result()


def weighted(
    seen: Overview,
    x: Stored,
    scheme: Scheme,
    qparams: QParams,
    patch: Patch,
    view: View,
    loudness: tuple[Array, int],
) -> Overview:
    """Return a picture of "largest" cells with the largest errors times `loudness`.

    That is float32, one number for each row (axis 0) or column (axis 1) of the patch, so that each line's
    largest error is found as without.
    """
    numbers, axis = loudness
    frame = PixelFrame.of(x.shape, patch, (len(seen.row_edges) - 1, len(seen.col_edges) - 1), view)
    errors, at = _largest_errors(x, frame.split(axis), Coder(scheme, qparams, x.shape))
    edges = (seen.row_edges - patch.top, seen.col_edges - patch.left)[axis]
    of_lines, places = (np.moveaxis(each, axis, 0) for each in (errors, at))
    sizes = np.nan_to_num(np.abs(of_lines) * numbers[:, None], nan=-1, posinf=np.inf)
    chosen = np.stack([start + sizes[start:stop].argmax(0) for start, stop in itertools.pairwise(edges)])
    inside = chosen - edges[:-1, None]
    along = np.take_along_axis(places, chosen, 0).astype(np.int64)
    place = along * np.diff(edges)[:, None] + inside if axis else inside * np.diff(seen.col_edges) + along
    found = (np.take_along_axis(of_lines, chosen, 0), place.astype(np.uint32), numbers[chosen])
    error, error_at, loud = (np.ascontiguousarray(np.moveaxis(each, 0, axis)) for each in found)
    return dataclasses.replace(seen, error=error, error_at=error_at, loudness=loud)


def _averages(
    x: Stored, frame: PixelFrame, coder: Coder, fmt: NumberFormat, how: str
) -> tuple[Array, Array, tuple[Array, Array]]:
    """Return codes, values and errors of each pixel as one number."""
    of_codes, of_values, of_errors = (pool_of(frame, how) for _ in range(3))

    def add(parts: Iterator[list[FrameStretch]]) -> None:
        buffers = Buffers(limits.CELLS_PER_STEP)
        for part in itertools.chain.from_iterable(parts):
            values = frame.read(x, part)
            part_of_buffers = buffers.part(0, len(values))
            frame.put(values, part, coder, part_of_buffers)
            q, x_hat, error, _, _ = part_of_buffers.arrays
            of_errors.add(error, part)
            of_values.add(x_hat, part)
            of_codes.add(GRIDS[fmt.kind].decode(torch.from_numpy(q), fmt).numpy(), part)

    shared_out(add, frame.parts(limits.CELLS_PER_STEP))
    return of_codes.result()[0], of_values.result()[0], of_errors.result()


def pooled(
    x: Stored, patch: Patch, pixels: tuple[int, int], how: str = "largest", view: View | None = None
) -> tuple[Array, Array]:
    """Return `Overview.x` and `x_at`, which depend on x alone."""
    frame = PixelFrame.of(x.shape, patch, pixels, view)
    pool = pool_of(frame, how)

    def add(parts: Iterator[list[FrameStretch]]) -> None:
        for part in itertools.chain.from_iterable(parts):
            pool.add(frame.read(x, part), part)

    shared_out(add, frame.parts(limits.CELLS_IN_PLACE if x.in_place else limits.CELLS_PER_READ))
    return pool.result()


def overview_of(x: torch.Tensor, q: torch.Tensor, x_hat: torch.Tensor, pixels: tuple[int, int]) -> Overview:
    """Return the picture, in at most `pixels`, of the "largest" cells of quantized float32 matrices.

    >>> x = torch.tensor([[1.0, -8.0, 2.0, 3.0], [0.4, 4.0, 0.0, 7.0]])
    >>> overview_of(x, x.to(torch.int8), x.round(), (1, 2)).q.tolist()
    [[-8, 7]]
    """
    rows, cols = x.shape
    patch = Patch(0, 0, rows, cols)
    error = torch.where(torch.isfinite(x), x_hat - x, math.nan)
    (values, x_at), (errors, error_at) = (pooled(InMemory(each), patch, pixels) for each in (x, error))
    frame = PixelFrame.of((rows, cols), patch, pixels, None)
    places = frame.places_in(x_at)
    codes, dequantized = (each.flatten()[places].numpy() for each in (q, x_hat))
    return Overview(
        values, codes, dequantized, errors, x_at, error_at, frame.row_edges, frame.col_edges, "largest"
    )
