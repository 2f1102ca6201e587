"""A learner's progress: kept in the session over page switches, and taken along as a file, as text or as a card."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import cast

import streamlit as st

from quantviz.lessons.model import Lesson
from quantviz.lessons.progress import Answer, Tally, as_json, as_text, asked, reached
from quantviz.ui.clipboard import copy_button
from quantviz.ui.words import language, say

_ANSWERS = "lesson_answers"


def answers() -> list[Answer]:
    """All answers of the session, in the order they were given."""
    return cast("list[Answer]", st.session_state.setdefault(_ANSWERS, []))


def keep_answer(answer: Answer) -> None:
    """Remember an answer. One that was given cannot be given again."""
    same = (answer.lesson, answer.step, answer.question, answer.attempt)
    if same not in {(old.lesson, old.step, old.question, old.attempt) for old in answers()}:
        answers().append(answer)


def show_progress(lessons: Mapping[str, Lesson]) -> None:
    """How far the learner is, and the ways to take it along."""
    tally = Tally.of(answers())
    with st.popover(say("lessons.progress.button", count=tally.count), key="progress", width="stretch", disabled=not tally.count):
        st.html(_card(lessons, tally))
        with st.container(horizontal=True, gap="small"):
            st.download_button(
                say("lessons.progress.download"), as_json(answers()), "quantviz_lessons.json", "application/json", key="progress_file", on_click="ignore"
            )
            copy_button("copy_progress", say("lessons.progress.copy"), say("lab.copied"), text=as_text(answers(), lessons, language()))
        st.caption(say("lessons.progress.kept"))


def _card(lessons: Mapping[str, Lesson], tally: Tally) -> str:
    rows = []
    for name, lesson in lessons.items():
        done = reached(answers(), name)
        if done:
            right = Tally.of(answer for answer in answers() if answer.lesson == name).right
            rows.append(f"<tr><td>{html.escape(lesson.title)}</td><td>{done} / {asked(lesson)}</td><td>{right} ✓</td></tr>")
    sure = html.escape(say("lessons.progress.sure", right=tally.sure_right, wrong=tally.sure_wrong))
    guessed = html.escape(say("lessons.progress.guessed", right=tally.guessed_right, wrong=tally.guessed_wrong))
    total = html.escape(say("lessons.progress.total", right=tally.right, count=tally.count))
    return f'<div class="qv-card-progress"><b>{total}</b><div class="qv-steps"><table>{"".join(rows)}</table></div><p>{sure}<br>{guessed}</p></div>'
