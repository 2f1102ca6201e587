"""The first cells in which engines differ, and the rule that made the selected one differ."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING

import streamlit as st

from quantviz.lab.state import LabState
from quantviz.ui.components.scheme_words import field_name, value_words
from quantviz.ui.components.small_parts import show_button, table_html
from quantviz.ui.lab.compare.compared_engines import ComparisonView, engine_name, rule_name
from quantviz.ui.shell import session
from quantviz.ui.shell.classroom import visible
from quantviz.ui.shell.words import number, plain, say, sentences

if TYPE_CHECKING:
    from quantviz.analysis.engine_comparison import DifferenceCause


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
