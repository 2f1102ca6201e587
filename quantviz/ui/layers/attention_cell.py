"""The tab of one score or output: its place, its arithmetic in sentences, and the products that cost most."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from quantviz.figures.numbers import short_number
from quantviz.lab.attention_state import AttentionState
from quantviz.ui.components.cell import steps_html
from quantviz.ui.components.controls import number_control, show_controls
from quantviz.ui.components.small_parts import table_html
from quantviz.ui.layers.attention_state import OWNER
from quantviz.ui.shell.words import number, say, share

if TYPE_CHECKING:
    from quantviz.models.attention_view import AttentionCell, AttentionView

#: Products that are shown at once, and those that unfold.
_LISTED = 3


def show_cell(state: AttentionState, view: AttentionView) -> None:
    """Show the selected cell of the product in view."""
    product = view.picture.words.rpartition(".")[2]
    cell = view.cell

    def take(axis: int, to: int) -> None:
        row, column = cell.place
        OWNER.change(cell=(to, column) if axis == 0 else (row, to))

    with st.container(key="layers_place", horizontal=True, vertical_alignment="center", gap="small"):
        axes = zip(("token", "output"), cell.place, (view.shape[0], view.shape[2]), strict=True)
        controls = (
            number_control(
                f"attention_{axis}",
                say(f"attention_picture.{product}.axes.{axis}"),
                now,
                partial(take, at),
                lowest=0,
                highest=count - 1,
            )
            for at, (axis, now, count) in enumerate(axes)
        )
        show_controls("attention_cell", OWNER, *controls, look="qv-beside")
    told = "".join(f"<li>{html.escape(line)}</li>" for line in _lines(cell, product))
    st.html(f'<ol class="qv-steps-told">{told}</ol>')
    st.html(f'<div class="qv-products">{_table(cell, product, _LISTED)}</div>')
    with st.container(key="layers_folds", horizontal=True, gap="small"):
        opened = st.expander(
            say("attention.cell.all", count=len(cell.terms)), key="attention_products", on_change="rerun"
        )
        if opened.open:
            listed = _table(cell, product, len(cell.terms))
            opened.html(f'<div class="qv-products" tabindex="0">{listed}</div>')
        _show_rounding(cell, product)


def _lines(cell: AttentionCell, product: str) -> Iterator[str]:
    """Yield the cell's arithmetic, a step a line."""
    before, after = cell.sums
    yield say(
        f"attention.cell.sum_{product}",
        count=len(cell.terms),
        before=short_number(before, 4),
        after=short_number(after, 4),
        error=number(after - before, 3, signed=True),
    )
    if product == "output":
        return
    values = {"before": short_number(cell.values[0], 4), "after": short_number(cell.values[1], 4)}
    yield say("attention.cell.factor", factor=short_number(cell.factor, 4), **values)
    if not cell.seen:
        yield say("attention.cell.hidden")
        return
    p, p_hat = cell.weights
    yield say("attention.cell.softmax", before=share(p), after=share(p_hat))
    if not math.isnan(cell.kl_part):
        parts = {"before": short_number(p, 3), "after": short_number(p_hat, 3)}
        part, row = number(cell.kl_part, 3, signed=True), short_number(cell.kl_row, 3)
        yield say("attention.cell.kl", **parts, part=part, row=row)


def _table(cell: AttentionCell, product: str, most: int) -> str:
    """Return the products as a table, those first that bring most of the error; a click on one chooses it."""
    rows = []
    for term in cell.terms[:most]:
        marked = ' class="qv-selected"' if term.at == cell.chosen else ""
        numbers = "".join(f"<td>{short_number(value)}</td>" for value in (term.change, *term[1:5]))
        rows.append(
            f'<tr data-channel="{term.at}"{marked}><td><button type="button">{term.at}</button></td>'
            f"{numbers}</tr>"
        )
    heads = [
        say(f"attention.cell.heads.{product}.{name}") for name in ("at", "change", "x", "x_hat", "w", "w_hat")
    ]
    return table_html(heads, rows)


def _show_rounding(cell: AttentionCell, product: str) -> None:
    """Show every step of the rounding of the chosen product's key or value, once that is opened."""
    opened = st.expander(
        say(f"attention.cell.steps_{product}", at=cell.chosen), key="attention_steps", on_change="rerun"
    )
    if not opened.open:
        return
    with opened:
        if cell.rounded is None:
            st.caption(say("attention.cell.as_it_is"))
            return
        mean, why = cell.rounded
        if mean:
            st.caption(say("attention.cell.mean", mean=short_number(mean, 4), rest=short_number(why.x, 4)))
        if OWNER.state.basis in ("hadamard", "both"):
            st.caption(say("attention.cell.hadamard"))
        st.html(steps_html(why))
