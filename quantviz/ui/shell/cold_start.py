"""The first visitor of a server process who comes by a deep link.

Until `st.navigation` has run once in a process, Streamlit takes the folder `pages/` for its old kind
of multipage app, does not know the address `/lab` and says "Page not found" over the right page.
"""

from __future__ import annotations

import time

import streamlit as st

from quantviz.ui.shell import streamlit_private

#: Seconds from the process's first run in which visitors may have come before the pages were known.
_STARTING = 20.0
_CLOSE = """
<style id="qv-cold">[data-testid=stDialog] { visibility: hidden; }</style>
<script>
(() => {
  const until = Date.now() + 4000;
  const close = () => {
    const dialog = document.querySelector("[data-testid=stDialog]");
    dialog?.querySelector("button[aria-label=Close], button")?.click();
    if (dialog || Date.now() > until) document.getElementById("qv-cold")?.remove();
    else setTimeout(close, 50);
  };
  close();
})();
</script>
"""


def before_navigation() -> bool:
    """Return whether this run can be told wrongly that its page was not found, to be asked before
    `st.navigation`.

    Of several visitors who come while the process starts, one makes the pages known and all see the message.
    """
    first_run = "cold_start_asked" not in st.session_state
    st.session_state["cold_start_asked"] = True
    return streamlit_private.pages_are_unknown() or (first_run and time.monotonic() - _started() < _STARTING)


@st.cache_resource(show_spinner=False)
def _started() -> float:
    """Return when the process had its first run."""
    return time.monotonic()


def close_wrong_message(cold: bool) -> None:
    """Close the message that the page was not found, which only a first run can show."""
    if cold:
        st.html(_CLOSE, unsafe_allow_javascript=True)
