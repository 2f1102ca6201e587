"""Plans: two that come with the app, and their forms in an address and in a file."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from quantviz.errors import QuantVizError
from quantviz.rooms.plan import LONGEST, OWN, PAGES, PLANS, WHERE, Plan, Stop, say_answer
from quantviz.teaching.lessons import sound_lessons
from quantviz.text import catalogue, languages

LENGTHS = {"single_hour": 45, "double_hour": 90}


@pytest.mark.parametrize("name", PLANS)
def test_the_plans_of_the_app_take_their_time_and_ask_something(name):
    plan = PLANS[name].checked()
    assert plan.minutes == LENGTHS[name]
    assert Plan.parse(str(plan)) == plan
    assert len(str(plan)) < 1000, "with the app's address it is one that every program takes"
    for stop in plan.stops:
        for language in languages():
            assert f"rooms.plans.{name}" in catalogue(language)
            assert dict(stop.asked.words)[language] or stop.kind == "bug"
        query = stop.address[1]
        if stop.kind == "lesson":
            lesson = sound_lessons()[query["l"]]
            asked = lesson.steps[int(query["p"]) - 1].questions
            assert stop.at.partition(".")[2] in [each.id for each in asked]


def test_an_answer_is_said_in_words_and_a_forged_one_is_none():
    bits = "s=int6%2Csymmetric%2Cper_tensor%2Cmin_max%2Ccourse"
    dragged = "s=int4%2Csymmetric%2Cper_tensor%2Cmanual_range%28lo%3D-2.5%2Chi%3D2.5%29%2Ccourse"
    cases = [
        (Stop("lesson", "fewer_bits.half_are_left"), bits, "6 bits"),
        (Stop("lesson", "fewer_bits.half_are_left"), "s=int99", ""),
        (Stop("lesson", "range_to_grid.scale"), 3.578823, "3.5788"),
        (Stop("lesson", "per_group.without_loud_columns"), 1, "B · ↓ falls"),
        (Stop("choice", "", ask="Which?", options=("left", "right")), 1, "B · right"),
        (Stop("drag", "t=normal", ask="Where?"), dragged, "up to 2.5"),
        (Stop("drag", "t=normal", ask="Where?"), "s=int99", ""),
        (Stop("drag", "t=normal", ask="Where?"), f"{dragged}&t=normal(rows=4096,cols=4096)", ""),
        (Stop("hole", "bell"), "int4,symmetric", "int4,symmetric"),
    ]
    assert [say_answer(stop, answer, "en") for stop, answer, _ in cases] == [said for _, _, said in cases]


def test_a_question_of_a_lesson_has_its_numbers_in_each_language():
    stop = Stop("lesson", "range_to_grid.scale")
    assert dict(stop.asked.words)["en"] == "What is the scale with 8 bits, to two decimals?"
    assert "{" not in dict(stop.asked.words)["zh"]
    assert stop.asked.kind == "number"
    # A direction is a choice of three, and a step without a question asks nothing.
    assert Stop("lesson", "per_group.without_loud_columns").asked.options == 3
    assert Stop("lesson", "fewer_bits.1").asked.kind == ""
    assert Stop("lesson", "fewer_bits.1").address == ("lessons", {"l": "fewer_bits", "p": "1"})


WORDS = some.text(max_size=30)
STOPS = some.builds(
    Stop,
    some.sampled_from(tuple(PAGES)),
    WORDS,
    some.integers(1, 90),
    some.sampled_from(WHERE),
    WORDS,
    some.lists(WORDS.filter(bool), max_size=4).map(tuple),
)


@given(some.lists(STOPS, min_size=1, max_size=4))
def test_every_plan_comes_back_from_an_address(stops):
    """Whatever signs its words have, those between parts among them."""
    plan = Plan(tuple(stops))
    assert Plan.read(str(plan)) == plan


BAD = {
    "rooms.kind": ["", "quiz", "lab:x:5:moon"],
    "rooms.lesson": ["lesson", "lesson:per_channel", "lesson:per_channel.99", "lesson:no.which_axis"],
    "golf.unknown_hole": ["hole:no"],
    "bugs.unknown": ["bug:no"],
    "rooms.minutes": ["lab::0", "lab::91", "lab::x", "lab::-1", "lab::9999"],
    "rooms.words": ["number", "lab::5:wall:why?", "drag::5:wall:  "],
    "rooms.options": ["choice::5:wall:why?", "choice::5:wall:why?:a", "number::5:wall:why?:a:b"],
    "link.prompt": [f"number::5:wall:{'x' * 121}"],
    "link.too_long": ["x" * (LONGEST + 1)],
    "rooms.stops": ["~".join(["lab"] * 61)],
}


@pytest.mark.parametrize(("key", "form"), [(key, form) for key, forms in BAD.items() for form in forms])
def test_another_text_is_no_plan(key, form):
    with pytest.raises(QuantVizError) as caught:
        Plan.parse(form)
    problem = caught.value.params.get("reason", caught.value)
    assert problem.key == key
    assert "{" not in caught.value.message("zh")


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", b"\xff", b"[" * 9000, b'{"quantviz": "plan", "version": 2, "plan": "lab"}'],
)
def test_another_file_is_no_plan(content):
    with pytest.raises(QuantVizError, match="not a plan"):
        Plan.of_file(content)


def test_a_file_of_a_plan_comes_back():
    plan = Plan((Stop("choice", "", 3, ask="为什么？", options=("a:b", "c~d")),))
    assert Plan.of_file(plan.as_file()) == plan
    assert json.loads(plan.as_file())["quantviz"] == "plan"
    assert set(OWN) < set(PAGES)
