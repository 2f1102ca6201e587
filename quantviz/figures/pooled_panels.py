"""Panels of a large matrix: each pixel stands for many cells."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from quantviz.errors import QuantVizError
from quantviz.figures.colour_ranges import (
    Span,
    around_zero,
    greatest_finite,
    range_of_codes,
    range_of_error,
    smallest_finite,
)
from quantviz.figures.panels_data import (
    PanelsData,
    Pixels,
    content_stamp,
    decoded_values,
    of_one_shape,
    panels_data,
)
from quantviz.tensors import blocks
from quantviz.tensors.views import ERROR_VIEWS, View

if TYPE_CHECKING:
    from quantviz.schemes.scheme import Scheme
    from quantviz.streaming.overview import Overview


#: The error views of pixels that stand for many cells.
POOLED_ERROR_VIEWS = tuple(name for name, view in ERROR_VIEWS.items() if view.pooled)


def picture_panels(
    x: Any, q: Any, x_hat: Any, most: int, *, scheme: Scheme | None = None, code_range: Span | None = None
) -> PanelsData:
    """Return `panels_data` of the last two axes; of more than `most` cells a side, a picture of so many
    pixels. Each pixel shows its cell of largest |x|, and its largest error.

    >>> x = torch.arange(20.0).expand(30, 20)
    >>> picture_panels(x, x, x, 10).shape, picture_panels(x, x, x, 100).shape
    ((10, 10), (30, 20))
    """
    from quantviz.streaming.overview import overview_of

    tensors = of_one_shape(x, q, x_hat)
    shape = tuple(tensors["x"].shape)
    view = View.of(shape)
    if max(view.matrix(shape)) <= most:
        return panels_data(x, q, x_hat, code_range=code_range)
    seen = {name: blocks.matrix(tensor, view.rows, view.cols, view.at) for name, tensor in tensors.items()}
    found = overview_of(seen["x"].to(torch.float32), seen["q"], seen["x_hat"].to(torch.float32), (most, most))
    data = overview_panels(
        found,
        scheme=scheme,
        matrix=view.matrix(shape),
        value_range=(smallest_finite(found.x), greatest_finite(found.x)),
    )
    return dataclasses.replace(data, code_range=code_range) if code_range and scheme is None else data


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

    Args:
        overview: The pixels of the window.
        scheme: The scheme of the codes; None if it is not known, and `overview.how` is "largest" then.
        matrix: Rows and columns of the whole matrix.
        value_range: The least and greatest value of the whole tensor. Means lie closer together than the
            values they are of: their colours reach to their own ends instead.
        error_view: One of `POOLED_ERROR_VIEWS`.
        error_range: The held end of the error's colours.
    """
    if error_view not in POOLED_ERROR_VIEWS:
        raise QuantVizError("panels.pooled_error_view", got=error_view, known=", ".join(POOLED_ERROR_VIEWS))
    found = overview.how == "largest"
    if overview.how == "rms":
        error_view = "absolute"  # it has no sign
    shown = overview.error if ERROR_VIEWS[error_view].signed else np.abs(overview.error)
    if found:
        code_range = range_of_codes(overview.q, scheme)
    else:
        least = (
            0.0
            if overview.how == "rms"
            else min(smallest_finite(overview.x), smallest_finite(overview.x_hat))
        )
        value_range = (least, max(greatest_finite(overview.x), greatest_finite(overview.x_hat)) or 1.0)
        error_range = None
        code_range = (
            (0.0, greatest_finite(overview.q) or 1.0)
            if overview.how == "rms"
            else around_zero(smallest_finite(overview.q), greatest_finite(overview.q))
        )
    pixels = Pixels(
        overview.row_edges,
        overview.col_edges,
        overview.how,
        overview.x_at if found else None,
        overview.error_at if found else None,
    )
    unscaled = None
    if found or scheme is None:
        unscaled = decoded_values(overview.q, scheme)
    elif scheme.number_format.kind != "integer":
        unscaled = overview.q  # the means of codes that are no numbers are means of their values
    top = int(overview.row_edges[0])
    left = int(overview.col_edges[0])
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
        stamp=content_stamp((top, left, *matrix), overview.x, overview.q, overview.x_hat, overview.error),
        matrix=matrix,
        top=top,
        left=left,
        pixels=pixels,
        unscaled=unscaled,
        format_id=scheme.format if scheme else None,
    )
