"""The numbers that a question compares, and the state of its right answer, for the picture on the wall."""

import pytest

from quantviz.teaching.lessons import all_steps
from quantviz.teaching.lessons.formulas import HERE, Formula
from quantviz.teaching.lessons.model import ChoiceQuestion, DirectionQuestion, NumberQuestion, OrderQuestion

ASKED = [
    pytest.param(step, question, id=f"{name}-{i + 1}-{question.kind}")
    for name, i, step in all_steps()
    for question in step.questions
]


def compared(question, scenes):
    return [(each.state, each.number.value(scenes)) for each in question.compared(scenes)]


@pytest.mark.parametrize(("step", "question"), ASKED)
def test_the_state_told_is_that_of_the_right_answer(step, question):
    scenes = step.scenes()
    told = question.state_told(scenes)
    found = compared(question, scenes)
    values = [value for _, value in found]
    assert told in scenes
    assert len(found) != 1
    if isinstance(question, DirectionQuestion):
        # The question ends at the second state: its picture is the answer's.
        before, after = values
        changes = {"rises": after > before, "falls": after < before, "same": after == pytest.approx(before)}
        assert changes[question.truth(scenes)]
        assert told == found[1][0]
    elif isinstance(question, OrderQuestion):
        assert question.truth(scenes) == tuple(sorted(range(len(values)), key=values.__getitem__))
        assert told == found[question.truth(scenes)[0]][0]
    elif isinstance(question, NumberQuestion) and found:
        assert question.truth(scenes) == pytest.approx(values[0] / values[1])
    elif isinstance(question, ChoiceQuestion) and told != HERE:
        # The right option's number is an end of all: the questions are for the least, or the most.
        assert dict(found)[told] in (min(values), max(values))
        assert question.options[[state for state, _ in found].index(told)].when.holds(scenes)


def test_options_that_name_their_states_are_compared_one_by_one():
    steps = {(name, i): step for name, i, step in all_steps()}
    for place, told, least in ((("per_channel", 3), "col", 0.02231), (("four_bits", 3), "int4", 0.001572)):
        step = steps[place]
        scenes = step.scenes()
        question = step.questions[0]
        assert question.state_told(scenes) == told
        assert dict(compared(question, scenes))[told] == pytest.approx(least, rel=1e-3)
        assert len(compared(question, scenes)) == len(question.options)


def test_a_formula_names_its_quantities_in_order():
    formula = Formula("abs(b3.sqnr_db - sqnr_db) <= output_mse(best, inputs) * rounding_rmse_steps")
    assert formula.named == (
        ("b3", "sqnr_db"),
        (HERE, "sqnr_db"),
        ("best", "output_mse"),
        ("inputs", "output_mse"),
    )
    assert formula.subject is None
