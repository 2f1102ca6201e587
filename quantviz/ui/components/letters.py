"""The size of the page's letters as the browser has it, for text in figures to be as large."""

from __future__ import annotations

from quantviz.ui.components.component import component, last_message
from quantviz.ui.shell.classroom import classroom, letters, note_letters

_KEY = "letters"
_SCRIPT = "letters"


def follow_letters() -> None:
    """Have the browser report the size of its letters where the server knows another one.

    On a projector figures grow with the wall.
    """
    if classroom().projector:
        return
    reported = last_message(_KEY, _SCRIPT, "size")
    if reported is not None:
        note_letters(reported)
    component("quantviz_letters", _SCRIPT)(key=_KEY, data={"known": letters()})
