"""The tab Method: a method at work on the layer, and methods ranked by the error that they leave.

A method's picture is added here: one entry in `PICTURES`, a function that shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import setitem
from types import MappingProxyType
from typing import NamedTuple, cast

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.figures.numbers import short_number
from quantviz.lab.layer_state import NEAREST, LayerState
from quantviz.layers.methods.chain import offered_chains
from quantviz.layers.methods.packages import PACKAGE_METHODS, of_chain
from quantviz.ui.components.controls import choice_control, field_control, show_controls
from quantviz.ui.components.phone_tables import TableColumn, show_table
from quantviz.ui.components.small_parts import SteppedWork, show_button, show_refused
from quantviz.ui.layers.scaling_pictures import show_awq, show_low_rank, show_rotation, show_smoothquant
from quantviz.ui.layers.smaller_pictures import (
    show_bias,
    show_clips,
    show_codebook,
    show_course,
    show_double,
    show_ends,
    show_equalization,
    show_grid,
    show_outliers,
    show_rounding,
    show_stored,
    show_sweep,
)
from quantviz.ui.layers.state import OWNER, SeenLayer, seen_layer
from quantviz.ui.layers.words import compared, decibels, percent, show_sentence
from quantviz.ui.shell.words import method_name, plain, say

#: Shares of the outputs below which an error is that of float64 itself.
_NOISE = 1e-14
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
        "svdquant": show_course,
        "loftq": show_course,
        "spinquant": show_course,
        "learned_scales": show_course,
        "learned_clips": show_course,
        "adaround": show_rounding,
        "brecq": show_rounding,
        "signround": show_rounding,
        "bias_correction": show_bias,
        "equalization": show_equalization,
        "llm_int8": show_outliers,
        "stored": show_stored,
        "double_quantization": show_double,
        "four_over_six": show_ends,
        "higgs": show_grid,
        "kmeans": show_codebook,
        "awq_clip": show_clips,
    }
)


def show_method(seen: SeenLayer, state: LayerState, cell: tuple[int, int]) -> None:
    """Show the choice of a method, what it does and brings, its picture, and the ranking."""
    show_method_choice(state)
    for method in seen.result.method.methods:
        st.caption(plain(say(f"layers.methods.{method.id}.help")))
    show_sentence(_lesson(seen, state))
    for name in seen.result.trace:
        if name in PICTURES:
            PICTURES[name](seen, state, cell)
    _show_ranking(state)


def show_method_choice(state: LayerState) -> None:
    """Show the choice of a method, also of a layer on which the present one cannot work."""
    offered = dict.fromkeys((*offered_chains(), state.method))
    chains = {"": NEAREST} | {each.name: each.chain for each in PACKAGE_METHODS}
    method = field_control(
        OWNER,
        "method",
        "list",
        say("layers.method.choice"),
        {form: method_name(form) for form in offered},
        key="layers_method_choice",
        help=say("layers.method.choice_help"),
    )
    package = choice_control(
        "layers_method_package",
        "list",
        say("layers.method.package"),
        {name: name or say("layers.method.no_package") for name in chains},
        next((each.name for each in of_chain(state.method)), ""),
        lambda name: OWNER.change(method=chains[name]),
        help=say("layers.method.package_help"),
    )
    show_controls("layers_method", OWNER, method, package, look="qv-inside")


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
        "bits": short_number(seen.result.effective_bits),
        "bits_before": short_number(nearest.result.effective_bits),
    }
    change = compared(now.held_back, before.held_back)
    if max(now.held_back, before.held_back) < _NOISE:
        key = "exact"
    elif now == before:
        key = "same"
    elif change == "less":
        # Without a rounding the weight itself is not what the method improves.
        same_weight = seen.result.method.rounding is None or words["db"] == words["db_before"]
        key = "helps" if same_weight else "rounds_better"
    elif change == "more":
        key = "overfits" if compared(now.used, before.used) == "less" else "hurts"
        if seen.result.effective_bits < nearest.result.effective_bits:
            key = "saves"
    else:
        key = "alike"
    return say(f"layers.method.{key}", **words)


# ---- the ranking ---------------------------------------------------------------------------------------


def _show_ranking(state: LayerState) -> None:
    """Show the methods that were measured as a table, and the button that measures all."""
    key = f"{state.source.key} {state.pair} {state.seed}"
    ranking = cast("SteppedWork | None", st.session_state.get(_RANKED))
    if ranking is None or ranking.of != key:
        begin = partial(setitem, st.session_state, _RANKED, SteppedWork(key))
        show_button(say("layers.method.rank"), "layers_method_rank", begin)
        return
    forms = list(dict.fromkeys((*offered_chains(), state.method)))
    ranking.go_through(
        forms,
        lambda form, on_share: _tried(state, form, on_share),
        lambda form: say("layers.method.measuring", name=method_name(form)),
        "layers_method",
    )
    left = ranking.missing(forms)
    if left:
        words = say("layers.method.cancelled", done=len(forms) - len(left), all=len(forms))
        with st.container(key="layers_method_rest", horizontal=True, vertical_alignment="center"):
            st.markdown(plain(words), width="content")
            show_button(say("checkpoints.methods.go_on"), "layers_method_go_on", ranking.go_on)
    tried = [(form, ranking.found[form]) for form in forms if form not in left]
    rows = [(form, found) for form, found in tried if isinstance(found, _ChainNumbers)]
    rows.sort(key=lambda row: row[1].held_back)
    if not rows:
        return
    numbers = [found for _, found in rows]
    columns = (
        TableColumn("method", [method_name(form) for form, _ in rows], 222, on_phone=True, names_lines=True),
        TableColumn("held_back", [100 * each.held_back for each in numbers], 78, "%.3g %%", on_phone=True),
        TableColumn("used", [100 * each.used for each in numbers], 74, "%.3g %%"),
        TableColumn("weight_db", [each.weight_db for each in numbers], 58, "%.1f"),
        TableColumn("bits", [each.bits for each in numbers], 54, "%.3g", on_phone=True),
        TableColumn("seconds", [each.seconds for each in numbers], 64, "%.2g"),
    )
    show_table(
        _TABLE,
        columns,
        _WIDTH,
        words="layers.method.heads",
        alt=say("layers.method.table_alt"),
        take=lambda line: OWNER.change(method=rows[line][0]),
    )
    refused = ((method_name(form), found) for form, found in tried if isinstance(found, QuantVizError))
    show_refused(refused, "layers.method.do_not_fit")


class _ChainNumbers(NamedTuple):
    """The numbers of a chain in the ranking."""

    held_back: float
    used: float
    weight_db: float | None
    bits: float
    seconds: float


def _tried(state: LayerState, form: str, on_share: Callable[[float], None]) -> _ChainNumbers | QuantVizError:
    """Return the numbers of a chain on the layer, or the reason why it cannot work here."""
    try:
        seen = seen_layer(state, method=form, on_share=on_share)
    except QuantVizError as problem:
        return problem
    result = seen.result
    used, held_back = result.rel_out
    return _ChainNumbers(held_back, used, result.weights.sqnr_db, result.effective_bits, seen.seconds)
