"""The plot of bits against SQNR in the Lab: recipes, other sizes of groups, and the bounds for any
quantizer.
"""

from __future__ import annotations

import base64
import dataclasses
import html
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from quantviz.analysis.recipe_ranking import RecipeRow, priced_at, row_of
from quantviz.lab.state import LabState
from quantviz.schemes.recipes import RECIPES
from quantviz.schemes.scheme import Scheme
from quantviz.ui.components.component import clicked_mark
from quantviz.ui.components.controls import switch
from quantviz.ui.components.panels_bridge import bridge_width
from quantviz.ui.components.scheme_words import format_name
from quantviz.ui.components.small_parts import show_plot
from quantviz.ui.components.tensor_cache import heavy_fact
from quantviz.ui.lab.picture.tensor_panels import BRIDGE_KEY
from quantviz.ui.shell import errors, session
from quantviz.ui.shell.classroom import locked, noted
from quantviz.ui.shell.runs import fragment
from quantviz.ui.shell.words import language, number, plain, say, sentences, theme

if TYPE_CHECKING:
    from quantviz.analysis.rate_distortion import RateDistortion
    from quantviz.analysis.study import Study
    from quantviz.figures.recipe_plot import RecipePlotData

_PLOT = "recipe_plot"
_BITS = "recipe_bits"
#: CSS pixels: the plot's height where it ends within 768, and the page's width from which it is higher.
_ON_A_LAPTOP, _WIDE = 256, 1400
#: The least height of a plot that ends where a lower window does, and what stands above it there.
_LEAST, _ABOVE = 180, 441
#: The height of a window that noted none.
_USUAL = 768
#: Most names in a line below the plot.
_MOST_NAMES = 3


@fragment
def show_rate_plot(study: Study, state: LabState, rows: Sequence[RecipeRow]) -> None:
    """Show the plot; a click on a dot loads its scheme. It runs by itself when another x is chosen."""
    from quantviz.figures.recipe_plot import (
        BITS,
        HEIGHT,
        RECIPE_PLOT_CONFIG,
        RecipePlotStyle,
        recipe_plot_data,
        recipe_plot_figure,
    )

    if session.state() != state:
        st.rerun()  # A dot was clicked: the whole page follows.
    known = _known(state, rows)
    bits = switch(_BITS, say("recipes.bits_label"), {name: say(f"recipes.bits_of.{name}") for name in BITS})
    now = _now(study)
    usual = priced_at(state.source.shape)
    priced_as = usual if usual != state.source.shape else None
    height = HEIGHT
    if bridge_width(BRIDGE_KEY) < _WIDE:
        height = int(min(_ON_A_LAPTOP, max(_LEAST, noted("height", _USUAL) - _ABOVE)))
    style = RecipePlotStyle(language(), theme(), height, state.source.axes)
    figure = recipe_plot_figure(rows, now, style, known=known, bits=bits, priced_as=priced_as)
    fixed = locked("scheme")
    show_plot(
        figure,
        _PLOT,
        say("recipes.plot_alt"),
        config=RECIPE_PLOT_CONFIG,
        on_select="ignore" if fixed else errors.safely(_take_dot),
        selection_mode="points",
    )
    told = [] if fixed else [say("recipes.plot_how")]
    st.html(_legend(known))
    data = recipe_plot_data(rows, now, known=known, bits=bits)
    told += [say("recipes.sizes"), *_puzzles(data, known, state, bits)]
    if priced_as:
        told.append(say("recipes.priced", shape=" × ".join(map(str, usual))))
    st.caption(plain(sentences(*told)))
    st.caption("`qv.rate_distortion(x).table()`")


def _known(state: LabState, rows: Sequence[RecipeRow]) -> RateDistortion:
    """Return the other sizes of groups and the lines: computed once for a tensor."""
    from quantviz.analysis.rate_distortion import rate_distortion

    work = partial(rate_distortion, current=state.scheme, rows=rows)
    with st.spinner(say("recipes.lines_trying"), show_time=True):
        return heavy_fact(state.source, f"rate distortion {state.scheme.nonfinite}", work)


def _now(study: Study) -> RecipeRow:
    """Return the row of the present scheme, with the bits of its codes if they were entropy-coded."""
    row = row_of(study.measured)
    entropy = study.measured.metrics.get("code_entropy")
    if entropy is None:
        return row
    return dataclasses.replace(row, entropy_bits=row.bits - row.scheme.number_format.bits + entropy)


def _legend(known: RateDistortion) -> str:
    """Return the legend of the lines as HTML: it wraps as the page needs, which a figure's own does not."""
    from quantviz.figures.rate_lines import line_keys
    from quantviz.figures.recipe_plot import front_key

    def swatch(colour: str, dash: str) -> str:
        svg = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 28 8"><line x1="0" x2="28" y1="4" y2="4" '
            f'stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/></svg>'
        )
        return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"

    bounds = line_keys(known, theme(), language())
    keys = "".join(
        f'<span><img src="{swatch(key.colour, key.dash)}" alt=""> {html.escape(key.words)}</span>'
        for key in (front_key(theme(), language()), *bounds)
    )
    return f'<div class="qv-lines">{keys}</div>'


def _puzzles(data: RecipePlotData, known: RateDistortion, state: LabState, bits: str) -> list[str]:
    """Return notes on surprises: dots above a line, dots outside, and rows that were measured on a part."""
    from quantviz.figures.rate_lines import row_name

    told = []
    above = [row_name(row, language(), state.source.axes) for row in data.above]
    if above:
        names = say("recipes.between").join(above[:_MOST_NAMES])
        if len(above) > _MOST_NAMES:
            names = say("recipes.above_more", names=names, count=len(above) - _MOST_NAMES)
        told.append(say(f"recipes.above.{bits}", names=names))
    if data.beyond:
        outside = (_beyond_words(row) for row in data.beyond)
        told.append(say("recipes.beyond", rows=say("recipes.between").join(outside)))
    if known.share < 1 and any(point.row.share == 1 for point in data.points if point.row.id in RECIPES):
        told.append(say("recipes.measured_share", share=f"{100 * known.share:.2g}"))
    return told


def _beyond_words(row: RecipeRow) -> str:
    return say("recipes.beyond_row", name=format_name(row.scheme.format), db=number(row.sqnr_db, 3))


def _take_dot() -> None:
    """Take the scheme whose dot was clicked; a second click on it only lets go of it."""
    form = clicked_mark(_PLOT, lambda form: isinstance(form, str) and form != "")
    if form is not None:
        session.change(scheme=Scheme.parse(form))
