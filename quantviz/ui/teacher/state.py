"""The teacher's choices, and what the controls of the page do to them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from quantviz.errors import QuantVizError
from quantviz.lab.classroom import ANSWERS, CLOSED, Classroom, read_prompt
from quantviz.lab.page_state import Codec, PageState, Reading, codec, field, one_of
from quantviz.lab.scenarios import FIRST, SCENARIOS
from quantviz.rooms.plan import MOST_MINUTES, PLANS, Plan, Stop
from quantviz.teaching.lessons import sound_lessons
from quantviz.teaching.lessons.model import Lesson
from quantviz.text import languages
from quantviz.ui.shell.page_owner import PageOwner
from quantviz.ui.shell.words import language

#: The pages that a link can open.
OPENS = ("lab", "scenario", "lesson")


def _readable() -> Mapping[str, Lesson]:
    return sound_lessons(language())


def _read_step(form: str, reading: Reading[TeacherState]) -> int:
    readable = _readable()
    name = reading.state.lesson_in(readable)
    steps = range(1, len(readable[name].steps) + 1) if name else (1,)
    return int(one_of(lambda: steps).read(form, reading))


_SCENARIO = Codec(
    one_of(lambda: SCENARIOS).read, lambda name, choice: name if choice.opens == "scenario" else ""
)
_LESSON = Codec(
    one_of(_readable).read,
    lambda _, choice: choice.lesson_in(_readable()) if choice.opens == "lesson" else "",
)
_PROMPT = Codec(
    lambda form, reading: dataclasses.replace(reading.state.room, prompt=read_prompt(form)),
    lambda room, _: room.prompt,
)
_STEP = Codec(_read_step, lambda step, choice: str(step) if choice.opens == "lesson" else "")


@dataclass(frozen=True)
class TeacherState(PageState):
    """The page that the link opens, and how."""

    page = "teacher"

    #: The stops of the class.
    plan: Plan = field(PLANS["single_hour"], link="plan", codec=codec(Plan.parse))
    #: One of `OPENS`.
    opens: str = field(OPENS[0], link="opens", codec=one_of(lambda: OPENS))
    scenario: str = field(FIRST, link="example", codec=_SCENARIO, always=True)
    #: The lesson's id; empty for the first one.
    lesson: str = field("", link="lesson", codec=_LESSON, always=True)
    #: The lesson's step, from 1.
    step: int = field(1, link="step", codec=_STEP, always=True)
    room: Classroom = field(
        Classroom(),
        link={
            # Not "k", which is the class that the teacher has opened for themselves.
            "class": Codec(lambda form, _: Classroom.parse(form), lambda room, _: str(room)),
            "prompt": _PROMPT,
        },
    )
    #: Whether hidden parts are chosen one by one, also while none is hidden.
    by_parts: bool = field(False)
    #: The language of the link; none for the reader's own.
    language: str | None = field(None, link="for", codec=one_of(languages))

    def completed(self, reading: Reading[TeacherState]) -> TeacherState:
        """Return the choice of a link; one that is damaged hands out nothing that was left out."""
        return TeacherState(plan=self.plan, room=CLOSED) if reading.lost else self

    def reached(self, name: str, form: str) -> TeacherState:
        """Return the state after a choice: of a plan that comes with the app, or of a part of a stop, whose
        place from 0 follows an act's name.
        """
        act, _, number = name.partition("_stop_")
        if act == "template":
            return self.replace(plan=PLANS[form])
        if not number:
            return super().reached(name, form)
        stops = list(self.plan.stops)
        at = int(number)
        if at >= len(stops):  # it was removed before the press came
            return self
        match act:
            case "up":
                stops[at - 1 : at + 1] = stops[at], stops[at - 1]
            case "remove":
                del stops[at]
            case "minutes":
                minutes = int(form) if form.isascii() and form.isdigit() and len(form) < 4 else 0
                if not minutes:
                    raise QuantVizError("rooms.minutes", got=form, most=MOST_MINUTES)
                stops[at] = dataclasses.replace(stops[at], minutes=minutes)
            case "where":
                stops[at] = dataclasses.replace(stops[at], where=form)
        for stop in stops[at : at + 1]:
            stop.check()
        return self.replace(plan=Plan(tuple(stops)))

    def lesson_in(self, readable: Mapping[str, Lesson]) -> str:
        """Return the lesson's id among those there are."""
        return self.lesson if self.lesson in readable else next(iter(readable), "")

    @property
    def applied(self) -> Classroom:
        """Return the classroom of the opened page: a lesson hides nothing, the Lab has no answers."""
        if self.opens == "lesson":
            return Classroom(answers=self.room.answers)
        return dataclasses.replace(self.room, answers=ANSWERS[0])


OWNER = PageOwner(TeacherState)


def change_room(**changes: Any) -> None:
    """Change fields of the choice's classroom."""
    OWNER.change(room=dataclasses.replace(OWNER.state.room, **changes))


def hide(parts: Iterable[str], hidden: Iterable[str]) -> None:
    """Leave out those of `parts` that are `hidden`, and no others of them."""
    change_room(hidden=OWNER.state.room.hidden - set(parts) | set(hidden))


def add(stop: Stop) -> None:
    """Add a stop at the end of the plan; `QuantVizError` where there is no such stop."""
    stop.check()
    OWNER.change(plan=Plan((*OWNER.state.plan.stops, stop)))
