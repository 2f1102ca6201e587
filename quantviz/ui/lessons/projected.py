"""A step on the wall: its question in large letters, its picture, and its answers as bars along the bottom.

The room answers by raising hands, so nothing has to be chosen: one button reveals the answer.
"""

from __future__ import annotations

import html

import streamlit as st

from quantviz.teaching.lessons.model import ChoiceQuestion, DirectionQuestion, Question
from quantviz.ui.components.class_wall import running
from quantviz.ui.components.controls import show_controls
from quantviz.ui.components.small_parts import show_button, show_words_with_terms
from quantviz.ui.lessons import hands, questions
from quantviz.ui.lessons.answering import answer_key, open_question, show_rule
from quantviz.ui.lessons.class_answers import show_class
from quantviz.ui.lessons.now import Now
from quantviz.ui.lessons.wall import asked_on_wall
from quantviz.ui.shell.words import say


def show_top(now: Now, words: str) -> None:
    """Show the question, or the step's `words` (HTML in Markdown) where it asks nothing."""
    i = asked_on_wall(now)
    if i is None:
        show_words_with_terms(words)
        return
    with st.container(key=f"lesson_ask_{i}"):
        st.markdown(f"## {now.step.questions[i].ask.say(now.scenes)}")


def show_bottom(now: Now) -> None:
    """Show the answers that hands are raised for, or the control, and the right one once revealed."""
    i = asked_on_wall(now)
    if i is None:
        return
    question = now.step.questions[i]
    if running():
        show_class(now, question)
        return
    if not _is_counted(question) and not now.revealed:
        if now.answers[i] is None:
            open_question(now, i, question)
        return
    _show_bars(_bar_names(question, now), answer_key(now, i))


def show_tell(now: Now) -> None:
    """Show the button that reveals the answer, as long as it is hidden."""
    i = asked_on_wall(now)
    if i is None or now.revealed:
        return
    counted = _is_counted(now.step.questions[i]) or now.complete
    show_button(say("lessons.tell"), "lesson_tell", now.tell, type="primary" if counted else "secondary")


def show_words(now: Now, words: str) -> None:
    """Show a button that opens the step's `words`, and its reasons and rule once the answer is revealed."""
    if not now.step.questions:
        return
    with st.popover(say("lessons.words"), key="lesson_words_open"), st.container(key="lesson_told"):
        show_words_with_terms(words)
        if not now.revealed:
            return
        for question in now.step.questions:
            if question.why:
                st.markdown(question.why.say(question.named_scenes(now.scenes)))
        show_rule(now)


def _is_counted(question: Question) -> bool:
    """Return whether a question lists all its answers, so that hands can be counted before the right one."""
    return isinstance(question, ChoiceQuestion | DirectionQuestion)


def _bar_names(question: Question, now: Now) -> list[tuple[str, bool]]:
    """Return each answer that hands are raised for and whether it is the right one, which is then said in
    full: a line of its own would take its height from the picture.
    """
    names = hands.hand_names(question, now.scenes, now.revealed)
    if not now.revealed or isinstance(question, ChoiceQuestion):
        return names
    truth = "; ".join(questions.truth_told(each, now.scenes).rstrip(".。") for each in now.step.questions)
    return [(truth if right else name, right) for name, right in names]


def _show_bars(names: list[tuple[str, bool]], key: str) -> None:
    """Show each answer as a bar with a box for its hands; the right one is marked once revealed."""
    with st.container(key="lesson_bars"):
        places = [column.container(horizontal=True, gap="small") for column in st.columns(len(names))]
    counts = [0] * len(names)
    bars = []
    for i, ((name, _), place) in enumerate(zip(names, places, strict=True)):
        with place:
            bars.append(st.empty())
            box = hands.box(name, f"{key}_hands_{i}")
            show_controls(f"{box.field}_box", None, box, look="qv-unnamed")
            counts[i] = int(box.value)
    most = sum(counts) or 1
    texts = questions.lettered(name for name, _ in names)
    for text, (_, right), bar, count in zip(texts, names, bars, counts, strict=True):
        mark = " ✓" if right else ""
        bar.html(
            f'<div class="qv-bar{" qv-right" if right else ""}">'
            f'<span style="width: {100 * count / most:.1f}%"></span>'
            f"<p><b>{html.escape(text[0])}</b>{html.escape(text[1:])}{mark}</p></div>"
        )
