"""The answers of a class to a lesson's question, on the wall: a picture by the question's kind."""

from __future__ import annotations

import html
import string
from typing import Any, cast

import streamlit as st

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
from quantviz.ui.components.class_wall import Running, running
from quantviz.ui.lessons import hands
from quantviz.ui.lessons.now import Now
from quantviz.ui.lessons.questions import answer_words, lettered, made, truth_told
from quantviz.ui.shell.words import say

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
                there, {row[0]: answer_words(question, row[0], now.scenes) for row in most}
            )
    if now.revealed and isinstance(question, CellQuestion | OrderQuestion):
        st.markdown(say("lessons.the_answer", truth=truth_told(question, now.scenes).rstrip(".。")))


def _show_numbers(now: Now, question: NumberQuestion, there: Running) -> None:
    at = {row[0]: float(cast(float, row[0])) for row in there.rows + there.before}
    more: dict[str, Any] = {}
    said = []
    if now.revealed:
        mistakes = [each for each in question.mistakes if isinstance(each.formula, Formula)]
        places = dict(zip(string.ascii_lowercase, question.mistaken(now.scenes), strict=False))
        made_by = {
            sign: sum(row[1] + row[2] for row in there.rows if question.within.accepts(at[row[0]], place))
            for sign, place in places.items()
        }
        named = sorted(filter(made_by.get, places), key=lambda sign: -made_by[sign])[:_NAMED]
        more = {"truth": question.truth(now.scenes), "mistakes": {sign: places[sign] for sign in named}}
        of_sign = dict(zip(places, mistakes, strict=True))
        said = [(sign, made_by[sign], of_sign[sign].says.say(now.scenes)) for sign in named]
    class_votes.show_places(there, at, **more)
    for sign, count, words in said:
        st.html(f'<p class="qv-mistake"><b>{sign}</b> {count} · {html.escape(words)}</p>')


def _show_drags(now: Now, question: DragQuestion, there: Running) -> None:
    start = now.scenes[HERE].state
    names = tuple(question.solution)
    name = "hi" if "hi" in names else names[0]
    places = class_votes.dragged_places(there, start, lambda scene: made(name, scene))
    more: dict[str, Any] = {}
    if name in ("lo", "hi", "value"):
        more["values"] = now.scenes[HERE].result.x.numpy()
    if now.revealed:
        more["truth"] = made(name, question.named_scenes(now.scenes)[SOLUTION])
    class_votes.show_places(there, places, **more)
