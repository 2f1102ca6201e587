"""The first visitor of a server process who comes by a deep link.

Until `st.navigation` has run once in a process, Streamlit takes the folder `pages/` for its old kind
of multipage app, does not know the address `/lab` and says "Page not found" over the right page.
"""

from __future__ import annotations

import streamlit as st
from streamlit.runtime.pages_manager import PagesManager

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
    """Whether this run is the process's first, to be asked before `st.navigation`."""
    return bool(PagesManager.uses_pages_directory)


def close_wrong_message(cold: bool) -> None:
    """Close the message that the page was not found, which only the first run can show."""
    if cold:
        st.html(_CLOSE, unsafe_allow_javascript=True)
