"""An answer is close enough or not, and a progress is what was answered."""

import json

import pytest

import quantviz as qv
from quantviz.lessons import lessons
from quantviz.lessons.model import Within
from quantviz.lessons.progress import Answer, Tally, as_json, as_text, reached


@pytest.mark.parametrize(
    ("form", "given", "right"),
    [("0.5", 3.5, True), ("0.5", 3.51, False), ("5 %", 2.85, True), ("5 %", 2.84, False), ("factor 2", 6, True), ("factor 2", 6.1, False), ("0", 3, True)],
)
def test_tolerances(form, given, right):
    assert Within.read(form).accepts(given, 3.0) is right


@pytest.mark.parametrize("form", ["", "-1", "factor 1", "factor", "five", "5%%", "nan", "inf"])
def test_what_is_no_tolerance(form):
    with pytest.raises(qv.QuantVizError):
        Within.read(form)


def answers():
    return [
        Answer("range_to_grid", 0, 0, 0, 255.0, True, True),
        Answer("range_to_grid", 1, 0, 0, 3.0, False, False),
        Answer("range_to_grid", 1, 0, 1, 3.58, False, True),
    ]


def test_progress_counts_questions_once_and_answers_each_time():
    assert reached(answers(), "range_to_grid") == 2
    assert Tally.of(answers()) == Tally(sure_right=1, guessed_right=1, guessed_wrong=1)
    assert Tally.of(answers()).count == 3
    assert json.loads(as_json(answers()))["answers"][1]["right"] is False


@pytest.mark.parametrize("language", ["en", "zh"])
def test_progress_as_text(language):
    told = as_text(answers(), {"range_to_grid": lessons(language)["range_to_grid"]} if "range_to_grid" in lessons(language) else {}, language)
    assert "2" in told
    assert "3" in told
