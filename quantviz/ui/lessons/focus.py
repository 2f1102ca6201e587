"""Keyboard focus after a button that is gone."""

from __future__ import annotations

import streamlit as st

from quantviz.ui.components.lesson_place import FOCUS

#: The button that was pressed is gone, and with it the keyboard's focus. The new element may come after the
#: script.
_TO_FOCUS = """<script data-turn="{turn}">
(() => {{
  const until = Date.now() + 4000;
  const find = () => {{
    const found = document.querySelector('{selector}');
    if (!found) return Date.now() < until && setTimeout(find, 50);
    found.tabIndex = -1;
    found.focus();
  }};
  find();
}})();
</script>"""


def show_focus() -> None:
    turn, selector = st.session_state.get(FOCUS, (0, ""))
    # Where nothing was pressed yet, the page begins where the browser begins it.
    st.html(
        _TO_FOCUS.format(turn=turn, selector=selector) if turn else "<span></span>",
        unsafe_allow_javascript=True,
        width="content",
    )
