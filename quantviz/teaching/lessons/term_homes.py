"""The steps of lessons that introduce the glossary's terms."""

from __future__ import annotations

from functools import cache

from quantviz.teaching.lessons import lessons
from quantviz.teaching.lessons.model import Lesson


@cache
def known_by(lesson: str, step: int) -> frozenset[str]:
    """Return the terms that were introduced up to a step, counted from 0, and in it.

    >>> "scale" in known_by("range_to_grid", 1), "scale" in known_by("range_to_grid", 2)
    (False, True)
    """
    found: set[str] = set()
    for name, each in lessons().items():
        steps = each.steps if isinstance(each, Lesson) else ()
        for i, own in enumerate(steps):
            found |= {term for term, introduced in own.terms if introduced}
            if (name, i) == (lesson, step):
                return frozenset(found)
    return frozenset(found)


@cache
def term_home(term: str) -> tuple[str, int] | None:
    """Return the step that introduces a term, as the id of its lesson and its number from 0; none where no
    lesson does.

    >>> term_home("scale")
    ('range_to_grid', 2)
    """
    for name, lesson in lessons().items():
        if isinstance(lesson, Lesson):
            for i, step in enumerate(lesson.steps):
                if (term, True) in step.terms:
                    return name, i
    return None
