"""The table of tensors, to sort, filter and search; a row leads to the Lab. And the call that gives it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.checkpoints.example import EXAMPLE
from quantviz.checkpoints.findings import worst_tensors
from quantviz.checkpoints.model.tensor_names import trimmed_names
from quantviz.checkpoints.model_map import ModelTensor, ScannedModel, value_of, winner_of
from quantviz.figures.model_map_plot import recipe_words
from quantviz.quoting import operand, shell_command
from quantviz.sources.stores.addresses import is_address
from quantviz.text import visible
from quantviz.ui.checkpoints.state import OWNER, CheckpointsState
from quantviz.ui.components.component import chosen
from quantviz.ui.components.controls import finder, hold_choice, hold_text
from quantviz.ui.components.phone_tables import PERCENT, number_column, numbers_written
from quantviz.ui.lab.from_map import open_place
from quantviz.ui.shell import errors
from quantviz.ui.shell.address import turn_to
from quantviz.ui.shell.bounds import FIND_CHARACTERS
from quantviz.ui.shell.origin import MapPlace, MapTensor, MapWalk
from quantviz.ui.shell.words import language, say, shape_text

if TYPE_CHECKING:
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
