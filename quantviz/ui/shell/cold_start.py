"""The first visits of a server process: while the server imports torch, the browser can already fetch the
script that draws.
"""

from __future__ import annotations

import time
from typing import Any

import streamlit as st

from quantviz.ui.shell import streamlit_private

#: Seconds from the process's first run in which the server may still import.
_STARTING = 20.0
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


def is_cold() -> bool:
    """Return whether this is a session's first run, in a process that has just begun."""
    first_run = "cold_start_asked" not in st.session_state
    st.session_state["cold_start_asked"] = True
    return first_run and time.monotonic() - _started() < _STARTING


@st.cache_resource(show_spinner=False)
def _started() -> float:
    """Return the time of the process's first run, in seconds of `time.monotonic`."""
    return time.monotonic()


def help_the_browser(place: Any) -> None:
    """Have the browser fetch the drawing script before there is something to draw; `place` is an empty
    element to put it in.
    """
    name = streamlit_private.drawing_script()
    if name:
        place.html(_FETCH_WHAT_DRAWS.replace("NAME", name), unsafe_allow_javascript=True)
