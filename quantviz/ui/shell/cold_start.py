"""The first visit of a server process by a deep link.

Until `st.navigation` has run once in a process, Streamlit takes the folder `pages/` for its old kind
of multipage app, does not find the address `/lab` and shows "Page not found" over the right page.

And while the server imports torch, the browser can already fetch its scripts.
"""

from __future__ import annotations

import time
from typing import Any

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
#: The script that draws is 5 MB and takes the browser most of a second: it begins once the frame is painted
#: and nothing of it is still to come, and so works while the server imports what the panels' data is made by.
_FETCH_WHAT_DRAWS = """
<script>
(() => {
  const until = Date.now() + 20000;
  const streamlit = document.querySelector("script[type=module][src]").src;
  // Where it cannot be had, Streamlit says so when it asks for it.
  const fetchIt = () => import(new URL("NAME", streamlit)).catch(() => {});
  const look = () => {
    const framed = document.querySelector("[data-testid=stSkeletonElement]");
    const loading = document.querySelector("[data-testid=stSkeleton]");
    if (framed && !loading) requestAnimationFrame(() => setTimeout(fetchIt));
    else if (Date.now() < until) setTimeout(look, 30);
  };
  look();
})();
</script>
"""


def before_navigation() -> bool:
    """Return whether Streamlit may wrongly show "Page not found" in this run; call it before
    `st.navigation`.

    Of several visitors who come while the process starts, one registers the pages and all see the message.
    """
    first_run = "cold_start_asked" not in st.session_state
    st.session_state["cold_start_asked"] = True
    return streamlit_private.pages_are_unknown() or (first_run and time.monotonic() - _started() < _STARTING)


@st.cache_resource(show_spinner=False)
def _started() -> float:
    """Return the time of the process's first run, in seconds of `time.monotonic`."""
    return time.monotonic()


def help_the_browser(place: Any) -> None:
    """Close the message that the page was not found, which only a first run can show, and have the browser
    fetch the drawing script before there is something to draw. `place` is an empty element to put it in.
    """
    name = streamlit_private.drawing_script()
    draws = _FETCH_WHAT_DRAWS.replace("NAME", name) if name else ""
    place.html(_CLOSE + draws, unsafe_allow_javascript=True)
