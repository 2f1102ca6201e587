"""Desks: the Lab's controls also choose schemes on other pages, each of which has a state of its own."""

from __future__ import annotations

from collections.abc import Iterable

import streamlit as st

from quantviz.ui.shell import streamlit_private

#: The desk of every page that has none of its own.
LAB = "lab"
_DESK = "desk"
_OTHERS = "desks_left"


def change_workspace(desk: str, on_it: Iterable[str]) -> None:
    """Have the controls work at a `desk`: its values, under the keys `on_it` of the session, are restored,
    and those of the desk before are kept for it.
    """
    before = st.session_state.get(_DESK, LAB)
    if before == desk:
        return
    # Not half of it: a message from the browser would end this run at the next look into the session.
    with streamlit_private.uninterrupted():
        left = dict(st.session_state.get(_OTHERS, {}))
        left[before] = {key: st.session_state.pop(key) for key in on_it if key in st.session_state}
        for key, value in left.pop(desk, {}).items():
            st.session_state[key] = value
        st.session_state[_OTHERS] = left
        st.session_state[_DESK] = desk
