"""The plan in the list of lessons: where to start, and how long a lesson takes; and the steps that introduce
the glossary's terms and explain the ruler's colours.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from quantviz.teaching.lessons import lessons
from quantviz.teaching.lessons.check import words_to_read
from quantviz.teaching.lessons.model import Lesson, LessonStep

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
    homes = ((name, i) for name, i, step in _steps() if "number_line" in step.show and step.ruler == "all")
    return next(homes, None)


@cache
def known_by(lesson: str, step: int) -> frozenset[str]:
    """Return the terms that were introduced up to a step, counted from 0, and in it.

    >>> "scale" in known_by("range_to_grid", 1), "scale" in known_by("range_to_grid", 2)
    (False, True)
    """
    terms: set[str] = set()
    for name, i, each in _steps():
        terms |= {term for term, introduced in each.terms if introduced}
        if (name, i) == (lesson, step):
            break
    return frozenset(terms)


@cache
def term_home(term: str) -> tuple[str, int] | None:
    """Return the step that introduces a term, as the id of its lesson and its number from 0; none where no
    lesson does.

    >>> term_home("scale")
    ('range_to_grid', 2)
    """
    return next(((name, i) for name, i, step in _steps() if (term, True) in step.terms), None)


def _steps() -> Iterator[tuple[str, int, LessonStep]]:
    """Yield each step of the lessons that can be read, with its lesson's id and its number from 0."""
    for name, lesson in lessons().items():
        if isinstance(lesson, Lesson):
            yield from ((name, i, step) for i, step in enumerate(lesson.steps))
