"""The plan in the list of lessons: where to start, and how long a lesson takes; and the step that explains
the ruler's colours.
"""

from __future__ import annotations

from functools import cache

from quantviz.teaching.lessons import all_steps
from quantviz.teaching.lessons.check import words_to_read
from quantviz.teaching.lessons.model import Lesson

#: The lessons of a first hour, in their order.
FIRST_HOUR = ("range_to_grid", "symmetric", "rounding_against_clipping", "per_channel", "outliers")
#: Words a minute of readers of English or Chinese as a second language, who look at a picture beside them.
_WORDS = 110
#: Minutes for a question with its answer, and for a step in which the hand moves something.
_QUESTION = 0.75
_HAND = 0.3


def minutes(lesson: Lesson) -> int:
    """Return the minutes that a lesson takes, estimated from its words, questions and handles."""
    questions = sum(len(step.questions) for step in lesson.steps)
    moved = sum(bool(step.move) for step in lesson.steps)
    return round(words_to_read(lesson) / _WORDS + _QUESTION * questions + _HAND * moved)


@cache
def legend_home() -> tuple[str, int] | None:
    """Return the first step that shows all of the ruler, as the id of its lesson and its number from 0: there
    bars and the colours of lines are explained.

    >>> legend_home()
    ('range_to_grid', 6)
    """
    shown = ((name, i) for name, i, step in all_steps() if "number_line" in step.show and step.ruler == "all")
    return next(shown, None)
