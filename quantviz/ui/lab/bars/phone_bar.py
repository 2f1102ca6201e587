"""The bar at the bottom of a phone: the two decisions that change the picture most, and the way to the rest.

Elsewhere the style hides it: the scheme's row has the same decisions and more.
"""

from __future__ import annotations

import dataclasses

import streamlit as st

from quantviz.lab.controls import offered_formats
from quantviz.lab.state import LabState
from quantviz.schemes.formats import NumberFormat
from quantviz.ui.components.choice import choose_among
from quantviz.ui.components.controls import show_controls
from quantviz.ui.components.scheme_words import format_name, levels_words
from quantviz.ui.lab.bars.scheme_bar import ALL_SETTINGS, granularity_control, put_format
from quantviz.ui.shell import session
from quantviz.ui.shell.words import plain, say

_BITS = "phone_bits"


def show_phone_bar(state: LabState) -> None:
    """Show bits as a slider, the granularity, and the button that opens all settings."""
    with st.container(key="phone_bar"):
        _bits(state)
        with st.container(key="phone_row", horizontal=True, gap="small", wrap=False):
            _scale(state)
            # It opens the scheme's row above this bar.
            st.checkbox(say("phone.all"), key=ALL_SETTINGS)


def _family(state: LabState) -> tuple[NumberFormat, ...]:
    """Return the formats that are alike but for their bits and can have the mode, the fewest first."""
    now = state.scheme.number_format
    alike = {
        fmt.id: fmt
        for fmt in (*offered_formats(state.scheme.arithmetic.offer), now)
        if (fmt.family, fmt.signed) == (now.family, now.signed)
        and state.scheme.with_format(fmt.id).mode == state.scheme.mode
    }
    return tuple(sorted(alike.values(), key=lambda fmt: (fmt.bits, fmt.id)))


def _bits(state: LabState) -> None:
    family = _family(state)
    now = state.scheme.number_format
    with st.container(
        key="phone_bits_line", horizontal=True, gap="small", wrap=False, vertical_alignment="center"
    ):
        st.markdown(f"**{plain(say('phone.bits', bits=now.bits))}**", width="content")
        if len(family) > 1:
            choose_among(
                st.select_slider,
                _BITS,
                say("strip.bits"),
                {fmt.id: format_name(fmt.id) for fmt in family},
                now.id,
                lambda name: put_format(name, "bits"),
                lock="scheme",
                label_visibility="collapsed",
            )
        st.markdown(plain(levels_words(state.scheme)), width="content")


def _scale(state: LabState) -> None:
    control = granularity_control(state)
    # A list has no room for reasons: impossible choices stand in all settings, grey and with their reasons.
    possible = {name: words for name, words in control.choices.items() if name not in control.reasons}
    shown = dataclasses.replace(control, kind="list", label=say("phone.scale"), help="", choices=possible)
    show_controls("phone_scale", session.OWNER, shown, look="qv-inside")
