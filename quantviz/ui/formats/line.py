"""The line with the values and the number among them, the gaps between values, and the ruler."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import streamlit as st

from quantviz.schemes.formats import NumberFormat
from quantviz.ui.components.code_bits import as_html
from quantviz.ui.components.component import last_message
from quantviz.ui.components.ruler import show_ruler
from quantviz.ui.components.small_parts import show_plot
from quantviz.ui.formats.codes import format_name, value_words
from quantviz.ui.formats.state import OWNER, FormatsState, can_be_one, unit_of
from quantviz.ui.shell.classroom import enlarge, noted
from quantviz.ui.shell.words import language, number, say, theme

if TYPE_CHECKING:
    from quantviz.quantization.format_facts import RoundedNumber


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
            fits=lambda value: isinstance(value, float),
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
        figure = gap_figure(gap_data(*grids, x=state.x), language=language(), theme=theme())
        show_plot(figure, "formats_gaps_chart", say("formats.page.gaps_alt"))


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
    from quantviz.figures.ruler_data import Handles

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
            handles=Handles(value=True),
            on_moved=_take_number,
            words={"value": say("formats.page.ruler_value")},
        )


def _take_number(message: Mapping[str, Any]) -> None:
    if message["kind"] == "value":
        OWNER.change(x=message["value"], code=None)
