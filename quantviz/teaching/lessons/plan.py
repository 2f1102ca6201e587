"""First lessons, how long each takes, and the step that explains the ruler's colours."""

from __future__ import annotations

from functools import cache

from quantviz.teaching.lessons import all_steps
from quantviz.teaching.lessons.check import words_to_read
from quantviz.teaching.lessons.model import Lesson

#: The lessons of a first hour, in their order.
FIRST_HOUR = ("range_to_grid", "symmetric", "rounding_against_clipping", "per_channel", "outliers")
#: Words a minute in a second language, beside a picture.
_WORDS = 110
#: Minutes for a question, and for a step in which something is moved.
_QUESTION = 0.75
_HAND = 0.3


def minutes(lesson: Lesson) -> int:
    """Return the estimated minutes of a lesson."""
    questions = sum(len(step.questions) for step in lesson.steps)
    moved = sum(bool(step.move) for step in lesson.steps)
    return round(words_to_read(lesson) / _WORDS + _QUESTION * questions + _HAND * moved)


@cache
def legend_home() -> tuple[str, int] | None:
    """Return the first step with all of the ruler, as its lesson's id and its number from 0."""
    shown = ((name, i) for name, i, step in all_steps() if "number_line" in step.show and step.ruler == "all")
    return next(shown, None)
