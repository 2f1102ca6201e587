"""Counts of raised hands: in the session for every step, and for the one on the screen in the address, where
they survive a reload.
"""

from __future__ import annotations

import re
from typing import cast

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.ui.shell import errors, widgets

#: The parameter of the address, and a count in it: question, attempt, kind of box, its number, and the hands.
PARAMETER = "hands"
_COUNT = re.compile(r"(\d{1,2}_\d{1,4}_(?:hands|sure)_\d)_(\d{1,3})")
_COUNTS = "hands_counted"


def _counts() -> dict[str, int]:
    return cast("dict[str, int]", st.session_state.setdefault(_COUNTS, {}))


def show_box(name: str, key: str) -> int:
    """Show a box for the hands that are raised for the answer `name`, and return their count."""
    shown = widgets.show(key, _counts().get(key, 0))
    count = st.number_input(
        name,
        0,
        999,
        key=shown,
        label_visibility="collapsed",
        on_change=errors.safely(lambda: _counts().update({key: st.session_state[key]})),
    )
    return int(count)


def written(lesson: str | None, step: int) -> dict[str, str]:
    """Return the counts of a step as parameters of its address; empty without any."""
    of_step = f"answer_{lesson}_{step}_"
    parts = [
        f"{key.removeprefix(of_step)}_{count}"
        for key, count in _counts().items()
        if key.startswith(of_step) and count
    ]
    return {PARAMETER: "-".join(parts)} if parts else {}


def read(text: str, lesson: str | None, step: int) -> tuple[QuantVizError, ...]:
    """Take the counts of a step from its address, and return the error of one that is not readable."""
    parts = [_COUNT.fullmatch(part) for part in text.split("-")] if text else []
    if not all(parts):
        return (QuantVizError("lessons.hands", got=text[:40]),)
    _counts().update({f"answer_{lesson}_{step}_{part[1]}": int(part[2]) for part in parts if part})
    return ()
