"""Turn to another page: a callback asks for it, and the run that follows does it."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

#: The page that is to be shown next, as its script, and its parameters.
_GOAL = "page_goal"


def turn_to(page: str, parameters: Mapping[str, str] | None = None) -> None:
    """Have the run that follows show `page`, the path of its script. Called in a callback.

    `if st.button(…): st.switch_page(…)` loses the click where another message of the browser ends the run
    before it comes to the button.
    """
    st.session_state[_GOAL] = page, dict(parameters) if parameters else None


def go_on() -> None:
    """Turn to the page that a callback has chosen."""
    goal = st.session_state.pop(_GOAL, None)
    if goal:
        page, parameters = goal
        st.switch_page(page, query_params=parameters)
