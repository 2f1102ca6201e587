"""Last places of a person in the Lab and in the lessons: kept in their browser, for the front door to lead
back to. The server keeps nothing of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import streamlit as st

#: Key of the places in the browser. Another form of them gets another number, and leaves these alone.
KEY = "quantviz.places.v1"
_KEEP = """<script>
try {
  const [key, page, place] = WORDS;
  const kept = JSON.parse(localStorage.getItem(key) ?? "{}");
  localStorage.setItem(key, JSON.stringify({ ...kept, [page]: { ...place, at: Date.now() } }));
} catch {
  // Storage can be switched off, or be full: then the front door leads nowhere back.
}
</script>"""


def keep_place(page: str, name: str, parameters: Mapping[str, str], **more: Any) -> None:
    """Have the browser keep this place of a page, "lab" or "lesson", called `name`.

    Args:
        page: "lab" or "lesson".
        name: its label, in the session's language.
        parameters: its address.
        more: further fields of its entry.
    """
    words = [KEY, page, {"name": name, "parameters": dict(parameters), **more}]
    # A name may hold the end tag of a script.
    script = _KEEP.replace("WORDS", json.dumps(words).replace("<", "\\u003c"))
    with st.container(key="keep_place"):
        st.html(script, unsafe_allow_javascript=True)
