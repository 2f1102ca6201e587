"""The tensor as a picture, and the plot of bits against SQNR with every try."""

from __future__ import annotations

import base64
import html
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.figures.numbers import number
from quantviz.teaching.golf import BUDGET, HoleResults
from quantviz.ui.components.small_parts import show_button, show_plot
from quantviz.ui.components.tensor_cache import facts_of, kept, tensor_of
from quantviz.ui.golf.scorecard import bits_words, db_words
from quantviz.ui.golf.state import ask_for_par, par_is_shown
from quantviz.ui.shell.words import language, plain, say, say_recipe, theme

if TYPE_CHECKING:
    from quantviz.teaching.golf import Hole

#: Pixels of the plot's height.
_HEIGHT = 320
#: Bars of the small histogram.
_BARS = 96


def keep_board() -> tuple[Any, Any, Any]:
    """Return the places of the tensor, the plot and the scorecard: the first two have their room before they
    are filled.
    """
    with st.container(key="golf_board"):
        tensor, plot = (st.container(key=f"golf_{part}").empty() for part in ("tensor", "plot"))
        return tensor, plot, st.container(key="golf_card")


def show_board(now: HoleResults, tensor: Any, plot: Any) -> None:
    """Show the tensor with its special features, and the plot."""
    tensor.html(_tensor(now.hole))
    with plot.container(gap=None):
        _plot(now)
        if par_is_shown(now):
            name = plain(say_recipe(now.par.id, now.hole.source))
            words = say("golf.par_is", name=name, db=db_words(now.par.sqnr_db), bits=bits_words(now.par.bits))
            st.markdown(words)
        else:
            show_button(say("golf.show_par"), "golf_show_par", ask_for_par, type="tertiary")


def _plot(now: HoleResults) -> None:
    from quantviz.figures.contest_marks import Contest
    from quantviz.figures.recipe_plot import RecipePlotStyle, recipe_plot_figure

    # Those far below the budget would leave no room for those near it.
    near = tuple(row for row in now.recipes if row.fits and row.bits > BUDGET - 1)
    named = par_is_shown(now)
    figure = recipe_plot_figure(
        near if named else (),
        style=RecipePlotStyle(language(), theme(), _HEIGHT, now.hole.source.axes),
        contest=Contest(BUDGET, now.par.sqnr_db, now.tries, () if named else near),
    )
    show_plot(figure, "golf_chart", say("golf.plot_alt"))


def _tensor(hole: Hole) -> str:
    """Return picture, values and words of a hole as HTML."""
    facts = facts_of(hole.source)
    rows, cols = hole.source.shape
    name = say(f"golf.holes.{hole.id}.name")
    picture, bars = kept(hole.source, f"golf picture {theme()}", lambda: _pictures(hole, theme()))
    ends = say("golf.values", lo=number(facts.lo, 3), hi=number(facts.hi, 3))
    alt = say("golf.picture_alt", name=name, rows=rows, cols=cols)
    return (
        f'<div class="qv-hole"><img src="{picture}" alt="{html.escape(alt)}">'
        f"<div><p>{html.escape(say(f'golf.holes.{hole.id}.about'))}</p>"
        f'<img src="{bars}" alt="">'
        f"<small>{html.escape(ends)}</small></div></div>"
    )


def _pictures(hole: Hole, theme_name: str) -> tuple[str, str]:
    """Return the tensor as the address of a picture, a pixel a value, and that of its histogram."""
    import numpy as np

    from quantviz.figures.colour_ranges import symlog, values_range
    from quantviz.figures.raster import data_uri
    from quantviz.figures.theme import THEMES, one_sided

    x = tensor_of(hole.source).numpy()
    # A few values far larger than the rest would leave the rest without colour.
    spread = symlog(x, float(np.median(np.abs(x))))
    lo, hi = values_range(spread)
    ramp = THEMES[theme_name].values
    counts, _ = np.histogram(x, bins=_BARS)
    heights = 32 * counts / counts.max()
    path = "".join(f"M{i} 32v{-height:.2f}h1v{height:.2f}z" for i, height in enumerate(heights) if height)
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_BARS} 32" preserveAspectRatio="none">'
        f'<path fill="{THEMES[theme_name].accent}" d="{path}"/></svg>'
    )
    picture = data_uri(spread, lo, hi, ramp if lo < 0 < hi else one_sided(ramp))
    return picture, f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
