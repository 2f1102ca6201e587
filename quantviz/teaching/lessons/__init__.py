"""Lessons as data: a Markdown file per lesson and language.

`FORMAT.md` describes how one is written; `python -m quantviz.teaching.lessons` checks all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from quantviz.errors import QuantVizError
from quantviz.teaching.lessons.model import Lesson, LessonStep
from quantviz.teaching.lessons.reading import read_lesson
from quantviz.text import DEFAULT_LANGUAGE

_FOLDER = Path(__file__).parent


@cache
def lessons(language: str = DEFAULT_LANGUAGE) -> Mapping[str, Lesson | QuantVizError]:
    """Return the lessons of a language by id, in order; a mistake in a file is an error in its place.

    `06_per_channel.md` is lesson 6, `per_channel`.

    >>> next(iter(lessons()))
    'fewer_bits'
    """
    return load(_FOLDER / language)


def sound_lessons(language: str = DEFAULT_LANGUAGE) -> dict[str, Lesson]:
    """Return the lessons that can be read."""
    return {name: lesson for name, lesson in lessons(language).items() if isinstance(lesson, Lesson)}


def load(folder: Path) -> Mapping[str, Lesson | QuantVizError]:
    by_id: dict[str, Lesson | QuantVizError] = {}
    for path in sorted(folder.glob("*.md")):
        name = path.stem.partition("_")[2] or path.stem
        try:
            by_id[name] = read_lesson(path.read_text(encoding="utf-8"), f"{folder.name}/{path.name}")
        except QuantVizError as problem:
            by_id[name] = problem
        except UnicodeDecodeError:
            by_id[name] = QuantVizError("lessons.not_utf8", file=f"{folder.name}/{path.name}")
    return MappingProxyType(by_id)


@cache
def known_by(lesson: str, step: int) -> frozenset[str]:
    """Return the terms introduced up to a step, counted from 0.

    >>> "scale" in known_by("range_to_grid", 1), "scale" in known_by("range_to_grid", 2)
    (False, True)
    """
    terms: set[str] = set()
    for name, i, each in all_steps():
        terms |= {term for term, introduced in each.terms if introduced}
        if (name, i) == (lesson, step):
            break
    return frozenset(terms)


@cache
def term_home(term: str) -> tuple[str, int] | None:
    """Return the lesson that introduces a term, and its step from 0."""
    return next(((name, i) for name, i, step in all_steps() if (term, True) in step.terms), None)


def all_steps() -> Iterator[tuple[str, int, LessonStep]]:
    """Yield each readable step, with its lesson's id and its number from 0."""
    for name, lesson in sound_lessons().items():
        yield from ((name, i, step) for i, step in enumerate(lesson.steps))
