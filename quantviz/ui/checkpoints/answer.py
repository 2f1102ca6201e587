"""Results of a scan: the sentence, the map, the distribution and the table."""

from __future__ import annotations

import html
from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from quantviz.checkpoints.findings import Finding, Reason, first_fix, worst_tensors
from quantviz.checkpoints.model_map import UNREAD, Model, ModelMap, layers_with_experts, model_map
from quantviz.figures.model_map_plot import (
    INSTEAD,
    SIGNS,
    distribution_figure,
    model_map_figure,
    recipe_words,
    winners,
)
from quantviz.ui.checkpoints.allocating import show_allocation
from quantviz.ui.checkpoints.reading import Seen, name_of
from quantviz.ui.checkpoints.state import CheckpointsState, change_state
from quantviz.ui.checkpoints.table import open_in_lab, python_call, show_table
from quantviz.ui.components.component import clicked_mark
from quantviz.ui.components.small_parts import legend_html, show_plot, show_python
from quantviz.ui.shell import errors
from quantviz.ui.shell.words import language, number, plain, say, sentences, share, theme

if TYPE_CHECKING:
    from quantviz.checkpoints.model_map import Square

_CLICKS = "checkpoints_clicks"


def show_sentence(model: Model, recipe: str) -> None:
    """Show the first line."""
    st.html(f'<p class="qv-finding">{_sentence(model, recipe)}</p>')


def show_answer(state: CheckpointsState, seen: Seen, beside: tuple[Seen, str] | None) -> None:
    """Show the map, and, once something is measured, the distribution and the table below it."""
    model = seen.model
    recipe = state.shown(seen.model.recipes)
    layer = state.layer if state.layer in layers_with_experts(model) else ""
    data = model_map(model, recipe, state.colour, layer=layer)
    if beside is None:
        _show_map(state, model, data, "a")
    elif state.view == "difference":
        other = beside[0].model, beside[1]
        _show_map(state, model, model_map(model, recipe, state.colour, layer=layer, against=other), "d")
        st.caption(
            say(
                "checkpoints.difference",
                a=recipe_words(recipe, language()),
                b=recipe_words(beside[1], language()),
            )
        )
    else:
        seen_b, recipe_b = beside
        layer_b = layer if layer in layers_with_experts(seen_b.model) else ""
        data_b = model_map(seen_b.model, recipe_b, state.colour, layer=layer_b)
        for column, (letter, of, shown, name, chosen) in zip(
            st.columns(2, gap="small"),
            (
                ("A", model, data, recipe, state.chosen),
                ("B", seen_b.model, data_b, recipe_b, state.chosen if state.other == "." else state.other),
            ),
            strict=True,
        ):
            with column:
                title = f"{letter} · {name_of(chosen.partition('#')[0])} · {recipe_words(name, language())}"
                st.html(f'<p class="qv-small"><bdi>{html.escape(title)}</bdi></p>')
                _show_map(state, of, shown, letter.lower(), name)
    _show_below_map(state, data)
    if seen.scan is None:
        return
    for note in seen.scan.notes:
        st.caption(plain(note[language()]))
    left, right = st.columns([4, 8], gap="medium")
    with left:
        st.markdown(f"## {say('checkpoints.distribution')}")
        figure = distribution_figure(model, recipe, language=language(), theme=theme())
        show_plot(figure, "checkpoints_distribution", say("checkpoints.distribution_alt"))
    with right:
        show_table(state, model, recipe)
    show_allocation(state, model, seen.scan.selection.engine)
    call = partial(python_call, state, seen.scan, model, recipe)
    show_python(say("checkpoints.python"), "checkpoints_python", call)


# ---- the sentence ----------------------------------------------------------------------------------


def _sentence(model: Model, recipe: str) -> str:
    """Return the three worst tensors, why, and the first fix, as HTML."""
    worst = worst_tensors(model, recipe)
    if not worst:
        waiting = any(tensor.status(recipe) == "waiting" for tensor in model.weights)
        return html.escape(say("checkpoints.waiting" if waiting else "checkpoints.nothing_measured"))
    parts = say("checkpoints.then").join(_finding(each) for each in worst)
    words = say("checkpoints.worst", recipe=html.escape(recipe_words(recipe, language())), tensors=parts)
    fix = first_fix(model, worst[0].tensor, recipe)
    missing = sum(tensor.status(recipe) in ("refused", *UNREAD) for tensor in model.weights)
    without = say("checkpoints.without_number", count=missing, all=len(model.weights)) if missing else ""
    if fix is None:
        return sentences(words, say("checkpoints.no_fix"), without)
    if abs(fix.more_bits) < 0.005:
        key = "fix_same"
    elif fix.more_bits > 0:
        key = "fix_more"
    else:
        key = "fix_less"
    change = say(
        f"checkpoints.{key}",
        recipe=html.escape(recipe_words(fix.recipe, language())),
        db=number(fix.gain_db, 3),
        bits=number(abs(fix.more_bits), 3),
    )
    return sentences(words, change, without)


def _finding(finding: Finding) -> str:
    why = say("checkpoints.and").join(_reason(each) for each in finding.reasons)
    return say(
        "checkpoints.finding",
        tensor=f"<b><bdi>{html.escape(_short(finding.tensor))}</bdi></b>",
        db=number(finding.sqnr_db, 3),
        why=why,
    )


def _short(name: str) -> str:
    name = name.removesuffix(".weight").removeprefix("model.")
    return name if len(name) <= 60 else f"…{name[-59:]}"


def _reason(reason: Reason) -> str:
    shown = {
        "nonfinite": lambda value: f"{value:,.0f}",
        "zeroed": share,
        "clipped": share,
    }.get(reason.id, lambda value: number(value, 3))
    return html.escape(say(f"checkpoints.reasons.{reason.id}", number=shown(reason.number)))


# ---- the map ---------------------------------------------------------------------------------------


def _show_map(
    state: CheckpointsState, model: Model, data: ModelMap, place: str, recipe: str | None = None
) -> None:
    # The chart starts afresh after a click, or a second one on the same square would take it back.
    key = f"checkpoints_map_{place}_{st.session_state.get(_CLICKS, 0)}"
    with st.container(key=f"checkpoints_map_{place}", gap=None):
        show_plot(
            model_map_figure(data, language=language(), theme=theme()),
            key,
            say("checkpoints.map_alt", colour=say(f"checkpoints.colours.{data.colour}")),
            on_select=errors.safely(
                lambda: _square_clicked(key, model, data, recipe or state.shown(model.recipes))
            ),
            selection_mode="points",
        )


def _square_clicked(key: str, model: Model, data: ModelMap, recipe: str) -> None:
    number_of = clicked_mark(key, lambda number: number in range(len(data.squares)))
    if number_of is None:
        return
    st.session_state[_CLICKS] = st.session_state.get(_CLICKS, 0) + 1
    square: Square = data.squares[int(number_of)]
    if square.opens:
        change_state(layer=square.opens)
    else:
        open_in_lab(model.by_name[square.tensor], recipe)


def _show_below_map(state: CheckpointsState, data: ModelMap) -> None:
    """Show the meaning of the colours, and the number of tensors without a square."""
    words = [html.escape(say("checkpoints.left_out", count=data.left_out))] if data.left_out else []
    if data.crowded:
        words.append(html.escape(say("checkpoints.crowded", count=data.crowded)))
    won = winners(data, theme()) if state.colour == "winner" else ()
    if won or state.colour != "winner":
        words.append(html.escape(say(f"checkpoints.colours_about.{state.colour}")))
    words += _legend(data)
    if won:
        words.append(legend_html((recipe_words(name, language()), colour) for name, colour in won))
    st.html(f'<p class="qv-small qv-legend">{" ".join(words)}</p>')


def _legend(data: ModelMap) -> list[str]:
    """Return the legend of squares without a number, and of the mark in a corner, as HTML."""
    words = [
        f"<span>{html.escape(say(f'checkpoints.legend.{status}', sign=sign, count=count))}</span>"
        for status, sign in SIGNS.items()
        if (count := data.statuses.get(status))
    ]
    if data.instead:
        types = ", ".join(f"{recipe_words(name, language())} ({n})" for name, n in data.instead.items())
        recipe = recipe_words(data.recipe, language())
        sign = say("checkpoints.legend.instead", sign=INSTEAD, types=types, recipe=recipe)
        words.append(f"<span>{html.escape(sign)}</span>")
    return words
