"""Answers to the questions of lessons, and the words that a learner reads in them."""

import re

from quantviz.teaching.lessons.drags import drag_answer
from quantviz.teaching.lessons.formulas import HERE
from quantviz.teaching.lessons.model import Cell, Drag


def right_answer(question, scenes):
    """The right answer, as it is kept."""
    truth = question.truth(scenes)
    if isinstance(question, Cell):
        return min(truth)
    return drag_answer(scenes[HERE].state, truth) if isinstance(question, Drag) else truth


def words_of(step):
    """All words of a step but for the folded remark: its own, its rule's, its table's and its questions'."""
    yield from filter(None, (step.words, step.rule))
    yield from (words for words, _ in step.table.rows) if step.table else ()
    for question in step.questions:
        yield from words_of_question(question)


def words_of_question(question):
    """All words of a question: asked, hinted at, and told after an answer."""
    words = [question.ask, question.hint, question.why, getattr(question, "tolerance", None)]
    words += [each.says for each in question.mistakes]
    words += [each for option in getattr(question, "options", ()) for each in (option.text, option.says)]
    words += [item.text for item in getattr(question, "items", ())]
    return [each for each in words if each and each.text]


def read_plainly(words):
    """Words without their marks, with a 1 in place of each number.

    >>> from quantviz.teaching.lessons.formulas import Words
    >>> read_plainly(Words("**[[scale|scales]]** of a [[zero_point]]: {scale|3}"))
    'scales of a zero point: 1'
    """
    text = re.sub(r"\{[^{}]*\}", "1", words.text)
    found = re.sub(r"\[\[(\w+)(?:\|([^\]]+))?\]\]", lambda m: m[2] or m[1].replace("_", " "), text)
    return found.replace("**", "")
