"""The five numbers in one line: the scheme's costs, each with its meaning on a dotted underline."""

from __future__ import annotations

import html

import streamlit as st

from quantviz.lab.state import LabState
from quantviz.ui.components.term import term
from quantviz.ui.lab.learning import learn_address, terms_of
from quantviz.ui.lab.numbers.tiles import Tile, change_against, tile_name, tiles
from quantviz.ui.lab.tensor import study_of
from quantviz.ui.shell.classroom import visible
from quantviz.ui.shell.words import say


def show_numbers(found: tuple[Tile, ...], state: LabState) -> None:
    """Show the state's numbers, against the baseline's where there is one.

    The element with a number has its metric's name as `data-qv-metric`: the browser writes there while a hand
    drags.
    """
    before = {tile.key: tile for tile in baseline_tiles(state)}
    shown = "".join(
        _number(tile, before.get(tile.key), state) for tile in found if visible(f"tiles.{tile.key}")
    )
    if shown:
        st.html(f'<div class="qv-numbers">{shown}</div>')


def baseline_tiles(state: LabState) -> tuple[Tile, ...]:
    """Return the tiles under the baseline; None without one, or where it does not fit the tensor."""
    if state.baseline is None or state.baseline.problems(state.source.shape):
        return ()
    # One that refuses NaN and Inf could not be held against a scheme that does not.
    choice = state.baseline.nonfinite if state.baseline.nonfinite != "refuse" else state.scheme.nonfinite
    baseline = state.baseline.replace(nonfinite=choice)
    return tiles(study_of(state, baseline), state.replace(scheme=baseline))


def _number(tile: Tile, before: Tile | None, state: LabState) -> str:
    explained = say(f"tiles.{tile.key}.help", **tile.facts)
    learned = terms_of(f"number_{tile.key}")[0]
    name = term(
        tile_name(tile, state, short=True),
        explained,
        key=f"number_{tile.key}",
        short=say(f"tiles.{tile.key}.shortest"),
        more=(say("glossary.to_step", term=say(f"glossary.{learned}.name")), learn_address(learned)),
    )
    change = ""
    if before:
        words, better = change_against(tile, before)
        look = {True: "qv-better", False: "qv-worse", None: ""}[better]
        change = f'<em class="{look}">{html.escape(words)}</em>'
    line = f"<small>{html.escape(tile.line)}</small>" if tile.line else ""
    return (
        f'<div class="qv-number qv-number-{tile.key}">{name} '
        f'<b data-qv-metric="{tile.key}">{html.escape(tile.value)}</b>{change}{line}</div>'
    )
