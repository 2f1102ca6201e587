"""The controls of the formats page: two formats, the number, the rule for ties and the line's layout."""

from __future__ import annotations

import streamlit as st

from quantviz.schemes.formats import FORMATS
from quantviz.ui.components.choice import choose
from quantviz.ui.formats.names import format_name
from quantviz.ui.formats.state import (
    UNREAD,
    FormatsState,
    change_state,
    number_shown,
    read_typed_number,
    setting,
    swap_formats,
    ties_offered,
)
from quantviz.ui.shell import errors, widgets
from quantviz.ui.shell.words import say, say_error

#: Kind of format that is offered first.
_KINDS = ("float", "integer", "codebook")


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
    return f"{format_name(fmt)} · {kind}"


def show_choices(state: FormatsState) -> None:
    from quantviz.figures.format_values import VIEWS

    names = {name: _offer(name) for name in ("", *_offered())}
    rules = {name: say(f"formats.ties.{name}") for name in ties_offered()}
    views = {name: say(f"formats.views.{name}") for name in VIEWS}
    with st.container(key="formats_choices", horizontal=True, gap="small", vertical_alignment="bottom"):
        choose(
            st.selectbox,
            say("formats.page.first"),
            _offered(),
            key=widgets.show("formats_first", state.first),
            on_change=setting("formats_first", "first"),
            format_func=names.__getitem__,
        )
        st.button(
            "⇄",
            key="formats_swap",
            on_click=errors.safely(swap_formats),
            help=say("formats.page.swap"),
            disabled=not state.second,
        )
        choose(
            st.selectbox,
            say("formats.page.second"),
            tuple(names),
            key=widgets.show("formats_second", state.second),
            on_change=setting("formats_second", "second"),
            format_func=names.__getitem__,
        )
        unread = st.session_state.get(UNREAD)
        st.text_input(
            say("formats.page.number"),
            key=widgets.show("formats_number", unread[0] if unread else number_shown(state.x)),
            on_change=errors.safely(read_typed_number),
            help=say("formats.page.number_help"),
            max_chars=60,
        )
        choose(
            st.selectbox,
            say("formats.page.ties"),
            tuple(rules),
            key=widgets.show("formats_ties", state.ties),
            on_change=setting("formats_ties", "ties"),
            format_func=rules.__getitem__,
            help=say("formats.page.ties_help"),
        )
        choose(
            st.segmented_control,
            say("formats.page.view"),
            VIEWS,
            key=widgets.show("formats_view", state.view),
            required=True,
            on_change=errors.safely(lambda: change_state(view=st.session_state["formats_view"])),
            format_func=views.__getitem__,
            help=say("formats.page.view_help"),
        )
    if unread:
        st.error(say_error(unread[1]))
