"""The questions of a step: asked one after the other, answered, and judged once the answers are told."""

from __future__ import annotations

import html
from typing import cast

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.teaching.lessons.model import Question
from quantviz.teaching.lessons.progress import Answer
from quantviz.ui.components.lesson_place import go_on_from
from quantviz.ui.lessons import questions
from quantviz.ui.lessons.now import Now
from quantviz.ui.lessons.progress import keep_answer
from quantviz.ui.shell import session
from quantviz.ui.shell.classroom import classroom
from quantviz.ui.shell.words import say

#: Whether a teacher wants to count hands.
HANDS = "lesson_hands"


def answer_key(now: Now, i: int) -> str:
    return f"answer_{now.place.lesson}_{now.place.step}_{i}_{now.attempt}"


def _told_key(now: Now, i: int) -> str:
    return f"told_{answer_key(now, i)}"


def show_questions(now: Now) -> None:
    for i, (question, answer) in enumerate(zip(now.step.questions, now.answers, strict=True)):
        with st.container(key=f"lesson_ask_{i}"):
            st.markdown(f"## {question.ask.say(now.scenes)}")
            if answer is None and classroom().answers != "shown":
                _open_question(now, i, question)
                _hands(now, i, question)
                break  # one after the other: first the direction, then the size
            with st.container(key=_told_key(now, i)):
                _answered(now, i, question, answer)
            _hands(now, i, question)
        if answer is not None and not now.complete:
            st.caption(say("lessons.after_all"))
    if now.step.questions and now.revealed:
        if now.step.rule:
            st.html(
                f'<p class="qv-rule"><b>{html.escape(say("lessons.rule"))}</b> '
                f"{html.escape(now.step.rule.say(now.scenes))}</p>"
            )
    elif now.step.questions and now.complete:
        st.info(say("lessons.withheld"))


def _open_question(now: Now, i: int, question: Question) -> None:
    key = answer_key(now, i)
    questions.ask(question, now.scenes, key)
    questions.complaint(key)
    st.caption(say("lessons.how_sure"))
    with st.container(key="lesson_commit", horizontal=True, gap="small"):
        for sure in (True, False):
            st.button(
                say("lessons.sure" if sure else "lessons.guess"),
                key=f"commit_{'sure' if sure else 'guess'}",
                type="primary",
                on_click=session.safely(_commit),
                args=(now, i, question, sure),
            )


def _commit(now: Now, i: int, question: Question, sure: bool) -> None:
    key = answer_key(now, i)
    with session.complaining(key):
        answer = questions.given(question, key)
        if answer is None:
            raise QuantVizError(f"lessons.no_answer.{question.kind}")
        keep_answer(Answer(cast(str, now.place.lesson), now.place.step, i, now.attempt, answer, sure))
        go_on_from(f".st-key-{_told_key(now, i)}")
        session.forgive()


def _hands(now: Now, i: int, question: Question) -> None:
    """Show boxes for counting hands, where a teacher wants them."""
    if classroom().projector or st.session_state.get(HANDS):
        questions.show_hands(question, now.scenes, answer_key(now, i), now.revealed)


def _answered(now: Now, i: int, question: Question, answer: Answer | None) -> None:
    """Show what was answered, and, once the answers are told, what became of it."""
    verdict = question.judge(answer.given, now.scenes) if answer is not None and now.revealed else None
    if answer is not None and not (verdict and verdict.right):
        words = questions.told(question, answer.given, now.scenes)
        st.markdown(
            say(
                "lessons.you_said",
                answer=words,
                sure=say("lessons.was_sure" if answer.sure else "lessons.was_guess"),
            )
        )
    if not now.revealed:
        return
    truth = questions.truth_told(question, now.scenes).rstrip(".。")
    if answer is None or verdict is None:
        st.info(say("lessons.the_answer", truth=truth))
    elif verdict.right:
        st.success(
            say("lessons.right", truth=truth)
            + (" " + say("lessons.good_guess") if question.why and not answer.sure else "")
        )
    else:
        # What was given is spoken of before the answer, or it would be taken for it.
        said = [
            say("lessons.wrong"),
            verdict.diagnosis or say("lessons.no_diagnosis"),
            say("lessons.the_answer", truth=truth),
        ]
        st.error(" ".join([*said, say("lessons.was_too_sure")] if answer.sure else said))
    if question.why:
        st.markdown(question.why.say(now.scenes))
