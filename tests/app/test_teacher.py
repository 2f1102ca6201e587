"""A teacher's link through AppTest: what it hides is not in the page at all, what it locks holds, and the
page that builds it.
"""

import json
import socket
from urllib.parse import parse_qsl, urlsplit

import pytest
import segno
import streamlit as st

from quantviz.lab.classroom import (
    ANSWERS,
    CLOSED,
    GROUPS,
    HIDEABLE,
    LOCKABLE,
    LONGEST_PROMPT,
    RESULTS,
    Classroom,
)
from quantviz.lab.picture_parts import PANEL_PARTS, TILE_PARTS
from quantviz.lab.scenarios import SCENARIOS
from quantviz.lab.share_links import LONGEST
from quantviz.lab.state import LabState, opening
from quantviz.sources.typed import Typed
from quantviz.teaching.lessons import lessons
from quantviz.text import catalogue
from quantviz.ui.components.clipboard import qr_image
from quantviz.ui.shell import server
from tests.helpers import session
from tests.helpers.controls import choose, controls, value_of, words_of
from tests.helpers.sample import sample_of
from tests.helpers.session import act, address, bodies, control, healthy, numbers, turned, unfolded
from tests.helpers.teacher import PAGE, qr, teacher


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


def test_the_link_opens_the_lab_as_it_is_or_an_example():
    state = opening("one_cell").replace(error_range="fit")
    at = teacher(**state.written())
    assert urlsplit(link(at))[:3] == ("http", "192.168.1.20:8501", "/lab")
    assert LabState.read(parameters(link(at))) == (state, ())
    name = list(SCENARIOS)[-1]
    act(at, teacher_opens="scenario", teacher_scenario=name)
    assert LabState.read(parameters(link(at))) == (opening(name), ())


def test_the_link_opens_a_lesson_at_a_step():
    at = act(teacher(), teacher_opens="lesson")
    name = list(lessons())[1]
    # Lesson 5 was number 6 here, and 5 in its list and above its steps.
    titles = [f"{number} · {lesson.title}" for number, lesson in enumerate(lessons().values())]
    assert words_of(at, "teacher_lesson") == titles
    act(at, teacher_lesson=name, teacher_step=2)
    for answers in ANSWERS:
        act(at, teacher_answers=answers)
        assert urlsplit(link(at)).path == "/lessons"
        class_ = {"k": answers} if answers != "after" else {}
        assert parameters(link(at)) == {"l": name, "p": "2", **class_}
        assert link(teacher(**address(at))) == link(at)


def test_the_link_carries_what_is_chosen():
    at = act(teacher(), teacher_sees="parts")
    act(at, **{f"teacher_hidden_{group}": list(parts) for group, parts in GROUPS.items()})
    act(at, teacher_locked=list(LOCKABLE), teacher_prompt=" Why  row *2*? ", teacher_language="zh")
    asked = parameters(link(at))
    assert Classroom.parse(asked["k"]) == Classroom(frozenset(HIDEABLE), frozenset(LOCKABLE))
    assert (asked["lang"], asked["ask"]) == ("zh", "Why row *2*?")
    # A link that is cut off anywhere behind it opens nothing that was closed.
    assert next(iter(asked)) == "k"
    assert len(link(at)) <= LONGEST
    assert qr(at) == [qr_image(link(at), catalogue("en")["teacher.qr_alt"])]
    # Everything that was chosen is in the page's address.
    again = teacher(**address(at))
    assert (link(again), address(again)) == (link(at), address(at))
    assert value_of(again, "teacher_sees") == "parts"
    assert value_of(again, "teacher_prompt") == "Why row *2*?"


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


def in_a_network(monkeypatch, address):
    """A computer that has this address in its network, or none."""

    class Way(socket.socket):
        def connect(self, to):
            if not address:
                raise OSError("Network is unreachable")

        def getsockname(self):
            return (address, 40000)

    monkeypatch.setattr(server.socket, "socket", Way)


@pytest.mark.parametrize(
    "url",
    ["http://localhost:8501/teacher", "http://127.0.0.1:8501/teacher", "http://[::1]:8501/teacher", None],
)
def test_on_localhost_the_code_has_the_computer_s_own_address(url, monkeypatch):
    in_a_network(monkeypatch, "192.168.7.5")
    at = teacher(url)
    assert len(qr(at)) == 1
    assert link(at).startswith("http://192.168.7.5:8501/lab")
    assert any("192.168.7.5" in caption.value for caption in at.caption)
    assert not at.info


def test_a_server_for_this_computer_alone_is_started_anew_with_its_own_command(monkeypatch):
    used = ["/venv/bin/python", "-m", "streamlit", "run", "app.py", "--server.address", "localhost", "--x=1"]
    monkeypatch.setattr(server.sys, "orig_argv", used)
    asked = st.get_option
    local = {"server.address": "localhost"}
    monkeypatch.setattr(server.st, "get_option", lambda name: local.get(name) or asked(name))
    at = teacher("http://localhost:8501/teacher")
    assert qr(at) == []
    assert "localhost" in at.info[0].value
    commands = [code.value for code in at.code]
    assert "/venv/bin/python -m streamlit run app.py --x=1 --server.address 0.0.0.0" in commands
    assert any(each.startswith("http://localhost:8501/lab") for each in commands)


def test_without_a_network_there_is_no_code_and_the_reason(monkeypatch):
    in_a_network(monkeypatch, None)
    at = teacher("http://localhost:8501/teacher")
    assert qr(at) == []
    assert "network" in at.info[0].value


def test_a_link_that_is_too_long_has_no_code_and_the_way_out():
    values = [0.37 * n**1.5 + 1 / (n + 1) for n in range(144)]
    at = teacher(t=f"typed.{Typed.of(values).to_payload()}")
    assert len(link(at)) > LONGEST
    assert qr(at) == []
    assert str(len(link(at))) in at.warning[0].value
    assert LabState.read(parameters(link(at)))[1] == ()


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


def test_the_code_is_the_link_s():
    image = qr_image("http://192.168.1.20:8501/lab?k=no-tiles", "a code")
    code = segno.make("http://192.168.1.20:8501/lab?k=no-tiles", error="l", micro=False)
    assert "data:image/svg+xml" in image
    assert 'alt="a code"' in image
    assert code.version <= 4
