"""The controls of the formats page: two formats, the number, the rule for ties and the line's layout."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from quantviz.schemes.formats import FORMATS, entry_of
from quantviz.ui.components.choice import choose_among, show_button
from quantviz.ui.components.refusals import show_error_beside
from quantviz.ui.formats.codes import format_name
from quantviz.ui.formats.state import (
    NUMBER,
    OWNER,
    FormatsState,
    number_shown,
    read_typed_number,
    swap_formats,
    ties_offered,
)
from quantviz.ui.shell import errors, widgets
from quantviz.ui.shell.words import say

#: Kind of format that is offered first.
_KINDS = ("float", "integer", "codebook")


def _choose(field: str, names: Mapping[str, str], now: str, **look: str) -> None:
    """Show the choice of a field of the state; the chosen code is that of x again."""
    choose_among(
        st.selectbox,
        f"formats_{field}",
        say(f"formats.page.{field}"),
        names,
        now,
        lambda value: OWNER.change(**{field: value, "code": None}),
        **look,
    )


def show_choices(state: FormatsState) -> None:
    from quantviz.figures.format_values import VIEWS

    offered = sorted(FORMATS.values(), key=lambda fmt: (_KINDS.index(fmt.kind), fmt.bits))
    kinds = {kind: say(f"formats.picker.{kind}") for kind in _KINDS}
    names = {"": say("formats.page.none")}
    names |= {fmt.id: f"{format_name(fmt)} · {kinds[fmt.kind]}" for fmt in offered}
    rules = {name: say(f"formats.ties.{name}") for name in ties_offered()}
    views = {name: say(f"formats.views.{name}") for name in VIEWS}
    with st.container(key="formats_choices", horizontal=True, gap="small", vertical_alignment="bottom"):
        about = {name: say(f"formats.{entry_of(name)}.help") for name in (state.first, state.second) if name}
        _choose("first", {name: names[name] for name in names if name}, state.first, help=about[state.first])
        swap = say("formats.page.swap")
        show_button("⇄", "formats_swap", swap_formats, help=swap, disabled=not state.second)
        _choose("second", names, state.second, help=about.get(state.second, ""))
        st.text_input(
            say("formats.page.number"),
            key=widgets.show(NUMBER, number_shown(state.x)),
            on_change=errors.safely(read_typed_number),
            help=say("formats.page.number_help"),
            max_chars=60,
        )
        _choose("ties", rules, state.ties, help=say("formats.page.ties_help"))
        choose_among(
            st.segmented_control,
            "formats_view",
            say("formats.page.view"),
            views,
            state.view,
            lambda view: OWNER.change(view=view),
            required=True,
            help=say("formats.page.view_help"),
        )
    show_error_beside(NUMBER)
