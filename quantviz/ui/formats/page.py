"""The formats page: all values of a format on a line, its codes, its facts, and a number that lands in it."""

from __future__ import annotations

import streamlit as st

from quantviz.schemes.formats import FORMATS
from quantviz.ui.components.clipboard import show_copy_link
from quantviz.ui.components.component import component, last_message
from quantviz.ui.components.page_header import show_header
from quantviz.ui.components.refusals import show_page_errors
from quantviz.ui.formats.choices import show_actions, show_choices
from quantviz.ui.formats.codes import format_name, show_bits, show_codes
from quantviz.ui.formats.facts import show_ends, show_facts, show_terms
from quantviz.ui.formats.line import (
    BRIDGE,
    SCRIPT,
    WIDTHS,
    line_width,
    show_format_ruler,
    show_gaps,
    show_landings,
    show_line,
)
from quantviz.ui.formats.state import (
    OWNER,
    FormatsState,
    choose_code,
    code_shown,
    unit_of,
)
from quantviz.ui.shell import errors
from quantviz.ui.shell.imports import warm_up
from quantviz.ui.shell.tab import name_tab
from quantviz.ui.shell.words import language, say


def _row_clicked() -> None:
    codes = FORMATS[OWNER.state.first].codes
    code = last_message(BRIDGE, SCRIPT, "code", lambda code: code in codes)
    if code is not None:
        choose_code(code)


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
        on_code_change=errors.safely(_row_clicked),
    )
