"""The linked heatmaps x, q, x̂ and the error as a figure: for a page, a notebook, or one that stands alone.

Figures are put together from plain dictionaries and base64 arrays: checking each property, as plotly does by
default, takes longer than everything else on the server together. Tests check the figures instead.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch

from quantviz.errors import QuantVizError
from quantviz.figures.arrangement import (
    MOST_CELLS,
    MOST_STRETCH,
    PANELS,
    SIDE_BY_SIDE,
    USUAL_STYLE,
    Arrangement,
    PanelsStyle,
    arrange,
)
from quantviz.figures.colour_ranges import Span
from quantviz.figures.panel_painter import PanelPainter, axis_id, edge_scales, panel_ramp, pixel_words
from quantviz.figures.panels_data import PanelsData, picture_panels, result_panels, study_panels
from quantviz.figures.payload import UncheckedFigure
from quantviz.figures.static import NotebookFigure, panels_png
from quantviz.figures.theme import THEMES, Theme
from quantviz.public_calls import public_but
from quantviz.quantization.result import QuantResult, refuse_other_than_results
from quantviz.tensors.conversion import as_plain
from quantviz.text import DEFAULT_LANGUAGE, text

if TYPE_CHECKING:
    from quantviz.analysis.study import Study

#: Of more cells a side a notebook's figure has so many pixels.
MOST_PIXELS = 384
#: For plotly's buttons above a notebook's figure.
_BUTTONS = 24
#: For `fig.show(config=…)` and `st.plotly_chart(config=…)`: no logo, no upload, no tips in English.
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
    style: PanelsStyle = USUAL_STYLE,
    *,
    selected: tuple[int, int] | None = None,
    titles: Sequence[str] | None = None,
    note: str | None = None,
    tensor_key: str = "",
) -> UncheckedFigure:
    """Return the heatmaps of `data.panels`, arranged for the style's width.

    A `selected` cell is marked in all panels; `note` is a line under them. While `tensor_key` and the matrix'
    size stay the same, the bridge keeps the zoom.
    """
    # By the whole matrix: the boxes stay where they are while a person looks around in it.
    arrangement = arrange(
        style.width / style.enlarge,
        data.matrix,
        style.height and style.height / style.enlarge,
        len(data.panels),
        # The pixels of a picture are square.
        1.0 if data.grey else MOST_STRETCH,
        SIDE_BY_SIDE.get(len(data.panels)) if style.together else data.breakpoints,
        style.bars,
    ).times(style.enlarge)
    painter = PanelPainter(data, style, arrangement)
    layout = painter.layout(titles or painter.titles(), selected, note)
    meta = {
        **_meta(data, arrangement, tensor_key, layout),
        "least_digit": style.least_digit,
        "room": painter.room_of_codes() if titles is None else None,
    }
    if reach := painter.reach_of_errors():
        meta["reach"] = reach
    # Without plotly's own hover the bridge shows the card.
    layout |= {"hovermode": "closest" if style.hover else False, "meta": meta}
    # Unchecked: see above.
    return UncheckedFigure({"data": painter.traces(), "layout": layout})


def _meta(
    data: PanelsData, arrangement: Arrangement, tensor_key: str, layout: dict[str, Any]
) -> dict[str, Any]:
    # For the bridge.
    (rows, cols), (all_rows, all_cols) = data.seen, data.matrix
    axis_ids = [axis_id("x", i) for i in range(len(data.panels))]
    return {
        "arrangement": arrangement.name,
        "panels": data.panels,
        "open": data.open,
        # The panel of each shape and each annotation, for a page that shows one panel at a time.
        "shapes": [axis_ids.index(shape["xref"]) for shape in layout["shapes"]],
        "annotations": [
            data.panels.index(text["name"]) if "name" in text else -1 for text in layout["annotations"]
        ],
        "rows": all_rows,
        "cols": all_cols,
        "window": {"top": data.top, "left": data.left, "rows": rows, "cols": cols},
        "shape": data.shape,
        "whole": data.whole,
        "large": not data.whole or max(data.matrix) > MOST_CELLS,
        "tensor": f"{tensor_key} {all_rows}x{all_cols}",
        "stamp": data.stamp,
        "enlarged": arrangement.enlarged,
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
    below = 1 << (n_bits - 1) if dtype.is_signed else 0
    code_range = (float(-below), float((1 << n_bits) - 1 - below))
    if result is None:
        data = picture_panels(original, quantized, dequantized, MOST_PIXELS, code_range=code_range)
    else:
        data = _with_result(original, quantized, dequantized, code_range, result)
    titles = [text(f"panels.notebook.{name}", n_bits=n_bits) for name in PANELS]
    note = _notebook_note(data, result)
    style = PanelsStyle(hover=True, printed=True)
    # A notebook may be dark, which no setting shows: the light colours bring their own page.
    page = THEMES[style.theme]
    figure = panels_figure(data, style, titles=titles, note=note, selected=selected)
    _put_on_page(figure, page)
    # Nor does it take a config: the buttons stand above the titles, and those that do nothing here are left
    # out.
    figure.update_layout(
        margin_t=_BUTTONS,
        height=figure.layout.height + _BUTTONS,
        modebar_remove=["select2d", "lasso2d", "autoScale2d"],
    )
    ramps = [panel_ramp(name, data, page) for name in data.panels]
    return NotebookFigure(figure.to_dict(), lambda: panels_png(data, titles, ramps, page, note))


def _with_result(
    original: Any, quantized: Any, dequantized: Any, code_range: Span, result: QuantResult
) -> PanelsData:
    refuse_other_than_results(result)
    codes = as_plain(quantized)
    if tuple(codes.shape) != result.shape or not (codes == result.q).all():
        raise QuantVizError("panels.result_of_others")
    coded = result.scheme if result.scheme.number_format.kind != "integer" else None
    data = picture_panels(original, quantized, dequantized, MOST_PIXELS, scheme=coded, code_range=code_range)
    if data.pixels is not None:
        return data
    own = result_panels(result)
    data = dataclasses.replace(data, blocks=own.blocks, cause=own.cause, format_id=own.format_id)
    if own.unscaled is None:
        return data
    return dataclasses.replace(data, unscaled=own.unscaled, code_range=own.code_range)


def _notebook_note(data: PanelsData, result: QuantResult | None) -> str | None:
    """Return the line under the panels: the one scale, or the lack of any; the cells of a pixel."""
    notes = []
    edge = edge_scales(data)
    if edge and edge.side == "title":
        notes.append(text("panels.notebook.one_scale", scale=edge.labels[0]))
    elif result is None:
        notes.append(text("panels.no_result"))
    if data.pixels is not None:
        notes.append(pixel_words(data.pixels, DEFAULT_LANGUAGE))
    return " ".join(notes) or None


def study_figure(
    study: Study, style: PanelsStyle = USUAL_STYLE, *, note: str | None = None
) -> UncheckedFigure:
    """Return a study's four panels on a page of the theme's colour, with `note` below."""
    style = dataclasses.replace(style, hover=True, printed=True, together=True)
    figure = panels_figure(study_panels(study, style.width), style, note=note)
    _put_on_page(figure, THEMES[style.theme])
    figure.update_layout(width=style.width)
    return figure


def _put_on_page(figure: UncheckedFigure, page: Theme) -> None:
    figure.update_layout(
        paper_bgcolor=page.surface,
        hoverlabel={
            "bgcolor": page.surface,
            "bordercolor": page.line,
            "font": {"color": page.text},
            "align": "left",
        },
    )
