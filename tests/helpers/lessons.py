"""Answers to the questions of lessons."""

from quantviz.teaching.lessons.drags import drag_answer
from quantviz.teaching.lessons.formulas import HERE
from quantviz.teaching.lessons.model import Cell, Drag


def right_answer(question, scenes):
    """The right answer, as it is kept."""
    truth = question.truth(scenes)
    if isinstance(question, Cell):
        return min(truth)
    return drag_answer(scenes[HERE].state, truth) if isinstance(question, Drag) else truth
