"""Results of a scan: the sentence, the map, the distribution, and the table, whose rows lead to the Lab."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.checkpoints.example import EXAMPLE
from quantviz.checkpoints.findings import ErrorCause, Finding, first_fix, worst_tensors
from quantviz.checkpoints.model.tensor_names import trimmed_names
from quantviz.checkpoints.model_map import (
    ModelMap,
    ModelTensor,
    ScannedModel,
    layers_with_experts,
    model_map,
    value_of,
    winner_of,
)
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
from quantviz.quoting import operand, shell_command
from quantviz.sources.stores.addresses import is_address
from quantviz.text import visible
from quantviz.ui.checkpoints.allocating import show_allocation
from quantviz.ui.checkpoints.reading import ScanView, name_of
from quantviz.ui.checkpoints.state import OWNER, CheckpointsState
from quantviz.ui.components.component import chosen
from quantviz.ui.components.controls import finder, hold_choice, hold_text
from quantviz.ui.components.phone_tables import PERCENT, number_column, numbers_written
from quantviz.ui.components.small_parts import legend_html, show_button, show_figure, show_python
from quantviz.ui.lab.from_map import open_place
from quantviz.ui.shell import errors
from quantviz.ui.shell.address import turn_to
from quantviz.ui.shell.bounds import FIND_CHARACTERS
from quantviz.ui.shell.origin import MapPlace, MapTensor, MapWalk
from quantviz.ui.shell.words import language, number, plain, say, sentences, shape_text, share, theme

if TYPE_CHECKING:
    from quantviz.checkpoints.model_map import Square
    from quantviz.checkpoints.results.stored_rows import Scan


LAB = "pages/lab/playground.py"
_FIND = "checkpoints_find"
_STATUS = "checkpoints_status"
_TABLE = "checkpoints_table"
_CLICKS = "checkpoints_rows"
#: Numbers as the table prints them.
_FORMATS = {
    "sqnr_db": "%.2f",
    "against_median": "%+.2f",
    "peak_rms": "%.1f",
    "kurtosis": "%.1f",
    "zeroed_share": PERCENT,
    "clipped_share": PERCENT,
    "effective_bits": "%.3f",
    "mse": "%.3e",
}
_HEIGHT = 420
#: Pixels of the names, which differ at their ends.
_NAME = 235


def show_table(state: CheckpointsState, model: ScannedModel, recipe: str) -> None:
    """Show a row for each tensor under the recipe that is shown."""
    st.markdown(f"## {say('checkpoints.table')}")
    with st.container(key="checkpoints_filters", horizontal=True, vertical_alignment="bottom", gap="small"):
        wanted = hold_text(
            _FIND,
            say("checkpoints.find"),
            FIND_CHARACTERS,
            example=say("checkpoints.find_example"),
            look="qv-unnamed",
        )
        statuses = ("ok", "left_aside", "refused", "not_read", "problem", "waiting")
        there = [name for name in statuses if any(each.status(recipe) == name for each in model.tensors)]
        picked = _picked(there) if len(there) > 1 else []
    matches = finder(wanted)
    tensors = [
        tensor
        for tensor in model.tensors
        if matches(tensor.name) and (not picked or tensor.status(recipe) in picked)
    ]
    # The worst first; tensors without a number, such as those left aside, come last.
    tensors.sort(key=lambda tensor: _ranked(tensor, recipe))
    key = f"{_TABLE}_{st.session_state.get(_CLICKS, 0)}"
    st.dataframe(
        numbers_written(_frame(model, tensors, recipe), _FORMATS),
        key=key,
        hide_index=True,
        height=_HEIGHT,
        column_config=_columns(len(tensors)),
        on_select=errors.safely(lambda: _row_clicked(key, model, tensors, recipe)),
        selection_mode="single-row",
        placeholder="",
        alt=say("checkpoints.table_alt", count=len(tensors)),
    )
    st.caption(say("checkpoints.table_about", shown=len(tensors), all=len(model.tensors)))


def _ranked(tensor: ModelTensor, recipe: str) -> tuple[bool, bool, float]:
    """Return the sort key of a tensor in the table: lowest SQNR first, then NaN, then tensors left aside."""
    value = tensor.number(recipe, "sqnr_db")
    is_aside = tensor.status(recipe) == "left_aside"
    return is_aside, math.isnan(value), 0.0 if math.isnan(value) else value


def _picked(statuses: list[str]) -> list[str]:
    """Show the statuses to choose from, and return those that are chosen; none means all."""
    words = {name: say(f"checkpoints.statuses.{name}") for name in statuses}
    picked: list[str] = hold_choice(_STATUS, "many", say("checkpoints.status"), words, look="qv-unnamed")
    return picked


def _row_clicked(key: str, model: ScannedModel, tensors: list[ModelTensor], recipe: str) -> None:
    rows = chosen(key, "rows", lambda rows: all(row < len(tensors) for row in rows))
    if rows:
        st.session_state[_CLICKS] = st.session_state.get(_CLICKS, 0) + 1
        open_in_lab(model, tensors[rows[0]], recipe)


def _frame(model: ScannedModel, tensors: list[ModelTensor], recipe: str) -> Any:
    import pandas as pd

    names = ("sqnr_db", "against_median", "peak_rms", "kurtosis", "zeroed_share", "clipped_share")
    layers = [tensor.place.layer if tensor.place.layer >= 0 else None for tensor in tensors]
    trimmed = trimmed_names([tensor.name for tensor in tensors])
    columns: dict[str, Any] = {"tensor": list(map(visible, trimmed))}
    for name in (*names, "effective_bits", "mse"):
        values = [value_of(model, tensor, recipe, name) for tensor in tensors]
        if name == "against_median":  # as it is shown: −0.00 is 0 to people
            values = [round(value, 2) + 0.0 for value in values]
        columns[name] = [None if math.isnan(value) else value for value in values]
        if name == "sqnr_db" and any(_fallback(tensor, recipe) for tensor in tensors):
            used = [_fallback(tensor, recipe) or recipe for tensor in tensors]
            columns["fallback"] = [
                recipe_words(name, language()) if tensor.status(recipe) == "ok" else ""
                for name, tensor in zip(used, tensors, strict=True)
            ]
    won = [winner_of(model, tensor, recipe) for tensor in tensors]
    columns["winner"] = [recipe_words(name, language()) if name else "" for name in won]
    columns["shape"] = [shape_text(tensor.shape) for tensor in tensors]
    columns["layer"] = pd.array(layers, dtype="Int64")
    columns["kind"] = [visible(tensor.place.kind) for tensor in tensors]
    columns["status"] = [say(f"checkpoints.statuses.{tensor.status(recipe)}") for tensor in tensors]
    columns["reason"] = [visible(tensor.row(recipe).reason or "") for tensor in tensors]
    return pd.DataFrame(columns)


def _fallback(tensor: ModelTensor, recipe: str) -> str:
    """Return the type that a tensor has in place of a recipe; "" where it has that recipe."""
    return tensor.row(recipe).fallback or ""


def _columns(lines: int) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for name in ("tensor", "fallback", "layer", "kind", "shape", "winner", "status", "reason"):
        columns[name] = st.column_config.Column(
            say(f"checkpoints.columns.{name}"), width=_NAME if name == "tensor" else None
        )
    for name, form in _FORMATS.items():
        columns[name] = number_column(say(f"checkpoints.columns.{name}"), form, lines)
    return columns


def python_call(state: CheckpointsState, scan: Scan, model: ScannedModel, recipe: str) -> str:
    """Return the Python that gives the table, and the worst tensor's number in it."""
    path = scan.path if is_address(scan.path) else PurePath(scan.path).name
    path = "example.safetensors" if state.chosen == EXAMPLE else path
    options = {"imatrix": PurePath(scan.selection.imatrix).name}
    if scan.selection.profile:
        options = {"engine": scan.selection.profile.name, **options}
    arguments = "".join(f", {name}={value!r}" for name, value in options.items() if value)
    lines = ["import quantviz as qv", "", f"table = qv.scan({path!r}, {list(model.recipes)!r}{arguments})"]
    worst = worst_tensors(model, recipe, 1)
    if worst:
        lines += [
            f"row = table[(table.tensor == {worst[0].tensor!r}) & (table.recipe == {recipe!r})]",
            f"print(row.sqnr_db.item())  # {worst[0].sqnr_db!r}",
        ]
    command = scan_command(path, model.recipes, **options)
    lines += ["", f"# {say('checkpoints.command')}", f"# {command}"]
    return "\n".join(lines)


def scan_command(path: str, recipes: Iterable[str], engine: str = "", imatrix: str = "") -> str:
    """Return the command that writes the table of the file `path`, for a shell.

    >>> print(scan_command("$(id).safetensors", ["int8_per_row"]))
    quantviz scan '$(id).safetensors' -r int8_per_row -o table.parquet
    >>> print(scan_command("m.gguf", ["q4_k"], "llama.cpp", "imatrix.dat"))
    quantviz scan m.gguf -r q4_k --engine llama.cpp --imatrix imatrix.dat -o table.parquet
    """
    recipe_options = (part for name in recipes for part in ("-r", name))
    of_engine = ("--engine", engine) if engine else ()
    weighed = ("--imatrix", imatrix) if imatrix else ()
    options = (*recipe_options, *of_engine, *weighed)
    return shell_command(("quantviz", "scan", operand(path), *options, "-o", "table.parquet"))


def open_in_lab(model: ScannedModel, tensor: ModelTensor, recipe: str) -> None:
    """Turn to the Lab with a tensor of the model under a recipe, at its largest error."""
    ranked = sorted(model.weights, key=lambda each: _ranked(each, recipe))
    tensors = [each for each in ranked if not math.isnan(each.number(recipe, "sqnr_db"))]
    if tensor not in tensors:  # it has no place among the worst
        tensors = [tensor]
    rows = [each.row(recipe) for each in tensors]
    on_map = tuple(
        MapTensor(
            each.name,
            each.file,
            row.scheme or "",
            each.number(recipe, "sqnr_db"),
            row.max_error_at or (0,) * len(each.shape),
        )
        for each, row in zip(tensors, rows, strict=True)
    )
    walk = MapWalk(OWNER.state.chosen, recipe, on_map)
    open_place(MapPlace(walk, tensors.index(tensor)))
    turn_to(LAB)


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
            alt = say("checkpoints.distribution_alt")
            show_figure(distribution_figure, "checkpoints_distribution", alt, model, recipe)
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
        show_figure(
            model_map_figure,
            f"checkpoints_map_{place}",
            say("checkpoints.map_alt", colour=say(f"checkpoints.colours.{data.colour}")),
            data,
            take=partial(_square_clicked, drawn),
            marks=data.squares,
            afresh=True,
            scale=scale,
            worst=drawn.worst,
        )


def _square_clicked(drawn: _DrawnMap, square: Square) -> None:
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
