"""The answers of a class to a lesson's question, on the wall: a picture by the question's kind."""

from __future__ import annotations

import html
import string
from typing import Any, cast

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.teaching.lessons.answer_words import answer_words, lettered, made
from quantviz.teaching.lessons.formulas import HERE, SOLUTION, Formula
from quantviz.teaching.lessons.model import (
    CellQuestion,
    ChoiceQuestion,
    DirectionQuestion,
    DragQuestion,
    NumberQuestion,
    OrderQuestion,
    Question,
)
from quantviz.ui.components import class_votes
from quantviz.ui.components.class_wall import Running, put_on_ruler, running
from quantviz.ui.lessons import hands
from quantviz.ui.lessons.now import Now
from quantviz.ui.lessons.questions import truth_told
from quantviz.ui.lessons.wall import asked_on_wall
from quantviz.ui.shell.words import language, say

#: Mistakes that are named below the dots.
_NAMED = 2


def show_class(now: Now, question: Question) -> None:
    """Show the answers of the class, and once it is told the right one in words."""
    there = cast(Running, running())
    match question:
        case ChoiceQuestion() | DirectionQuestion():
            names = hands.hand_names(question, now.scenes, now.revealed)
            texts = lettered(text for text, _ in names)
            class_votes.show_bars(zip(texts, (right for _, right in names), strict=True), there)
        case NumberQuestion():
            _show_numbers(now, question, there)
        case DragQuestion():
            _show_drags(now, question, there)
        case CellQuestion():
            shape = now.scenes[HERE].state.view.matrix(now.scenes[HERE].state.source.shape)
            right = [(cell[0], cell[-1]) for cell in question.truth(now.scenes)] if now.revealed else []
            class_votes.show_cells(there, shape, right)
        case OrderQuestion():
            most = sorted(there.rows, key=lambda row: -row[1] - row[2])
            class_votes.show_board(
                there, {row[0]: answer_words(question, row[0], now.scenes, language()) for row in most}
            )
    if now.revealed and isinstance(question, CellQuestion | OrderQuestion):
        st.markdown(say("lessons.the_answer", truth=truth_told(question, now.scenes).rstrip(".。")))


def _show_numbers(now: Now, question: NumberQuestion, there: Running) -> None:
    at = {row[0]: float(cast(float, row[0])) for row in there.rows + there.before}
    truth, named, places = None, [], {}
    said = []
    if now.revealed:
        mistakes = [each for each in question.mistakes if isinstance(each.formula, Formula)]
        places = dict(zip(string.ascii_lowercase, question.mistaken(now.scenes), strict=False))
        made_by = {
            sign: sum(row[1] + row[2] for row in there.rows if question.within.accepts(at[row[0]], place))
            for sign, place in places.items()
        }
        named = sorted(filter(made_by.get, places), key=lambda sign: -made_by[sign])[:_NAMED]
        truth = question.truth(now.scenes)
        of_sign = dict(zip(places, mistakes, strict=True))
        said = [(sign, made_by[sign], of_sign[sign].says.say(now.scenes)) for sign in named]
    class_votes.show_places(there, at, truth, {sign: places[sign] for sign in named})
    for sign, count, words in said:
        st.html(f'<p class="qv-mistake"><b>{sign}</b> {count} · {html.escape(words)}</p>')


def mark_drags(now: Now) -> None:
    """Put the answers that were dragged on the ruler of the step's picture, once the class may see them."""
    at = asked_on_wall(now)
    question = now.step.questions[at] if at is not None and running() else None
    if isinstance(question, DragQuestion) and (name := _on_ruler(question)):
        places, truth = _dragged(now, question, name)
        put_on_ruler(places, question.marked_on, truth)


def _on_ruler(question: DragQuestion) -> str:
    """Return the quantity of a drag that has its place on the ruler; "" for a zero point or a scale."""
    return next((name for name in ("hi", "value", "bits", "size") if name in question.solution), "")


def _dragged(now: Now, question: DragQuestion, name: str) -> tuple[dict[Any, float], float | None]:
    """Return the place of each dragged answer by a quantity, and the true one once it is revealed."""
    start = now.scenes[HERE].state
    places = class_votes.dragged_places(cast(Running, running()), start, lambda scene: made(name, scene))
    return places, made(name, question.named_scenes(now.scenes)[SOLUTION]) if now.revealed else None


def _show_drags(now: Now, question: DragQuestion, there: Running) -> None:
    """Show drags that have no place on the ruler as dots on an axis; else how many were right, once told."""
    if not _on_ruler(question):
        places, truth = _dragged(now, question, next(iter(question.solution)))
        class_votes.show_places(there, places, truth)
        return
    if now.revealed and there.rows:
        right = sum(row[1] + row[2] for row in there.rows if _is_right(now, question, row[0]))
        words = say("lessons.class_right", right=right, answered=there.rounds[-1].answered)
        st.html(f'<p class="qv-mistake">{html.escape(words)}</p>')
    class_votes.show_few(there)


def _is_right(now: Now, question: DragQuestion, answer: Any) -> bool:
    try:
        return question.judge(str(answer), now.scenes).right
    except (QuantVizError, ValueError):  # a forged text
        return False
