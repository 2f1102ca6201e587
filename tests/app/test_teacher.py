"""A teacher's link through AppTest: what it hides is not in the page at all, what it locks holds, and the
page that builds it.
"""

import json
from urllib.parse import parse_qsl, urlsplit

import pytest

from quantviz.lab.classroom import (
    CLOSED,
    HIDEABLE,
    LOCKABLE,
    LONGEST_PROMPT,
    RESULTS,
    Classroom,
)
from quantviz.lab.picture_parts import PANEL_PARTS, TILE_PARTS
from quantviz.lab.state import opening
from quantviz.sources.typed import Typed
from quantviz.teaching.lessons import lessons
from quantviz.text import catalogue
from tests.helpers import session
from tests.helpers.controls import choose, controls, words_of
from tests.helpers.sample import sample_of
from tests.helpers.session import act, address, bodies, control, healthy, numbers, turned, unfolded
from tests.helpers.teacher import PAGE, teacher


def opened(room=None, **params):
    """The Lab as a new session sees it by a link with this classroom."""
    return session.opened(**({"k": str(room)} if room else {}), **params)


def keys(at):
    """The keys of everything on the page."""
    nodes = list(at._tree)
    found = [getattr(node, "key", None) for node in nodes]
    found += [getattr(getattr(node, "proto", None), "id", None) for node in nodes]
    return {*controls(at), *(str(name) for name in found if name)}


def has(at, key):
    return any(name == key or name.endswith(f"-{key}") for name in keys(at))


def titles(at):
    spec = json.loads(session.chart(at, "panels_chart").proto.spec)
    return [trace["name"] for trace in spec["data"] if trace["type"] == "heatmap"]


# ---- what is hidden -----------------------------------------------------------------------------

#: What stands for a group of controls: keys of widgets in it.
CONTROL_KEYS = {
    "tensor": ("kind", "scenario"),
    "range": ("calibration",),
    "scheme": ("bits", "mode", "granularity", "format", "recipe", "convention"),
    "actions": ("set_baseline", "undo", "reset"),
    "recipes": ("recipe_table", "recipe_plot"),
    "compare": ("compare_open",),
    "below": ("log_counts", "histogram_values", "download_npz"),
}


#: What stands in the stage's tab Compare; all else is there while any tab is open.
COMPARED = ("set_baseline", "recipe_table", "recipe_plot", "compare_open")
#: What is folded of the Lab: the histograms, the steps of its cell, and two lists of its title.
FOLDS = ("histograms", "cell_steps", "share", "more")


@pytest.fixture(scope="module")
def whole():
    """The page with nothing hidden, with the tab of the cell and with the one to compare, to read only."""
    return unfolded(opened(), *FOLDS), turned(opened(), "compare")


@pytest.mark.parametrize("part", sample_of(HIDEABLE, 4))
def test_what_is_hidden_is_not_in_the_page(part, whole):
    room = Classroom(hidden=frozenset({part}))
    at, compared = unfolded(opened(room), *FOLDS), turned(opened(room), "compare")
    for group, names in CONTROL_KEYS.items():
        assert all(has(whole[name in COMPARED], name) for name in names), group
        assert [has((at, compared)[name in COMPARED], name) for name in names] == [group != part] * len(names)
    assert titles(at) == [name for name in PANEL_PARTS if name != part]
    tiles = [catalogue("en")[f"{name}.short"] for name in TILE_PARTS if name != part]
    assert [metric.label for metric in numbers(at)] == tiles
    assert bool(bodies(at, 'class="qv-sentence"')) == (part != "sentence")
    assert has(at, "hand") == (part != "number_line")
    assert bool(bodies(at, 'class="qv-steps"')) == (part != "steps")
    assert has(at, "error_view") == (part != "error")
    assert has(at, "language_choice")
    assert address(at)["k"] == str(Classroom(hidden=frozenset({part})))


def test_everything_hidden_leaves_x_and_the_language():
    at = unfolded(opened(Classroom(hidden=frozenset(HIDEABLE))))
    assert titles(at) == ["x"]
    assert len(numbers(at)) == 0
    assert not at.button
    assert {*controls(at)} == {
        "language_choice",
        "value_scale",
        "cell_row",
        "cell_col",
        "drop_anywhere_address",
    }
    # What the whole error comes to is not in the address either.
    assert "h" not in address(at)


def test_nothing_of_a_hidden_result_is_sent():
    at = unfolded(opened(Classroom(hidden=RESULTS)), *FOLDS)
    sent = "".join(str(getattr(node, "proto", "")) for node in at._tree)
    for number in ("0.831", "82.8", "3.289", "1.64"):
        assert number not in sent, number


# ---- what is locked -----------------------------------------------------------------------------


#: The controls of each group of the Lab that can be locked.
LOCKED_KEYS = {
    "tensor": ("kind", "scenario"),
    "scheme": ("bits", "mode", "granularity", "format", "recipe", "convention"),
    "range": ("calibration",),
}


@pytest.mark.parametrize("group", LOCKABLE)
def test_what_is_locked_is_in_sight_and_says_why(group):
    at = turned(opened(Classroom(locked=frozenset({group}))), "compare")
    for each in LOCKABLE:
        drawn = controls(at)
        found = (
            drawn[key]["disabled"] if key in drawn else control(at, key).disabled for key in LOCKED_KEYS[each]
        )
        assert {*found} == {each == group}
    said = sum(catalogue("en")["room.locked"] in caption.value for caption in at.caption)
    assert said == (3 if group == "scheme" else 1)


@pytest.mark.parametrize(
    "source",
    ["normal(rows=4,cols=4)", "builtin(name=course_3x3)", f"typed.{Typed.of([[1.0, 2.0]]).to_payload()}"],
)
def test_every_kind_of_tensor_is_locked(source):
    scheme = "int8,symmetric,per_group(size=2),given(scale=0.5),course"
    at = opened(Classroom(locked=frozenset({"tensor"})), t=source, s=scheme)
    tensors = ("kind", "scenario", "course", "distribution", "random_", "seen_as", "outputs")
    locked = {key for key, each in controls(at).items() if key.startswith(tensors)}
    assert locked
    shut = {key for key, each in controls(at).items() if each["disabled"]}
    # A symmetric scheme fixes its own zero point.
    assert shut - {"range_zero_point", "undo", "redo"} == locked
    assert all(each.disabled for each in at.sidebar.text_area)


def test_a_locked_scheme_stays_whatever_is_clicked():
    scheme = "int8,symmetric,per_channel(axis=1),min_max,course"
    at = opened(Classroom(locked=frozenset({"scheme"})), s=scheme)
    act(at, scenario="one_cell")
    assert address(at)["t"] == opening("one_cell").written()["t"]
    assert address(at)["s"].startswith("int8,symmetric,per_channel(axis=1),")
    for press in ("undo", "reset"):
        assert address(act(unfolded(at), press))["s"] == scheme
    # The range is not the scheme's: it can be changed.
    assert address(act(at, calibration="percentile"))["s"] == scheme.replace("min_max", "percentile(p=99.0)")


def test_reset_leads_back_to_what_the_link_opened():
    link = {"t": "normal(rows=4,cols=4)", "s": "int3,symmetric,per_tensor,min_max,course"}
    at = act(opened(Classroom(locked=frozenset({"tensor"})), **link), bits=8)
    act(unfolded(at), "reset")
    assert {**address(at), **link} == address(at)


# ---- the projector and a bad link ---------------------------------------------------------------


def test_the_projector_shows_the_picture_and_the_way_out():
    at = opened(Classroom(projector=True))
    assert titles(at) == list(PANEL_PARTS)
    assert len(numbers(at)) == 5
    assert not has(at, "undo")
    assert "k" not in address(act(at, "leave_projector"))
    assert has(at, "undo")


# ---- the page -----------------------------------------------------------------------------------


def link(at):
    return at.code[0].value


def parameters(link):
    return dict(parse_qsl(urlsplit(link).query))


def test_the_link_opens_a_lesson_at_a_step():
    at = act(teacher(), teacher_opens="lesson")
    name = list(lessons())[1]
    # Lesson 5 was number 6 here, and 5 in its list and above its steps.
    titles = [f"{number} · {lesson.title}" for number, lesson in enumerate(lessons().values())]
    assert words_of(at, "teacher_lesson") == titles
    act(at, teacher_lesson=name, teacher_step=2, teacher_answers="withheld", teacher_language="zh")
    assert parameters(link(at)) == {"k": "withheld", "l": name, "p": "2", "lang": "zh"}
    assert link(teacher(**address(at))) == link(at)


def test_a_damaged_address_is_one_sentence_until_another_choice():
    at = teacher(**{"class": "no-q", "for": "xx"})
    assert [each.value for each in at.warning] == [catalogue("en")["teacher.damaged"]]
    assert Classroom.parse(parameters(link(at))["k"]).hidden == CLOSED.hidden
    assert "k" not in parameters(link(act(at, teacher_sees="everything")))
    assert not at.warning


def test_all_results_are_one_click_and_the_choice_is_kept_over_a_page_switch():
    at = act(teacher(), teacher_sees="predict")
    before = link(at)
    assert Classroom.parse(parameters(before)["k"]).hidden == RESULTS
    at.switch_page("pages/lab/playground.py").run()
    assert "k" not in address(at)
    assert "h" in address(at)
    at.switch_page(PAGE).run()
    # Nor does it tell how large the error was that the Lab has shown meanwhile.
    assert link(healthy(at)) == before


# ---- the question to the class ------------------------------------------------------------------


def prompts(at):
    """What stands above the picture as the teacher's question."""
    return [
        each.value
        for block in at._tree
        if "class_prompt" in str(getattr(getattr(block, "proto", None), "id", ""))
        for each in block
        if each.type == "markdown"
    ]


def test_a_link_to_predict_carries_a_question():
    hidden = Classroom(hidden=RESULTS)
    assert prompts(opened()) == []
    en, zh = catalogue("en"), catalogue("zh")
    assert prompts(opened(hidden)) == [f"**{en['room.prompt']}** {en['room.predict']}"]
    # It is anybody's text.
    assert prompts(opened(hidden, ask="*Why* <b>?")) == [rf"**{en['room.prompt']}** \*Why\* \<b\>?"]
    at = opened(hidden, ask="Why?", lang="zh")
    assert prompts(at) == [f"**{zh['room.prompt']}** Why?"]
    assert address(at)["ask"] == "Why?"
    assert prompts(opened(Classroom(projector=True), ask="Why?")) == ["Why?"]


def test_a_question_that_is_too_long_is_left_out_with_one_sentence():
    at = opened(Classroom(hidden=frozenset({"q"})), ask="?" * (LONGEST_PROMPT + 1))
    assert [str(LONGEST_PROMPT) in warning.value for warning in at.warning] == [True]
    assert prompts(at) == []
    assert address(at)["k"] == "no-q"


def test_a_damaged_class_setting_hides_and_locks_all_that_it_can():
    at = opened("no-q.no-tile$")
    assert "damaged" in healthy(at).warning[0].value
    assert keys(at) == keys(opened(CLOSED))
    assert address(at)["k"] == str(CLOSED)


def test_project_this_leaves_out_what_the_link_does_until_it_is_shown():
    at = act(teacher(), teacher_opens="scenario", teacher_scenario="one_cell", teacher_sees="parts")
    act(at, teacher_hidden_panels=["q", "error"], teacher_locked=["scheme"])
    choose(at, ("teacher_prompt", "Why?"))
    act(at, "teacher_project")
    assert titles(healthy(at)) == ["x", "x_hat"]
    assert prompts(at)
    assert address(at)["t"] == opening("one_cell").written()["t"]
    # The teacher's own hand is on it.
    assert address(at)["k"] == "3.projector.no-q.no-error.3"
    at.button(key="project_all").click()
    at.switch_page(session.LAB).run()
    assert titles(healthy(at)) == list(PANEL_PARTS)
    assert not has(at, "project_all")
    assert "k" not in address(act(at, "leave_projector"))
    assert titles(healthy(at)) == list(PANEL_PARTS)
    at.switch_page(PAGE).run()
    assert "k" not in address(act(at, "teacher_project", "leave_projector"))
