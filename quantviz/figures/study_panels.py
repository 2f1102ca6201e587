"""The four panels of a study as one figure that stands alone: a page, a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantviz.figures.arrangement import USUAL_WIDTH, pixels_for
from quantviz.figures.panels import panels_figure
from quantviz.figures.panels_data import PanelsData, result_panels
from quantviz.figures.pooled_panels import overview_panels
from quantviz.figures.theme import THEMES
from quantviz.figures.value_scales import with_value_scale
from quantviz.streaming.frames import Patch
from quantviz.tensors.views import View
from quantviz.text import DEFAULT_LANGUAGE

if TYPE_CHECKING:
    from quantviz.analysis.study import Study
    from quantviz.figures.payload import Drawn


def study_panels(study: Study, width: float = USUAL_WIDTH) -> PanelsData:
    """Return the four panels of a whole tensor: its cells, or of a large one a pixel for many, which shows
    the largest of them. Of a tensor of more than two axes they show the last two, the others at 0.
    """
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


def study_figure(
    study: Study,
    *,
    language: str = DEFAULT_LANGUAGE,
    theme: str = "light",
    width: float = USUAL_WIDTH,
    note: str | None = None,
) -> Drawn:
    """Return the four panels of a tensor under a scheme, on a page of the theme's own colour; `note` is a
    line under them.
    """
    data = study_panels(study, width)
    page = THEMES[theme]
    figure = panels_figure(
        data, language=language, theme=theme, width=width, note=note, hover=True, printed=True
    )
    figure.update_layout(
        width=width,
        paper_bgcolor=page.surface,
        hoverlabel={
            "bgcolor": page.surface,
            "bordercolor": page.line,
            "font": {"color": page.text},
            "align": "left",
        },
    )
    return figure
