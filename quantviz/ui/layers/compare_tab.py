"""The tab Compare: pairs of schemes by what they cost the outputs, and by what their weight error says."""

from __future__ import annotations

import math
import string
from typing import TYPE_CHECKING

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.layer_state import MOST_PAIRS, LayerState, SchemePair, pairs_compared
from quantviz.ui.components.component import clicked_mark
from quantviz.ui.components.phone_tables import TableColumn, show_table
from quantviz.ui.components.small_parts import show_button, show_plot
from quantviz.ui.layers.state import OWNER, SeenLayer, seen_layer
from quantviz.ui.layers.words import both_bits, decibels, pair_name, show_sentence
from quantviz.ui.shell import errors
from quantviz.ui.shell.words import language, say, theme

if TYPE_CHECKING:
    from quantviz.figures.layer_plots import PairPoint

_DOTS = "layers_dots"
_TABLE = "layers_table"
_HEIGHT = 210
#: CSS pixels of half a laptop's page: the table stands beside the picture.
_WIDTH = 570
#: Decibels between the two numbers of a pair from which the sentence tells it.
_FAR = 3.0


def show_compare(state: LayerState) -> None:
    """Show the pairs as a table, and as dots beside the diagonal."""
    from quantviz.figures.layer_plots import PairPoint, pairs_figure

    def take_dot() -> None:
        at = clicked_mark(_DOTS, lambda at: isinstance(at, float) and 0 <= at < len(pairs))
        if at is not None:
            OWNER.change(pair=pairs[int(at)])

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
    figure = pairs_figure(points, 0, height=_HEIGHT, language=language(), theme=theme())
    show_plot(
        figure,
        _DOTS,
        say("layers.compare.alt"),
        on_select=errors.safely(take_dot),
        selection_mode="points",
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
