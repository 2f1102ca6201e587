"""The tab Cell: who brings the error of one output, its products in order, and every step of one of them."""

from __future__ import annotations

import html
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from quantviz.figures.numbers import short_number
from quantviz.lab.layer_state import LayerState
from quantviz.ui.components.cell import steps_html
from quantviz.ui.components.controls import number_control, show_controls
from quantviz.ui.components.small_parts import legend_html, table_html, term
from quantviz.ui.layers.picture import select
from quantviz.ui.layers.state import OWNER
from quantviz.ui.layers.words import share_of, stacked_bar
from quantviz.ui.shell.words import number, say, say_note, sentences, theme

if TYPE_CHECKING:
    from quantviz.layers.causes import Products
    from quantviz.ui.layers.state import SeenLayer

#: Products that are shown at once, and those that unfold.
_LISTED = 3
_MOST_LISTED = 512


def show_cell(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show the selected output."""
    from quantviz.figures.layer_plots import PARTS, part_colours
    from quantviz.layers.causes import note_on_culprit

    products = seen.products(cell)
    _show_place(seen, cell)
    error = float(products.contributions.sum())
    said = say_note(note_on_culprit(products, seen.channels)) if error else say("layers.cell.no_error")
    loudest = float(products.shares[0])
    cancels = say("layers.cell.cancels") if abs(loudest) > 1 or loudest < 0 else ""
    with st.container(key="layers_sentence"):
        st.markdown(sentences(said, cancels))
    chosen = int(products.channels[0]) if state.channel is None else state.channel
    shades = part_colours(theme())
    st.html(f'<div class="qv-products">{_table(products, chosen, shades, _LISTED)}</div>')
    with st.container(key="layers_folds", horizontal=True, gap="small"):
        words = say("layers.cell.all", count=len(products.channels))
        opened = st.expander(words, key="layers_products", on_change="rerun")
        if opened.open:
            legend = legend_html((say(f"layer_plots.parts.{name}"), shades[name]) for name in PARTS)
            listed = _table(products, chosen, shades, _MOST_LISTED)
            opened.html(f'<p class="qv-small">{legend}</p>')
            opened.html(f'<div class="qv-products" tabindex="0">{listed}</div>')
        _show_steps(seen, cell, chosen)


def _show_place(seen: SeenLayer, cell: tuple[int, int]) -> None:
    """Show the cell's place as numbers that can be typed over, and its values."""

    def take(axis: int, to: int) -> None:
        token, output = OWNER.state.cell or cell
        select(*((to, output) if axis == 0 else (token, to)))

    tokens, _, outputs = seen.result.shape
    token, output = cell
    with st.container(key="layers_place", horizontal=True, vertical_alignment="center", gap="small"):
        controls = (
            number_control(
                f"layers_{name}",
                say(f"layers.cell.{name}"),
                cell[axis],
                partial(take, axis),
                lowest=0,
                highest=count - 1,
            )
            for axis, (name, count) in enumerate((("token", tokens), ("output", outputs)))
        )
        show_controls("layers_cell", OWNER, *controls, look="qv-beside")
        cells = seen.result.cells(slice(token, token + 1), slice(output, output + 1))
        y, y_hat, error = (float(each[0, 0]) for each in (cells.y, cells.y_hat, cells.error))
        side = "held_back" if seen.result.held_back[token] else "used"
        words = say(
            "layers.cell.values",
            y=short_number(y, 4),
            y_hat=short_number(y_hat, 4),
            error=number(error, 3, signed=True),
        )
        about = term(say(f"layers.cell.{side}"), say(f"layers.cell.{side}_help"), key="layers_side")
        st.html(
            f'<p class="qv-values"><b>{html.escape(words)}</b><br><small>{about}</small></p>', width="stretch"
        )


def _table(products: Products, chosen: int, shades: Mapping[str, str], most: int) -> str:
    """Return the products as a table, those that contribute most first; a click on a line chooses it."""
    names = ("weights", "inputs", "cross", "x", "x_hat", "w", "w_hat")
    count = min(most, len(products.channels))
    columns = {name: getattr(products, name)[:count].tolist() for name in names}
    sums = products.contributions[:count].tolist()
    shares = products.shares[:count].tolist()
    parts = list(zip(*(columns[name] for name in shades), strict=True))
    low = min(sum(min(value, 0.0) for value in each) for each in parts)
    high = max(sum(max(value, 0.0) for value in each) for each in parts)
    rows = []
    for at, channel in enumerate(products.channels[:count].tolist()):
        numbers = "".join(f"<td>{short_number(columns[name][at])}</td>" for name in names)
        marked = ' class="qv-selected"' if channel == chosen else ""
        bar = stacked_bar(parts[at], tuple(shades.values()), low, high)
        rows.append(
            f'<tr data-channel="{channel}"{marked}><td><button type="button">{channel}</button></td>'
            f'<td class="qv-bar-cell"><i style="background:{bar}"></i></td>'
            f"<td>{share_of(shares[at])}</td><td>{short_number(sums[at])}</td>{numbers}</tr>"
        )
    heads = ("channel", "parts", "share", "contributions", *names)
    return table_html([say(f"layers.cell.heads.{name}") for name in heads], rows)


def _show_steps(seen: SeenLayer, cell: tuple[int, int], channel: int) -> None:
    """Show every step of the rounding of one weight and one input, once that is opened."""
    opened = st.expander(say("layers.cell.steps", channel=channel), key="layers_steps", on_change="rerun")
    if not opened.open:
        return
    token, output = cell
    result = seen.result
    with opened:
        for side, place in (("weights", (output, channel)), ("inputs", (token, channel))):
            operand = getattr(result, side)
            st.markdown(f"**{say(f'layers.cell.steps_{side}', line=place[0], channel=channel)}**")
            if operand.scheme is None:
                st.caption(say("layers.cell.not_rounded"))
            else:
                st.html(steps_html(operand.explain(place)))
