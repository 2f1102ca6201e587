"""The formats page: every value of a format on a line, its codes, its facts, and a number that lands in it.

Its state is one frozen value in the session under `formats_state`, as the Lab's is under its own.
"""

from __future__ import annotations

import dataclasses
import functools
import html
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import streamlit as st

from quantviz.browser import read_script
from quantviz.errors import QuantVizError
from quantviz.lab.typed_numbers import read_number
from quantviz.schemes.formats import FORMATS, NumberFormat, find_format
from quantviz.text import catalogue
from quantviz.ui.components.choice import choose
from quantviz.ui.components.clipboard import copy_button
from quantviz.ui.components.language_switch import show_language
from quantviz.ui.shell import session
from quantviz.ui.shell.classroom import enlarge, parameters
from quantviz.ui.shell.startup import warm_up
from quantviz.ui.shell.tab import name_tab
from quantviz.ui.shell.words import language, number, plain, say, say_error, theme

if TYPE_CHECKING:
    from quantviz.quantization.format_facts import Landing

_STATE, _PROBLEMS, _UNREAD, _CLICKS = "formats_state", "formats_problems", "formats_unread", "formats_clicks"
#: The text of the number that was typed last, and the number read from it.
_TYPED = "formats_typed"
#: Which kind of format is offered first.
_KINDS = ("float", "integer", "codebook")
#: The line's widths in pixels that it is laid out for; the browser tells which of them fits.
_WIDTHS = (300, 340, 480, 660, 820, 960, 1040, 1180, 1320, 1500, 1700)
_USUAL_WIDTH = 1040
#: Codes around the chosen one and at each end that are listed where not all are.
_AROUND, _AT_ENDS = 12, 2
_BRIDGE = "formats_bridge"


@dataclass(frozen=True)
class FormatsState:
    """What is shown."""

    first: str = "float4_e2m1fn"
    #: Laid over the first; empty for none.
    second: str = "int4"
    x: float = 2.5
    view: str = "linear"
    ties: str = "even"
    #: Whether each format is divided by its largest value, so that they can be compared as absmax scaling
    #: uses them; x with them.
    to_one: bool = False
    #: The first format's chosen code, where x does not land on it: NaN, Inf, one of two zeros.
    code: int | None = None


# ---- state and address --------------------------------------------------------------------------


def _state() -> FormatsState:
    if _STATE not in st.session_state or session.navigated():
        st.session_state[_STATE], st.session_state[_PROBLEMS] = _opening(st.query_params.to_dict())
        st.session_state[_UNREAD] = None
    return cast(FormatsState, st.session_state[_STATE])


def _opening(asked: Mapping[str, str]) -> tuple[FormatsState, tuple[QuantVizError, ...]]:
    """What the address asks for, and what of it could not be had."""
    state, problems = FormatsState(), []
    if "a" in asked:  # the second format is one of this link too, or there is none
        state = FormatsState(second="")
    for name, read in (
        ("a", _asked_first),
        ("b", _asked_second),
        ("x", _asked_number),
        ("v", _asked_view),
        ("t", _asked_ties),
        ("n", _asked_to_one),
        ("c", _asked_code),
    ):
        if name in asked:
            try:
                state = read(state, asked[name])
            except QuantVizError as problem:
                problems.append(problem)
    return state, tuple(problems)


def _asked_first(state: FormatsState, asked: str) -> FormatsState:
    from quantviz.quantization.format_facts import finite_values

    found = find_format(asked)
    return dataclasses.replace(state, first=found.id, x=0.3 if finite_values(found)[-1] <= 1 else state.x)


def _asked_second(state: FormatsState, asked: str) -> FormatsState:
    return dataclasses.replace(state, second="" if asked == "none" else find_format(asked).id)


def _asked_number(state: FormatsState, asked: str) -> FormatsState:
    return dataclasses.replace(state, x=_read(asked))


def _asked_view(state: FormatsState, asked: str) -> FormatsState:
    from quantviz.figures.format_values import VIEWS

    if asked not in VIEWS:
        raise QuantVizError("unknown_view", got=asked, known=", ".join(VIEWS))
    return dataclasses.replace(state, view=asked)


def _asked_ties(state: FormatsState, asked: str) -> FormatsState:
    if asked not in ties_offered():
        raise QuantVizError("unknown_ties", got=asked, known=", ".join(ties_offered()))
    return dataclasses.replace(state, ties=asked)


def _asked_to_one(state: FormatsState, asked: str) -> FormatsState:
    return dataclasses.replace(state, to_one=asked == "1")


def _asked_code(state: FormatsState, asked: str) -> FormatsState:
    fmt = FORMATS[state.first]
    bits = int(asked, 16) if re.fullmatch(r"[0-9a-fA-F]{1,4}", asked) else -1
    code = bits - (1 << fmt.bits) if fmt.code_min < 0 and bits >> (fmt.bits - 1) == 1 else bits
    if bits < 0 or bits >> fmt.bits or code not in fmt.codes:
        raise QuantVizError("code_not_in_format", format=fmt.id, got=asked)
    return _with_code(state, code)


def _with_code(state: FormatsState, code: int) -> FormatsState:
    """Return the state with a code of the first format chosen: x is its value, if it has one."""
    from quantviz.quantization.format_facts import land

    fmt = FORMATS[state.first]
    value = fmt.value(code)
    unit = _unit(state, fmt)
    x = value / unit if math.isfinite(value) else state.x
    return dataclasses.replace(state, x=x, code=None if land(x, fmt, state.ties, unit).code == code else code)


def _can_be_one(state: FormatsState) -> bool:
    """Return whether both formats are small enough to be brought to ±1."""
    from quantviz.quantization.format_facts import LISTED_BITS

    return all(FORMATS[name].bits <= LISTED_BITS for name in (state.first, state.second) if name)


def _unit(state: FormatsState, fmt: NumberFormat) -> float:
    """What the values of a format are divided by."""
    from quantviz.quantization.format_facts import reach

    return reach(fmt) if state.to_one and _can_be_one(state) else 1.0


def _change(**changes: Any) -> None:
    st.session_state[_STATE] = dataclasses.replace(_state(), **changes)
    st.session_state[_PROBLEMS], st.session_state[_UNREAD] = (), None


def _setting(key: str, name: str) -> Callable[..., None]:
    """Return a callback that takes what the widget `key` shows into the field `name`; the chosen code is that
    of x again.
    """
    return session.safely(lambda: _change(**{name: st.session_state[key], "code": None}))


def _typed() -> None:
    try:
        _change(x=_read(st.session_state["formats_number"]), code=None)
        st.session_state[_TYPED] = (st.session_state["formats_number"], _state().x)
    except QuantVizError as problem:
        st.session_state[_UNREAD] = (st.session_state["formats_number"], problem)


def _read(typed: str) -> float:
    """Return the number typed; what is not finite is chosen on this page by its code."""
    try:
        return read_number(typed)
    except QuantVizError as problem:
        if problem.key == "number_not_finite":
            raise QuantVizError("number_not_finite_code", **problem.params) from None
        raise


def _choose(code: int | None) -> None:
    if code is not None:
        now = _with_code(_state(), code)
        _change(x=now.x, code=now.code)


def _to_one() -> None:
    """Divide the formats by their largest values, or no longer; the number keeps its place in the first."""
    from quantviz.quantization.format_facts import reach

    state, top = _state(), reach(FORMATS[_state().first])
    wanted = bool(st.session_state["formats_to_one"])
    if wanted != state.to_one:
        _change(to_one=wanted, x=state.x / top if wanted else state.x * top)


def _swap() -> None:
    state = _state()
    _change(first=state.second, second=state.first, code=None)


def _row_clicked() -> None:
    told = _told("code")
    if isinstance(told, int | float) and int(told) in FORMATS[_state().first].codes:
        _choose(int(told))


def _mark_clicked(key: str) -> None:
    """A value on the line becomes the number. The chart starts afresh, or a second click on the value would
    take it back.
    """
    points = st.session_state[key].selection.points
    if points and points[0].get("customdata") is not None:
        value = points[0]["customdata"]
        _change(x=float(value[0] if isinstance(value, list) else value), code=None)
        st.session_state[_CLICKS] = st.session_state.get(_CLICKS, 0) + 1


def _number_shown(x: float) -> str:
    """Return the number as it was typed, as long as it is that one."""
    typed, read = st.session_state.get(_TYPED, ("", None))
    return cast(str, typed) if read == x else _written(x)


def _written(x: float) -> str:
    """Return a number as it is typed: the shortest text that is read as it again."""
    return repr(x).removesuffix(".0")


def _address(state: FormatsState) -> dict[str, str]:
    usual, fmt = FormatsState(), FORMATS[state.first]
    more = {"v": state.view} if state.view != usual.view else {}
    more |= {"t": state.ties} if state.ties != usual.ties else {}
    more |= {"n": "1"} if state.to_one else {}
    more |= {"c": f"{state.code % (1 << fmt.bits):x}"} if state.code is not None else {}
    return {"a": state.first, "b": state.second or "none", "x": _written(state.x), **more}


# ---- the page -----------------------------------------------------------------------------------


def show_page() -> None:
    """Choices, the line with the number landing on it, bits and facts; below, the gap and the table of
    codes.
    """
    with st.sidebar:
        show_language()
    with st.container(key="header", horizontal=True, vertical_alignment="center", gap="small"):
        # Torch comes in only after this is painted.
        st.markdown(f"# {say('formats.page.title')}\n\n{plain(say('formats.page.hint'))}", width="stretch")
        actions = st.container(
            key="actions",
            horizontal=True,
            gap="small",
            width="content",
            wrap=False,
            vertical_alignment="center",
        )
    warm_up()
    from quantviz.quantization.format_facts import land

    state = _state()
    with actions:
        st.toggle(
            say("formats.page.to_one"),
            key=session.show("formats_to_one", state.to_one),
            on_change=session.safely(_to_one),
            disabled=not _can_be_one(state),
            help=say("formats.page.to_one_help" if _can_be_one(state) else "formats.page.to_one_large"),
        )
        copy_button(
            "copy_link", say("lab.copy_link"), say("lab.copied"), explanation=say("lab.copy_link_help")
        )
    problems = cast(tuple[QuantVizError, ...], st.session_state.get(_PROBLEMS, ()))
    if problems:
        st.warning("\n\n".join(map(say_error, problems)))
    _show_choices(state)
    first, second = _formats(state)
    name_tab(say("pages.formats"), _name(first))
    landings = tuple(land(state.x, fmt, state.ties, _unit(state, fmt)) for fmt in (first, second) if fmt)
    code = landings[0].code if state.code is None else state.code
    _show_line(state, first, second)
    left, right = st.columns([1, 1], gap="medium")
    with left, st.container(key="formats_code", gap="xxsmall"):
        _show_bits(first, code)
    with right:
        _show_landings(state, first, second, landings)
    _show_facts(state, first, second)
    left, right = st.columns([5, 7], gap="medium")
    with left:
        _show_gaps(state, first, second)
    with right:
        _show_codes(first, code)
    _show_terms()
    _component()(
        key=_BRIDGE,
        # The language is not read there: with another one the table is written anew, and the script is to run
        # again.
        data={
            "selected": code,
            "format": state.first,
            "width": _width(),
            "widths": _WIDTHS,
            "language": language(),
        },
        on_code_change=session.safely(_row_clicked),
        on_width_change=_nothing,
    )
    session.put_address({**_address(state), "lang": language(), **parameters()})


def _formats(state: FormatsState) -> tuple[NumberFormat, NumberFormat | None]:
    return FORMATS[state.first], FORMATS[state.second] if state.second else None


def _name(fmt: NumberFormat) -> str:
    return say(f"formats.{fmt.id}.name")


def _offered() -> tuple[str, ...]:
    """Return all formats, one kind after the other."""
    return tuple(sorted(FORMATS, key=lambda name: (_KINDS.index(FORMATS[name].kind), FORMATS[name].bits)))


def _offer(name: str) -> str:
    if not name:
        return say("formats.page.none")
    fmt = FORMATS[name]
    kind = {
        "integer": say("formats.picker.integer"),
        "float": say("formats.picker.float"),
        "codebook": say("formats.picker.codebook"),
    }[fmt.kind]
    return f"{_name(fmt)} · {kind}"


def ties_offered() -> tuple[str, ...]:
    """Return the rules for ties that have a name for people."""
    from quantviz.quantization.grids import TIES

    return tuple(name for name in TIES if f"formats.ties.{name}" in catalogue(language()))


def _show_choices(state: FormatsState) -> None:
    from quantviz.figures.format_values import VIEWS

    names = {name: _offer(name) for name in ("", *_offered())}
    rules = {name: say(f"formats.ties.{name}") for name in ties_offered()}
    views = {name: say(f"formats.views.{name}") for name in VIEWS}
    with st.container(key="formats_choices", horizontal=True, gap="small", vertical_alignment="bottom"):
        choose(
            st.selectbox,
            say("formats.page.first"),
            _offered(),
            key=session.show("formats_first", state.first),
            on_change=_setting("formats_first", "first"),
            format_func=names.__getitem__,
        )
        st.button(
            "⇄",
            key="formats_swap",
            on_click=session.safely(_swap),
            help=say("formats.page.swap"),
            disabled=not state.second,
        )
        choose(
            st.selectbox,
            say("formats.page.second"),
            tuple(names),
            key=session.show("formats_second", state.second),
            on_change=_setting("formats_second", "second"),
            format_func=names.__getitem__,
        )
        unread = st.session_state.get(_UNREAD)
        st.text_input(
            say("formats.page.number"),
            key=session.show("formats_number", unread[0] if unread else _number_shown(state.x)),
            on_change=session.safely(_typed),
            help=say("formats.page.number_help"),
            max_chars=60,
        )
        choose(
            st.selectbox,
            say("formats.page.ties"),
            tuple(rules),
            key=session.show("formats_ties", state.ties),
            on_change=_setting("formats_ties", "ties"),
            format_func=rules.__getitem__,
            help=say("formats.page.ties_help"),
        )
        choose(
            st.segmented_control,
            say("formats.page.view"),
            VIEWS,
            key=session.show("formats_view", state.view),
            required=True,
            on_change=session.safely(lambda: _change(view=st.session_state["formats_view"])),
            format_func=views.__getitem__,
            help=say("formats.page.view_help"),
        )
    if unread:
        st.error(say_error(unread[1]))


# ---- the line -----------------------------------------------------------------------------------


def _show_line(state: FormatsState, first: NumberFormat, second: NumberFormat | None) -> None:
    from quantviz.figures.format_line import FORMATS_CONFIG, formats_figure, formats_words
    from quantviz.figures.format_values import formats_data

    width = _width()
    larger, to_one = enlarge(width), state.to_one and _can_be_one(state)
    data = formats_data(
        first, second, x=state.x, view=state.view, ties=state.ties, width=int(width / larger), to_one=to_one
    )
    words = formats_words(data, language())
    units = [(fmt, _unit(state, fmt)) for fmt in (first, second) if fmt]
    words += tuple(
        say("formats.page.divided", name=_name(fmt), unit=number(unit, 6)) for fmt, unit in units if unit != 1
    )
    key = f"formats_line_{st.session_state.get(_CLICKS, 0)}"
    with st.container(key="formats_line", gap=None):
        _show_about(first, second)
        st.plotly_chart(
            formats_figure(data, language=language(), theme=theme(), enlarge=larger),
            key=key,
            theme=None,
            config=dict(FORMATS_CONFIG),
            on_select=session.safely(lambda: _mark_clicked(key)),
            selection_mode="points",
            alt=say("formats.page.line_alt", words=" ".join(words).replace("**", "")),
        )
        st.html(f'<p class="qv-small">{" ".join(_marked(each) for each in words)}</p>')


def _show_about(first: NumberFormat, second: NumberFormat | None) -> None:
    """What each format is and who uses it, in its colour on the line."""
    lines = []
    for row, fmt in enumerate(each for each in (first, second) if each):
        lines.append(
            f"<li>{_swatch(row)} <b>{html.escape(_name(fmt))}</b> "
            f"{html.escape(say(f'formats.{fmt.id}.help'))}</li>"
        )
    st.html(f'<ul class="qv-about">{"".join(lines)}</ul>')


def _swatch(row: int) -> str:
    from quantviz.figures.format_line import row_colour

    return f'<span class="qv-swatch" style="color:{row_colour(theme(), row)}">{"▼" if row else "▲"}</span>'


def _show_landings(
    state: FormatsState, first: NumberFormat, second: NumberFormat | None, landings: tuple[Landing, ...]
) -> None:
    formats = [each for each in (first, second) if each]
    lines = (
        f"<li>{_swatch(row)} {_marked(_landing_words(fmt, landing, state.ties))}</li>"
        for row, (fmt, landing) in enumerate(zip(formats, landings, strict=True))
    )
    st.html(f'<ul class="qv-landings">{"".join(lines)}</ul>')


def _landing_words(fmt: NumberFormat, landing: Landing, ties: str) -> str:
    said = {
        "name": _name(fmt),
        "x": number(landing.x, 9),
        # −0 where that is what the bits say.
        "value": number(landing.value, 9) if landing.value else _value(fmt.value(landing.code)),
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
    said |= {"below": number(landing.below, 9), "above": number(landing.above, 9)}
    if landing.tie:
        rule = f"formats.landing.rule_{_tie_rule(fmt, ties)}"
        return say("formats.landing.tie", **said, rule=say(rule))
    away = {
        "to_below": number(landing.x - landing.below, 6),
        "to_above": number(landing.above - landing.x, 6),
    }
    return say("formats.landing.nearest", **said, **away)


def _tie_rule(fmt: NumberFormat, ties: str) -> str:
    """What decides a tie, by the name of its words."""
    if ties != "even":
        return ties
    if fmt.kind == "codebook":
        return "even_place"
    # Without a mantissa there is no last bit: of two powers of two the upper one is taken.
    return "even_exponent" if fmt.float_bits and not fmt.float_bits.mantissa else "even"


def _otherwise(fmt: NumberFormat, landing: Landing) -> str:
    """What an engine that does not saturate makes of a number beyond the ends."""
    if fmt.kind == "integer" and fmt.levels == 1 << fmt.bits:
        return say("formats.landing.otherwise_wrap")
    if not fmt.float_bits or (landing.beyond == "below" and not fmt.signed):
        return ""
    special = fmt.float_bits.special
    return (
        say("formats.landing.otherwise_inf")
        if special == "ieee"
        else say("formats.landing.otherwise_nan")
        if special.startswith("fn")
        else ""
    )


def _marked(sentence: str) -> str:
    """Return a sentence as HTML: **strong**, and 2^(…) as a power."""
    safe = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", html.escape(sentence, quote=False))
    return re.sub(r"\^\(([^()]*)\)", r"<sup>\1</sup>", safe)


# ---- bits ---------------------------------------------------------------------------------------


def _roles(fmt: NumberFormat, code: int) -> Iterator[tuple[str, str]]:
    """The parts of a code that have bits, from the highest down, each with what it is."""
    whole = "integer" if fmt.kind == "integer" else "index" if fmt.kind == "codebook" else "mantissa"
    yield from (
        (role, bits) for role, bits in zip(("sign", "exponent", whole), fmt.split(code), strict=True) if bits
    )


def _role_name(role: str) -> str:
    return {
        "sign": say("formats.page.sign"),
        "exponent": say("formats.page.exponent"),
        "mantissa": say("formats.page.mantissa"),
        "integer": say("formats.page.integer"),
        "index": say("formats.page.index"),
    }[role]


def _show_bits(fmt: NumberFormat, code: int) -> None:
    """A button for each bit, and what the bits say."""
    from quantviz.quantization.format_facts import code_name, flipped

    title = _marked(f"**{say('formats.page.bits_title', code=code_name(fmt, code), name=_name(fmt))}**")
    names = "".join(
        f'<span class="qv-{role}" style="flex:{len(bits)}"{_term(role)}>'
        f"{html.escape(_role_name(role))}</span>"
        for role, bits in _roles(fmt, code)
    )
    st.html(
        f'<div class="qv-bits-title">{title} '
        f"<small>{html.escape(say('formats.page.bits_help'))}</small></div>"
        f'<div class="qv-roles" style="--bits:{fmt.bits}">{names}</div>'
    )
    with st.container(key=f"formats_bits_{fmt.bits}", horizontal=True, gap=None, wrap=False):
        bit = fmt.bits
        for role, bits in _roles(fmt, code):
            for value in bits:
                bit -= 1
                turned = flipped(fmt, code, bit)
                words = (
                    say("formats.page.bit", bit=bit, value=value)
                    if turned is not None
                    else say("formats.page.bit_invalid")
                )
                st.button(
                    value,
                    key=f"formats_bit_{role}_{bit}",
                    on_click=session.safely(_choose),
                    args=(turned,),
                    disabled=turned is None,
                    help=words,
                    width="stretch",
                )
    st.html(f'<p class="qv-reading">{_marked(_reading(fmt, code))}</p>')


def _term(name: str) -> str:
    """What a term means, on hover; empty where it needs no words."""
    if name in ("integer", "index"):
        return ""
    return f' title="{html.escape(say(f"formats.terms.{name}"))}"'


def _reading(fmt: NumberFormat, code: int) -> str:
    """Return how the bits make the value."""
    from quantviz.quantization.format_facts import code_kind, word

    value, kind = number(fmt.value(code), 9), code_kind(fmt, code)
    if fmt.kind == "codebook":
        return say("formats.reading.codebook", code=code, value=value)
    if not fmt.float_bits:
        bits = word(fmt, code)
        weights = [
            (1 << (len(bits) - 1 - i)) * (-1 if fmt.signed and i == 0 else 1) for i in range(len(bits))
        ]
        terms = [
            str(weight).replace("-", "−") for bit, weight in zip(bits, weights, strict=True) if bit == "1"
        ]
        return say("formats.reading.integer", sum=" + ".join(terms) or "0", value=value)
    if kind == "nan":
        return say("formats.reading.nan")
    sign, exponent, mantissa = fmt.split(code)
    layout, minus = fmt.float_bits, sign == "1"
    if kind in ("inf", "zero"):
        signed = "−0" if kind == "zero" and minus else value
        return (
            say("formats.reading.inf", value=signed)
            if kind == "inf"
            else say("formats.reading.zero", value=signed)
        )
    said = {"sign": "−1" if minus else "+1", "bias": layout.bias, "value": value}
    part = {"mantissa": int(mantissa or "0", 2), "steps": 1 << layout.mantissa}
    if kind == "subnormal":
        return say("formats.reading.subnormal", **said, **part, first=1)
    said["field"] = int(exponent, 2)
    return (
        say("formats.reading.normal", **said, **part)
        if mantissa
        else say("formats.reading.normal_plain", **said)
    )


# ---- facts --------------------------------------------------------------------------------------


def _facts(fmt: NumberFormat, x: float, unit: float) -> dict[str, str]:
    """Return the facts for people, "–" where there is none, by the name of the fact; all values, and the gap
    at `x`, are those of the format divided by `unit`.
    """
    from quantviz.quantization.format_facts import FormatFacts, code_name, format_facts, gap_at

    found: FormatFacts = format_facts(fmt)
    layout, gap = fmt.float_bits, gap_at(x * unit, fmt)

    def codes(these: tuple[int, ...]) -> str:
        if not these:
            return "–"
        names = [code_name(fmt, code) for code in these]
        return (
            " ".join(names)
            if len(names) <= 2
            else say("formats.facts.many_codes", count=f"{len(names):,}", first=names[0])
        )

    def value(this: float | None) -> str:
        return "–" if this is None else _short(this / unit)

    bits = (
        say(
            "formats.facts.sign_bits",
            sign=int(fmt.signed),
            exponent=layout.exponent,
            mantissa=layout.mantissa,
        )
        if layout
        else str(fmt.bits)
    )
    return {
        "layout": bits,
        "bias": str(layout.bias) if layout else "–",
        "largest": value(found.largest),
        "lowest": value(found.lowest),
        "smallest_normal": value(found.smallest_normal),
        "smallest_subnormal": value(found.smallest_subnormal),
        "smallest_positive": value(found.smallest_positive),
        "values": f"{found.values:,}",
        "inf": codes(found.inf_codes),
        "nan": codes(found.nan_codes),
        "range": say(
            "formats.facts.range_value", decades=number(found.range_decades, 3), db=f"{found.range_db:.0f}"
        ),
        "gap": value(gap),
    }


def _short(value: float) -> str:
    """Return a number exactly where that takes no more than nine digits, else to six."""
    return number(value, 9 if float(f"{value:.9g}") == value else 6)


def _show_facts(state: FormatsState, first: NumberFormat, second: NumberFormat | None) -> None:
    """The facts as a table: a column each, or on a phone a line each."""
    formats = [each for each in (first, second) if each]
    facts = [_facts(fmt, state.x, _unit(state, fmt)) for fmt in formats]
    heads = {
        name: html.escape(
            say(f"formats.facts.{name}", x=number(state.x, 6))
            if name == "gap"
            else say(f"formats.facts.{name}")
        )
        for name in facts[0]
    }
    names = [f"<th>{_swatch(row)} {html.escape(_name(fmt))}</th>" for row, fmt in enumerate(formats)]
    titles = {name: f"<th{_term(name)}><span>{head}</span></th>" for name, head in heads.items()}
    wide = f"<tr><th></th>{''.join(titles.values())}</tr>"
    wide += "".join(
        f"<tr>{name}{''.join(f'<td>{html.escape(value)}</td>' for value in row.values())}</tr>"
        for name, row in zip(names, facts, strict=True)
    )
    tall = f"<tr><th></th>{''.join(names)}</tr>"
    tall += "".join(
        f"<tr>{title}{''.join(f'<td>{html.escape(row[name])}</td>' for row in facts)}</tr>"
        for name, title in titles.items()
    )
    st.html(
        f'<div class="qv-fit"><table class="qv-facts qv-wide">{wide}</table>'
        f'<table class="qv-facts qv-tall">{tall}</table></div>'
    )
    ends = [
        f"{_swatch(row)} {_marked(_end_words(fmt, _unit(state, fmt)))}"
        for row, fmt in enumerate(formats)
        if fmt.float_bits
    ]
    if ends:
        st.html("".join(f'<p class="qv-small qv-end">{words}</p>' for words in ends))


def _end_words(fmt: NumberFormat, unit: float) -> str:
    """Return why a float format, divided by `unit`, ends at its largest value."""
    from quantviz.quantization.format_facts import code_name, float_end, format_facts

    end = float_end(fmt)
    assert end
    said = {
        "name": _name(fmt),
        "largest": _short(format_facts(fmt).largest / unit),
        "following": _short(end.following / unit),
        "field": end.field,
    }
    return say(f"formats.end.{end.reason}", **said, code="" if end.code is None else code_name(fmt, end.code))


def _show_terms() -> None:
    """Every term in line, for those who cannot hover."""
    with st.expander(say("formats.page.terms")):
        names = {
            name: say(f"formats.facts.{name}", x="x") if name == "gap" else say(f"formats.facts.{name}")
            for name in _TERMS
        }
        names |= {role: _role_name(role) for role in ("sign", "exponent", "mantissa")}
        st.html(
            "<dl class='qv-terms'>"
            + "".join(
                f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(say(f'formats.terms.{key}'))}</dd></div>"
                for key, name in names.items()
            )
            + "</dl>"
        )


_TERMS = (
    "layout",
    "bias",
    "largest",
    "lowest",
    "smallest_normal",
    "smallest_subnormal",
    "smallest_positive",
    "values",
    "inf",
    "nan",
    "range",
    "gap",
)


# ---- the gap and the codes ----------------------------------------------------------------------


def _show_gaps(state: FormatsState, first: NumberFormat, second: NumberFormat | None) -> None:
    from quantviz.figures.format_gaps import gap_data, gap_figure
    from quantviz.figures.format_line import FORMATS_CONFIG
    from quantviz.quantization.format_facts import brought_to_one

    formats = [each for each in (first, second) if each]
    grids = [brought_to_one(each) if _unit(state, each) != 1 else each for each in formats]
    with st.container(key="formats_gaps", gap="xsmall"):
        st.markdown(f"## {say('formats.page.gaps_title')}\n\n{plain(say('formats.page.gaps_help'))}")
        st.plotly_chart(
            gap_figure(gap_data(*grids, x=state.x), language=language(), theme=theme(), enlarge=enlarge()),
            key="formats_gaps_chart",
            theme=None,
            config=dict(FORMATS_CONFIG),
            alt=say("formats.page.gaps_alt"),
        )


def _show_codes(fmt: NumberFormat, code: int) -> None:
    """The table of codes, the chosen one marked."""
    from quantviz.quantization.format_facts import LISTED_BITS, code_name

    codes = listed_codes(fmt, code)
    if fmt.bits <= LISTED_BITS:
        title = say("formats.page.table_title", count=len(codes), name=_name(fmt))
    else:
        title = say(
            "formats.page.table_title_part",
            name=_name(fmt),
            code=code_name(fmt, code),
            shown=len(codes),
            count=f"{fmt.levels:,}",
        )
    with st.container(key="formats_table", gap="xsmall"):
        st.markdown(f"## {plain(title)}\n\n{plain(say('formats.page.table_help'))}")
        heads = [
            say("formats.page.code"),
            say("formats.page.hex"),
            say("formats.page.bits"),
            say("formats.page.kind"),
            say("formats.page.value"),
        ]
        heads += [say("formats.page.exactly")] if fmt.kind != "integer" else []
        head = "".join(f"<th>{html.escape(each)}</th>" for each in heads)
        rows = "".join(_rows(fmt, codes, code, len(heads)))
        st.html(
            f'<div class="qv-codes" tabindex="0"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{rows}</tbody></table></div>"
        )


def listed_codes(fmt: NumberFormat, code: int) -> tuple[int, ...]:
    """Return the codes in the table: all of them, or those around `code` and at the ends, in the order of
    their numbers.

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
    before, group = None, ""
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
    """What the codes of one exponent have in common; empty where codes are not grouped."""
    from quantviz.quantization.format_facts import LISTED_BITS

    layout = fmt.float_bits
    if not layout or not layout.mantissa or fmt.bits > LISTED_BITS:
        return ""
    sign, exponent, _ = fmt.split(code)
    field, minus = int(exponent, 2), sign == "1"
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

    bits = "".join(f'<i class="qv-{role}">{part}</i>' for role, part in _roles(fmt, code))
    kind = code_kind(fmt, code)
    cells = [
        str(code).replace("-", "−"),
        code_name(fmt, code),
        bits,
        html.escape(say(f"formats.kinds.{kind}")),
        _value(fmt.value(code)),
    ]
    if fmt.kind != "integer":
        cells.append(_exactly(fmt.value(code)))
    marked = ' class="qv-selected" aria-selected="true"' if chosen else ""
    return f'<tr data-code="{code}"{marked}>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def _value(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if value == 0:
        return "−0" if math.copysign(1, value) < 0 else "0"
    rounded = math.isfinite(value) and float(f"{value:.9g}") != value
    return ("≈ " if rounded else "") + number(value, 9)


def _exactly(value: float) -> str:
    """Return a value as an odd number times a power of two, and as a fraction where that is short."""
    from quantviz.quantization.format_facts import odd_times_power

    if not value or not math.isfinite(value):
        return ""
    odd, power = odd_times_power(value)
    sign, size = ("−" if odd < 0 else ""), abs(odd)
    powers = f"{sign}{'' if size == 1 else f'{size} · '}2<sup>{str(power).replace('-', '−')}</sup>"
    return f"{powers} = {sign}{size}/{1 << -power}" if -12 <= power < 0 and size < 10000 else powers


# ---- the browser --------------------------------------------------------------------------------


@functools.cache
def _component() -> Callable[..., Any]:
    # Registered once a process: a second registration of the same name is a warning.
    script = read_script("formats_bridge")
    component: Callable[..., Any] = st.components.v2.component("quantviz_formats", js=script)
    return component


def _told(name: str) -> Any:
    told = st.session_state.get(_BRIDGE)
    return told.get(name) if isinstance(told, Mapping) else getattr(told, name, None)


def _width() -> int:
    """Return the line's width in pixels, as far as the browser has told."""
    width = _told("width")
    return int(width) if isinstance(width, int | float) and width in _WIDTHS else _USUAL_WIDTH


def _nothing() -> None:
    pass
