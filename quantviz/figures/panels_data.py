"""The arrays of the four panels: x, its codes, the dequantized values and the error.

`PanelsData` is all that is drawn: of three tensors (`panels_data`), of a result (`result_panels`), of pixels
that stand for many cells (`overview_panels`, `picture_panels`), or of a study of any size (`study_panels`).
`with_value_scale` and `as_picture` change the colours of x and x̂.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from quantviz.errors import QuantVizError
from quantviz.figures.arrangement import BREAKPOINTS, PANELS, USUAL_WIDTH, pixels_for
from quantviz.figures.colour_ranges import (
    Array,
    Span,
    around_zero,
    as_float32,
    greatest_finite,
    range_of_codes,
    range_of_error,
    shown_error,
    smallest_finite,
    symlog,
    values_range,
)
from quantviz.figures.printing import Style, printing_styles
from quantviz.quantization.explanation import causes
from quantviz.quantization.grids import GRIDS, local_step
from quantviz.schemes.granularity import Shape
from quantviz.streaming.frames import Patch
from quantviz.tensors import blocks
from quantviz.tensors.conversion import as_plain
from quantviz.tensors.views import ERROR_VIEWS, View

if TYPE_CHECKING:
    from quantviz.analysis.study import Study
    from quantviz.quantization.result import QuantResult
    from quantviz.schemes.granularity import BlockLayout
    from quantviz.schemes.scheme import Scheme
    from quantviz.streaming.overview import Overview
    from quantviz.streaming.value_distribution import MagnitudeSpread

#: Most distance of neighbouring float32 numbers, as a share of the number.
ROUNDING = 2.0**-23
#: Of pixels that stand for many cells.
POOLED_ERROR_VIEWS = tuple(name for name, view in ERROR_VIEWS.items() if view.pooled)
#: Least share of linear colours of the median magnitude: below it a few large values take them all. A normal
#: distribution's has 15 %.
WASHED_OUT = 0.1


@dataclass(frozen=True, eq=False)
class BlockMap:
    """The block of each cell in view."""

    #: (rows, columns) int32.
    ids: Array
    scale: Array
    #: Row-major, as ids count.
    grid_shape: Shape
    #: Between the two grid values around each x, in the units of x.
    step: Array

    def row_borders(self) -> Array:
        return np.flatnonzero((self.ids[1:] != self.ids[:-1]).any(axis=1)) + 1

    def col_borders(self) -> Array:
        return np.flatnonzero((self.ids[:, 1:] != self.ids[:, :-1]).any(axis=0)) + 1

    def places(self) -> list[Array]:
        """Return each cell's block in the grid, an array for each axis of several blocks."""
        places = np.unravel_index(self.ids, self.grid_shape)
        return [place for place, count in zip(places, self.grid_shape, strict=True) if count > 1]

    def separated(self) -> tuple[Array, Array] | None:
        """Return two vectors, by row and column, that add up to `ids`; None if blocks wind around rows."""
        by_row = self.ids[:, 0]
        by_col = self.ids[0] - self.ids[0, 0]
        return (by_row, by_col) if np.array_equal(by_row[:, None] + by_col, self.ids) else None


@dataclass(frozen=True, eq=False)
class PixelCells:
    #: Where pixels begin, and the end.
    row_edges: Array
    col_edges: Array
    #: A pixel's value: "largest" in magnitude, "mean" or "rms".
    how: str
    #: Of "largest": the cells in a pixel, row-major, whose x, q, x_hat and whose error are shown.
    x_at: Array | None = None
    error_at: Array | None = None

    def size(self) -> tuple[int, int]:
        # The last pixels of a matrix may be smaller.
        return int(np.diff(self.row_edges).max()), int(np.diff(self.col_edges).max())


@dataclass(frozen=True, eq=False)
class PanelsData:
    """The four panels, as (rows, columns) arrays of cells or of pixels."""

    x: Array
    q: Array
    x_hat: Array
    #: x_hat - x; NaN where x is no finite number.
    error: Array
    #: In the `error_view`. NaN where x is 0 and the error is not.
    shown_error: Array
    error_view: str
    #: Ends of colours: of x and x_hat, of q (codes, or their values before any scale), of the error.
    value_range: Span
    code_range: Span
    error_range: Span
    #: Whether the error's colours were given, not fitted.
    error_held: bool
    #: A checksum of x, q and x_hat: chart and hover card are of one run if it is the same.
    stamp: int
    #: Of the whole matrix.
    matrix: tuple[int, int]
    #: One of `ERROR_RANGES` but "held" that the error's colours follow.
    error_follows: str = ""
    #: The first row and column in view.
    top: int = 0
    left: int = 0
    #: None where each element is a cell.
    pixels: PixelCells | None = None
    #: 1 over the root mean square of each cell's inputs, if these are known.
    quiet: Array | None = None
    #: In `explanation.CAUSES`, uint8; None without a result.
    cause: Array | None = None
    #: None without a scheme.
    blocks: BlockMap | None = None
    #: Each code's value before any scale, shown for codes that are no numbers; of means the two are one.
    unscaled: Array | None = None
    format_id: str | None = None
    #: In their order.
    panels: tuple[str, ...] = PANELS
    #: Parts not shown yet: panels, as empty frames, and "scale".
    covered: frozenset[str] = frozenset()
    #: Cells framed in all panels, bool.
    lit: Array | None = None
    #: In place of frames, a map over all panels: each cell's or pixel's share that is lit.
    lit_share: Array | None = None
    #: The magnitude from which the colours of x and x_hat are logarithmic; None for linear ones.
    symlog: float | None = None
    #: Whether those colours end at a percentile of the magnitudes.
    cut: bool = False
    #: Whether x is a picture, grey from 0 on.
    grey: bool = False
    #: Whether titles have no symbols, for readers who do not know these yet.
    plain: bool = False

    def only(self, panels: Collection[str], covered: Collection[str] = ()) -> PanelsData:
        """Return fewer panels, some of them covered.

        >>> panels_data([[1.0]], [[1]], [[1.0]]).only({"q", "x"}, {"q"}).open
        ('x',)
        """
        return dataclasses.replace(
            self, panels=tuple(name for name in PANELS if name in panels), covered=frozenset(covered)
        )

    @property
    def open(self) -> tuple[str, ...]:
        # Their values may be shown.
        return tuple(name for name in self.panels if name not in self.covered)

    @property
    def told(self) -> dict[str, Array]:
        """Return the open panels' values, for the hover card."""
        shown = {"x": self.x, "q": self.panel("q")[0], "x_hat": self.x_hat, "error": self.error}
        return {name: shown[name] for name in self.open}

    @property
    def printed_together(self) -> tuple[tuple[str, ...], ...]:
        # Values are printed all or not at all: people compare x and x̂.
        return ("x", "x_hat"), ("q",), ("error",)

    @property
    def breakpoints(self) -> Mapping[str, int]:
        # Least widths in pixels, the widest first.
        return BREAKPOINTS[len(self.panels)]

    def kind(self, name: str) -> str:
        """Return the array in a panel, one of `PANELS`: here the panel's name."""
        return name

    def blocks_of(self, name: str) -> BlockMap | None:
        # Their borders are drawn.
        return self.blocks

    @property
    def shape(self) -> tuple[int, int]:
        rows, cols = self.x.shape
        return rows, cols

    @property
    def seen(self) -> tuple[int, int]:
        if self.pixels is None:
            return self.shape
        return int(self.pixels.row_edges[-1]) - self.top, int(self.pixels.col_edges[-1]) - self.left

    @property
    def whole(self) -> bool:
        # Cell by cell.
        return self.pixels is None and self.shape == self.matrix

    @property
    def two_sided(self) -> bool:
        return self.value_range[0] < 0 < self.value_range[1]

    def panel(self, name: str) -> tuple[Array, Span]:
        """Return a panel's values, and the ends of its colours."""
        return {
            "x": (self.x, self.value_range),
            "q": (self.q if self.unscaled is None else self.unscaled, self.code_range),
            "x_hat": (self.x_hat, self.value_range),
            "error": (self.shown_error, self.error_range),
        }[name]

    def colours(self, name: str) -> tuple[Array, Span]:
        """Return a panel's values and ends in a unit in which colours are linear."""
        values, ends = self.panel(name)
        if not self.symlog or self.kind(name) not in ("x", "x_hat"):
            return values, ends
        lo, hi = (float(symlog(end, self.symlog)) for end in ends)
        return symlog(values, self.symlog), (lo, hi)

    def printed(self, name: str) -> Array:
        """Return a panel's values as printed: errors no larger than float32's rounding of x are 0."""
        values, _ = self.panel(name)
        if name != "error":
            return values
        return np.where(np.abs(self.error) <= ROUNDING * np.abs(self.x), np.float32(0), values)

    def styles(self, name: str) -> tuple[Style, ...]:
        # See `printing`.
        return printing_styles(self.printed(name), like=self.x if name == "x_hat" else None)

    def extent(self) -> tuple[float, float, float, float]:
        """Return the window's edges in cells: left, right, top, bottom, half a cell beyond the middles."""
        rows, cols = self.seen
        return self.left - 0.5, self.left + cols - 0.5, self.top - 0.5, self.top + rows - 0.5

    def middle(self, name: str) -> float:
        """Return the neutral colour's place in a panel's range (0 to 1): at 0, if values have both signs."""
        _, (lo, hi) = self.colours(name)
        return -lo / (hi - lo) if lo < 0 < hi and (self.two_sided or self.kind(name) == "error") else 0.5


def panels_data(
    x: Any,
    q: Any,
    x_hat: Any,
    *,
    error_view: str = "signed",
    code_range: Span | None = None,
) -> PanelsData:
    """Return the panels of a tensor, its codes and dequantized values: the last two axes, others at 0.

    They are tensors or nested lists of one shape, 1 to 4 axes. `code_range` is by default that of the codes.

    Raises:
        QuantVizError: If shapes differ, or if `error_view` needs a scale.

    >>> data = panels_data([[1.0, -2.0]], [[3, -7]], [[0.9, -2.1]])
    >>> data.shape, data.value_range, data.error_held
    ((1, 2), (-2.0, 2.0), False)
    """
    tensors = _of_one_shape(x, q, x_hat)
    data = _cell_panels(tensors, View.of(tuple(tensors["x"].shape)), error_view)
    return dataclasses.replace(data, code_range=code_range) if code_range else data


def result_panels(
    result: QuantResult,
    *,
    view: View | None = None,
    error_view: str = "signed",
    error_range: float | None = None,
    whole: Shape | None = None,
    value_range: Span | None = None,
    quiet: Array | None = None,
) -> PanelsData:
    """Return the four panels of a result, cell by cell.

    Of a tensor too large to be quantized for a picture, `result` is the window alone, each cell with its own
    scale (`cells.part`): then `whole` is the tensor's shape, `view` begins at the window's row and column,
    and `value_range` has the ends of the whole tensor, so that a colour means the same in every window.
    `error_range` is a held end of the error's colours, in the unit of `error_view`. `quiet` is 1 over the
    root mean square of each cell's inputs, for the view "seen" of a weight's error.
    """
    tensors = {"x": result.x, "q": result.q, "x_hat": result.x_hat}
    part = None if whole is None or view is None else _part_view(result.shape, view)
    data = _cell_panels(
        tensors,
        part or view or View.of(result.shape),
        error_view,
        result=result,
        error_range=error_range,
        quiet=quiet,
    )
    if value_range:
        data = dataclasses.replace(data, value_range=around_zero(*value_range))
    return data if whole is None or view is None else _placed(data, result.scheme.layout(whole), whole, view)


def overview_panels(
    overview: Overview,
    *,
    scheme: Scheme | None,
    matrix: tuple[int, int],
    value_range: Span,
    error_view: str = "signed",
    error_range: float | None = None,
) -> PanelsData:
    """Return the four panels of a window in which a pixel stands for many cells.

    Without a scheme of the codes `overview.how` is "largest". `value_range` has the ends of the whole tensor;
    the colours of means, which lie closer together, reach to their own ends. `error_view` is one of
    `POOLED_ERROR_VIEWS`, or "seen" of an overview with weights.
    """
    quiet = overview.quiet if error_view == "seen" else None
    if quiet is None and error_view not in POOLED_ERROR_VIEWS:
        raise QuantVizError("panels.pooled_error_view", got=error_view, known=", ".join(POOLED_ERROR_VIEWS))
    largest = overview.how == "largest"
    if overview.how == "rms":
        error_view = "absolute"  # it has no sign
    shown = shown_error(overview.error, overview.x, None, error_view, quiet)
    if largest:
        code_range = range_of_codes(overview.q, scheme)
    else:
        value_range, code_range = _ranges_of_means(overview)
        error_range = None
    place = (int(overview.row_edges[0]), int(overview.col_edges[0]))
    return PanelsData(
        x=overview.x,
        q=overview.q,
        x_hat=overview.x_hat,
        error=overview.error,
        shown_error=shown,
        error_view=error_view,
        value_range=around_zero(*value_range),
        code_range=code_range,
        error_range=range_of_error(shown, error_view, error_range),
        error_held=error_range is not None,
        stamp=content_stamp((*place, *matrix), overview.x, overview.q, overview.x_hat, overview.error),
        matrix=matrix,
        top=place[0],
        left=place[1],
        quiet=quiet,
        pixels=PixelCells(
            overview.row_edges,
            overview.col_edges,
            overview.how,
            overview.x_at if largest else None,
            overview.error_at if largest else None,
        ),
        unscaled=_values_of_pixels(overview, scheme),
        format_id=scheme.format if scheme else None,
    )


def _values_of_pixels(overview: Overview, scheme: Scheme | None) -> Array | None:
    # None if codes are numbers.
    if overview.how == "largest" or scheme is None:
        return decoded_values(overview.q, scheme)
    # The means of codes that are no numbers are means of their values.
    return None if scheme.number_format.kind == "integer" else overview.q


def _ranges_of_means(overview: Overview) -> tuple[Span, Span]:
    # Ends of the colours of x and of the codes.
    most = max(greatest_finite(overview.x), greatest_finite(overview.x_hat)) or 1.0
    most_code = greatest_finite(overview.q)
    if overview.how == "rms":
        return (0.0, most), (0.0, most_code or 1.0)
    least = min(smallest_finite(overview.x), smallest_finite(overview.x_hat))
    return (least, most), around_zero(smallest_finite(overview.q), most_code)


def picture_panels(
    x: Any, q: Any, x_hat: Any, most: int, *, scheme: Scheme | None = None, code_range: Span | None = None
) -> PanelsData:
    """Return `panels_data`, or of more than `most` cells a side a picture of so many pixels.

    Each shows its cell of largest |x|, and its largest error.

    >>> x = torch.arange(20.0).expand(30, 20)
    >>> picture_panels(x, x, x, 10).shape, picture_panels(x, x, x, 100).shape
    ((10, 10), (30, 20))
    """
    from quantviz.streaming.overview import overview_of

    tensors = _of_one_shape(x, q, x_hat)
    shape = tuple(tensors["x"].shape)
    view = View.of(shape)
    if max(view.matrix(shape)) <= most:
        return panels_data(x, q, x_hat, code_range=code_range)
    seen = {name: blocks.matrix(tensor, view.rows, view.cols, view.at) for name, tensor in tensors.items()}
    overview = overview_of(
        seen["x"].to(torch.float32), seen["q"], seen["x_hat"].to(torch.float32), (most, most)
    )
    data = overview_panels(
        overview,
        scheme=scheme,
        matrix=view.matrix(shape),
        value_range=(smallest_finite(overview.x), greatest_finite(overview.x)),
    )
    return dataclasses.replace(data, code_range=code_range) if code_range and scheme is None else data


def study_panels(study: Study, width: float = USUAL_WIDTH) -> PanelsData:
    """Return the panels of a whole tensor: cells, or pixels that show their largest; the last two axes."""
    shape = study.shape
    view = View.of(study.shape)
    matrix = view.matrix(shape)
    ends = (study.facts.lo, study.facts.hi)
    pixels = pixels_for(width, matrix, matrix)
    if pixels != matrix:
        pooled = study.overview(Patch(0, 0, *matrix), pixels, "largest", view)
        data = overview_panels(pooled, scheme=study.scheme, matrix=matrix, value_range=ends)
    elif study.result is not None:
        data = result_panels(study.result, view=view, value_range=ends)
    else:
        part = study.part(view.index_of(shape))
        data = result_panels(part, view=view, whole=shape, value_range=ends)
    return with_value_scale(data, "auto", study.spread)


def with_value_scale(data: PanelsData, scale: str, spread: MagnitudeSpread) -> PanelsData:
    """Return the panels with the colours of x and x̂ spread by `scale`; `spread` is the whole tensor's.

    "auto" is "symlog" where linear colours would leave the median magnitude less than `WASHED_OUT` of them. A
    picture stays linear. Pixels that show the largest of many cells lie beyond the tensor's percentile:
    theirs is taken.
    """
    if scale == "auto" and not data.grey and spread.middle < WASHED_OUT * max(map(abs, data.value_range)):
        scale = "symlog"
    if scale == "symlog":
        return dataclasses.replace(data, symlog=spread.middle or None)
    if scale == "percentile":
        far = spread.far
        if data.pixels is not None:
            far = float(np.quantile(np.abs(data.x[np.isfinite(data.x)]), 0.99))
        lo, hi = (min(max(end, -far), far) for end in data.value_range)
        # Where nearly all is 0 there is no such end.
        return dataclasses.replace(data, value_range=(lo, hi), cut=True) if lo < hi else data
    return data


def as_picture(data: PanelsData, *, symmetric: bool) -> PanelsData:
    """Return a picture's panels in grey, 0 black; with `symmetric` the code 0 means 0."""
    low, high = data.code_range
    return dataclasses.replace(
        data,
        grey=True,
        value_range=(0.0, data.value_range[1] if data.value_range[1] > 0 else 1.0),
        code_range=(max(low, 0.0) if symmetric else low, high),
    )


# ---- cells of tensors --------------------------------------------------------------------------


def _of_one_shape(x: Any, q: Any, x_hat: Any) -> dict[str, torch.Tensor]:
    tensors = {"x": as_plain(x), "q": as_plain(q), "x_hat": as_plain(x_hat)}
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    shape = shapes["x"]
    if len(set(shapes.values())) > 1:
        raise QuantVizError("panels.shapes_differ", **shapes)
    if not 1 <= len(shape) <= 4:
        raise QuantVizError("input_dims", got=len(shape), shape=shape)
    if not all(shape):
        raise QuantVizError("input_empty", shape=shape)
    return tensors


def _cell_panels(
    tensors: dict[str, torch.Tensor],
    view: View,
    error_view: str,
    *,
    result: QuantResult | None = None,
    error_range: float | None = None,
    quiet: Array | None = None,
) -> PanelsData:
    if error_view not in ERROR_VIEWS:
        raise QuantVizError("panels.error_view", got=error_view, known=", ".join(ERROR_VIEWS))
    seen = {name: _seen(tensor, view) for name, tensor in tensors.items()}
    x = as_float32(seen["x"])
    x_hat = as_float32(seen["x_hat"])
    # Left-out cells have no error; Inf less Inf is no fault to warn of.
    with np.errstate(invalid="ignore"):
        error = np.where(np.isfinite(x), x_hat - x, np.float32(np.nan))
    scheme = result.scheme if result else None
    block_map = _block_map(result, view, x) if result else None
    shown = shown_error(error, x, block_map.step if block_map else None, error_view, quiet)
    matrix = view.matrix(tuple(tensors["x"].shape))
    return PanelsData(
        x=x,
        q=seen["q"],
        x_hat=x_hat,
        error=error,
        shown_error=shown,
        error_view=error_view,
        value_range=values_range(x),
        code_range=range_of_codes(seen["q"], scheme),
        error_range=range_of_error(shown, error_view, error_range),
        error_held=error_range is not None,
        stamp=content_stamp((view.top, view.left, *matrix), x, seen["q"], x_hat),
        matrix=matrix,
        top=view.top,
        left=view.left,
        quiet=quiet,
        cause=_seen(as_plain(causes(result)), view) if result else None,
        blocks=block_map,
        unscaled=decoded_values(seen["q"], scheme),
        format_id=scheme.format if scheme else None,
    )


def _block_map(result: QuantResult, view: View, x: Array) -> BlockMap:
    layout = result.layout
    scales = torch.as_tensor(result.qparams.scale)
    scale = blocks.to_grid(scales, layout)
    if scale is None:
        counts = {"got": scales.numel(), "blocks": layout.block_count}
        raise QuantVizError("qparams_count", grid=layout.grid_shape, **counts)
    of_cells = _seen(blocks.expand(scale, layout, result.shape).expand(result.shape), view)
    return BlockMap(
        ids=_seen(blocks.block_ids(layout, result.shape), view),
        scale=of_cells,
        grid_shape=layout.grid_shape,
        step=local_step(torch.from_numpy(x), torch.from_numpy(of_cells), result.scheme.number_format).numpy(),
    )


def _part_view(shape: Shape, view: View) -> View:
    # Its axes are the two of `view`, in the tensor's order.
    if view.rows is None:
        return View.of(shape)
    return View(0, 1, (0, 0)) if view.rows < view.cols else View(1, 0, (0, 0))


def _placed(data: PanelsData, layout: BlockLayout, whole: Shape, view: View) -> PanelsData:
    # The whole tensor numbers the blocks.
    ids = blocks.block_numbers(blocks.flat_indices_of(whole, view.index_of(whole)), layout).to(torch.int32)
    matrix = view.matrix(whole)
    return dataclasses.replace(
        data,
        matrix=matrix,
        top=view.top,
        left=view.left,
        blocks=data.blocks
        and dataclasses.replace(
            data.blocks, ids=_seen(ids, _part_view(tuple(ids.shape), view)), grid_shape=layout.grid_shape
        ),
        stamp=content_stamp((view.top, view.left, *matrix), data.x, data.q, data.x_hat),
    )


def shown_places(view: View, shape: Shape) -> Array:
    """Return each cell's place in the flattened tensor, (rows, columns).

    >>> shown_places(View.of((2, 2)), (2, 2)).tolist()
    [[0, 1], [2, 3]]
    """
    return _seen(blocks.flat_indices(shape), view)


def _seen(tensor: torch.Tensor, view: View) -> Array:
    rows, cols = view.size(tuple(tensor.shape))
    matrix = blocks.matrix(tensor, view.rows, view.cols, view.at)[
        view.top : view.top + rows, view.left : view.left + cols
    ]
    # numpy has no bfloat16 and no 8-bit floats.
    readable = matrix if not matrix.is_floating_point() or matrix.dtype == torch.float64 else matrix.float()
    return np.ascontiguousarray(readable.numpy())


def content_stamp(place: tuple[int, ...], *arrays: Array) -> int:
    stamp = zlib.crc32(repr(place).encode("ascii"))
    for array in arrays:
        stamp = zlib.crc32(array.tobytes(), stamp)
    return stamp


def decoded_values(q: Array, scheme: Scheme | None) -> Array | None:
    if scheme is None or scheme.number_format.kind == "integer":
        return None
    fmt = scheme.number_format
    values: Array = GRIDS[fmt.kind].decode(torch.from_numpy(q), fmt).numpy()
    return values
