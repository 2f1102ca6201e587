"""Comparing engines in the Lab: what each makes of the tensor, the cells that differ, and which rule it was.

Nothing is computed while the comparison is closed. Open, it is kept in the session with the tensor and scheme
it is of.
"""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import streamlit as st

from quantviz.figures.arrangement import MOST_CELLS
from quantviz.lab.state import ALL, LabState
from quantviz.schemes.calibration import Given
from quantviz.schemes.conventions import CONVENTIONS, Convention
from quantviz.schemes.scheme import Scheme
from quantviz.sources.typed import Typed
from quantviz.tensors.views import MOST_WHOLE, View
from quantviz.ui.components.choice import choose
from quantviz.ui.components.scheme_words import convention_words, field_name, part_words, value_words
from quantviz.ui.lab.tensor import tensor_of
from quantviz.ui.shell import session
from quantviz.ui.shell.classroom import locked, visible
from quantviz.ui.shell.words import number, plain, say, say_error

if TYPE_CHECKING:
    import torch

    from quantviz.analysis.engine_comparison import Comparison, Difference, Fields, Reason, Rule
    from quantviz.errors import QuantVizError
    from quantviz.figures.panels_data import PanelsData

#: What counts as a difference.
LIGHTS = ("either", "code")
#: Cells of a pair that are asked for their rule, and those that are listed.
_ASKED, _LISTED = 256, 6
#: Sides of lit cells up to which they are framed: each is drawn in four panels, twice.
_MOST_SIDES = 8000
#: Below this many steps a difference is told in units in the last place.
_FEW_STEPS = 0.001
_KEPT, _LEFT_OUT, _LIGHT = "lab_comparison", "lab_compare_left_out", "compare_light"


@dataclass(frozen=True, eq=False)
class Kept:
    """A comparison, and what was found out about it on the way."""

    key: str
    comparison: Comparison
    #: Those that offer the scheme, chosen or not.
    offering: tuple[str, ...]
    refused: dict[str, QuantVizError]
    rules: dict[str, tuple[Rule, ...]] = field(default_factory=dict)
    #: What lies between the present convention and another.
    apart: dict[str, Difference] = field(default_factory=dict)
    #: A result's MSE and SQNR.
    measures: dict[str, dict[str, float]] = field(default_factory=dict)
    reasons: dict[tuple[str, tuple[int, ...]], Reason] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Shown:
    """A comparison as it is looked at."""

    kept: Kept
    #: The convention of the Lab's own scheme.
    present: str
    #: What it is held against; all others where there is none.
    other: str | None
    #: What counts as a difference, one of `LIGHTS`.
    light: str
    #: The cells that differ, bool of the tensor's shape.
    lit: torch.Tensor

    @property
    def comparison(self) -> Comparison:
        """Return the comparison itself."""
        return self.kept.comparison

    @property
    def others(self) -> tuple[str, ...]:
        """Return the first of each group but the present one's."""
        return tuple(group[0] for group in self.comparison.groups if self.present not in group)


# ---- open, close, compute -----------------------------------------------------------------------


def show_button(state: LabState) -> None:
    """The button that opens and closes the comparison."""
    if visible("compare"):
        opened = state.compared is not None
        st.button(
            say("compare.open"),
            key="compare_open",
            type="primary" if opened else "secondary",
            on_click=session.safely(_hold),
            args=(None if opened else ALL,),
            disabled=state.large,
            help=say("compare.too_large", most=MOST_WHOLE, count=math.prod(state.source.shape))
            if state.large
            else say("compare.open_help"),
        )


def _hold(compared: str | None) -> None:
    session.change(compared=compared)


def comparing(state: LabState) -> Shown | None:
    """Return the comparison that the state asks for."""
    if state.compared is None or state.large or not visible("compare"):
        return None
    kept = _kept(state)
    present = str(state.scheme.arithmetic)
    # One that agrees in everything stands for its group.
    group = next((group for group in kept.comparison.groups if state.compared in group), ())
    other = group[0] if group and present not in group else None
    light = cast(str, st.session_state.get("lab_compare_light", LIGHTS[0]))
    return Shown(kept, present, other, light, _lit(kept, present, other, light))


def _kept(state: LabState) -> Kept:
    from quantviz.analysis.engine_comparison import compare

    left_out = cast("frozenset[str]", st.session_state.get(_LEFT_OUT, frozenset()))
    key = f"{state.source.key} {state.scheme} {','.join(sorted(left_out))}"
    found = cast("Kept | None", st.session_state.get(_KEPT))
    if found is None or found.key != key:
        own = state.scheme.arithmetic
        engines: tuple[Convention, ...] = (own, *(each for each in CONVENTIONS.values() if each != own))
        x = tensor_of(state.source)
        whole = compare(x, state.scheme, engines)
        chosen = [each for each in engines if each == own or str(each) not in left_out]
        comparison = whole if len(chosen) == len(engines) else compare(x, state.scheme, chosen)
        found = st.session_state[_KEPT] = Kept(key, comparison, tuple(whole.results), dict(whole.refused))
    return found


def _lit(kept: Kept, present: str, other: str | None, light: str) -> torch.Tensor:
    if other is None:
        return kept.comparison.codes_differ if light == "code" else kept.comparison.lit
    apart = _apart(kept, present, other)
    return apart.codes if light == "code" else apart.either


def _apart(kept: Kept, present: str, other: str) -> Difference:
    from quantviz.analysis.engine_comparison import difference

    if other not in kept.apart:
        kept.apart[other] = difference(kept.comparison.results[present], kept.comparison.results[other])
    return kept.apart[other]


def _measures(kept: Kept, name: str) -> dict[str, float]:
    from quantviz.evaluation.metric_formulas import metrics

    if name not in kept.measures:
        found = metrics(kept.comparison.results[name])
        kept.measures[name] = {"mse": found["mse"], "sqnr": found["sqnr_db"]}
    return kept.measures[name]


def lighted(data: PanelsData, shown: Shown | None, view: View) -> PanelsData:
    """Return the panels with the cells framed that differ, where they are not too many to be told apart and
    each is seen by itself.
    """
    if shown is None or data.pixels is not None or not visible("compare"):
        return data
    return dataclasses.replace(data, lit=_seen(shown.lit, view)) if _can_be_framed(shown.lit, view) else data


def _seen(lit: torch.Tensor, view: View) -> Any:
    from quantviz.tensors import blocks

    rows, cols = view.size(tuple(lit.shape))
    return (
        blocks.matrix(lit, view.rows, view.cols, view.at)[
            view.top : view.top + rows, view.left : view.left + cols
        ]
        .contiguous()
        .numpy()
    )


def _can_be_framed(lit: torch.Tensor, view: View) -> bool:
    """Return whether the lit cells in view are not too many to be framed."""
    return _sides(_seen(lit, view)) <= _MOST_SIDES


def _ways_to_frame(shown: Shown, view: View) -> list[str]:
    """What would leave few enough cells: only what was not done yet, and does it."""

    def helps(other: str | None, light: str) -> bool:
        return _can_be_framed(_lit(shown.kept, shown.present, other, light), view)

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


def _sides(cells: Any) -> int:
    """Return how many sides of lit cells border on what is not lit."""
    return int((cells[1:] != cells[:-1]).sum() + (cells[:, 1:] != cells[:, :-1]).sum())


def _example() -> LabState:
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


# ---- words --------------------------------------------------------------------------------------


def _name(name: str) -> str:
    """Return a convention, named by its text form, for people."""
    return convention_words(Convention.parse(name))


def _names(group: Iterable[str]) -> str:
    return " · ".join(map(_name, group))


def _rule_name(fields: Fields) -> str:
    return say("compare.with").join(map(field_name, fields))


def _group_of(shown: Shown, name: str) -> tuple[str, ...]:
    return next(group for group in shown.comparison.groups if name in group)


# ---- the comparison -----------------------------------------------------------------------------


def show_comparison(shown: Shown, state: LabState, *, pooled: bool) -> None:
    """Choices, the table of engines, the first cells that differ, and why the selected one does.

    `pooled` says that a pixel of the panels stands for many cells.
    """
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
    elif not _can_be_framed(shown.lit, state.view):
        st.caption(
            plain(
                " ".join(
                    (
                        say("compare.too_many", count=f"{int(shown.lit.sum()):,}"),
                        *_ways_to_frame(shown, state.view),
                    )
                )
            )
        )
    if shown.others:
        left, right = st.columns([7, 5], gap="medium")
        with left:
            _table(shown)
        with right:
            _cells(shown, state)
        if visible("q") and visible("steps"):
            _detail(shown, state)
    if shown.kept.refused:
        _refused(shown, state)


def _headline(shown: Shown) -> str:
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
        st.button(
            say("compare.load"),
            key="compare_load",
            on_click=session.safely(lambda: session.put(_example())),
            help=say("compare.load_help"),
        )


def _choices(shown: Shown) -> None:
    groups = {group[0]: group for group in shown.comparison.groups}
    choose(
        st.selectbox,
        say("compare.lit"),
        (ALL, *shown.others),
        key=session.show("compare_with", shown.other or ALL),
        on_change=session.safely(lambda: _hold(st.session_state["compare_with"])),
        format_func=lambda name: (
            say("compare.any_two")
            if name == ALL
            else say("compare.from_one", names=_names(groups.get(name, (name,))))
        ),
        label_visibility="collapsed",
        width=310,
    )
    choose(
        st.segmented_control,
        say("compare.light"),
        LIGHTS,
        key=session.show(_LIGHT, shown.light),
        required=True,
        on_change=session.safely(_set_light),
        format_func=lambda name: {"either": say("compare.light_either"), "code": say("compare.light_code")}[
            name
        ],
        help=say("compare.light"),
        label_visibility="collapsed",
    )


def _set_light() -> None:
    st.session_state["lab_compare_light"] = st.session_state[_LIGHT]


def _engines(shown: Shown) -> None:
    """Which of the engines take part."""
    engines = [name for name in shown.kept.offering if name != shown.present]
    chosen = [name for name in engines if name in shown.comparison.results]
    with st.popover(
        say("compare.engines", chosen=len(chosen) + 1, offered=len(engines) + 1), key="compare_engines"
    ):
        choose(
            st.pills,
            say("compare.engines_label"),
            engines,
            selection_mode="multi",
            key=session.show("compare_chosen", chosen, folded=True),
            on_change=session.safely(_leave_out),
            args=(tuple(engines),),
            format_func=_name,
        )


def _leave_out(engines: tuple[str, ...]) -> None:
    before = cast("frozenset[str]", st.session_state.get(_LEFT_OUT, frozenset()))
    st.session_state[_LEFT_OUT] = (before - set(engines)) | (
        set(engines) - set(st.session_state["compare_chosen"])
    )


def _table(shown: Shown) -> None:
    """A row for each group of engines that agree; the present one first."""
    # Where a tile is hidden, so is the column that says the same; on a phone there is no room for them.
    measured = [name for name in ("mse", "sqnr") if visible(f"tiles.{name}")]
    columns = ("group", "codes", "values", "largest", *measured, "rule")
    wide = ["qv-wide" if name in measured else "" for name in columns]
    rows = []
    for group in shown.comparison.groups:
        measures_told = [number(_measures(shown.kept, group[0])[name]) for name in measured]
        if shown.present in group:
            names = html.escape(_names((shown.present, *(name for name in group if name != shown.present))))
            cells = [
                f"<b>{names}</b> <small>({html.escape(say('compare.now'))})</small>",
                "–",
                "–",
                "–",
                *measures_told,
                "–",
            ]
        else:
            apart = _apart(shown.kept, shown.present, group[0])
            counts = (f"{int(mask.sum()):,}" for mask in (apart.codes, apart.values))
            rule = html.escape(_rules_told(shown, group[0]))
            cells = [
                html.escape(_names(group)),
                *counts,
                _largest(apart.largest_steps, apart.largest_ulps),
                *measures_told,
                rule,
            ]
        chosen = ' class="qv-chosen"' if group[0] == shown.other else ""
        rows.append(
            f"<tr{chosen}>"
            + "".join(f'<td class="{name}">{cell}</td>' for name, cell in zip(wide, cells, strict=True))
            + "</tr>"
        )
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
    title, words = html.escape(say("compare.ulps_help")), html.escape(say("compare.ulps", ulps=ulps))
    return f'<span title="{title}">{words}</span>'


def _rules_told(shown: Shown, other: str) -> str:
    """Return the rules of most of a pair's cells."""
    from quantviz.analysis.engine_comparison import rules

    kept = shown.kept.rules
    if other not in kept:
        kept[other] = rules(shown.comparison, shown.present, other, _ASKED)
    told = [_rule_name(rule.fields) for rule in kept[other]]
    return say("compare.and_more", rules="; ".join(told[:2])) if len(told) > 2 else "; ".join(told)


# ---- cells --------------------------------------------------------------------------------------


def _cells(shown: Shown, state: LabState) -> None:
    """The first cells that differ, as buttons that select them; those whose codes differ come first."""
    import torch

    codes = _lit(shown.kept, shown.present, shown.other, "code")
    places = torch.cat([torch.nonzero(codes), torch.nonzero(shown.lit & ~codes)])[:_LISTED]
    if not len(places):
        return
    st.markdown(plain(say("compare.cells")))
    with st.container(key="compare_cells", gap=None):
        for at, place in enumerate(tuple(map(int, place)) for place in places):
            found = _reason(shown, place)
            if found is not None:
                st.button(
                    _line(shown, found[1], _name(found[0]) if shown.other is None else ""),
                    key=f"compare_cell_{at}",
                    type="primary" if place == state.cell else "secondary",
                    on_click=session.safely(_select),
                    args=(place,),
                    width="stretch",
                )


def _select(place: tuple[int, ...]) -> None:
    now = session.state()
    session.look(now.view.showing(place, now.source.shape), place)


def _reason(shown: Shown, place: tuple[int, ...]) -> tuple[str, Reason] | None:
    """Return the convention that the present one differs from in this cell, and why: the chosen one, else the
    first that does; none where none does.
    """
    from quantviz.analysis.engine_comparison import why

    own = shown.comparison.results[shown.present]
    others = shown.others if shown.other is None else (shown.other,)
    for wanted in (1, 0):  # another code is worth more than another value
        for other in others:
            result = shown.comparison.results[other]
            differs = result.q[place] != own.q[place] if wanted else result.x_hat[place] != own.x_hat[place]
            if bool(differs):
                kept = shown.kept.reasons
                if (other, place) not in kept:
                    kept[other, place] = why(shown.comparison, shown.present, other, place)
                return other, kept[other, place]
    return None


def _line(shown: Shown, reason: Reason, engine: str) -> str:
    """Return a cell in one line, the other side called by its `engine`: first what differs, as far as it may
    be told.
    """
    one, other = reason.one, reason.other
    parts = [f"({', '.join(map(str, reason.index))})"]
    differs = "q" if reason.what == "code" and visible("q") else "x_hat"
    if visible(differs):
        mine, theirs = (
            [_stands_for(shown, why.q) for why in (one, other)]
            if differs == "q"
            else _told_apart(one.x_hat, other.x_hat)
        )
        parts.append(f"{say(f'panels.field.{differs}')} {mine} | {f'{engine} ' if engine else ''}{theirs}")
    parts += [say("compare.x", x=number(one.x, 6)), _rule_name(reason.fields)]
    return plain(" · ".join(parts)) + (f" · **{plain(say('compare.tie'))}**" if reason.tie else "")


def _told_apart(one: float, other: float) -> tuple[str, str]:
    """Return two float32 numbers with as many digits as it takes to see which is which.

    >>> _told_apart(-2.31589627, -2.31589603), _told_apart(3.5, 7.0)
    (('−2.3158963', '−2.315896'), ('3.5', '7'))
    """
    digits = next((digits for digits in range(4, 9) if number(one, digits) != number(other, digits)), 9)
    return number(one, digits), number(other, digits)


def _stands_for(shown: Shown, code: int) -> str:
    """Return a code by its number, or in a format that is no integers by its value before any scale."""
    fmt = shown.comparison.results[shown.present].scheme.number_format
    value = float(fmt.value(code))
    return (
        number(code, 9)
        if fmt.kind == "integer"
        else "−0"
        if value == 0 and math.copysign(1, value) < 0
        else number(value, 5)
    )


def _detail(shown: Shown, state: LabState) -> None:
    """Why the selected cell differs, with both sides' numbers."""
    found = _reason(shown, state.cell)
    place = ", ".join(map(str, state.cell))
    if found is None:
        st.markdown(plain(say("compare.alike", place=place)))
        return
    other, reason = found
    engines = [_name(name) for name in (shown.present, other)]
    told = [] if reason.what == "code" else [say("compare.code_same")]
    told += [say("compare.together")] if len(reason.fields) > 1 else []
    for name, (mine, theirs) in reason.fields.items():
        first, second = value_words(name, mine), value_words(name, theirs)
        told.append(
            say(
                "compare.turn",
                field=field_name(name),
                one=engines[0],
                mine=first,
                other=engines[1],
                theirs=second,
            )
        )
    told += _ties(reason)
    names = ["", *(say(f"compare.{name}") for name in ("before", "rounding", "code", "x_hat", "lines"))]
    rows = [_side(shown, reason, side, engines[side], names) for side in (0, 1)]
    head = "".join(f"<th>{html.escape(each)}</th>" for each in names)
    lead = f"<b>{html.escape(say('compare.place', place=place))}</b>, "
    lead += html.escape(say("compare.x", x=number(reason.one.x, 7)))
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    st.html(
        f'<div class="qv-steps qv-compare-why"><p>{lead} &nbsp; {html.escape(" ".join(told))}</p>'
        f"{table}</div>"
    )


def _ties(reason: Reason) -> list[str]:
    """What is said of each number that lies half-way."""
    told = []
    for why, ties in zip((reason.one, reason.other), reason.ties, strict=True):
        rounded = next((step.output for step in reversed(why.steps) if step.key.startswith("round")), None)
        if why.tie and rounded is not None:
            words = value_words("ties", ties)
            told.append(
                say(
                    "compare.half_way",
                    before=number(why.before_rounding, 9),
                    ties=words,
                    rounded=number(rounded, 9),
                )
            )
    return list(dict.fromkeys(told))


def _side(shown: Shown, reason: Reason, side: int, engine: str, names: list[str]) -> str:
    why, lines = (reason.one, reason.other)[side], reason.lines[side]
    code = (
        "<br>".join(
            f"<code>{html.escape(step.code_line)}</code> <small>= {number(step.output, 9)}</small>"
            for step in lines
        )
        or "–"
    )
    tie = f" <b>({html.escape(say('compare.tie'))})</b>" if why.tie else ""
    code_number = (
        "" if _stands_for(shown, why.q) == number(why.q, 9) else f" <small>({number(why.q, 9)})</small>"
    )
    cells = (
        f"<b>{html.escape(engine)}</b>",
        f"{number(why.before_rounding, 9)}{tie}",
        html.escape(value_words("ties", reason.ties[side])),
        f"<b>{_stands_for(shown, why.q)}</b>{code_number}",
        number(why.x_hat, 9),
        code,
    )
    # On a phone, where the numbers stand one under the other, each is called by its name.
    return (
        "<tr>"
        + "".join(
            f'<td data-name="{html.escape(name)}">{cell}</td>'
            for name, cell in zip(names, cells, strict=True)
        )
        + "</tr>"
    )


def _refused(shown: Shown, state: LabState) -> None:
    """Who does not take part: in one line who lacks the same part of the scheme, then who has a reason of
    their own.
    """
    refused = shown.kept.refused
    with st.expander(say("compare.refused", count=len(refused)), key="compare_refused"):
        lacking = {
            part: [name for name, problem in refused.items() if _lacks(problem, part)] for part in _PARTS
        }
        words = {part: part_words(state.scheme, field, state.source) for part, field in _PARTS.items()}
        lines = [
            say(f"compare.lacks_{part}", part=words[part], names=_names(names))
            for part, names in lacking.items()
            if names
        ]
        own = [problem for problem in refused.values() if not any(_lacks(problem, part) for part in _PARTS)]
        st.markdown(
            "\n".join([f"- {plain(line)}" for line in lines] + [f"- {say_error(problem)}" for problem in own])
        )


#: What an engine may not offer, and the field of the scheme that it is of.
_PARTS = MappingProxyType(
    {"format": "format", "mode": "mode", "granularity": "granularity", "size": "granularity"}
)


def _lacks(problem: QuantVizError, part: str) -> bool:
    return problem.key == "not_offered" and problem.params["what"] == part
