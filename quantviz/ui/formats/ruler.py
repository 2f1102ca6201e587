"""The ruler of the first format: a number that a hand moves from value to value."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import streamlit as st

from quantviz.schemes.formats import NumberFormat
from quantviz.ui.components.code_bits import as_html
from quantviz.ui.components.ruler import moved, show_ruler
from quantviz.ui.formats.line import landing_words
from quantviz.ui.formats.names import format_name
from quantviz.ui.formats.state import FormatsState, change_state, unit_of
from quantviz.ui.shell import errors
from quantviz.ui.shell.words import say

if TYPE_CHECKING:
    from quantviz.quantization.format_facts import RoundedNumber

_RULER = "formats_ruler"


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
            on_moved=errors.safely(_take_number),
            words={"value": say("formats.page.ruler_value")},
        )


def _take_number() -> None:
    message = moved(_RULER)
    if message and message["kind"] == "value":
        change_state(x=message["value"], code=None)
