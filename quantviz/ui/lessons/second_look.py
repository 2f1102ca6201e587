"""Questions answered wrong by a learner who was sure: listed at a lesson's end, and asked once more later."""

from __future__ import annotations

import html
from typing import cast

import streamlit as st

from quantviz.teaching.lessons import lessons
from quantviz.teaching.lessons.model import Lesson
from quantviz.teaching.lessons.progress import Answer, still_wrong, surely_wrong
from quantviz.ui.components.lesson_place import Place, go
from quantviz.ui.lessons import questions
from quantviz.ui.lessons.now import Now
from quantviz.ui.lessons.progress import answers, verdicts
from quantviz.ui.shell import session
from quantviz.ui.shell.words import language, say

#: Lessons after which a question is asked once more.
LATER = 2
#: The step that is asked once more, with its attempt, and the lesson's end to which it leads back.
_ASKED = "lesson_second_look"


def show_second_look(now: Now) -> None:
    """List the questions of the lesson that ends here whose answer was sure and wrong."""
    wrong = surely_wrong(verdicts() or {}, cast(str, now.place.lesson))
    if not wrong:
        return
    with st.container(key="lesson_second_look", gap="small"):
        st.markdown(say("lessons.second_look.title"))
        for answer in wrong:
            _show_wrong(now.lesson, answer)
        ids = _ids()
        if ids.index(cast(str, now.place.lesson)) + LATER < len(ids):
            st.caption(say("lessons.second_look.later"))


def _show_wrong(lesson: Lesson, answer: Answer) -> None:
    scenes = lesson.steps[answer.step].scenes(answer.attempt)
    question = lesson.question(answer.step, answer.question)
    assert question
    asked = question.ask.say(question.told(scenes))
    given = questions.told(question, answer.given, scenes)
    st.markdown(say("lessons.second_look.wrong", ask=asked, answer=given))
    st.button(
        say("lessons.second_look.go", step=answer.step + 1),
        key=f"second_look_{answer.step}_{answer.question}",
        type="tertiary",
        on_click=session.safely(go),
        args=(answer.lesson, answer.step),
    )


def due_now(now: Now) -> Answer | None:
    """Return an answer of two lessons before the one that ends here whose question is due once more."""
    ids = _ids()
    earlier = ids.index(cast(str, now.place.lesson)) - LATER
    if earlier < 0 or now.place.step + 1 < len(now.lesson.steps):
        return None
    return next(still_wrong(verdicts() or {}, answers(), ids[earlier]), None)


def ask_once_more(now: Now, answer: Answer, attempts: dict[str, int]) -> None:
    """Turn to the step of a wrong answer, on other numbers. `attempts` says how often each step was asked."""
    tried = max(each.attempt for each in answers() if each.place[:2] == answer.place[:2])
    attempts[f"{answer.lesson}/{answer.step}"] = tried + 1
    st.session_state[_ASKED] = (Place(answer.lesson, answer.step), tried + 1, now.place)
    go(answer.lesson, answer.step)


def way_back(now: Now) -> Place | None:
    """Return the end of the lesson from which this step is asked once more; None where it is not."""
    asked = st.session_state.get(_ASKED)
    return asked[2] if asked and asked[:2] == (now.place, now.attempt) else None


def show_why_asked(now: Now) -> None:
    """Say that a step is asked once more, and why."""
    if way_back(now):
        st.html(f'<p class="qv-once-more">{html.escape(say("lessons.second_look.asked"))}</p>')


def number_of(place: Place) -> int:
    """Return the number of a place's lesson."""
    return list(lessons(language())).index(cast(str, place.lesson))


def _ids() -> list[str]:
    return [name for name, lesson in lessons(language()).items() if isinstance(lesson, Lesson)]
