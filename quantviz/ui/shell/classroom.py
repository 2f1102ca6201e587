"""The classroom of the session: the settings of the teacher's link, kept over page switches, and how large
its figures are.
"""

from __future__ import annotations

import dataclasses
from typing import cast

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.figures.arrangement import BREAKPOINTS
from quantviz.lab.classroom import CLOSED, HIDEABLE, LOCKABLE, Classroom, read_code, read_prompt
from quantviz.ui.shell.run_facts import fact, forget, keep, kept

#: The link's parameters: the classroom, the question to those who open the link, and the code of their room.
PARAMETER = "k"
PROMPT = "ask"
ROOM = "room"
_ROOM = "classroom"
_PROBLEM = "classroom_problem"
_WITHHELD = "classroom_withheld"
_LEFT_OUT = "classroom_left_out"
_LETTERS = "letters_size"
#: Pixels of the page's letters for which figures are laid out, and the most that they follow.
_USUAL_LETTERS = 15.0
_LARGEST_LETTERS = 30.0
#: The cookie in which a browser notes pixels before it asks for a page (`server.py`): in their order how wide
#: the page is and how large its letters are, of which so many are believed.
NOTED = "quantviz_noted"
_BELIEVED = {"room": range(240, 4001), "letters": range(15, 31), "height": range(240, 4001)}
#: Least factor of enlargement of figures on a projector.
_PROJECTED = 1.45
#: Figures as wide as the page are laid out for so many pixels and then enlarged: four panels just fit side by
#: side.
_PROJECTED_WIDTH = BREAKPOINTS[4]["row"] + 2
#: The least size in pixels of a digit in a lesson's picture on a projector of 1280×720 pixels: a 26th of the
#: wall's height. Figures print in 12 pixels.
LEAST_DIGIT = 28
_DIGIT = 12
#: The same of a ruler outside lessons.
RULER_DIGIT = 20
#: Width of two panels of a lesson beside their ruler on such a projector, in pixels.
LESSON_WIDTH = 704
#: Parts that are not projected: the sidebar's groups, small buttons, and everything below the fold; and those
#: that are left out in a frame of another page, where the stage keeps its tabs.
_NOT_PROJECTED = frozenset({"tensor", "range", "recipes", "actions", "below"})
_NOT_EMBEDDED = frozenset({"tensor", "actions", "below"})


def classroom() -> Classroom:
    """Return the session's classroom, read from its first address; `CLOSED` where that is damaged."""
    room: Classroom | None = kept(_ROOM, None)
    if room is None:
        room = _asked_for()
        keep(_ROOM, room)
    return room


def _asked_for() -> Classroom:
    """Return the classroom of the address, and keep the errors of its damaged parts."""
    room = CLOSED
    prompt = ""
    try:
        prompt = read_prompt(st.query_params.get(PROMPT, ""))
    except QuantVizError as problem:
        st.session_state[_PROBLEM] = problem
    try:
        room = Classroom.parse_all(st.query_params.get_all(PARAMETER))
    except QuantVizError as problem:
        st.session_state[_PROBLEM] = problem
    return dataclasses.replace(room, prompt=prompt, room=read_code(st.query_params.get(ROOM, "")))


def enter(room: Classroom) -> None:
    """Take another classroom."""
    keep(_ROOM, room)
    forget(_LEFT_OUT)
    st.session_state.pop(_PROBLEM, None)


def visible(part: str) -> bool:
    """Return whether a part of `classroom.HIDEABLE` is shown. Hidden parts are never sent to the browser."""
    return part not in left_out()


def left_out() -> frozenset[str]:
    """Return the parts that are not shown."""
    return fact(_LEFT_OUT, _found_left_out)


def _found_left_out() -> frozenset[str]:
    room = classroom()
    in_frame = _NOT_EMBEDDED if embedded() else frozenset()
    projected = _NOT_PROJECTED if room.projector else frozenset()
    return room.hidden.union(kept(_WITHHELD, frozenset()), in_frame, projected)


def embedded() -> bool:
    """Return whether the page stands in a frame of another page: its address has `embed=true`."""
    return fact("embedded", lambda: bool(st.context.is_embedded))


def withhold(parts: frozenset[str]) -> None:
    """Leave out some parts, from now on until others are named, besides those of the link."""
    keep(_WITHHELD, parts)
    forget(_LEFT_OUT)


def locked(group: str) -> bool:
    """Return whether a group of `classroom.LOCKABLE` stays as it is."""
    return group in classroom().locked


def is_open() -> bool:
    """Return whether nothing is hidden or locked: of what a file has, nothing can be either."""
    return all(map(visible, HIDEABLE)) and not any(map(locked, LOCKABLE))


def problem() -> QuantVizError | None:
    """Return the error in the address' class settings, if there is one."""
    classroom()  # it is read from the address the first time that anybody asks
    return cast("QuantVizError | None", st.session_state.get(_PROBLEM))


def parameters() -> dict[str, str]:
    """Return the classroom as it stands in a page's address."""
    return written(classroom())


def wall() -> str:
    """Return the code of the room that this window shows on the wall; "" for none."""
    return classroom().room if classroom().projector else ""


def written(room: Classroom) -> dict[str, str]:
    """Return the parameters of a classroom: none for usual settings."""
    parts = {PARAMETER: str(room), PROMPT: room.prompt, ROOM: room.room}
    return {name: part for name, part in parts.items() if part}


def note_letters(size: float) -> None:
    """Keep the size in pixels of the page's letters, as the browser reported it."""
    st.session_state[_LETTERS] = min(max(size, _USUAL_LETTERS), _LARGEST_LETTERS)


def noted(what: str, usual: float) -> float:
    """Return the pixels that the browser noted of "room", "letters" or "height" before it began the session;
    else the usual ones.
    """
    found = kept(NOTED, None)
    if found is None:
        written = zip(_BELIEVED, st.context.cookies.get(NOTED, "").split("_"), strict=False)
        pixels = {each: int(size) for each, size in written if size.isdecimal() and len(size) < 5}
        found = {each: size for each, size in pixels.items() if size in _BELIEVED[each]}
        keep(NOTED, found)
    return found.get(what, usual)


def letters() -> float:
    """Return the size in pixels of the page's letters, as noted until the browser reports another."""
    return cast(float, st.session_state.get(_LETTERS) or noted("letters", _USUAL_LETTERS))


def enlarge(width: float = 0) -> float:
    """Return the factor of enlargement of a figure of so many pixels' width: that of the letters around it.

    A projector's picture has one size on the wall for any number of pixels: the wider, the larger the text.
    """
    if classroom().projector:
        return max(_PROJECTED, width / _PROJECTED_WIDTH)
    return letters() / _USUAL_LETTERS


def enlarge_ruler(digit: float = RULER_DIGIT) -> float | None:
    """Return the factor of enlargement of a ruler on a projector of 1280×720 pixels, for digits of `digit`
    pixels; None elsewhere. The browser enlarges it with the wall.
    """
    return digit / _DIGIT if classroom().projector else None


def enlarge_lesson(wider: float = 1.0) -> float | None:
    """Return the factor of enlargement of a lesson's picture on a projector `wider` times as wide as one of
    1280 pixels, else None.
    """
    return LEAST_DIGIT / _DIGIT * max(1.0, wider) if classroom().projector else None
