"""The formats page: all values of a format on a line, its codes, its facts, and a number that lands in it."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.schemes.formats import FORMATS, NumberFormat, entry_of
from quantviz.text import templates
from quantviz.ui.components.clipboard import show_copy_link
from quantviz.ui.components.code_bits import code_parts, role_name, show_bit_row, term_title
from quantviz.ui.components.component import component, last_message
from quantviz.ui.components.controls import Control, as_html, show_controls, undo_controls
from quantviz.ui.components.hand import show_ruler
from quantviz.ui.components.page_header import show_header
from quantviz.ui.components.small_parts import (
    error_beside,
    show_error_beside,
    show_figure,
    show_page_errors,
    show_plot,
    table_html,
)
from quantviz.ui.formats.state import (
    OWNER,
    FormatsState,
    can_be_one,
    choose_code,
    code_shown,
    flip_bit,
    number_shown,
    ties_offered,
    unit_of,
)
from quantviz.ui.shell.classroom import enlarge, noted
from quantviz.ui.shell.imports import warm_up
from quantviz.ui.shell.tab import name_tab
from quantviz.ui.shell.words import language, number, plain, say, theme

if TYPE_CHECKING:
    from quantviz.quantization.format_facts import RoundedNumber


#: Codes around the chosen one and at each end that are listed where not all are.
_AROUND = 12
_AT_ENDS = 2


def format_name(fmt: NumberFormat) -> str:
    return say(f"formats.{entry_of(fmt.id)}.name")


def value_words(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if value == 0:
        return "−0" if math.copysign(1, value) < 0 else "0"
    rounded = math.isfinite(value) and float(f"{value:.9g}") != value
    return ("≈ " if rounded else "") + number(value, 9)


def show_codes(fmt: NumberFormat, code: int) -> None:
    """Show the table of codes, the chosen one marked."""
    from quantviz.quantization.format_facts import LISTED_BITS, code_name

    codes = listed_codes(fmt, code)
    if fmt.bits <= LISTED_BITS:
        title = say("formats.page.table_title", count=len(codes), name=format_name(fmt))
    else:
        title = say(
            "formats.page.table_title_part",
            name=format_name(fmt),
            code=code_name(fmt, code),
            shown=len(codes),
            count=f"{fmt.levels:,}",
        )
    with st.container(key="formats_table", gap="xsmall"):
        st.markdown(f"## {plain(title)}", help=say("formats.page.table_help"))
        heads = [say(f"formats.page.{name}") for name in ("code", "hex", "bits", "kind", "value")]
        heads += [say("formats.page.exactly")] if fmt.kind != "integer" else []
        table = table_html(heads, _rows(fmt, codes, code, len(heads)))
        st.html(f'<div class="qv-codes" tabindex="0">{table}</div>')


def listed_codes(fmt: NumberFormat, code: int) -> tuple[int, ...]:
    """Return the codes in the table: all of them, or those around `code` and at the ends, in the order of
    their numbers.

    >>> from quantviz.schemes.formats import FORMATS
    >>> listed_codes(FORMATS["int4"], 3) == tuple(FORMATS["int4"].codes)
    True
    >>> from quantviz.quantization.format_facts import code_name
    >>> [code_name(FORMATS["float16"], each) for each in listed_codes(FORMATS["float16"], 3)[-8:]]
    ['0x8000', '0x8001', '0xFBFE', '0xFBFF', '0xFC00', '0xFC01', '0xFFFE', '0xFFFF']
    """
    from quantviz.quantization.format_facts import LISTED_BITS, format_facts

    if fmt.bits <= LISTED_BITS:
        return tuple(fmt.codes)
    wanted = {*range(code - _AROUND, code + _AROUND + 1)}
    # Where one kind of code ends and the next begins, for each sign.
    half = 1 << (fmt.bits - 1)
    edges = [fmt.code_min, fmt.code_max + 1, *((0, half) if fmt.float_bits else (0,))]
    edges += list(format_facts(fmt).inf_codes)
    for edge in edges:
        wanted |= {*range(edge - _AT_ENDS, edge + _AT_ENDS)}
    return tuple(sorted(each for each in wanted if each in fmt.codes))


def _rows(fmt: NumberFormat, codes: tuple[int, ...], chosen: int, columns: int) -> Iterator[str]:
    before = None
    group = ""
    for code in codes:
        if before is not None and code != before + 1:
            left_out = say("formats.page.left_out", count=f"{code - before - 1:,}")
            yield f'<tr class="qv-group"><td colspan="{columns}">{html.escape(left_out)}</td></tr>'
        elif _group(fmt, code) != group:
            group = _group(fmt, code)
            yield f'<tr class="qv-group"><td colspan="{columns}">{html.escape(group)}</td></tr>'
        before = code
        yield _row(fmt, code, code == chosen)


def _group(fmt: NumberFormat, code: int) -> str:
    """Return the sentence on the codes of one exponent; "" where codes are not grouped."""
    from quantviz.quantization.format_facts import LISTED_BITS

    layout = fmt.float_bits
    if not layout or not layout.mantissa or fmt.bits > LISTED_BITS:
        return ""
    sign, exponent, _ = fmt.split(code)
    field = int(exponent, 2)
    minus = sign == "1"
    step = math.ldexp(1.0, max(field - layout.bias, layout.smallest_exponent) - layout.mantissa)
    shown = "−" if minus else "+"
    if field == 0:
        return say("formats.page.group_subnormal", sign=shown, step=number(step, 9))
    start = step * (1 << layout.mantissa) * (-1 if minus else 1)
    return say(
        "formats.page.group_normal", sign=shown, field=field, start=number(start, 9), step=number(step, 9)
    )


def _row(fmt: NumberFormat, code: int, chosen: bool) -> str:
    from quantviz.quantization.format_facts import code_kind, code_name

    bits = "".join(f'<i class="qv-{role}">{part}</i>' for role, part in code_parts(fmt, code))
    kind = code_kind(fmt, code)
    cells = [
        str(code).replace("-", "−"),
        code_name(fmt, code),
        bits,
        html.escape(say(f"formats.kinds.{kind}")),
        value_words(fmt.value(code)),
    ]
    if fmt.kind != "integer":
        cells.append(_exactly(fmt.value(code)))
    marked = ' class="qv-selected" aria-selected="true"' if chosen else ""
    return f'<tr data-code="{code}"{marked}>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def _exactly(value: float) -> str:
    """Return a value as an odd number times a power of two, and as a fraction where that is short."""
    from quantviz.quantization.format_facts import odd_times_power

    if not value or not math.isfinite(value):
        return ""
    odd, power = odd_times_power(value)
    sign = "−" if odd < 0 else ""
    size = abs(odd)
    powers = f"{sign}{'' if size == 1 else f'{size} · '}2<sup>{str(power).replace('-', '−')}</sup>"
    return f"{powers} = {sign}{size}/{1 << -power}" if -12 <= power < 0 and size < 10000 else powers


def show_bits(fmt: NumberFormat, code: int) -> None:
    """Show a button for each bit, and the meaning of the bits."""
    from quantviz.quantization.format_facts import code_name

    title = as_html(f"**{say('formats.page.bits_title', code=code_name(fmt, code), name=format_name(fmt))}**")
    help_ = as_html(say("formats.page.bits_help"))
    show_bit_row(fmt, code, f"{title} <small>{help_}</small>", flip_bit)


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


# ---- the number line -------------------------------------------------------------------------------


_RULER = "formats_ruler"


def colour_swatch(row: int) -> str:
    from quantviz.figures.format_line import row_colour

    return f'<span class="qv-swatch" style="color:{row_colour(theme(), row)}">{"▼" if row else "▲"}</span>'


def show_line(state: FormatsState) -> None:
    from quantviz.figures.format_line import formats_figure, formats_words
    from quantviz.figures.format_values import formats_data

    width = line_width()
    larger = enlarge(width)
    to_one = state.to_one and can_be_one(state)
    pixels = int(width / larger)
    data = formats_data(
        *state.formats, x=state.x, view=state.view, ties=state.ties, width=pixels, to_one=to_one
    )
    words = formats_words(data, language())
    units = [(fmt, unit_of(state, fmt)) for fmt in state.formats]
    words += tuple(
        say("formats.page.divided", name=format_name(fmt), unit=number(unit, 6))
        for fmt, unit in units
        if unit != 1
    )
    with st.container(key="formats_line", gap=None):
        show_plot(
            formats_figure(data, language=language(), theme=theme(), enlarge=larger),
            "formats_line",
            say("formats.page.line_alt", words=" ".join(words).replace("**", "")),
            laid_out=True,
            take=lambda value: OWNER.change(x=value, code=None),
            marks=lambda value: isinstance(value, float),
            afresh=True,
        )
        st.html(f'<p class="qv-small">{" ".join(as_html(each) for each in words)}</p>')


def show_landings(state: FormatsState, landings: tuple[RoundedNumber, ...]) -> None:
    lines = (
        f"<li>{colour_swatch(row)} {as_html(landing_words(fmt, landing, state.ties))}</li>"
        for row, (fmt, landing) in enumerate(zip(state.formats, landings, strict=True))
    )
    with st.container(key="formats_landings"):
        st.html(f'<ul class="qv-landings">{"".join(lines)}</ul>')


def landing_words(fmt: NumberFormat, landing: RoundedNumber, ties: str) -> str:
    """Say where a number lands, and why there."""
    said = {
        "name": format_name(fmt),
        "x": number(landing.x, 9),
        # −0 where the bits are those of −0.
        "value": number(landing.value, 9) if landing.value else value_words(fmt.value(landing.code)),
        "error": number(landing.error, 6, signed=True),
    }
    if landing.beyond:
        return say(
            "formats.landing.beyond", **said, end=number(landing.value, 9), otherwise=_otherwise(fmt, landing)
        )
    if landing.value == landing.x:
        return say("formats.landing.exact", **(said | {"x": said["value"]}))
    if landing.below is None or landing.above is None:
        return say("formats.landing.near_end", **said, end=number(landing.value, 9))
    if landing.tie:
        said |= {"below": number(landing.below, 9), "above": number(landing.above, 9)}
        rule = f"formats.landing.rule_{_tie_rule(fmt, ties)}"
        return say("formats.landing.tie", **said, rule=say(rule))
    other = landing.above if landing.value == landing.below else landing.below
    away = number(abs(landing.x - other), 3)
    return say("formats.landing.nearest", **said, other=number(other, 9), away=away)


def _tie_rule(fmt: NumberFormat, ties: str) -> str:
    """Return the key of the words for the rule that decides a tie."""
    if ties != "even":
        return ties
    if fmt.kind == "codebook":
        return "even_place"
    # Without a mantissa there is no last bit: of two powers of two the upper one is taken.
    return "even_exponent" if fmt.float_bits and not fmt.float_bits.mantissa else "even"


def _otherwise(fmt: NumberFormat, landing: RoundedNumber) -> str:
    """Return the sentence on numbers beyond the ends in engines that do not saturate."""
    if fmt.kind == "integer" and fmt.levels == 1 << fmt.bits:
        return say("formats.landing.otherwise_wrap")
    if not fmt.float_bits or (landing.beyond == "below" and not fmt.signed):
        return ""
    special = fmt.float_bits.special
    if special == "ieee":
        return say("formats.landing.otherwise_inf")
    if special.startswith("fn"):
        return say("formats.landing.otherwise_nan")
    return ""


def show_gaps(state: FormatsState) -> None:
    from quantviz.figures.format_gaps import gap_data, gap_figure
    from quantviz.quantization.format_facts import brought_to_one

    grids = [brought_to_one(each) if unit_of(state, each) != 1 else each for each in state.formats]
    with st.container(key="formats_gaps", gap="xsmall"):
        st.markdown(f"## {say('formats.page.gaps_title')}", help=say("formats.page.gaps_help"))
        data = gap_data(*grids, x=state.x)
        show_figure(gap_figure, "formats_gaps_chart", say("formats.page.gaps_alt"), data)


#: The line's widths in pixels that it is laid out for; the browser chooses the one that fits.
WIDTHS = (300, 340, 480, 660, 820, 960, 1040, 1180, 1320, 1500, 1700)
_USUAL_WIDTH = 1040
#: The component's key and its script.
BRIDGE = SCRIPT = "formats_bridge"


def line_width() -> int:
    """Return the line's width in pixels, from the browser's last message, else one for the page's room."""
    width = last_message(BRIDGE, SCRIPT, "width", lambda width: width in WIDTHS)
    return int(width or max(WIDTHS[0], *(each for each in WIDTHS if each <= noted("room", _USUAL_WIDTH))))


def show_format_ruler(state: FormatsState, fmt: NumberFormat, landing: RoundedNumber) -> None:
    """Show the format's values around the number, which can be moved."""
    from quantviz.figures.format_ruler import ruler_of_format

    with st.container(key="formats_ruler_box", gap=None):
        title = as_html(f"**{say('formats.page.ruler_title', name=format_name(fmt))}**")
        st.html(
            f'<div class="qv-bits-title">{title} '
            f"<small>{html.escape(say('formats.page.ruler_help'))}</small></div>"
        )
        show_ruler(
            ruler_of_format(fmt, landing, unit_of(state, fmt)),
            key=_RULER,
            label=landing_words(fmt, landing, state.ties).replace("**", ""),
            movable=True,
            on_moved=_take_number,
            words={"value": say("formats.page.ruler_value")},
        )


def _take_number(message: Mapping[str, Any]) -> None:
    if message["kind"] == "value":
        OWNER.change(x=message["value"], code=None)
