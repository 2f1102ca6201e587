"""The lessons page: the list of lessons, or a step of one."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterator, Mapping
from functools import cache
from typing import cast

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.figures.thumbnail import thumbnail_svg
from quantviz.teaching.golf import BUDGET, HOLES
from quantviz.teaching.lessons import lessons, sound_lessons, term_home
from quantviz.teaching.lessons.model import Lesson
from quantviz.teaching.lessons.plan import FIRST_HOUR, minutes
from quantviz.teaching.lessons.progress import asked, reached
from quantviz.teaching.lessons.thumbnails import thumbnails
from quantviz.ui.components.controls import Control, show_controls
from quantviz.ui.components.lesson_place import PLACE, PROBLEMS, LessonPlace, go, show_focus
from quantviz.ui.components.page_header import show_language, show_title_line, write_title
from quantviz.ui.components.small_parts import show_button
from quantviz.ui.lessons import hands
from quantviz.ui.lessons.answering import HANDS
from quantviz.ui.lessons.progress import (
    answers,
    is_finished,
    keep_in_browser,
    place_to_go_on,
    show_progress,
    take_from_browser,
    unreadable,
)
from quantviz.ui.lessons.second_look import show_due_at_the_end
from quantviz.ui.lessons.step import show_step
from quantviz.ui.shell import address, errors
from quantviz.ui.shell.address import keep_place
from quantviz.ui.shell.classroom import classroom, parameters
from quantviz.ui.shell.tab import name_tab
from quantviz.ui.shell.words import language, plain, say, say_error, theme

_GOLF = "pages/learn/golf.py"
_MODEL = "pages/explore/checkpoints.py"
_HANDS = "lesson_hands_switch"
#: The course that golf belongs to, and the states.
_LAST_COURSE = 2
#: States of other pages that a course on the compression of models asks for, by their words: the page's
#: script, and its parameters.
STATES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "salient": (_MODEL, {"f": "model:character_twin", "g": "g32", "part": "salient"}),
    "kmeans": (_MODEL, {"f": "model:character", "bits": "3", "method": "kmeans", "part": "depth"}),
    "mix": (_MODEL, {"f": "model:character_twin", "part": "mix"}),
    "integer": ("pages/explore/layers.py", {"t": "integer"}),
}


def show_page() -> None:
    """Show the list of lessons, or a step of one."""
    place = _place()
    # First of all: the next click comes with the new address.
    at = {"l": place.lesson, "p": str(place.step + 1)} if place.lesson else {}
    counted = hands.written(place.lesson, place.step)
    address.write({**at, "lang": language(), **parameters(), **counted})
    take_from_browser()
    every = lessons(language())
    with st.sidebar:
        show_language()
        if place.lesson:
            # On the page of all lessons these are the cards.
            _show_contents(every, place)
        show_progress(sound_lessons(language()))
        hands_shown = Control(
            _HANDS,
            "switch",
            say("lessons.hands"),
            say("lessons.hands_help"),
            "1" if st.session_state.get(HANDS) else "",
            take=lambda form: st.session_state.update({HANDS: form == "1"}),
        )
        show_controls(_HANDS, None, hands_shown)
    words, actions = show_title_line(say("pages.lessons"))
    for wrong in (*errors.page_errors(), *st.session_state.get(PROBLEMS, ()), *filter(None, (unreadable(),))):
        st.warning(say_error(wrong))
    lesson = every.get(place.lesson) if place.lesson else None
    name_tab(say("pages.lessons"), lesson.title if isinstance(lesson, Lesson) else "")
    if isinstance(lesson, QuantVizError):
        st.error(say_error(lesson))
    if isinstance(lesson, Lesson) and place.lesson:
        show_step(place, lesson, words, actions)
        if not classroom().projector:
            keep_place("lesson", lesson.title, st.query_params.to_dict(), step=place.step + 1)
    else:
        write_title(words, say("pages.lessons"))
        show_focus()
        _show_list(every)
    keep_in_browser()


def _place() -> LessonPlace:
    asked = address.asked_for("lessons", first=PLACE not in st.session_state)
    if asked is not None:
        place, problems = _opening(asked.get("l"), asked.get("p", "1"), asked.get("term"))
        counted = hands.read(asked.get(hands.PARAMETER, ""), place.lesson, place.step)
        st.session_state.update({PLACE: place, PROBLEMS: problems + counted})
    return cast(LessonPlace, st.session_state[PLACE])


def _opening(
    lesson_id: str | None, step: str, term: str | None = None
) -> tuple[LessonPlace, tuple[QuantVizError, ...]]:
    """Return the place in the address, by step or term, and the errors of its parts."""
    every = lessons(language())
    if lesson_id is None and term is not None:
        if home := term_home(term):
            return LessonPlace(*home), ()
        return LessonPlace(), (QuantVizError("lessons.term_without_step", got=term),)
    if lesson_id is None:
        return LessonPlace(), ()
    if lesson_id not in every:
        return LessonPlace(), (QuantVizError("lessons.unknown", got=lesson_id, known=", ".join(every)),)
    lesson = every[lesson_id]
    if isinstance(lesson, QuantVizError):
        return LessonPlace(lesson_id), ()
    last = len(lesson.steps)
    shown = min(max(int(step), 1), last) if step.isascii() and step.isdigit() and len(step) < 4 else 1
    if step == str(shown):
        return LessonPlace(lesson_id, shown - 1), ()
    problem = QuantVizError("lessons.unknown_step", got=step, last=last, shown=shown)
    return LessonPlace(lesson_id, shown - 1), (problem,)


def _show_contents(every: Mapping[str, Lesson | QuantVizError], place: LessonPlace) -> None:
    """Show all lessons, and which are finished."""
    with st.container(key="lesson_contents", gap=None):
        for i, (name, lesson) in enumerate(every.items()):
            if isinstance(lesson, QuantVizError):
                continue
            mark = "✓ " if is_finished(name, lesson) else ""
            show_button(
                f"{mark}{i} · {plain(lesson.title)}",
                f"go_{name}",
                go,
                name,
                type="primary" if name == place.lesson else "tertiary",
                width="stretch",
            )
        st.page_link(_GOLF, label=say("pages.golf"))


def _courses(
    every: Mapping[str, Lesson | QuantVizError],
) -> Iterator[tuple[int, list[tuple[int, str, Lesson | QuantVizError]]]]:
    """Yield each course with its lessons, their numbers and ids; one with a mistake is where it stands."""
    course = 1
    numbered: dict[int, list[tuple[int, str, Lesson | QuantVizError]]] = {}
    for number, (name, lesson) in enumerate(every.items()):
        course = lesson.course if isinstance(lesson, Lesson) else course
        numbered.setdefault(course, []).append((number, name, lesson))
    yield from numbered.items()


def _show_list(every: Mapping[str, Lesson | QuantVizError]) -> None:
    with st.container(key="lesson_about"):
        st.markdown(say("lessons.about"))
    show_due_at_the_end()
    with st.container(key="lesson_courses"):
        _show_first_hour()
        for course, numbered in _courses(every):
            st.markdown(
                f"## {say('lessons.course', number=course, name=say(f'lessons.courses.{course}.name'))}"
            )
            with st.container(key=f"lesson_list_{course}"):
                for number, name, lesson in numbered:
                    with st.container(border=True, key=f"lesson_card_{name}"):
                        if isinstance(lesson, QuantVizError):
                            st.error(say_error(lesson))
                        else:
                            _show_card(number, name, lesson)
                if course == _LAST_COURSE:
                    with st.container(border=True, key="lesson_golf"):
                        st.page_link(_GOLF, label=f"**{say('pages.golf')}**")
                        st.markdown(say("golf.from_lessons", count=len(HOLES), budget=f"{BUDGET:g}"))
        with st.container(key="lesson_states", gap=None):
            st.markdown(f"**{say('lessons.states.title')}**")
            for name, (page, state) in STATES.items():
                wanted = {**state, **parameters()}
                st.page_link(page, label=say(f"lessons.states.{name}"), query_params=wanted)


def _show_first_hour() -> None:
    """Show the lessons of the first hour in one row."""
    numbers = list(lessons(language()))
    readable = sound_lessons(language())
    hour = [name for name in FIRST_HOUR if name in readable]
    total = sum(minutes(readable[name]) for name in hour)
    st.markdown(f"## {say('lessons.first_hour', minutes=total)}")
    with st.container(key="lesson_hour", horizontal=True, wrap=False):
        for name in hour:
            mark = "✓ " if is_finished(name, readable[name]) else ""
            label = f"{mark}{numbers.index(name)} · {plain(readable[name].title)}"
            show_button(label, f"hour_{name}", go, name)


@cache
def _thumbnail(name: str, theme: str) -> str:
    svg = thumbnail_svg(thumbnails()[name], theme)
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


def _show_card(number: int, name: str, lesson: Lesson) -> None:
    begins = place_to_go_on() or (next(iter(sound_lessons(language()))), 0)
    step = begins[1] if name == begins[0] else 0
    done = reached(answers(), name)
    all_of = asked(lesson)
    facts = say("lessons.minutes", minutes=minutes(lesson))
    if done:
        facts = say("lessons.done", minutes=facts, done=done, asked=all_of)
    mark = '<b class="qv-done">✓</b> ' if is_finished(name, lesson) else ""
    start = say("lessons.go_on", step=step + 1) if answers() else say("lessons.start_here")
    here = f'<b class="qv-start">{html.escape(start)}</b>' if name == begins[0] else ""
    st.html(f'<img class="qv-thumbnail" alt="" src="{_thumbnail(name, theme())}">')
    title = f"**{number} · {plain(lesson.title)}**"
    show_button(title, f"open_{name}", go, name, step, type="tertiary", help=lesson.summary)
    st.html(f'<p class="qv-card-facts">{mark}{html.escape(facts)}{here}</p>')
