"""Comparing engines in the Lab: the button, the choices, the table of engines, and those not compared.

`compared_engines` computes and keeps the comparison; `differing_cells` lists the cells that differ, and why.
"""

from __future__ import annotations

import html
import math
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

import streamlit as st

from quantviz.figures.arrangement import MOST_CELLS
from quantviz.lab.state import ALL, LabState
from quantviz.schemes.calibration import Given
from quantviz.schemes.conventions import CONVENTION_GROUPS
from quantviz.schemes.scheme import Scheme
from quantviz.sources.typed import Typed
from quantviz.tensors.views import MOST_WHOLE, View
from quantviz.ui.components.controls import choose_among, hold_text
from quantviz.ui.components.scheme_words import engines_found, part_words
from quantviz.ui.components.small_parts import show_button
from quantviz.ui.lab.compare.compared_engines import (
    LEFT_OUT,
    LIGHTS,
    ComparisonView,
    can_be_framed,
    engine_name,
    engine_names,
    rule_name,
)
from quantviz.ui.lab.compare.differing_cells import show_difference, show_differing_cells
from quantviz.ui.shell import session
from quantviz.ui.shell.bounds import FIND_CHARACTERS
from quantviz.ui.shell.classroom import locked, visible
from quantviz.ui.shell.words import number, plain, say, say_error, sentences

if TYPE_CHECKING:
    from quantviz.errors import QuantVizError


#: Cells of a pair whose rule is looked up.
_ASKED = 256
#: Below this many steps a difference is given in units in the last place.
_FEW_STEPS = 0.001


def show_open_button(state: LabState) -> None:
    """Show the button that opens and closes the comparison."""
    if visible("compare"):
        opened = state.compared is not None
        about = say("compare.open_help")
        if state.large:
            about = say("compare.too_large", most=MOST_WHOLE, count=math.prod(state.source.shape))
        show_button(
            say("compare.open"),
            "compare_open",
            hold_comparison,
            None if opened else ALL,
            type="primary" if opened else "secondary",
            disabled=state.large,
            help=about,
        )


def hold_comparison(compared: str | None) -> None:
    session.change(compared=compared)


def _ways_to_frame(shown: ComparisonView, view: View) -> list[str]:
    """Return the ways to few enough cells for frames: those that are not taken yet and suffice."""

    def helps(other: str | None, light: str) -> bool:
        return can_be_framed(shown.cells(other, light), view)

    ways = []
    if max(view.matrix(tuple(shown.lit.shape))) > MOST_CELLS:
        ways.append("zoom")
    if (
        shown.other is None
        and len(shown.others) > 1
        and any(helps(other, shown.light) for other in shown.others)
    ):
        ways.append("one")
    ways += [light for light in LIGHTS if light != shown.light and helps(shown.other, light)]
    return [say(f"compare.frame_by_{way}") for way in ways]


def example_state() -> LabState:
    """Return numbers of two decimals that lie between two codes: order and ties show."""
    values = tuple(((37 * i) % 201 - 100) / 100 for i in range(64))
    source = Typed(values, (8, 8))
    return LabState(
        source,
        Scheme("int8", "asymmetric", calibration=Given(0.02, 3)),
        View.of(source.shape),
        (0, 0),
        compared=ALL,
    )


def show_comparison(shown: ComparisonView, state: LabState, *, pooled: bool) -> None:
    """Show choices, engines, differing cells and the reason; `pooled`: a pixel stands for many cells."""
    comparison = shown.comparison
    with st.container(key="compare_head", horizontal=True, gap="small", vertical_alignment="center"):
        st.markdown(f"**{plain(_headline(shown))}**", width="stretch")
        if shown.others:
            _choices(shown)
        if len(shown.kept.offering) > 2:
            _engines(shown)
    if not shown.others:
        _nothing(len(comparison.results) > 1)
    elif pooled:
        st.caption(plain(say("compare.pooled", most=MOST_CELLS)))
    elif not can_be_framed(shown.lit, state.view):
        too_many = say("compare.too_many", count=f"{int(shown.lit.sum()):,}")
        st.caption(plain(sentences(too_many, *_ways_to_frame(shown, state.view))))
    if shown.others:
        left, right = st.columns([7, 5], gap="medium")
        with left:
            _table(shown)
        with right:
            show_differing_cells(shown, state)
        if visible("q") and visible("steps"):
            show_difference(shown, state)
    if shown.kept.refused:
        _refused(shown, state)


def _headline(shown: ComparisonView) -> str:
    comparison = shown.comparison
    if len(comparison.results) < 2:
        return say("compare.alone")
    if not shown.others:
        return say("compare.same", engines=len(comparison.results))
    codes, values = (f"{int(mask.sum()):,}" for mask in (comparison.codes_differ, comparison.values_differ))
    return say(
        "compare.differ",
        engines=len(comparison.results),
        codes=codes,
        values=values,
        all=f"{comparison.lit.numel():,}",
    )


def _nothing(compared: bool) -> None:
    if compared:
        st.markdown(plain(say("compare.same_why")))
    if not any(locked(group) for group in ("tensor", "scheme", "range")):
        show_button(
            say("compare.load"),
            "compare_load",
            lambda: session.put(example_state()),
            help=say("compare.load_help"),
        )


def _choices(shown: ComparisonView) -> None:
    others = [group for group in shown.comparison.groups if shown.present not in group]
    words = {ALL: say("compare.any_two")}
    words |= {group[0]: say("compare.from_one", names=engine_names(group)) for group in others}
    lit = say("compare.lit")
    choose_among("compare_with", "list", lit, words, shown.other or ALL, hold_comparison, look="qv-unnamed")
    lights = {name: say(f"compare.light_{name}") for name in LIGHTS}
    label = say("compare.light")
    choose_among("compare_light", "row", label, lights, shown.light, _set_light, look="qv-unnamed")


def _set_light(light: str) -> None:
    st.session_state["lab_compare_light"] = light


def _engines(shown: ComparisonView) -> None:
    """Show which of the engines take part."""
    engines = [name for name in shown.kept.offering if name != shown.present]
    chosen = [name for name in engines if name in shown.comparison.results]
    with st.popover(
        say("compare.engines", chosen=len(chosen) + 1, offered=len(engines) + 1), key="compare_engines"
    ):
        st.caption(say("compare.engines_label"))
        wanted = hold_text(
            "compare_engines_find",
            say("compare.find_engine"),
            FIND_CHARACTERS,
            example=say("compare.find_engine_example"),
            look="qv-unnamed",
        )
        found = engines_found(engines, wanted)
        if not found:
            st.caption(say("compare.no_engine_found"))
        for purpose, group in CONVENTION_GROUPS.items():
            words = {name: engine_name(name) for name in found if name in group}
            if words:
                key = f"compare_chosen_{purpose}"
                kept = [name for name in words if name in chosen]
                take = partial(_leave_out, frozenset(words))
                choose_among(key, "many", say(f"purposes.{purpose}"), words, kept, take)


def _leave_out(engines: frozenset[str], kept: list[str]) -> None:
    before = cast("frozenset[str]", st.session_state.get(LEFT_OUT, frozenset()))
    st.session_state[LEFT_OUT] = (before - engines) | (engines - set(kept))


def _table(shown: ComparisonView) -> None:
    """Show a row for each group of engines that agree, the present one first."""
    from quantviz.streaming.result_metrics import metrics

    # Where a tile is hidden, so is the column of the same number; on a phone there is no room for them.
    metric_of = {"mse": "mse", "sqnr": "sqnr_db"}
    measured = [name for name in metric_of if visible(f"tiles.{name}")]
    columns = ("group", "codes", "values", "largest", *measured, "rule")
    wide = ["qv-wide" if name in measured else "" for name in columns]
    rows = []
    for group in shown.comparison.groups:
        result = shown.comparison.results[group[0]]
        measures = [number(shown.kept.once(metrics, result)[metric_of[name]]) for name in measured]
        if shown.present in group:
            names = engine_names((shown.present, *(name for name in group if name != shown.present)))
            name = f"<b>{html.escape(names)}</b> <small>({html.escape(say('compare.now'))})</small>"
            cells = [name, "–", "–", "–", *measures, "–"]
        else:
            apart = shown.apart(group[0])
            counts = (f"{int(mask.sum()):,}" for mask in (apart.codes, apart.values))
            largest = _largest(apart.largest_steps, apart.largest_ulps)
            rule = html.escape(_rule_words(shown, group[0]))
            cells = [html.escape(engine_names(group)), *counts, largest, *measures, rule]
        chosen = ' class="qv-chosen"' if group[0] == shown.other else ""
        row = "".join(f'<td class="{style}">{cell}</td>' for style, cell in zip(wide, cells, strict=True))
        rows.append(f"<tr{chosen}>{row}</tr>")
    heads = "".join(
        f'<th class="{style}">{html.escape(say(f"compare.{name}"))}</th>'
        for style, name in zip(wide, columns, strict=True)
    )
    st.html(
        f'<div class="qv-steps qv-compare"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _largest(steps: float, ulps: int) -> str:
    if steps >= _FEW_STEPS or not math.isfinite(steps):
        return html.escape(say("compare.steps", steps=number(steps, 3)))
    title = html.escape(say("compare.ulps_help"))
    words = html.escape(say("compare.ulps", ulps=ulps))
    return f'<span title="{title}">{words}</span>'


def _rule_words(shown: ComparisonView, other: str) -> str:
    """Return the rules of most of a pair's cells."""
    from quantviz.analysis.engine_comparison import rules

    kept = shown.kept.once(rules, shown.comparison, shown.present, other, _ASKED)
    names = [rule_name(rule.fields) for rule in kept]
    return say("compare.and_more", rules="; ".join(names[:2])) if len(names) > 2 else "; ".join(names)


def _refused(shown: ComparisonView, state: LabState) -> None:
    """List the engines that are not compared: those that lack the same part of the scheme in one line."""
    refused = shown.kept.refused
    with st.expander(say("compare.refused", count=len(refused)), key="compare_refused"):
        lines = []
        for part, field in _FIELDS_OF_LACKS.items():
            names = [name for name, problem in refused.items() if _lacks(problem, part)]
            if names:
                words = part_words(state.scheme, field, state.source)
                lines.append(plain(say(f"compare.lacks_{part}", part=words, names=engine_names(names))))
        for problem in refused.values():
            if not any(_lacks(problem, part) for part in _FIELDS_OF_LACKS):
                lines.append(say_error(problem))
        st.markdown("\n".join(f"- {line}" for line in lines))


#: Features that an engine may lack, with the field of the scheme.
_FIELDS_OF_LACKS = MappingProxyType(
    {"format": "format", "mode": "mode", "granularity": "granularity", "size": "granularity"}
)


def _lacks(problem: QuantVizError, part: str) -> bool:
    return problem.key in ("not_offered", "not_offered_reduced") and problem.params["what"] == part
