"""A class that runs: its room is opened here; after that the browser leads it (`desk_component.js`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import cast

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.classroom import ANSWERS
from quantviz.lab.share_links import write_address
from quantviz.rooms.plan import Stop
from quantviz.rooms.room import FEWEST, Room
from quantviz.rooms.serving import rooms
from quantviz.teaching.lessons.model import ChoiceQuestion, DirectionQuestion
from quantviz.text import templates
from quantviz.ui.components.clipboard import qr_image
from quantviz.ui.components.component import component, last_message
from quantviz.ui.components.small_parts import show_button
from quantviz.ui.lessons.questions import lettered, option_texts
from quantviz.ui.shell import errors
from quantviz.ui.shell.startup import run_queue
from quantviz.ui.shell.words import language, say, say_error
from quantviz.ui.teacher.plan import stop_title
from quantviz.ui.teacher.state import OWNER

_SCRIPT = "desk_component"
_KEY = "teacher_desk"
#: In the session: the code and the key of the room that is led, and the code of one that cannot be.
_ROOM = "teacher_room"
_LOST = "teacher_room_lost"


def show_desk() -> Room | None:
    """Show the room that this browser leads, and return it; else the button that opens one."""
    room, problem = _led()
    if problem:
        st.warning(say_error(problem))
    if room:
        _show(
            {
                "code": room.code,
                "key": room.key,
                "words": dict(templates("teacher.desk", language())),
                "stops": [_for_desk(stop, language()) for stop in room.plan.stops],
                "answers": {name: say(f"teacher.desk.{name}") for name in ANSWERS},
                "fewest": FEWEST,
                "language": language(),
            }
        )
    else:
        show_button(
            say("teacher.open_room"),
            "teacher_open",
            lambda: _lead(rooms().open(OWNER.state.plan)),
            type="primary",
            help=say("teacher.open_room_help"),
        )
    return room


def find_room() -> None:
    """Have the browser say which room it leads; it shows nothing, and stands below what could move."""
    _show({"code": "", "lost": st.session_state.get(_LOST, "")})


def _show(data: dict[str, object]) -> None:
    component("quantviz_desk", _SCRIPT)(
        key=_KEY, data=data, on_found_change=errors.safely(_find), on_ended_change=errors.safely(_forget)
    )


@lru_cache(maxsize=256)
def _for_desk(stop: Stop, language: str) -> dict[str, object]:
    """Return a stop for the desk, in the lecturer's language: a lesson's numbers are worked out once."""
    options: Sequence[str] = stop.options
    asked = stop.asked
    if stop.kind == "lesson" and asked.kind == "choice":
        step, question = stop.step(language)
        assert isinstance(question, ChoiceQuestion | DirectionQuestion)
        options = option_texts(question, step.scenes())
    place = say(f"teacher.plan.{stop.where}"), say("lessons.minutes", minutes=stop.minutes)
    return {
        "title": " · ".join((stop_title(stop), *place)),
        "kind": asked.kind,
        "ask": dict(asked.words)[language],
        "options": lettered(options),
    }


def _led() -> tuple[Room | None, QuantVizError | None]:
    held = st.session_state.get(_ROOM)
    if not held:
        return None, None
    try:
        with run_queue().leave():
            return rooms().lead(*held), None
    except QuantVizError as problem:
        if problem.key != "rooms.away":
            _forget()
        return None, problem


def _lead(room: Room) -> None:
    st.session_state[_ROOM] = room.code, room.key


def _find() -> None:
    """Take the room whose key the browser has: kept from before, or brought to a second device by a link."""
    found = cast("dict[str, str] | None", last_message(_KEY, _SCRIPT, "found"))
    if not found:
        return
    try:
        _lead(rooms().lead(found["code"], found["key"]))
    except QuantVizError:
        # It has ended, or is another's: the page is as without it.
        st.session_state[_LOST] = found["code"]


def _forget() -> None:
    st.session_state[_LOST] = (st.session_state.pop(_ROOM, None) or ("",))[0]


def show_ways(room: Room, app: str) -> None:
    """Show the wall's link, and the link by which a second device leads the room."""
    wall = write_address(app, "join", {"c": room.code, "wall": "1", "lang": language()})
    st.link_button(say("teacher.wall"), wall, help=say("teacher.wall_help"))
    with st.popover(say("teacher.second"), key="teacher_second"):
        second = f"{write_address(app, 'teacher', {'lang': language()})}#room={room.code}.{room.key}"
        st.html(qr_image(second, say("teacher.second_alt")))
        st.caption(say("teacher.second_help"))
        st.code(second, language=None, wrap_lines=True)
