"""The tabs of a layer: the products of an output, its channels, and schemes side by side."""

from __future__ import annotations

import html
import math
import string
from collections.abc import Mapping
from typing import TYPE_CHECKING

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.figures.numbers import short_number
from quantviz.lab.layer_sources import LayerWeight
from quantviz.lab.layer_state import MOST_PAIRS, LayerState, SchemePair, pairs_compared
from quantviz.lab.state import LabState
from quantviz.schemes.scheme import Scheme
from quantviz.tensors.views import View
from quantviz.ui.components.cell import steps_html
from quantviz.ui.components.controls import place_controls, show_controls, switch
from quantviz.ui.components.phone_tables import TableColumn, show_table
from quantviz.ui.components.small_parts import (
    legend_html,
    show_button,
    show_folded,
    show_plot,
    table_html,
    term,
)
from quantviz.ui.components.tensor_cache import loudness_of
from quantviz.ui.layers.picture import select
from quantviz.ui.layers.state import OWNER, SeenLayer, seen_layer
from quantviz.ui.layers.words import both_bits, decibels, pair_name, share_of, show_sentence, stacked_bar
from quantviz.ui.shell import session
from quantviz.ui.shell.address import turn_to
from quantviz.ui.shell.words import language, number, plain, say, say_note, sentences, theme

if TYPE_CHECKING:
    from quantviz.figures.layer_plots import PairPoint
    from quantviz.layers.causes import Channels, Products
    from quantviz.ui.layers.state import SeenLayer

_LAB = "pages/lab/playground.py"
_HEIGHT = 256
_CURVE_HEIGHT = 200
#: Loud channels that are named.
_MOST_NAMED = 4


def show_channels(seen: SeenLayer, state: LayerState) -> None:
    """Show the channels as mirrored bars."""
    from quantviz.figures.layer_plots import MIRRORED, channels_figure

    with st.container(key="layers_channels_look", horizontal=True, gap="small"):
        views = {name: say(f"layers.channels.{name}") for name in MIRRORED}
        mirrored = switch("layers_mirrored", say("layers.channels.view"), views)
        orders = {name: say(f"layers.channels.{name}") for name in ("ranked", "in_place")}
        order = switch("layers_order", say("layers.channels.order"), orders)
    channels = seen.channels
    st.markdown(_loud_words(channels) if mirrored == "size" else _cost_words(channels))
    figure = channels_figure(
        channels,
        mirrored,
        ranked=order == "ranked",
        height=_HEIGHT,
        language=language(),
        theme=theme(),
    )
    show_plot(figure, "layers_channels", say(f"layers.channels.{mirrored}_alt"))
    st.caption(say(f"layers.channels.{mirrored}_help"))
    show_button(say("layers.channels.in_lab"), "layers_in_lab", _open_in_lab, channels)
    show_folded(say("layers.channels.batches"), "layers_batches", _show_batches, seen)


def _show_batches(seen: SeenLayer) -> None:
    """Show how the one static scale of X grows with the tokens that it is chosen on."""
    from quantviz.figures.line_plots import range_curve
    from quantviz.layers.layer_numbers import ranges_over_tokens

    found = seen.found("ranges over tokens", ranges_over_tokens)
    if found is None:
        st.caption(say("layers.channels.no_batches"))
        return
    count = len(found.scale)
    st.markdown(say("layers.channels.settled", settled=min(found.settled, count), count=count))
    alt = say("range_curve.alt", count=count, scale=short_number(float(found.scale[-1])))
    figure = range_curve(found, height=_CURVE_HEIGHT, language=language(), theme=theme())
    show_plot(figure, "layers_batches_curve", alt)


def _open_in_lab(channels: Channels) -> None:
    """Open the weight in the Lab, where its error is weighted by what the layer sees, at the worst cell."""
    state = OWNER.state
    scheme, _ = state.pair.schemes()
    weight = LayerWeight(state.source)
    view = View.of(weight.shape)
    cell = channels.worst_weight(loudness_of(weight))
    session.put_in_lab(LabState(weight, scheme or Scheme("int8"), view, cell, error_view="seen"))
    turn_to(_LAB)


def _loud_words(channels: Channels) -> str:
    """Return the sentence that names the loud channels of the inputs and of the weight."""
    found = []
    sides = {"x": (channels.loud_inputs, channels.x_max), "w": (channels.loud_weights, channels.w_max)}
    for side, (loud, sizes) in sides.items():
        if not loud:
            found.append(say(f"layers.channels.none_loud_{side}"))
            continue
        named = say("layers.channels.between").join(
            say("layers.channels.one", channel=each, size=short_number(float(sizes[each])))
            for each in loud[:_MOST_NAMED]
        )
        key = "many" if len(loud) > _MOST_NAMED else "few"
        median = short_number(float(sizes.median()))
        found.append(say(f"layers.channels.loud_{side}_{key}", named=named, count=len(loud), median=median))
    return plain(sentences(*found))


def _cost_words(channels: Channels) -> str:
    """Return the sentence on the channel whose weight error costs most, beside its share of that error."""
    cost = channels.cost
    total = float(cost.sum())
    if not total:
        return say("layers.channels.no_cost")
    channel = int(cost.argmax())
    return plain(
        say(
            "layers.channels.costs",
            channel=channel,
            cost=share_of(float(cost[channel]) / total),
            error=share_of(float(channels.weight_error[channel] / channels.weight_error.sum())),
        )
    )


_DOTS = "layers_dots"
_TABLE = "layers_table"
_DOTS_HEIGHT = 210
#: CSS pixels of half a laptop's page: the table stands beside the picture.
_WIDTH = 570
#: Decibels between the two numbers of a pair from which the sentence tells it.
_FAR = 3.0


def show_compare(state: LayerState) -> None:
    """Show the pairs as a table, and as dots beside the diagonal."""
    from quantviz.figures.layer_plots import PairPoint, pairs_figure

    pairs = []
    found = []
    for pair in pairs_compared(state):
        try:
            found.append(seen_layer(state, pair))
            pairs.append(pair)
        except QuantVizError:
            continue  # its own choice above tells why
    points = [
        PairPoint(string.ascii_uppercase[at], pair_name(pair), seen.weight_db, seen.output_db)
        for at, (pair, seen) in enumerate(zip(pairs, found, strict=True))
    ]
    show_sentence(_lesson(points))
    _show_buttons(state)
    figure = pairs_figure(points, 0, height=_DOTS_HEIGHT, language=language(), theme=theme())
    show_plot(
        figure,
        _DOTS,
        say("layers.compare.alt"),
        take=lambda at: OWNER.change(pair=pairs[int(at)]),
        fits=lambda at: at in range(len(pairs)),
    )
    _show_table(points, found, pairs)


def _show_table(points: list[PairPoint], found: list[SeenLayer], pairs: list[SchemePair]) -> None:
    """Show the pairs as a table, in which a click takes one."""
    errors_out = [seen.result.rel_out for seen in found]
    weight_db = [each.weight_db if math.isfinite(each.weight_db) else None for each in points]
    columns = (
        TableColumn("letter", [each.letter for each in points], 30, on_phone=True),
        TableColumn("pair", [each.name for each in points], 222, on_phone=True, names_lines=True),
        TableColumn("held_back", [100 * each.held_back for each in errors_out], 84, "%.3g %%", on_phone=True),
        TableColumn("used", [100 * each.used for each in errors_out], 76, "%.3g %%"),
        TableColumn("weight_db", weight_db, 60, "%.1f", on_phone=True),
        TableColumn("bits", list(map(both_bits, found)), 80, align_right=True),
    )
    show_table(
        _TABLE,
        columns,
        _WIDTH,
        words="layers.compare.heads",
        alt=say("layers.compare.table_alt"),
        take=lambda line: OWNER.change(pair=pairs[line]),
    )


def _lesson(points: list[PairPoint]) -> str:
    """Return the sentence on the pair whose weight SQNR promises most beyond what its outputs keep."""
    known = [each for each in points if math.isfinite(each.weight_db) and math.isfinite(each.output_db)]
    if not known:
        return say("layers.compare.nothing")
    worst = max(known, key=lambda each: each.weight_db - each.output_db)
    best = max(known, key=lambda each: each.output_db - each.weight_db)
    told = worst if worst.weight_db - worst.output_db >= best.output_db - best.weight_db else best
    gap = told.output_db - told.weight_db
    if abs(gap) < _FAR:
        return say("layers.compare.on_the_diagonal")
    return say(
        "layers.compare.below" if gap < 0 else "layers.compare.above",
        letter=told.letter,
        pair=told.name,
        weight=decibels(told.weight_db),
        output=decibels(told.output_db),
    )


def _show_buttons(state: LayerState) -> None:
    with st.container(key="layers_compare", horizontal=True, gap="small"):
        if state.pair in state.compared:
            show_button(say("layers.compare.drop"), "layers_drop", _compare, False)
        else:
            full = len(state.compared) >= MOST_PAIRS
            show_button(say("layers.compare.keep"), "layers_keep", _compare, True, disabled=full)
        if state.compared:
            show_button(say("layers.compare.usual"), "layers_usual", lambda: OWNER.change(compared=()))


def _compare(kept: bool) -> None:
    """Keep the pair among the compared ones, or drop it. A choice of a pair may have come with the press."""
    state = OWNER.state
    others = tuple(each for each in state.compared if each != state.pair)
    OWNER.change(compared=(*others, state.pair)[:MOST_PAIRS] if kept else others)


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
        show_folded(say("layers.cell.steps", channel=chosen), "layers_steps", _show_steps, seen, cell, chosen)


def _show_place(seen: SeenLayer, cell: tuple[int, int]) -> None:
    """Show the cell's place as numbers that can be typed over, and its values."""

    def take(axis: int, to: int) -> None:
        token, output = OWNER.state.cell or cell
        select(*((to, output) if axis == 0 else (token, to)))

    tokens, _, outputs = seen.result.shape
    token, output = cell
    with st.container(key="layers_place", horizontal=True, vertical_alignment="center", gap="small"):
        names = {f"layers_{name}": say(f"layers.cell.{name}") for name in ("token", "output")}
        controls = place_controls(names, cell, (tokens, outputs), take)
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
    """Show every step of the rounding of one weight and one input."""
    token, output = cell
    result = seen.result
    for side, place in (("weights", (output, channel)), ("inputs", (token, channel))):
        operand = getattr(result, side)
        st.markdown(f"**{say(f'layers.cell.steps_{side}', line=place[0], channel=channel)}**")
        if operand.scheme is None:
            st.caption(say("layers.cell.not_rounded"))
        else:
            st.html(steps_html(operand.explain(place)))
