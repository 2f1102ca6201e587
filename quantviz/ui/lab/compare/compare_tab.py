"""The tab Compare: the best recipe for as few bits, A, B and more, engines, and all recipes."""

from __future__ import annotations

import base64
import dataclasses
import html
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.analysis.better_schemes import gain_db, is_by_inputs
from quantviz.analysis.recipe_ranking import (
    CURRENT,
    RecipeRow,
    answer,
    best_within,
    priced_at,
    recipe_rows,
    row_of,
)
from quantviz.lab.state import LabState
from quantviz.schemes.recipes import RECIPES, current_recipe
from quantviz.schemes.scheme import Scheme
from quantviz.ui.components.classroom_signs import show_lock
from quantviz.ui.components.controls import switch
from quantviz.ui.components.panels_bridge import bridge_width
from quantviz.ui.components.phone_tables import TableColumn, is_phone, show_table
from quantviz.ui.components.scheme_words import format_name
from quantviz.ui.components.small_parts import offer, show_plot, show_refused
from quantviz.ui.components.tensor_cache import heavy_fact
from quantviz.ui.lab.bars.scheme_bar import group_of
from quantviz.ui.lab.compare import compared_engines, compared_schemes
from quantviz.ui.lab.picture.tensor_panels import BRIDGE_KEY, is_pooled
from quantviz.ui.shell import session
from quantviz.ui.shell.classroom import locked, noted, visible
from quantviz.ui.shell.runs import fragment
from quantviz.ui.shell.words import language, number, plain, recipe_names, say, sentences, shape_text, theme

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
        take=None if fixed else lambda form: session.change(scheme=Scheme.parse(form)),
        marks=lambda form: isinstance(form, str) and form != "",
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


#: Whether the recipes are measured on all values of a large tensor.
_EXACT = "recipes_exact"
#: Shares of the page's width.
_TABLE_AND_PLOT = (7, 5)
#: Recipes that are seen at once: as many as stand beside the plot and its captions.
_LINES = 20
_LINES_ON_PHONE = 8


def show_compare(
    study: Study,
    state: LabState,
    compared: compared_engines.ComparisonView | None,
    sentence: Any,
    action: Any,
    body: Any,
) -> None:
    """Show the comparisons that a teacher has not hidden, all recipes last: they take longest."""
    # Clear the last tab's sentence before all recipes are tried.
    told = sentence.empty()
    use = action.empty()
    with body:
        with st.container(key="compare_actions", horizontal=True, gap="small"):
            if visible("actions"):
                compared_schemes.show_choices(state)
            compared_engines.show_open_button(state)
        answered = visible("compare") and compared_schemes.show_compared_schemes(state, told, use)
        if compared:
            show_engines(compared, state)
        if not visible("recipes"):
            return
        with st.container(key="recipes"):
            if answered:
                # The tab's sentence is taken: this one stands above the table.
                told = st.empty()
                use = st.empty()
            found = recipe_rows_of(state)
            # The present scheme is measured on the same values.
            now = next((row for row in found if row.id == CURRENT), row_of(study.measured))
            rows = tuple(row for row in found if row.id != CURRENT)
            _answer(rows, now, state, told, use)
            _recipes(rows, study, state, is_alone=not (answered or compared or state.remembered))


def show_engines(compared: compared_engines.ComparisonView, state: LabState) -> None:
    """Show the results of other engines."""
    with st.container(key="compare"):
        compared_engines.show_comparison(compared, state, pooled=is_pooled(state))


def _answer(rows: tuple[RecipeRow, ...], now: RecipeRow, state: LabState, sentence: Any, action: Any) -> None:
    """Offer the best recipe with a kernel, of no more bits than now; and show the smallest that is enough."""
    from quantviz.figures.recipe_plot import answer_sentence

    rows = tuple(row for row in rows if not is_by_inputs(row.scheme, state.source.shape))
    best = best_within(rows, now.scheme.number_format.bits)
    gain = gain_db(best.sqnr_db if best else None, now.sqnr_db)
    told = say("stage.compare.none", bits=now.scheme.number_format.bits)
    if best is not None and gain:
        told = say(
            "stage.compare.best",
            name=recipe_names(state.source.axes)[best.id],
            gain=number(gain, 2, signed=True),
            code=best.scheme.number_format.bits,
            bits=f"{best.bits:.4g}",
        )
    smallest = answer(rows)
    # The table compares them with others.
    alone = dataclasses.replace(smallest, others=()) if smallest else None
    enough = answer_sentence(alone, language(), state.source.axes)
    share = min((row.share for row in rows if row.fits), default=1.0)
    of_a_part = say("recipes.of_a_part", share=f"{100 * share:.2g}") if share < 1 else ""
    with sentence:
        st.markdown(plain(sentences(told, enough, of_a_part)))
    if best is None or not gain:
        return
    with action:
        offer(say("stage.compare.use"), "recipe_use", _take, best.id)


def _recipes(rows: tuple[RecipeRow, ...], study: Study, state: LabState, *, is_alone: bool) -> None:
    """Show the recipes on this very tensor; a click loads one."""
    if locked("scheme"):
        show_lock("scheme")
    else:
        st.caption(say("recipes.how"))
    if state.large:
        st.toggle(say("recipes.exact"), key=_EXACT, help=say("recipes.exact_help", count=len(RECIPES)))
    table, plot = st.columns(_TABLE_AND_PLOT, gap="small")
    with table:
        _table(rows, state)
    with plot, st.container(key="rates_beside" if is_alone else "rates"):
        show_rate_plot(study, state, rows)
    refused = ((recipe_names(state.source.axes)[row.id], row.problem) for row in rows)
    show_refused(refused, "recipes.do_not_fit", shape=shape_text(state.source.shape))


def recipe_rows_of(state: LabState) -> tuple[RecipeRow, ...]:
    """Return the rows of this tensor, computed once; of a large one on a sample, until all are requested."""
    from quantviz.analysis.sampled_part import sampled_rows

    source = state.source
    scheme = state.scheme
    sampled = state.large and not st.session_state.get(_EXACT)
    work = partial(sampled_rows if sampled else recipe_rows, current=scheme)
    name = f"recipes {'of a part ' if sampled else ''}{scheme.nonfinite}"
    with st.spinner(say("recipes.trying", count=len(RECIPES)), show_time=True):
        rows = heavy_fact(source, name, work)
    now = current_recipe(scheme, source.shape)
    return tuple(dataclasses.replace(row, is_current=row.id == now) for row in rows)


def _name(row: RecipeRow, state: LabState) -> str:
    """Return a recipe's name, and that no kernel runs it where none does."""
    name = recipe_names(state.source.axes)[row.id]
    if not is_by_inputs(row.scheme, state.source.shape):
        return name
    return say("recipes.no_kernel", name=name)


def _table(rows: tuple[RecipeRow, ...], state: LabState) -> None:
    fitting = [row for row in rows if not row.problem]
    names = [_name(row, state) for row in fitting]
    columns = (
        TableColumn("group", [group_of(row.id) for row in fitting], 80),
        TableColumn("name", names, 168, width_on_phone=172, names_lines=True),
        TableColumn("bits", [row.bits for row in fitting], 64, "%.3f", on_phone=True),
        TableColumn("sqnr_db", [row.sqnr_db for row in fitting], 72, "%.1f", on_phone=True),
        TableColumn("zeroed", [100 * row.zeroed_share for row in fitting], 64, "%.1f %%"),
        TableColumn("mse", [row.mse for row in fitting], 72, "%.3g"),
    )
    width = bridge_width(BRIDGE_KEY)
    show_table(
        "recipe_table",
        columns,
        width,
        words="recipes",
        alt=say("recipes.table_alt"),
        lines=_LINES_ON_PHONE if is_phone(width) else _LINES,
        room=width * _TABLE_AND_PLOT[0] / sum(_TABLE_AND_PLOT),
        take=None if locked("scheme") else lambda line: _take(fitting[line].id),
    )


def _take(recipe_id: str) -> None:
    session.change(scheme=RECIPES[recipe_id].replace(nonfinite=session.state().scheme.nonfinite))
