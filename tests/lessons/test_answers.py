"""What a learner types is the number it means, and a progress is what was answered."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import quantviz as qv
from quantviz.lessons import lessons
from quantviz.lessons.answers import read_number
from quantviz.lessons.model import Within
from quantviz.lessons.progress import Answer, Tally, as_json, as_text, reached


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("0,35", 0.35), ("０．３５", 0.35), ("０，３５", 0.35), ("−12.5", -12.5), ("- 3", -3), ("+4", 4), ("1e-3", 1e-3), ("1.234,5", 1234.5),
        ("1,234.5", 1234.5),
        ("1 000", 1000), ("1/8", 0.125), (".5", 0.5), ("5.", 5), ("3。5", 3.5), ("1,234,567", 1234567), ("12 dB", 12),
    ],
)  # fmt: skip
def test_numbers_as_people_type_them(typed, value):
    assert read_number(typed, "dB") == pytest.approx(value)


@pytest.mark.parametrize("typed", ["", "abc", "1/0", "nan", "inf", "1e999", "--3", "1.2.3", "1e", "٣x", "1/2/3"])
def test_what_is_no_number_is_said(typed):
    with pytest.raises(qv.QuantVizError, match="not a number"):
        read_number(typed)


@given(st.floats(-1e12, 1e12))
def test_a_printed_number_comes_back(value):
    assert read_number(repr(value)) == value
    assert read_number(repr(value).replace(".", ",")) == value


@given(st.text(max_size=20))
def test_any_text_is_a_number_or_a_sentence(text):
    with contextlib.suppress(qv.QuantVizError):
        assert isinstance(read_number(text), float)


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
