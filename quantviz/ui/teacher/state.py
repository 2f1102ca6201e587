"""The teacher's choices: one frozen value in the session, which the page's address carries."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.classroom import ANSWERS, CLOSED, Classroom, read_prompt
from quantviz.lab.scenarios import FIRST, SCENARIOS
from quantviz.teaching.lessons import sound_lessons
from quantviz.teaching.lessons.model import Lesson
from quantviz.text import languages
from quantviz.ui.shell import address, session
from quantviz.ui.shell.words import language

#: In the session: the choice, and whether the address could not be read.
_CHOICE = "teacher_choice"
_DAMAGED = "teacher_damaged"
#: Whether a control has changed the choice since the last run.
_MOVED = "teacher_moved"
#: The pages that a link can open.
OPENS = ("lab", "scenario", "lesson")
#: Parameters of the page's address. `k` is the class that the teacher has opened for themselves.
_OPENS = "opens"
_SCENARIO = "example"
_LESSON = "lesson"
_STEP = "step"
_ROOM = "class"
_PROMPT = "prompt"
_LANGUAGE = "for"


@dataclass(frozen=True)
class Choice:
    """The page that the link opens, and how."""

    #: One of `OPENS`.
    opens: str = OPENS[0]
    scenario: str = FIRST
    #: The lesson's id; empty for the first one.
    lesson: str = ""
    #: The lesson's step, from 1.
    step: int = 1
    room: Classroom = field(default_factory=Classroom)
    #: Whether hidden parts are chosen one by one, also while none is hidden.
    by_parts: bool = False
    #: The language of the link; none for the reader's own.
    language: str | None = None

    def lesson_in(self, readable: Mapping[str, Lesson]) -> str:
        """Return the lesson's id among those there are."""
        return self.lesson if self.lesson in readable else next(iter(readable), "")

    @property
    def applied(self) -> Classroom:
        """Return the classroom of the opened page: a lesson hides nothing, the Lab has no answers."""
        if self.opens == "lesson":
            return Classroom(answers=self.room.answers)
        return dataclasses.replace(self.room, answers=ANSWERS[0])


def current_choice() -> Choice:
    """Return the session's choice: at first, and after Back or Forward, that of the address."""
    # A control of ours may be faster than the address.
    anew = address.asks_anew() and not st.session_state.get(_MOVED)
    st.session_state[_MOVED] = False
    if anew or _CHOICE not in st.session_state:
        parameters = st.query_params.to_dict()
        try:
            st.session_state[_CHOICE] = _read(parameters)
            st.session_state[_DAMAGED] = False
        except QuantVizError:
            # As a damaged link: nothing that was left out may be handed out.
            st.session_state[_CHOICE] = Choice(room=CLOSED)
            st.session_state[_DAMAGED] = True
    return cast(Choice, st.session_state[_CHOICE])


def is_damaged() -> bool:
    """Return whether the address could not be read, until something is chosen."""
    return bool(st.session_state.get(_DAMAGED))


def change(**changes: object) -> None:
    """Change fields of the choice."""
    st.session_state[_CHOICE] = dataclasses.replace(st.session_state[_CHOICE], **changes)
    st.session_state[_DAMAGED] = False
    st.session_state[_MOVED] = True


def change_room(**changes: object) -> None:
    """Change fields of the choice's classroom."""
    room = cast(Choice, st.session_state[_CHOICE]).room
    change(room=dataclasses.replace(room, **changes))  # type: ignore[arg-type]


def hide(parts: Iterable[str], hidden: Iterable[str]) -> None:
    """Leave out those of `parts` that are `hidden`, and no others of them."""
    room = cast(Choice, st.session_state[_CHOICE]).room
    change_room(hidden=room.hidden - set(parts) | set(hidden))


def address_of(choice: Choice) -> dict[str, str]:
    """Return the choice as parameters of the page's address: default values are left out."""
    opened: dict[str, str] = {}
    if choice.opens == "lab":
        opened = session.state().written()
    elif choice.opens == "scenario":
        opened = {_OPENS: choice.opens, _SCENARIO: choice.scenario}
    elif choice.opens == "lesson":
        name = choice.lesson_in(sound_lessons(language()))
        opened = {_OPENS: choice.opens, _LESSON: name, _STEP: str(choice.step)}
    how = {_ROOM: str(choice.room), _PROMPT: choice.room.prompt, _LANGUAGE: choice.language or ""}
    return opened | {name: value for name, value in how.items() if value}


def _read(parameters: Mapping[str, str]) -> Choice:
    """Return the choice of an address; `QuantVizError` where a parameter is none of ours."""
    readable = sound_lessons(language())
    name = _one_of(parameters, _LESSON, readable, next(iter(readable), ""))
    steps = [str(number) for number in range(1, len(readable[name].steps) + 1)] if name else ["1"]
    room = Classroom.parse(parameters.get(_ROOM, ""))
    return Choice(
        opens=_one_of(parameters, _OPENS, OPENS, OPENS[0]),
        scenario=_one_of(parameters, _SCENARIO, SCENARIOS, FIRST),
        lesson=name if _LESSON in parameters else "",
        step=int(_one_of(parameters, _STEP, steps, "1")),
        room=dataclasses.replace(room, prompt=read_prompt(parameters.get(_PROMPT, ""))),
        language=_one_of(parameters, _LANGUAGE, languages(), "") or None,
    )


def _one_of(parameters: Mapping[str, str], name: str, offered: Collection[str], usual: str) -> str:
    """Return the parameter `name`, which has to be one of those offered; `usual` where it is not there."""
    if name not in parameters:
        return usual
    if parameters[name] not in offered:
        raise QuantVizError("link.teacher", field=name, got=parameters[name], known=", ".join(offered))
    return parameters[name]
