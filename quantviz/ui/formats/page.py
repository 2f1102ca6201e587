"""The formats page: all values of a format on a line, its codes, its facts, and a number that lands in it."""

from __future__ import annotations

import html
from collections.abc import Mapping

import streamlit as st

from quantviz.schemes.formats import FORMATS, NumberFormat, entry_of
from quantviz.text import templates
from quantviz.ui.components.clipboard import show_copy_link
from quantviz.ui.components.code_bits import as_html, role_name, term_title
from quantviz.ui.components.component import component
from quantviz.ui.components.controls import Control, show_controls, undo_controls
from quantviz.ui.components.page_header import show_header
from quantviz.ui.components.small_parts import error_beside, show_error_beside, show_page_errors
from quantviz.ui.formats.codes import format_name, show_bits, show_codes
from quantviz.ui.formats.line import (
    BRIDGE,
    SCRIPT,
    WIDTHS,
    colour_swatch,
    line_width,
    show_format_ruler,
    show_gaps,
    show_landings,
    show_line,
)
from quantviz.ui.formats.state import (
    OWNER,
    FormatsState,
    can_be_one,
    choose_code,
    code_shown,
    number_shown,
    ties_offered,
    unit_of,
)
from quantviz.ui.shell.imports import warm_up
from quantviz.ui.shell.tab import name_tab
from quantviz.ui.shell.words import language, number, say

#: Kind of format that is offered first.
_KINDS = ("float", "integer", "codebook")
_TYPED = "formats_x"


def show_actions(state: FormatsState) -> None:
    """Show the title's controls."""
    possible = can_be_one(state)
    about = say("formats.page.to_one_help" if possible else "formats.page.to_one_large")
    to_one = Control(
        "to_one", "switch", say("formats.page.to_one"), about, state.form_of("to_one"), disabled=not possible
    )
    show_controls("formats_actions", OWNER, to_one, *undo_controls(OWNER))


def show_choices(state: FormatsState) -> None:
    from quantviz.figures.format_values import VIEWS

    def choice(field: str, names: Mapping[str, str], about: str | None = None, kind: str = "list") -> Control:
        helped = say(f"formats.page.{field}_help") if about is None else about
        return Control(field, kind, say(f"formats.page.{field}"), helped, state.form_of(field), names)

    offered = sorted(FORMATS.values(), key=lambda fmt: (_KINDS.index(fmt.kind), fmt.bits))
    kinds = {kind: say(f"formats.picker.{kind}") for kind in _KINDS}
    names = {fmt.id: f"{format_name(fmt)} · {kinds[fmt.kind]}" for fmt in offered}
    about = {fmt.id: say(f"formats.{entry_of(fmt.id)}.help") for fmt in state.formats}
    show_controls(
        "formats_choices",
        OWNER,
        choice("first", names, about[state.first]),
        Control("swap", "button", "⇄", say("formats.page.swap"), disabled=not state.second),
        choice("second", {"none": say("formats.page.none"), **names}, about.get(state.second, "")),
        Control(
            "x",
            "text",
            say("formats.page.number"),
            say("formats.page.number_help"),
            number_shown(state),
            wrong=error_beside(_TYPED) is not None,
        ),
        choice("ties", {name: say(f"formats.ties.{name}") for name in ties_offered()}),
        choice("view", {name: say(f"formats.views.{name}") for name in VIEWS}, kind="row"),
    )
    show_error_beside(_TYPED)


#: The most facts beside each other.
_ACROSS = 6
#: A fact that a format does not have.
_NONE = "–"
#: Facts that mostly repeat another, as templates of it: one that does in each format is left out.
_AGAIN = {"lowest": "−{largest}", "smallest_positive": "{smallest_subnormal}"}


def _facts(fmt: NumberFormat, x: float, unit: float) -> dict[str, str]:
    """Return the facts for people, "–" where there is none, by the name of the fact; all values, and the gap
    at `x`, are those of the format divided by `unit`.
    """
    from quantviz.quantization.format_facts import FormatFacts, code_name, format_facts, gap_at

    facts: FormatFacts = format_facts(fmt)
    layout = fmt.float_bits
    gap = gap_at(x * unit, fmt)

    def codes(these: tuple[int, ...]) -> str:
        if not these:
            return _NONE
        names = [code_name(fmt, code) for code in these]
        if len(names) <= 2:
            return " ".join(names)
        return say("formats.facts.many_codes", count=f"{len(names):,}", first=names[0])

    def value(this: float | None) -> str:
        return _NONE if this is None else _short(this / unit)

    bits = str(fmt.bits)
    if layout:
        parts = {"exponent": layout.exponent, "mantissa": layout.mantissa}
        bits = say("formats.facts.sign_bits", sign=int(fmt.signed), **parts)
    return {
        "layout": bits,
        "bias": str(layout.bias) if layout else _NONE,
        "largest": value(facts.largest),
        "lowest": value(facts.lowest),
        "smallest_normal": value(facts.smallest_normal),
        "smallest_subnormal": value(facts.smallest_subnormal),
        "smallest_positive": value(facts.smallest_positive),
        "values": f"{facts.values:,}",
        "inf": codes(facts.inf_codes),
        "nan": codes(facts.nan_codes),
        "range": f"{facts.range_db:.0f} dB",
        "gap": value(gap),
    }


def _short(value: float) -> str:
    """Return a number exactly where that takes no more than nine digits, else to six."""
    return number(value, 9 if float(f"{value:.9g}") == value else 6)


def show_facts(state: FormatsState) -> None:
    """Show the facts as a table: a column each in two parts, or on a phone a line each."""
    formats = state.formats
    facts = [_facts(fmt, state.x, unit_of(state, fmt)) for fmt in formats]
    told = [
        name
        for name in facts[0]
        if any(row[name] not in (_NONE, _AGAIN.get(name, _NONE).format(**row)) for row in facts)
    ]
    heads = {name: html.escape(say(f"formats.facts.{name}", x=number(state.x, 6))) for name in told}
    names = [
        f"<th>{colour_swatch(row)} {html.escape(format_name(fmt))}</th>" for row, fmt in enumerate(formats)
    ]
    titles = {name: f"<th{term_title(name)}><span>{head}</span></th>" for name, head in heads.items()}
    wide = ""
    across = -(-len(titles) // -(-len(titles) // _ACROSS))
    for start in range(0, len(titles), across):
        part = told[start : start + across]
        wide += f"<tr><td></td>{''.join(titles[each] for each in part)}</tr>"
        for name, row in zip(names, facts, strict=True):
            wide += f"<tr>{name}{''.join(f'<td>{html.escape(row[each])}</td>' for each in part)}</tr>"
    tall = f"<tr><td></td>{''.join(names)}</tr>"
    tall += "".join(
        f"<tr>{title}{''.join(f'<td>{html.escape(row[name])}</td>' for row in facts)}</tr>"
        for name, title in titles.items()
    )
    with st.container(key="formats_facts"):
        st.html(
            f'<div class="qv-fit"><table class="qv-facts qv-wide">{wide}</table>'
            f'<table class="qv-facts qv-tall">{tall}</table></div>'
        )


def show_ends(state: FormatsState) -> None:
    """Say of each float format why it ends where it does."""
    ends = [
        f"{colour_swatch(row)} {as_html(_end_words(fmt, unit_of(state, fmt)))}"
        for row, fmt in enumerate(state.formats)
        if fmt.float_bits
    ]
    if ends:
        st.html("".join(f'<p class="qv-small qv-end">{words}</p>' for words in ends))


def _end_words(fmt: NumberFormat, unit: float) -> str:
    """Return the reason why a float format, divided by `unit`, ends at its largest value."""
    from quantviz.quantization.format_facts import code_name, float_end, format_facts

    end = float_end(fmt)
    assert end
    said = {
        "name": format_name(fmt),
        "largest": _short(format_facts(fmt).largest / unit),
        "following": _short(end.following / unit),
        "field": end.field,
    }
    return say(f"formats.end.{end.reason}", **said, code="" if end.code is None else code_name(fmt, end.code))


def show_terms() -> None:
    """Explain every term in line, for people who cannot hover."""
    with st.expander(say("formats.page.terms")):
        terms = templates("formats.terms", language())
        roles = ("sign", "exponent", "mantissa")
        names = {
            name: role_name(name) if name in roles else say(f"formats.facts.{name}", x="x") for name in terms
        }
        st.html(
            "<dl class='qv-terms'>"
            + "".join(
                f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(terms[key])}</dd></div>"
                for key, name in names.items()
            )
            + "</dl>"
        )


def show_page() -> None:
    """Show choices, line, bits and facts; below, the gap and the table of codes."""
    _, actions = show_header(say("pages.formats"), say("formats.page.hint"))
    show_page_errors(*OWNER.problems)
    warm_up()
    from quantviz.figures.format_ruler import has_ruler
    from quantviz.quantization.format_facts import land

    state = OWNER.state
    with actions:
        show_actions(state)
        show_copy_link()
    show_choices(state)
    first = FORMATS[state.first]
    name_tab(say("pages.formats"), format_name(first))
    landings = tuple(land(state.x, fmt, state.ties, unit_of(state, fmt)) for fmt in state.formats)
    code = code_shown(state)
    show_line(state)
    # With a name, so that a hand on the ruler keeps its handle when something comes or goes above.
    with st.container(key="formats_answer"):
        left, right = st.columns([1, 1], gap="small")
    with left, st.container(key="formats_code", gap="xxsmall"):
        show_bits(first, code)
    if has_ruler(first):
        with right:
            show_format_ruler(state, first, landings[0])
        show_landings(state, landings)
    else:
        with right:
            show_landings(state, landings)
    show_facts(state)
    show_gaps(state)
    show_ends(state)
    show_codes(first, code)
    show_terms()
    _listen(state, code)
    OWNER.show_link()


def _listen(state: FormatsState, code: int) -> None:
    """Put the script on the page that reports the line's width and a click in the table of codes."""
    component("quantviz_formats", SCRIPT)(
        key=BRIDGE,
        # The language is not read there: with another one the table is written anew, and the script is to run
        # again.
        data={
            "selected": code,
            "format": state.first,
            "width": line_width(),
            "widths": WIDTHS,
            "language": language(),
        },
        on_code_change=(choose_code, lambda code: code in FORMATS[OWNER.state.first].codes),
    )
