"""A step of a lesson: words, a picture, a question to commit to, and then the answer.

Hidden parts are not sent to the browser before the last answer of their step.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.teaching.lessons import known_by, sound_lessons
from quantviz.teaching.lessons.code import step_code
from quantviz.teaching.lessons.dials import DialState
from quantviz.teaching.lessons.formulas import HAND, Scene
from quantviz.teaching.lessons.model import Lesson, LessonStep
from quantviz.teaching.lessons.plan import FIRST_HOUR
from quantviz.ui.components.class_wall import running
from quantviz.ui.components.lesson_place import LessonPlace, go, go_on_from, show_focus
from quantviz.ui.components.page_header import write_title
from quantviz.ui.components.small_parts import show_button, show_python, show_words_with_terms, term
from quantviz.ui.lessons.answering import comes_after_hand, offer_votes, show_questions
from quantviz.ui.lessons.class_answers import mark_drags
from quantviz.ui.lessons.moving import scene_in_hand
from quantviz.ui.lessons.now import ATTEMPTS, Now
from quantviz.ui.lessons.picture import selected_cell, show_looks, show_picture, state_shown
from quantviz.ui.lessons.progress import answers
from quantviz.ui.lessons.projected import show_bottom, show_tell, show_top, show_words
from quantviz.ui.lessons.saved_page import offer_page
from quantviz.ui.lessons.second_look import (
    due_now,
    number_of,
    show_once_more,
    show_second_look,
    show_why_asked,
    way_back,
    words_back,
)
from quantviz.ui.shell import session
from quantviz.ui.shell.address import turn_to
from quantviz.ui.shell.classroom import classroom
from quantviz.ui.shell.imports import warm_up
from quantviz.ui.shell.words import language, say, say_error

_SCENES = "lesson_scenes"
_LAB = "pages/lab/playground.py"
_GOLF = "pages/learn/golf.py"
_MODEL = "pages/explore/checkpoints.py"
#: The adder at the bits where its first sums come out wrong.
_ADDER: Mapping[str, str] = MappingProxyType({"f": "model:adder", "bits": "3"})


def show_step(place: LessonPlace, lesson: Lesson, words: Any, actions: Any) -> None:
    """Show a step: its title in the places of `show_title_line`, then words, picture and question."""
    warm_up()
    step = lesson.steps[place.step]
    # The number of restarts, in this session or in the kept answers.
    here = (place.lesson, place.step, classroom().room)
    kept = max((a.attempt for a in answers() if (a.lesson, a.step, a.room) == here), default=0)
    restarts = st.session_state.setdefault(ATTEMPTS, {})
    attempt = cast(int, restarts.get(f"{place.lesson}/{place.step}", kept))
    now = Now(place, lesson, step, _scenes(place, step, attempt), attempt)
    there = running()
    if there and there.told:
        now.tell()
    _fill_header(now, words, actions)
    projector = classroom().projector
    offer_votes(now)
    sheets = {"one_screen": projector, "after_hand": not projector and comes_after_hand(now)}
    for name in (name for name, wanted in sheets.items() if wanted):
        st.html(Path(__file__).with_name(f"{name}.css"))
    try:
        with st.container(key="lesson_step"):
            with st.container(key="lesson_words"):
                show_why_asked(now)
                said = step.words.say({**now.scenes, HAND: scene_in_hand(now)}, _term)
                if projector:
                    show_top(now, said)
                else:
                    show_words_with_terms(said)
            with st.container(key="lesson_picture"):
                mark_drags(now)
                show_picture(now)
            with st.container(key="lesson_question"):
                if projector:
                    show_bottom(now)
                else:
                    show_questions(now)
            if not there:  # whose pages the lecturer's device turns
                with st.container(key="lesson_below"):
                    _onward(now, said)
                    _below(now)
    except QuantVizError as error:
        # A formula without a value on this tensor must not take the rest of the lessons away.
        st.error(say_error(error))
        _onward(now)


def _term(name: str, words: str) -> str:
    return term(words, say(f"glossary.{name}.meaning"), key=f"term_{name}")


def _scenes(place: LessonPlace, step: LessonStep, attempt: int) -> Mapping[str, Scene]:
    """Return the step's states; those last worked out are kept in the session, for the next click."""
    key = (place, attempt, language())
    kept = st.session_state.get(_SCENES)
    if kept is None or kept[0] != key:
        kept = st.session_state[_SCENES] = (key, step.scenes(attempt))
    return cast("Mapping[str, Scene]", kept[1])


def _fill_header(now: Now, words: Any, actions: Any) -> None:
    """Show the step's title, its place in the lesson, and the way to the list of lessons."""
    place = say(
        "lessons.place",
        number=number_of(now.place),
        lesson=now.lesson.title,
        step=now.place.step + 1,
        steps=len(now.lesson.steps),
    )
    write_title(words, now.step.title, place, now.id)
    with actions:
        show_button(say("lessons.all"), "lesson_all", go, None)
    show_focus(f"{now.id}/{now.attempt}")


def _onward(now: Now, words: str = "") -> None:
    """Show the buttons for back and next; on a projector also for the answer and the `words`."""
    projector = classroom().projector
    ids = list(sound_lessons(language()))
    at = ids.index(cast(str, now.place.lesson))
    last = now.place.step + 1 == len(now.lesson.steps)
    following = ids[at + 1] if at + 1 < len(ids) else None
    with st.container(key="lesson_onward", horizontal=True, gap="small"):
        before = now.place.lesson, now.place.step - 1
        show_button(say("lessons.back"), "lesson_back", go, *before, disabled=now.place.step == 0)
        if projector:
            show_tell(now)
        goal = (following, 0) if last else (now.place.lesson, now.place.step + 1)
        if last and following:
            after = "lessons.next_lesson"
        elif last:
            after = "lessons.finish"
        else:
            after = "lessons.next"
        # The next action stands out: the answer while there is one to give, then a question that is due once
        # more.
        done = now.revealed or now.complete
        due = due_now(now) if done and not projector else None
        if due:
            show_once_more(now.place, due, help=say("lessons.second_look.ask_help"))
        back = way_back(now)
        onward = say(after if done else "lessons.skip")
        if back:
            goal = (back.lesson, back.step)
            onward = words_back(back)
        show_button(onward, "lesson_next", go, *goal, type="primary" if done and not due else "tertiary")
        if projector:
            _more(now)
            show_words(now, words)
            show_looks(now)


def _below(now: Now) -> None:
    """Show the further buttons of a revealed step, the remark on the notebooks and the code, or the error of
    one of these: by then the buttons for back and next are there.
    """
    if not now.revealed or classroom().projector:
        return
    try:
        with st.container(key="lesson_more", horizontal=True, gap="small"):
            _more(now)
        if now.place.step + 1 == len(now.lesson.steps):
            show_second_look(now)
            _way_on(now)
        if now.step.note:
            with st.expander(say("lessons.note"), key="lesson_note"):
                show_words_with_terms(now.step.note.say(now.scenes, _term))
        _code(now)
    except QuantVizError as error:
        st.error(say_error(error))


def _more(now: Now) -> None:
    if not now.revealed:
        return
    if now.step.questions:
        show_button(say("lessons.again"), "lesson_again", _again, now, help=say("lessons.again_help"))
    state = state_shown(now)
    if isinstance(state, DialState):
        show_button(say("lessons.open_in_app"), "lesson_to_app", turn_to, *state.series.app(state.at))
        return
    show_button(
        say("lessons.open_in_lab"), "lesson_to_lab", _open_in_lab, now, help=say("lessons.open_in_lab_help")
    )
    if not classroom().projector:
        offer_page(now)


def _way_on(now: Now) -> None:
    """Show the further ways on: from the first lesson an adder, from the end of the first hour course 2, and
    from the last lesson a game.
    """
    readable = sound_lessons(language())
    second = next((name for name, each in readable.items() if each.course == 2), None)
    if second and now.place.lesson == FIRST_HOUR[-1]:
        label = say("lessons.to_course_2", lesson=readable[second].title)
        show_button(label, "lesson_course_2", go, second, type="tertiary")
    if now.place.lesson == next(iter(readable)):
        st.page_link(_MODEL, label=say("lessons.to_adder"), query_params={**_ADDER, "lang": language()})
    if now.place.lesson == list(readable)[-1]:
        st.page_link(_GOLF, label=say("golf.from_lesson"))


def _again(now: Now) -> None:
    st.session_state[ATTEMPTS][now.id] = now.attempt + 1
    go_on_from(f'[data-step="{now.id}"]')


def _open_in_lab(now: Now) -> None:
    state = state_shown(now)
    session.put_from_lesson(
        state.replace(cell=selected_cell(now, state)), cast(str, now.place.lesson), now.place.step
    )
    turn_to(_LAB)


def _code(now: Now) -> None:
    """Show the step as Python, as soon as it can be written in words that have been introduced."""
    state = state_shown(now)
    if isinstance(state, DialState):
        return
    state = state.replace(cell=selected_cell(now, state))
    known = known_by(cast(str, now.place.lesson), now.place.step)
    code = step_code(now.step, now.scenes, state, language(), known)
    if code:
        show_python(say("lessons.code"), "lesson_code", lambda: code)
