"""What a lesson asks: little that is typed, much that the hand makes, nothing before something was moved."""

import dataclasses
import runpy

import pytest

from quantviz.teaching.lessons import lessons
from quantviz.teaching.lessons.model import DragQuestion, NumberQuestion
from tests.helpers.lesson_counts import LessonCounts, broken_rules, counts_table, lesson_counts


@pytest.mark.parametrize("name", list(lessons()))
def test_a_lesson_asks_little_and_nothing_before_a_move(name):
    counts = lesson_counts(lessons()[name])
    assert broken_rules(counts) == []
    assert counts.questions == counts.typed + counts.drags + counts.choices


def test_the_lessons_together_are_made_by_the_hand():
    first, *others = map(lesson_counts, lessons().values())
    total = sum(others, first)
    assert total.before_a_move == 0
    # Of the questions nearly half are answered by a drag, and one in ten is typed.
    assert total.drags >= 0.45 * total.questions
    assert total.typed <= 0.1 * total.questions
    # Two steps of three ask something.
    assert 3 * total.silent <= total.steps


def without_moves(lesson, upto):
    """A lesson whose first steps have nothing to move."""
    steps = [dataclasses.replace(step, move=()) if i < upto else step for i, step in enumerate(lesson.steps)]
    return dataclasses.replace(lesson, steps=tuple(steps))


def asking_only(lesson, kind):
    steps = [
        dataclasses.replace(step, questions=tuple(q for q in step.questions if isinstance(q, kind)))
        for step in lesson.steps
    ]
    return dataclasses.replace(lesson, steps=tuple(steps))


def test_a_lesson_that_asks_before_a_move_or_too_much_is_told():
    lesson = lessons()["range_to_grid"]
    # Its third step asks for the scale: with nothing moved in the first three, that comes before a move.
    assert broken_rules(lesson_counts(without_moves(lesson, 3))) == ["still", "before_a_move"]
    assert lesson_counts(without_moves(lesson, 3)).before_a_move == 1
    assert lesson_counts(without_moves(lesson, 8)).before_a_move == lesson_counts(lesson).questions
    typed = asking_only(lesson, NumberQuestion)
    assert broken_rules(lesson_counts(typed)) == ["drags", "silent_in_a_row"]
    twice = dataclasses.replace(lesson, steps=(*lesson.steps, *lesson.steps))
    assert {"questions", "typed"} <= {*broken_rules(lesson_counts(twice))}
    drags = asking_only(lesson, DragQuestion)
    assert lesson_counts(drags) == dataclasses.replace(
        lesson_counts(lesson),
        questions=3,
        typed=0,
        choices=0,
        silent=5,
        silent_in_a_row=3,
        still=0,
        minutes=lesson_counts(drags).minutes,
    )


def test_the_command_prints_each_lesson_and_all_together(capsys):
    runpy.run_module("tests.teaching.lessons", run_name="__main__")
    printed = capsys.readouterr().out
    rows = [(name, lesson_counts(each)) for name, each in lessons().items()]
    assert printed == counts_table(rows) + "\n"
    head, *body, last = printed.splitlines()
    for field in dataclasses.fields(LessonCounts):
        assert field.name.replace("_", " ") in head
    assert [line.split()[0] for line in body] == list(lessons())
    assert int(last.split()[3]) == sum(each.questions for _, each in rows)
