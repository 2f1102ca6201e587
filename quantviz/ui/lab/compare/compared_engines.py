"""The comparison that the Lab's state asks for: kept in the session, shown in the panels, and the
button, the choices, the table of engines and those not compared.
"""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import streamlit as st

from quantviz.figures.arrangement import MOST_CELLS
from quantviz.lab.state import ALL, LabState
from quantviz.schemes.calibration import Given
from quantviz.schemes.conventions import CONVENTION_GROUPS, CONVENTIONS, Convention
from quantviz.schemes.scheme import Scheme
from quantviz.sources.typed import Typed
from quantviz.tensors.views import MOST_WHOLE, View
from quantviz.ui.components.controls import choose_among, hold_text
from quantviz.ui.components.scheme_words import (
    convention_words,
    engines_found,
    field_name,
    part_words,
    value_words,
)
from quantviz.ui.components.small_parts import show_button, table_html
from quantviz.ui.components.tensor_cache import tensor_of
from quantviz.ui.shell import session
from quantviz.ui.shell.bounds import FIND_CHARACTERS
from quantviz.ui.shell.classroom import locked, visible
from quantviz.ui.shell.words import number, plain, say, say_error, sentences

if TYPE_CHECKING:
    import torch

    from quantviz.analysis.engine_comparison import Comparison, Difference, DifferenceCause, Fields
    from quantviz.errors import QuantVizError
    from quantviz.figures.panels_data import PanelsData, PixelCells


T = TypeVar("T")
#: Kinds of differences.
LIGHTS = ("either", "code")
#: Sides of lit cells up to which they are framed: each is drawn in four panels, twice.
_MOST_SIDES = 8000
_KEPT = "lab_comparison"
LEFT_OUT = "lab_compare_left_out"


@dataclass(frozen=True, eq=False)
class EngineComparisonResults:
    """A comparison, with the results that were computed about it so far."""

    key: str
    comparison: Comparison
    #: Those that offer the scheme, chosen or not.
    offering: tuple[str, ...]
    refused: dict[str, QuantVizError]
    results: dict[tuple[object, ...], Any] = field(default_factory=dict)

    def once(self, work: Callable[..., T], *args: Any) -> T:
        """Return the result of `work` on `args`, computed once."""
        key = (work, *args)
        if key not in self.results:
            self.results[key] = work(*args)
        return cast("T", self.results[key])


@dataclass(frozen=True, eq=False)
class ComparisonView:
    """A comparison as it is looked at."""

    kept: EngineComparisonResults
    #: The convention of the Lab's own scheme.
    present: str
    #: The convention to compare with; None for all others.
    other: str | None
    #: Kind of differences, one of `LIGHTS`.
    light: str

    @property
    def comparison(self) -> Comparison:
        return self.kept.comparison

    @property
    def lit(self) -> torch.Tensor:
        """Return the cells that differ, bool of the tensor's shape."""
        return self.cells(self.other, self.light)

    def cells(self, other: str | None, light: str) -> torch.Tensor:
        """Return the cells in which the present convention and another differ; without `other`, any two."""
        if other is None:
            return self.comparison.codes_differ if light == "code" else self.comparison.lit
        apart = self.apart(other)
        return apart.codes if light == "code" else apart.either

    def apart(self, other: str) -> Difference:
        """Return the differences between the present convention and another."""
        from quantviz.analysis.engine_comparison import difference

        results = self.comparison.results
        return self.kept.once(difference, results[self.present], results[other])

    @property
    def others(self) -> tuple[str, ...]:
        """Return the first of each group but the present one's."""
        return tuple(group[0] for group in self.comparison.groups if self.present not in group)


def comparing(state: LabState) -> ComparisonView | None:
    """Return the comparison that the state asks for."""
    if state.compared is None or state.large or not visible("compare"):
        return None
    kept = _kept(state)
    present = str(state.scheme.chosen)
    # One that agrees in everything stands for its group.
    group = next((group for group in kept.comparison.groups if state.compared in group), ())
    other = group[0] if group and present not in group else None
    light = cast("str", st.session_state.get("lab_compare_light", LIGHTS[0]))
    return ComparisonView(kept, present, other, light)


def _kept(state: LabState) -> EngineComparisonResults:
    from quantviz.analysis.engine_comparison import compare

    left_out = cast("frozenset[str]", st.session_state.get(LEFT_OUT, frozenset()))
    key = f"{state.source.key} {state.scheme} {','.join(sorted(left_out))}"
    found = cast("EngineComparisonResults | None", st.session_state.get(_KEPT))
    if found is None or found.key != key:
        own = state.scheme.chosen
        engines: tuple[Convention, ...] = (own, *(each for each in CONVENTIONS.values() if each != own))
        x = tensor_of(state.source)
        whole = compare(x, state.scheme, engines)
        chosen = [each for each in engines if each == own or str(each) not in left_out]
        comparison = whole if len(chosen) == len(engines) else compare(x, state.scheme, chosen)
        found = st.session_state[_KEPT] = EngineComparisonResults(
            key, comparison, tuple(whole.results), dict(whole.refused)
        )
    return found


def differing(shown: ComparisonView | None, view: View) -> Any:
    """Return the mask of the differing cells in view, bool of its rows and columns; None where hidden."""
    return None if shown is None or not visible("compare") else seen(shown.lit, view)


def lighted(data: PanelsData, lit: Any) -> PanelsData:
    """Return the panels with the cells in view framed that are `lit`, or with a map of them if too many."""
    if lit is None:
        return data
    if data.pixels is not None:
        return dataclasses.replace(data, lit_share=_lit_share(lit, data.pixels))
    return dataclasses.replace(data, **({"lit": lit} if _sides(lit) <= _MOST_SIDES else {"lit_share": lit}))


def _lit_share(lit: Any, pixels: PixelCells) -> Any:
    """Return the share of the cells of each pixel that is lit."""
    import numpy as np

    rows = pixels.row_edges - pixels.row_edges[0]
    cols = pixels.col_edges - pixels.col_edges[0]
    counts = np.add.reduceat(np.add.reduceat(lit.astype(np.float32), rows[:-1], 0), cols[:-1], 1)
    return counts / np.outer(np.diff(rows), np.diff(cols))


def seen(lit: torch.Tensor, view: View) -> Any:
    from quantviz.tensors import blocks

    rows, cols = view.size(tuple(lit.shape))
    whole = blocks.matrix(lit, view.rows, view.cols, view.at)
    return whole[view.top : view.top + rows, view.left : view.left + cols].contiguous().numpy()


def can_be_framed(lit: torch.Tensor, view: View) -> bool:
    """Return whether the lit cells in view are not too many to be framed."""
    return _sides(seen(lit, view)) <= _MOST_SIDES


def _sides(cells: Any) -> int:
    """Return the number of borders between lit and unlit cells."""
    return int((cells[1:] != cells[:-1]).sum() + (cells[:, 1:] != cells[:, :-1]).sum())


def engine_name(name: str) -> str:
    """Return a convention, named by its text form, for people."""
    return convention_words(Convention.parse(name))


def engine_names(group: Iterable[str]) -> str:
    return " · ".join(map(engine_name, group))


def rule_name(fields: Fields) -> str:
    return say("compare.with").join(map(field_name, fields))


#: Differing cells of a pair that are listed.
_LISTED = 6


def show_differing_cells(shown: ComparisonView, state: LabState) -> None:
    """Show the first cells that differ, as buttons that select them; those whose codes differ come first."""
    import torch

    codes = shown.cells(shown.other, "code")
    places = torch.cat([torch.nonzero(codes), torch.nonzero(shown.lit & ~codes)])[:_LISTED]
    if not len(places):
        return
    st.markdown(plain(say("compare.cells")))
    with st.container(key="compare_cells", gap=None):
        for at, place in enumerate(tuple(map(int, place)) for place in places):
            found = _reason(shown, place)
            if found is not None:
                show_button(
                    _line(shown, found[1], engine_name(found[0]) if shown.other is None else ""),
                    f"compare_cell_{at}",
                    _select,
                    place,
                    type="primary" if place == state.cell else "secondary",
                    width="stretch",
                )


def _select(place: tuple[int, ...]) -> None:
    now = session.state()
    session.look(now.view.showing(place, now.source.shape), place)


def _reason(shown: ComparisonView, place: tuple[int, ...]) -> tuple[str, DifferenceCause] | None:
    """Return the engine, chosen or first, that differs from the present one in a cell, and the reason."""
    from quantviz.analysis.engine_comparison import why

    own = shown.comparison.results[shown.present]
    others = shown.others if shown.other is None else (shown.other,)
    for wanted in (1, 0):  # another code is worth more than another value
        for other in others:
            result = shown.comparison.results[other]
            differs = result.q[place] != own.q[place] if wanted else result.x_hat[place] != own.x_hat[place]
            if bool(differs):
                return other, shown.kept.once(why, shown.comparison, shown.present, other, place)
    return None


def _line(shown: ComparisonView, reason: DifferenceCause, engine: str) -> str:
    """Return a cell in one line, first the values that differ; `engine` names the other side's."""
    one = reason.one
    other = reason.other
    parts = [f"({', '.join(map(str, reason.index))})"]
    differs = "q" if reason.what == "code" and visible("q") else "x_hat"
    if visible(differs):
        mine, theirs = (
            [_stands_for(shown, why.q) for why in (one, other)]
            if differs == "q"
            else _told_apart(one.x_hat, other.x_hat)
        )
        parts.append(f"{say(f'panels.field.{differs}')} {mine} | {f'{engine} ' if engine else ''}{theirs}")
    parts += [say("compare.x", x=number(one.x, 6)), rule_name(reason.fields)]
    return plain(" · ".join(parts)) + (f" · **{plain(say('compare.tie'))}**" if reason.tie else "")


def _told_apart(one: float, other: float) -> tuple[str, str]:
    """Return two float32 numbers with as many digits as it takes to see which is which.

    >>> _told_apart(-2.31589627, -2.31589603), _told_apart(3.5, 7.0)
    (('−2.3158963', '−2.315896'), ('3.5', '7'))
    """
    digits = next((digits for digits in range(4, 9) if number(one, digits) != number(other, digits)), 9)
    return number(one, digits), number(other, digits)


def _stands_for(shown: ComparisonView, code: int) -> str:
    """Return a code by its number, or in a format that is no integers by its value before any scale."""
    fmt = shown.comparison.results[shown.present].scheme.number_format
    value = float(fmt.value(code))
    if fmt.kind == "integer":
        return number(code, 9)
    if value == 0 and math.copysign(1, value) < 0:
        return "−0"
    return number(value, 5)


def show_difference(shown: ComparisonView, state: LabState) -> None:
    """Show why the selected cell differs, with both sides' numbers."""
    found = _reason(shown, state.cell)
    place = ", ".join(map(str, state.cell))
    if found is None:
        st.markdown(plain(say("compare.alike", place=place)))
        return
    other, reason = found
    engines = [engine_name(name) for name in (shown.present, other)]
    causes = [] if reason.what == "code" else [say("compare.code_same")]
    causes += [say("compare.together")] if len(reason.fields) > 1 else []
    pair = {"one": engines[0], "other": engines[1]}
    for name, values in reason.fields.items():
        mine, theirs = (value_words(name, value) for value in values)
        causes.append(say("compare.turn", field=field_name(name), mine=mine, theirs=theirs, **pair))
    causes += _ties(reason)
    names = ["", *(say(f"compare.{name}") for name in ("before", "rounding", "code", "x_hat", "lines"))]
    rows = [_side(shown, reason, side, engines[side], names) for side in (0, 1)]
    lead = f"<b>{html.escape(say('compare.place', place=place))}</b>, "
    lead += html.escape(say("compare.x", x=number(reason.one.x, 7)))
    st.html(
        f'<div class="qv-steps qv-compare-why"><p>{lead} &nbsp; {html.escape(sentences(*causes))}</p>'
        f"{table_html(names, rows)}</div>"
    )


def _ties(reason: DifferenceCause) -> list[str]:
    """Return a sentence for each number that lies half-way."""
    lines = []
    for why, ties in zip((reason.one, reason.other), reason.ties, strict=True):
        rounded = next((step.output for step in reversed(why.steps) if step.key.startswith("round")), None)
        if why.tie and rounded is not None:
            words = value_words("ties", ties)
            before = number(why.before_rounding, 9)
            lines.append(say("compare.half_way", before=before, ties=words, rounded=number(rounded, 9)))
    return list(dict.fromkeys(lines))


def _side(shown: ComparisonView, reason: DifferenceCause, side: int, engine: str, names: list[str]) -> str:
    why = (reason.one, reason.other)[side]
    code = "<br>".join(
        f"<code>{html.escape(step.code_line)}</code> <small>= {number(step.output, 9)}</small>"
        for step in reason.lines[side]
    )
    tie = f" <b>({html.escape(say('compare.tie'))})</b>" if why.tie else ""
    value = _stands_for(shown, why.q)
    code_number = "" if value == number(why.q, 9) else f" <small>({number(why.q, 9)})</small>"
    cells = (
        f"<b>{html.escape(engine)}</b>",
        f"{number(why.before_rounding, 9)}{tie}",
        html.escape(value_words("ties", reason.ties[side])),
        f"<b>{value}</b>{code_number}",
        number(why.x_hat, 9),
        code or "–",
    )
    # On a phone, where the numbers stand one under the other, each is called by its name.
    named = zip(map(html.escape, names), cells, strict=True)
    row = "".join(f'<td data-name="{name}">{cell}</td>' for name, cell in named)
    return f"<tr>{row}</tr>"


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
_FIELDS_OF_LACKS = {"format": "format", "mode": "mode", "granularity": "granularity", "size": "granularity"}


def _lacks(problem: QuantVizError, part: str) -> bool:
    return problem.key in ("not_offered", "not_offered_reduced") and problem.params["what"] == part
