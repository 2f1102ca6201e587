"""The linked heatmaps: x, q, x̂ and the error.

`panels_data` computes everything that is shown; `panels_figure` only draws it. The figure is put
together from plain dictionaries and base64 arrays: checking each property, as plotly does by
default, takes longer than everything else on the server together. Tests check the figures instead.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from quantviz.door import public_but
from quantviz.errors import QuantVizError
from quantviz.figures.arrangement import (
    MOST_CELLS,
    MOST_STRETCH,
    PANELS,
    USUAL_WIDTH,
    Arrangement,
    arrange,
)
from quantviz.figures.panel_captions import edge_scales, panel_title, pixel_words
from quantviz.figures.panel_painter import PanelPainter, axis_id, panel_ramp
from quantviz.figures.panels_data import PanelsData, result_panels
from quantviz.figures.payload import Drawn
from quantviz.figures.pooled_panels import picture_panels
from quantviz.figures.static import NotebookFigure, panels_png
from quantviz.figures.theme import THEMES
from quantviz.quantization.result import QuantResult, refuse_other_than_results
from quantviz.tensors.conversion import as_plain
from quantviz.text import DEFAULT_LANGUAGE, text

#: Cells a side up to which a notebook's figure has each of them; a larger tensor's has so many pixels.
MOST_PIXELS = 384
#: Pixels above a notebook's figure for plotly's buttons.
_BUTTONS = 24
#: For `fig.show(config=…)` and `st.plotly_chart(config=…)`: no logo, no upload of the data to somebody's
#: cloud, no tips in English.
PANELS_CONFIG: Mapping[str, Any] = MappingProxyType(
    {
        "displaylogo": False,
        "modeBarButtonsToRemove": ["sendChartToCloud", "select2d", "lasso2d", "autoScale2d"],
        "doubleClick": "reset",
        "showTips": False,
        "toImageButtonOptions": {"filename": "quantviz", "scale": 2},
    }
)


def panels_figure(
    data: PanelsData,
    *,
    language: str = DEFAULT_LANGUAGE,
    theme: str = "light",
    width: float = USUAL_WIDTH,
    height: float | None = None,
    selected: tuple[int, int] | None = None,
    titles: Sequence[str] | None = None,
    note: str | None = None,
    hover: bool = False,
    printed: bool = False,
    tensor_key: str = "",
    enlarge: float = 1.0,
    least_digit: float = 0,
    bars: bool = True,
) -> Drawn:
    """Return the heatmaps of `data.panels`, arranged for `width` pixels.

    Args:
        data: The arrays of the panels.
        language: "en" or "zh".
        theme: One of `THEMES`.
        width: The figure's width in pixels.
        height: Its height in pixels; by the arrangement if None.
        selected: A cell that is marked in all panels.
        titles: One a panel; the usual ones if None.
        note: A line under the panels.
        hover: Whether the figure shows values on hover by itself, for a notebook, if the tensor is small
            enough; in the app the bridge does that at a fraction of the time.
        printed: Whether it prints values into the cells, as for `hover`.
        tensor_key: A name of the tensor: the bridge keeps the zoom from one figure to the next while this
            and the matrix' size stay the same.
        enlarge: How many times larger text and gaps are, for the back of a room.
        least_digit: Width of a digit in pixels below which digits are not printed.
        bars: Whether the panels have colour bars.
    """
    # By the whole matrix: the boxes stay where they are while a person looks around in it.
    layout = arrange(
        width / enlarge,
        data.matrix,
        height and height / enlarge,
        len(data.panels),
        # The pixels of a picture are square.
        1.0 if data.grey else MOST_STRETCH,
        data.breakpoints,
        bars,
    ).times(enlarge)
    painter = PanelPainter(data, THEMES[theme], layout, language, least_digit, bars)
    heatmap = data.pixels is None and max(data.shape) <= MOST_CELLS
    traces: list[dict[str, Any]] = []
    for i, name in enumerate(data.panels):
        if name in data.covered:
            traces.append(painter.covered(i, name))
        else:
            traces += [painter.heatmap(i, name, hover, printed)] if heatmap else painter.image(i, name)
            if data.lit_share is not None:
                traces.append(painter.differences(i, name))
    titles = titles or [
        panel_title(name, data, language, scales=name != "q" or painter.edge(i) is not None)
        for i, name in enumerate(data.panels)
    ]
    drawn = painter.layout(titles, selected, note)
    figure = {
        "data": traces,
        "layout": {
            **drawn,
            # Without plotly's own hover the bridge shows the card.
            "hovermode": "closest" if hover else False,
            "meta": {**_meta(data, layout, tensor_key, drawn), "least_digit": least_digit},
        },
    }
    # Unchecked: see above.
    return Drawn(figure)


def _meta(data: PanelsData, layout: Arrangement, tensor_key: str, drawn: dict[str, Any]) -> dict[str, Any]:
    """Return the description of the drawing for the bridge, as plotly's `meta`."""
    (rows, cols), (all_rows, all_cols) = data.seen, data.matrix
    axis_ids = [axis_id("x", i) for i in range(len(data.panels))]
    return {
        "arrangement": layout.name,
        "panels": data.panels,
        "open": data.open,
        # The panel of each shape and each annotation, for a page that shows one panel at a time.
        "shapes": [axis_ids.index(shape["xref"]) for shape in drawn["shapes"]],
        "annotations": [
            data.panels.index(text["name"]) if "name" in text else -1 for text in drawn["annotations"]
        ],
        "rows": all_rows,
        "cols": all_cols,
        "window": {"top": data.top, "left": data.left, "rows": rows, "cols": cols},
        "shape": data.shape,
        "whole": data.whole,
        "large": not data.whole or max(data.matrix) > MOST_CELLS,
        "tensor": f"{tensor_key} {all_rows}x{all_cols}",
        "stamp": data.stamp,
        "enlarged": layout.enlarged,
    }


@public_but("dtype", "n_bits", "result")
def plot_quantization_errors(
    original: Any,
    quantized: Any,
    dequantized: Any,
    dtype: torch.dtype = torch.int8,
    n_bits: int = 8,
    *,
    result: QuantResult | None = None,
    selected: tuple[int, int] | None = None,
) -> NotebookFigure:
    """Return the source notebooks' figure: original, quantized, dequantized and error tensor side by side.

    The error is dequantized - original. For a tensor with more cells a side than a screen has pixels, the
    figure is a picture in which a pixel shows the largest of its cells. A notebook's front end that draws no
    plotly shows a PNG.

    Args:
        original: A tensor or nested list of 1 to 4 axes.
        quantized: Its codes, of the same shape.
        dequantized: Its dequantized values, of the same shape.
        dtype: The dtype of the codes, signed or not; with `n_bits` it sets the colour range of the codes.
        n_bits: The bits of a code, 1 to 64.
        result: The `QuantResult` with these codes. It adds block borders and scales, and each cell's block,
            scale and cause on hover; without it a line names them as missing.
        selected: A cell (row, column) that is marked in all four.

    Raises:
        QuantVizError: If shapes differ, if `dtype` or `n_bits` is not valid, or if `result` has other codes.

    >>> figure = plot_quantization_errors([[1.0, -2.0]], [[64, -127]], [[1.008, -2.0]])
    >>> [annotation.text for annotation in figure.layout.annotations][1]
    '8-bit Linear Quantized Tensor'
    """
    if not isinstance(dtype, torch.dtype) or not isinstance(n_bits, int) or not 1 <= n_bits <= 64:
        raise QuantVizError("dtype_wanted", got=dtype, n_bits=n_bits)
    code_range = (
        (float(-(1 << (n_bits - 1))), float((1 << (n_bits - 1)) - 1))
        if dtype.is_signed
        else (0.0, float((1 << n_bits) - 1))
    )
    if result is not None:
        refuse_other_than_results(result)
        if not _same_codes(result, quantized):
            raise QuantVizError("panels.result_of_others")
    coded = result.scheme if result is not None and result.scheme.number_format.kind != "integer" else None
    data = picture_panels(original, quantized, dequantized, MOST_PIXELS, scheme=coded, code_range=code_range)
    if result is not None and data.pixels is None:
        own = result_panels(result)
        data = dataclasses.replace(data, blocks=own.blocks, cause=own.cause, format_id=own.format_id)
        if own.unscaled is not None:
            data = dataclasses.replace(data, unscaled=own.unscaled, code_range=own.code_range)
    titles = [text(f"panels.notebook.{name}", n_bits=n_bits) for name in PANELS]
    edge = edge_scales(data)
    one = edge.labels[0] if edge and edge.side == "title" else None
    if one:
        notes = [text("panels.notebook.one_scale", scale=one)]
    elif result is not None:
        notes = []
    else:
        notes = [text("panels.no_result")]
    note = (
        " ".join([*notes, *([] if data.pixels is None else [pixel_words(data.pixels, DEFAULT_LANGUAGE)])])
        or None
    )
    figure = panels_figure(data, titles=titles, note=note, hover=True, printed=True, selected=selected)
    # A notebook may be dark, which no setting shows: the light colours bring their own page.
    page = THEMES["light"]
    figure.update_layout(
        paper_bgcolor=page.surface,
        hoverlabel={
            "bgcolor": page.surface,
            "bordercolor": page.line,
            "font": {"color": page.text},
            "align": "left",
        },
    )
    # Nor does it take a config: the buttons stand above the titles, and those that do nothing here are left
    # out.
    figure.update_layout(
        margin_t=_BUTTONS,
        height=figure.layout.height + _BUTTONS,
        modebar_remove=["select2d", "lasso2d", "autoScale2d"],
    )
    ramps = [panel_ramp(name, data, page) for name in data.panels]
    return NotebookFigure(figure.to_dict(), lambda: panels_png(data, titles, ramps, page, note))


def _same_codes(result: QuantResult, quantized: Any) -> bool:
    codes = as_plain(quantized)
    return tuple(codes.shape) == result.shape and bool((codes == result.q).all())
