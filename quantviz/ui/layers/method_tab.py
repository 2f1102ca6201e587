"""The tab Method: a method at work on the layer, and methods ranked by the error that they leave.

A method's picture is added here: one entry in `PICTURES`, a function that shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import setitem
from types import MappingProxyType

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.layer_state import NEAREST, OFFERED_METHODS, LayerState
from quantviz.ui.components.choice import choose_among, show_button
from quantviz.ui.components.phone_tables import Column, show_table
from quantviz.ui.components.refusals import show_refused
from quantviz.ui.layers.rounding_picture import show_rounding
from quantviz.ui.layers.scaling_pictures import show_awq, show_low_rank, show_rotation, show_smoothquant
from quantviz.ui.layers.smaller_pictures import (
    show_bias,
    show_clips,
    show_double,
    show_ends,
    show_equalization,
    show_grid,
    show_outliers,
)
from quantviz.ui.layers.state import SeenLayer, change_state, seen_layer
from quantviz.ui.layers.sweep_picture import show_sweep
from quantviz.ui.layers.words import decibels, percent, show_sentence
from quantviz.ui.shell.words import method_name, say

_TABLE = "layers_methods_table"
_RANKED = "layers_methods_ranked"
#: CSS pixels of half a laptop's page: the table stands beside the picture.
_WIDTH = 570

#: A picture gets the layer under its chain, the state, and the selected output.
Picture = Callable[[SeenLayer, LayerState, tuple[int, int]], None]
#: The picture of each method by its id.
PICTURES: Mapping[str, Picture] = MappingProxyType(
    {
        "gptq": show_sweep,
        "rotation": show_rotation,
        "smoothquant": show_smoothquant,
        "awq": show_awq,
        "low_rank": show_low_rank,
        "adaround": show_rounding,
        "signround": show_rounding,
        "bias_correction": show_bias,
        "equalization": show_equalization,
        "llm_int8": show_outliers,
        "double_quantization": show_double,
        "four_over_six": show_ends,
        "higgs": show_grid,
        "awq_clip": show_clips,
    }
)


def show_method(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show the choice of a method, the sentence on what it brings, its picture, and the ranking."""
    with st.container(key="layers_method", horizontal=True, gap="small", vertical_alignment="bottom"):
        offered = dict.fromkeys((*OFFERED_METHODS, state.method))
        choose_among(
            st.selectbox,
            "layers_method_choice",
            say("layers.method.choice"),
            {form: method_name(form) for form in offered},
            state.method,
            lambda form: change_state(method=form),
            help=say("layers.method.choice_help"),
        )
    show_sentence(_lesson(seen, state))
    for name in seen.result.trace:
        if name in PICTURES:
            PICTURES[name](seen, state, cell)
    _show_ranking(state)


def _lesson(seen: SeenLayer, state: LayerState) -> str:
    """Return the sentence on what the method brings over rounding to nearest."""
    if state.method == NEAREST:
        return say("layers.method.choose", error=percent(seen.result.rel_out.held_back))
    nearest = seen_layer(state, method=NEAREST)
    before, now = nearest.result.rel_out, seen.result.rel_out
    words = {
        "name": method_name(state.method),
        "error": percent(now.held_back),
        "before": percent(before.held_back),
        "used": percent(now.used),
        "used_before": percent(before.used),
        "db": decibels(seen.weight_db),
        "db_before": decibels(nearest.weight_db),
    }
    if now.held_back < before.held_back:
        # Without a rounding the weight itself is not what the method improves.
        key = "helps" if seen.result.method.rounding is None else "rounds_better"
    else:
        key = "overfits" if now.used < before.used else "hurts"
    return say(f"layers.method.{key}", **words)


# ---- the ranking ---------------------------------------------------------------------------------------


def _show_ranking(state: LayerState) -> None:
    """Show the methods that were measured as a table, and the button that measures all."""
    key = f"{state.source.key} {state.pair} {state.seed}"
    measured = st.session_state.get(_RANKED) == key
    if not measured:
        show_button(
            say("layers.method.rank"), "layers_method_rank", partial(setitem, st.session_state, _RANKED, key)
        )
        return
    rows, refused = _ranked(state)
    columns = (
        Column("method", [method_name(form) for form, _ in rows], 222, on_phone=True, names_lines=True),
        Column(
            "held_back",
            [100 * seen.result.rel_out.held_back for _, seen in rows],
            78,
            "%.3g %%",
            on_phone=True,
        ),
        Column("used", [100 * seen.result.rel_out.used for _, seen in rows], 74, "%.3g %%"),
        Column("weight_db", [seen.result.weights.sqnr_db for _, seen in rows], 58, "%.1f"),
        Column("bits", [seen.result.effective_bits for _, seen in rows], 54, "%.3g", on_phone=True),
        Column("seconds", [seen.seconds for _, seen in rows], 64, "%.2g"),
    )
    show_table(
        _TABLE,
        columns,
        _WIDTH,
        words="layers.method.heads",
        alt=say("layers.method.table_alt"),
        take=lambda line: change_state(method=rows[line][0]),
    )
    show_refused(refused, "layers.method.do_not_fit")


def _ranked(
    state: LayerState,
) -> tuple[list[tuple[str, SeenLayer]], list[tuple[str, QuantVizError | None]]]:
    """Return the offered chains that work on this layer, the one with the least error held back first, and
    the names of the others, each with its reason.
    """
    forms = list(dict.fromkeys((*OFFERED_METHODS, state.method)))
    bar = st.progress(0.0, say("layers.method.measuring"))
    found = []
    refused: list[tuple[str, QuantVizError | None]] = []
    for at, form in enumerate(forms):
        bar.progress(at / len(forms), f"{say('layers.method.measuring')} {method_name(form)}")
        try:
            seen = seen_layer(state, method=form)
            error = seen.result.rel_out.held_back
            found.append((error, at, (form, seen)))
        except QuantVizError as problem:
            refused.append((method_name(form), problem))
    bar.empty()
    return [row for _, _, row in sorted(found, key=lambda each: each[:2])], refused
