"""Results of a scan: the sentence, the map, the distribution and the table."""

from __future__ import annotations

import html
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from quantviz.checkpoints.findings import ErrorCause, Finding, first_fix, worst_tensors
from quantviz.checkpoints.model_map import ModelMap, ScannedModel, layers_with_experts, model_map
from quantviz.checkpoints.results.rows import UNREAD
from quantviz.figures.model_map_plot import (
    INSTEAD,
    SIGNS,
    Scale,
    distribution_figure,
    model_map_figure,
    recipe_words,
    scale_of,
    winners,
)
from quantviz.figures.numbers import decibels
from quantviz.text import visible
from quantviz.ui.checkpoints.allocating import show_allocation
from quantviz.ui.checkpoints.reading import ScanView, name_of
from quantviz.ui.checkpoints.state import OWNER, CheckpointsState
from quantviz.ui.checkpoints.table import open_in_lab, python_call, show_table
from quantviz.ui.components.small_parts import legend_html, show_button, show_plot, show_python
from quantviz.ui.shell.words import language, number, plain, say, sentences, share, theme

if TYPE_CHECKING:
    from quantviz.checkpoints.model_map import Square
    from quantviz.checkpoints.results.stored_rows import Scan


@dataclass(frozen=True, eq=False)
class _DrawnMap:
    """A map on the page."""

    model: ScannedModel
    recipe: str
    data: ModelMap
    #: Names of the tensors that are outlined.
    worst: tuple[str, ...]


def show_verdict(model: ScannedModel, recipe: str, scan: Scan) -> None:
    """Show the worst tensors, why, and the first fix; each tensor leads to the Lab."""
    is_whole = scan.state == "done"
    st.html(f'<p class="qv-finding">{_sentence(model, recipe, is_whole=is_whole)}</p>')
    with st.container(key="checkpoints_worst", horizontal=True, gap="small"):
        for rank, finding in enumerate(worst_tensors(model, recipe), 1):
            tensor = model.by_name[finding.tensor]
            show_button(
                _worst_words(rank, finding),
                f"checkpoints_worst_{rank}",
                open_in_lab,
                model,
                tensor,
                recipe,
                help=say("checkpoints.open_tensor", tensor=plain(visible(tensor.name))),
                width="stretch",
            )


def show_map(
    state: CheckpointsState, seen: ScanView, beside: tuple[ScanView, str] | None, *, verdict: bool
) -> None:
    """Show the map, or two beside each other, and the meaning of its colours; with a `verdict` the worst
    tensors are outlined.
    """
    model = seen.model
    recipe = state.shown(seen.model.recipes)
    layer = state.layer if state.layer in layers_with_experts(model) else ""
    data = model_map(model, recipe, state.colour, layer=layer)
    worst = _worst_names(model, recipe) if verdict else ()
    if beside is None:
        _show_map(_DrawnMap(model, recipe, data, worst), "a", scale_of(data))
    elif state.view == "difference":
        other = beside[0].model, beside[1]
        compared = model_map(model, recipe, state.colour, layer=layer, against=other)
        _show_map(_DrawnMap(model, recipe, compared, worst), "d", scale_of(compared))
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
        worst_b = _worst_names(seen_b.model, recipe_b) if verdict else ()
        both = scale_of(data, data_b)
        for column, (letter, drawn, chosen) in zip(
            st.columns(2, gap="small"),
            (
                ("A", _DrawnMap(model, recipe, data, worst), state.chosen),
                (
                    "B",
                    _DrawnMap(seen_b.model, recipe_b, data_b, worst_b),
                    state.chosen if state.other == "." else state.other,
                ),
            ),
            strict=True,
        ):
            with column:
                name = recipe_words(drawn.recipe, language())
                title = f"{letter} · {name_of(chosen.partition('#')[0])} · {name}"
                st.html(f'<p class="qv-small"><bdi>{html.escape(title)}</bdi></p>')
                _show_map(drawn, letter.lower(), both)
    _show_below_map(state, data)


def show_details(state: CheckpointsState, seen: ScanView, *, verdict: bool) -> None:
    """Show the distribution and the table of a scan, and with a `verdict` the allocation."""
    if seen.scan is None:
        return
    model = seen.model
    recipe = state.shown(model.recipes)
    for note in seen.scan.notes:
        st.caption(plain(note[language()]))
    # A table takes a phone a second, far below what it shows first.
    opened = st.expander(
        say("checkpoints.details"),
        key="checkpoints_details",
        on_change="rerun",
        expanded=not _worst_names(model, recipe),  # it says why nothing has a number
    )
    if opened.open:
        left, right = opened.columns([4, 8], gap="medium")
        with left:
            st.markdown(f"## {say('checkpoints.distribution')}")
            figure = distribution_figure(model, recipe, language=language(), theme=theme())
            show_plot(figure, "checkpoints_distribution", say("checkpoints.distribution_alt"))
        with right:
            show_table(state, model, recipe)
    if verdict:
        show_allocation(state, model, seen.scan.selection.engine)
    call = partial(python_call, state, seen.scan, model, recipe)
    show_python(say("checkpoints.python"), "checkpoints_python", call)


# ---- the sentence ----------------------------------------------------------------------------------


def _sentence(model: ScannedModel, recipe: str, *, is_whole: bool = True) -> str:
    """Return the words above the worst tensors, and the first fix, as HTML."""
    worst = worst_tensors(model, recipe)
    if not worst:
        waiting = any(tensor.status(recipe) == "waiting" for tensor in model.weights)
        return html.escape(say("checkpoints.waiting" if waiting else "checkpoints.nothing_measured"))
    key = "checkpoints.worst" if is_whole else "checkpoints.worst_so_far"
    words = say(key, recipe=html.escape(recipe_words(recipe, language())))
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
        db=decibels(fix.gain_db),
        bits=number(abs(fix.more_bits), 3),
    )
    return sentences(words, change, without)


def _worst_names(model: ScannedModel, recipe: str) -> tuple[str, ...]:
    return tuple(finding.tensor for finding in worst_tensors(model, recipe))


def _worst_words(rank: int, finding: Finding) -> str:
    """Return one of the worst tensors and why, as Markdown."""
    why = say("checkpoints.and").join(_reason(each) for each in finding.reasons)
    name = plain(visible(_short(finding.tensor)))
    found = say("checkpoints.finding", rank=rank, tensor=name, db=decibels(finding.sqnr_db))
    return f"**{found}** {plain(why)}"


def _short(name: str) -> str:
    stem = name.removesuffix(".weight")
    # Of "0.weight" a number would be left, which reads like a rank.
    name = (stem if any(map(str.isalpha, stem)) else name).removeprefix("model.")
    return name if len(name) <= 40 else f"…{name[-39:]}"


def _reason(reason: ErrorCause) -> str:
    shown = {
        "nonfinite": lambda value: f"{value:,.0f}",
        "columns": decibels,
        "zeroed": share,
        "clipped": share,
    }.get(reason.id, lambda value: number(value, 3))
    return say(f"checkpoints.reasons.{reason.id}", number=shown(reason.number))


# ---- the map ---------------------------------------------------------------------------------------


def _show_map(drawn: _DrawnMap, place: str, scale: Scale) -> None:
    data = drawn.data
    with st.container(key=f"checkpoints_map_{place}", gap=None):
        show_plot(
            model_map_figure(data, language=language(), theme=theme(), scale=scale, worst=drawn.worst),
            f"checkpoints_map_{place}",
            say("checkpoints.map_alt", colour=say(f"checkpoints.colours.{data.colour}")),
            take=partial(_square_clicked, drawn),
            fits=lambda number: number in range(len(data.squares)),
            afresh=True,
        )


def _square_clicked(drawn: _DrawnMap, number_of: float) -> None:
    square: Square = drawn.data.squares[int(number_of)]
    if square.opens:
        OWNER.change(layer=square.opens)
    else:
        open_in_lab(drawn.model, drawn.model.by_name[square.tensor], drawn.recipe)


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
