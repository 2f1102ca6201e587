"""Questions answered wrong by a learner who was sure: listed at a lesson's end, and shown once more two
lessons later; those of a course's last two lessons on the list of lessons, once the course is done.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import cast

import streamlit as st

from quantviz.teaching.lessons import lessons, sound_lessons
from quantviz.teaching.lessons.answer_words import answer_words
from quantviz.teaching.lessons.model import Lesson
from quantviz.teaching.lessons.progress import LearnerAnswer, asked, reached, still_wrong, surely_wrong
from quantviz.ui.components.lesson_place import LessonPlace, go
from quantviz.ui.components.small_parts import show_button
from quantviz.ui.lessons.now import ATTEMPTS, Now
from quantviz.ui.lessons.progress import answers, verdicts
from quantviz.ui.shell.words import language, say

#: Lessons after which a question is shown once more.
LATER = 2
#: The step that is shown once more, with its attempt, and the way back: a lesson's end or the list.
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
        ids = list(sound_lessons())
        comes = ids.index(cast(str, now.place.lesson)) + LATER < len(ids)
        st.caption(say(f"lessons.second_look.{'later' if comes else 'at_the_end'}"))


def _show_wrong(lesson: Lesson, answer: LearnerAnswer) -> None:
    scenes = lesson.steps[answer.step].scenes(answer.attempt)
    question = lesson.question(answer.step, answer.question)
    assert question
    words = question.ask.say(question.named_scenes(scenes))
    given = answer_words(question, answer.given, scenes, language())
    st.markdown(say("lessons.second_look.wrong", ask=words, answer=given))
    label = say("lessons.second_look.go", step=answer.step + 1)
    key = f"second_look_{answer.step}_{answer.question}"
    show_button(label, key, go, answer.lesson, answer.step, type="tertiary")


def due_now(now: Now) -> LearnerAnswer | None:
    """Return an answer of two lessons before the one that ends here whose question is due once more."""
    ids = list(sound_lessons())
    earlier = ids.index(cast(str, now.place.lesson)) - LATER
    if earlier < 0 or now.place.step + 1 < len(now.lesson.steps):
        return None
    return next(still_wrong(verdicts() or {}, answers(), ids[earlier]), None)


def due_at_the_end() -> Iterator[LearnerAnswer]:
    """Yield the answers of the last two lessons of each course that is done whose questions are due once
    more: nothing of the course comes two lessons later.
    """
    readable = sound_lessons()
    for course in dict.fromkeys(lesson.course for lesson in readable.values()):
        names = [name for name, lesson in readable.items() if lesson.course == course]
        if reached(answers(), names[-1]) == asked(readable[names[-1]]):
            for name in names[-LATER:]:
                yield from still_wrong(verdicts() or {}, answers(), name)


def show_due_at_the_end() -> None:
    """Show on the list of lessons the way to a question that is due once more."""
    due = next(due_at_the_end(), None)
    if due is None:
        return
    with st.container(key="lesson_second_look", gap="small"):
        st.markdown(say("lessons.second_look.on_the_list"))
        show_once_more(LessonPlace(), due)


def show_once_more(back: LessonPlace, due: LearnerAnswer, **look: str) -> None:
    """Show the button that leads to a question which is due once more, with a way `back`."""
    label = say("lessons.second_look.ask", number=number_of(LessonPlace(due.lesson)))
    show_button(label, "lesson_once_more", _ask_once_more, back, due, type="primary", **look)


def _ask_once_more(back: LessonPlace, answer: LearnerAnswer) -> None:
    """Turn to the step of a wrong answer, on other numbers, from which there is a way `back`."""
    tried = max(each.attempt for each in answers() if each.place[:2] == answer.place[:2])
    attempts = st.session_state.setdefault(ATTEMPTS, {})
    attempts[f"{answer.lesson}/{answer.step}"] = tried + 1
    st.session_state[_ASKED] = (LessonPlace(answer.lesson, answer.step), tried + 1, back)
    go(answer.lesson, answer.step)


def way_back(now: Now) -> LessonPlace | None:
    """Return the place from which this step is shown once more; None where it is not."""
    repeated = st.session_state.get(_ASKED)
    return repeated[2] if repeated and repeated[:2] == (now.place, now.attempt) else None


def show_why_asked(now: Now) -> None:
    """Show the reason why a step is repeated."""
    if way_back(now):
        st.html(f'<p class="qv-once-more">{html.escape(say("lessons.second_look.asked"))}</p>')


def words_back(back: LessonPlace) -> str:
    """Return the label of the button that leads back."""
    if back.lesson is None:
        return say("lessons.second_look.back_to_list")
    return say("lessons.second_look.back", number=number_of(back))


def number_of(place: LessonPlace) -> int:
    """Return the number of a place's lesson."""
    return list(lessons(language())).index(cast(str, place.lesson))
