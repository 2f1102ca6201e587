"""A teacher's link through AppTest: what it hides is not in the page at all, what it locks holds, and the
page that builds it.
"""

import itertools
import json
import socket
from urllib.parse import parse_qsl, urlsplit

import pytest
import segno
import streamlit as st
from streamlit.testing.v1 import AppTest

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
from quantviz.teaching.lessons import lessons
from quantviz.text import catalogue, languages
from quantviz.ui.shell import server
from quantviz.ui.teacher.page import qr_image
from quantviz.ui.teacher.state import OPENS
from tests.helpers import session
from tests.helpers.controls import choose, controls
from tests.helpers.sample import sample_of
from tests.helpers.session import address, healthy, numbers, turned

NETWORK = "http://192.168.1.20:8501/teacher"
PAGE = "pages/learn/teacher.py"


def opened(room=None, **params):
    """The Lab as a new session sees it by a link with this classroom."""
    return session.opened(**({"k": str(room)} if room else {}), **params)


def keys(at):
    """The keys of everything on the page."""
    found = set(controls(at))
    for block in walk(at._tree.root):
        proto = getattr(block, "proto", None)
        for name in (getattr(block, "key", None), getattr(proto, "id", None)):
            if name:
                found.add(str(name))
    return found


def walk(node):
    yield node
    for child in getattr(node, "children", {}).values():
        yield from walk(child)


def has(at, key):
    return any(name == key or name.endswith(f"-{key}") for name in keys(at))


def html(at, name):
    return [element.proto.body for element in at.get("html") if f'class="{name}"' in element.proto.body]


def titles(at):
    spec = json.loads(
        next(element for element in at.get("plotly_chart") if "panels_chart" in element.proto.id).proto.spec
    )
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


def unfolded(room=None):
    """The Lab with its histograms and the steps of its cell open."""
    at = opened(room)
    at.session_state["histograms"] = True
    at.session_state["cell_steps"] = True
    return at.run()


@pytest.fixture(scope="module")
def whole():
    """The page with nothing hidden, with the tab of the cell and with the one to compare, to read only."""
    return unfolded(), turned(unfolded(), "compare")


@pytest.mark.parametrize("part", sample_of(HIDEABLE, 6))
def test_what_is_hidden_is_not_in_the_page(part, whole):
    room = Classroom(hidden=frozenset({part}))
    at, compared = unfolded(room), turned(unfolded(room), "compare")
    for group, names in CONTROL_KEYS.items():
        assert all(has(whole[name in COMPARED], name) for name in names), group
        assert [has((at, compared)[name in COMPARED], name) for name in names] == [group != part] * len(names)
    assert titles(at) == [name for name in PANEL_PARTS if name != part]
    tiles = [catalogue("en")[f"{name}.short"] for name in TILE_PARTS if name != part]
    assert [metric.label for metric in numbers(at)] == tiles
    assert bool(html(at, "qv-sentence")) == (part != "sentence")
    assert has(at, "hand") == (part != "number_line")
    assert bool(html(at, "qv-steps")) == (part != "steps")
    assert has(at, "error_view") == (part != "error")
    assert has(at, "language_choice")
    assert address(at)["k"] == str(Classroom(hidden=frozenset({part})))


def test_everything_hidden_leaves_x_and_the_language():
    at = opened(Classroom(hidden=frozenset(HIDEABLE)))
    assert titles(at) == ["x"]
    assert len(numbers(at)) == 0
    assert not at.button
    assert not at.selectbox
    assert [control.key for control in at.segmented_control] == ["language_choice"]
    # What the whole error comes to is not in the address either.
    assert "h" not in address(at)


def test_nothing_of_a_hidden_result_is_sent():
    at = opened(Classroom(hidden=RESULTS))
    sent = str(at._tree.root) + "".join(str(getattr(node, "proto", "")) for node in walk(at._tree.root))
    for told in ("0.831", "82.8", "3.289", "1.64"):
        assert told not in sent, told


# ---- what is locked -----------------------------------------------------------------------------


def locked_widgets(at, group):
    if group == "tensor":
        return [at.selectbox(key=key).disabled for key in ("kind", "scenario")]
    of_scheme = ("bits", "mode", "granularity", "format", "recipe", "convention")
    fields = {"scheme": of_scheme, "range": ("calibration",)}[group]
    return [controls(at)[field]["disabled"] for field in fields]


@pytest.mark.parametrize("group", LOCKABLE)
def test_what_is_locked_is_in_sight_and_says_why(group):
    at = turned(opened(Classroom(locked=frozenset({group}))), "compare")
    for each in LOCKABLE:
        assert set(locked_widgets(at, each)) == {each == group}
    assert sum(catalogue("en")["room.locked"] in caption.value for caption in at.caption) == (
        3 if group == "scheme" else 1
    )


@pytest.mark.parametrize("source", ["normal(rows=4,cols=4)", "builtin(name=course_3x3)", "typed.2x2"])
def test_every_kind_of_tensor_is_locked(source):
    from quantviz.sources.typed import Typed

    form = f"typed.{Typed.of([[1.0, 2.0]]).to_payload()}" if source.startswith("typed") else source
    at = opened(
        Classroom(locked=frozenset({"tensor"})),
        t=form,
        s="int8,symmetric,per_group(size=2),given(scale=0.5),course",
    )
    sidebar = [*at.sidebar.selectbox, *at.sidebar.number_input, *at.sidebar.text_area]
    of_range = [widget for widget in sidebar if str(widget.key).startswith(("range_", "calibration"))]
    of_scheme = [widget for widget in sidebar if widget.key in ("recipe", "convention")]
    assert all(widget.disabled for widget in sidebar if widget not in of_range and widget not in of_scheme)
    assert not any(widget.disabled for widget in of_scheme)
    assert not any(widget.disabled for widget in of_range if widget.key == "range_scale")


def test_a_locked_scheme_stays_whatever_is_clicked():
    scheme = "int8,symmetric,per_channel(axis=1),min_max,course"
    at = opened(Classroom(locked=frozenset({"scheme"})), s=scheme)
    at.selectbox(key="scenario").set_value("one_cell").run()
    assert address(healthy(at))["t"] == opening("one_cell").written()["t"]
    assert address(at)["s"].startswith("int8,symmetric,per_channel(axis=1),")
    choose(at, "undo")
    assert address(at)["s"] == scheme
    at.button(key="reset").click().run()
    assert address(at)["s"] == scheme
    # The range is not the scheme's: it can be changed.
    choose(at, ("calibration", "percentile"))
    assert address(healthy(at))["s"] == scheme.replace("min_max", "percentile(p=99.0)")


def test_reset_leads_back_to_what_the_link_opened():
    at = opened(
        Classroom(locked=frozenset({"tensor"})),
        t="normal(rows=4,cols=4)",
        s="int3,symmetric,per_tensor,min_max,course",
    )
    choose(at, ("bits", 8))
    at.button(key="reset").click().run()
    assert address(healthy(at))["t"] == "normal(rows=4,cols=4)"
    assert address(at)["s"].startswith("int3")


# ---- the projector and a bad link ---------------------------------------------------------------


def test_the_projector_shows_the_picture_and_the_way_out():
    at = opened(Classroom(projector=True))
    assert titles(at) == list(PANEL_PARTS)
    assert len(numbers(at)) == 5
    assert not has(at, "undo")
    at.button(key="leave_projector").click().run()
    assert "k" not in address(healthy(at))
    assert has(at, "undo")


@pytest.mark.parametrize("page", [None, "pages/learn/lessons.py", "pages/learn/bugs.py", PAGE])
def test_a_bad_class_setting_is_said_on_every_page(page):
    at = AppTest.from_file("../../app.py", default_timeout=60)
    at.query_params["k"] = "no-q.nonsense"
    at.run()
    if page:
        at.switch_page(page).run()
    healthy(at)
    assert [("damaged" in warning.value) for warning in at.warning] == [True]


# ---- the page -----------------------------------------------------------------------------------


def teacher(url=NETWORK, **params):
    at = AppTest.from_file("../../app.py", default_timeout=60)
    at.context["url"] = url
    at.switch_page(PAGE)
    for name, value in params.items():
        at.query_params[name] = value
    return healthy(at.run())


def link(at):
    return at.code[0].value


def parameters(link):
    return dict(parse_qsl(urlsplit(link).query))


def qr(at):
    return html(at, "qv-qr")


def test_the_link_opens_the_lab_as_it_is():
    state = opening("one_cell").replace(error_range="fit")
    at = teacher(**state.written())
    found, problems = LabState.read(parameters(link(at)))
    assert urlsplit(link(at))[:3] == ("http", "192.168.1.20:8501", "/lab")
    assert (found, problems) == (state, ())


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_link_opens_an_example(name):
    at = teacher()
    at.segmented_control(key="teacher_opens").set_value("scenario").run()
    at.selectbox(key="teacher_scenario").set_value(name).run()
    assert LabState.read(parameters(link(healthy(at)))) == (opening(name), ())


@pytest.mark.parametrize("answers", ANSWERS)
def test_the_link_opens_a_lesson_at_a_step(answers):
    at = teacher()
    at.segmented_control(key="teacher_opens").set_value("lesson").run()
    name = list(lessons())[1]
    # Lesson 5 was number 6 here, and 5 in its list and above its steps.
    assert at.selectbox(key="teacher_lesson").options[:2] == [
        f"{number} · {lesson.title}" for number, lesson in enumerate(list(lessons().values())[:2])
    ]
    at.selectbox(key="teacher_lesson").set_value(name).run()
    at.selectbox(key=f"teacher_step_{name}").set_value(2).run()
    at.segmented_control(key="teacher_answers").set_value(answers).run()
    assert urlsplit(link(healthy(at))).path == "/lessons"
    assert parameters(link(at)) == {"l": name, "p": "2", **({"k": answers} if answers != "after" else {})}


def test_the_link_carries_what_is_chosen():
    at = teacher()
    at.segmented_control(key="teacher_sees").set_value("parts").run()
    for group, parts in GROUPS.items():
        at.pills(key=f"teacher_hidden_{group}").set_value(list(parts)).run()
    at.pills(key="teacher_locked").set_value(list(LOCKABLE)).run()
    at.text_input(key="teacher_prompt").set_value(" Why  row *2*? ").run()
    at.segmented_control(key="teacher_language").set_value("zh").run()
    asked = parameters(link(healthy(at)))
    assert Classroom.parse(asked["k"]) == Classroom(frozenset(HIDEABLE), frozenset(LOCKABLE))
    assert asked["lang"] == "zh"
    assert asked["ask"] == "Why row *2*?"
    # A link that is cut off anywhere behind it opens nothing that was closed.
    assert next(iter(asked)) == "k"
    assert len(link(at)) <= LONGEST
    assert qr(at) == [qr_image(link(at), catalogue("en")["teacher.qr_alt"])]
    # Everything that was chosen is in the page's address.
    again = teacher(**address(at))
    assert link(again) == link(at)
    assert again.segmented_control(key="teacher_sees").value == "parts"
    assert again.text_input(key="teacher_prompt").value == "Why row *2*?"


@pytest.mark.parametrize("opens", OPENS)
def test_a_reload_keeps_what_is_chosen(opens):
    at = teacher(**opening("three_bits_beat_four").written())
    at.segmented_control(key="teacher_opens").set_value(opens).run()
    if opens == "scenario":
        at.selectbox(key="teacher_scenario").set_value("one_cell").run()
    if opens == "lesson":
        name = list(lessons())[2]
        at.selectbox(key="teacher_lesson").set_value(name).run()
        at.selectbox(key=f"teacher_step_{name}").set_value(3).run()
        at.segmented_control(key="teacher_answers").set_value("withheld").run()
    again = teacher(**address(healthy(at)))
    assert link(again) == link(at) != link(teacher())
    assert address(again) == address(at)
    assert not again.warning


@pytest.mark.parametrize(
    "damaged",
    [
        {"class": "no-q.no-tile$"},
        {"opens": "everything"},
        {"opens": "lesson", "lesson": "nonsense"},
        {"opens": "lesson", "lesson": "symmetric", "step": "99"},
        {"opens": "scenario", "example": "nonsense"},
        {"for": "xx"},
        {"prompt": "?" * (LONGEST_PROMPT + 1)},
    ],
    ids=lambda damaged: "-".join(damaged),
)
def test_a_damaged_address_is_one_sentence_and_hands_out_nothing_that_was_left_out(damaged):
    at = teacher(**{"class": "no-q", **damaged})
    assert [each.value for each in at.warning] == [catalogue("en")["teacher.damaged"]]
    assert Classroom.parse(parameters(link(at))["k"]).hidden == CLOSED.hidden
    at.segmented_control(key="teacher_sees").set_value("everything").run()
    assert "k" not in parameters(link(healthy(at)))
    assert not at.warning


def test_all_results_and_nothing_are_one_click():
    at = teacher()
    at.segmented_control(key="teacher_sees").set_value("predict").run()
    assert Classroom.parse(parameters(link(at))["k"]).hidden == RESULTS
    at.segmented_control(key="teacher_sees").set_value("everything").run()
    assert "k" not in parameters(link(healthy(at)))


def test_the_choice_is_kept_over_a_page_switch():
    at = teacher()
    at.segmented_control(key="teacher_sees").set_value("predict").run()
    before = link(at)
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
        for block in walk(at._tree.root)
        if "class_prompt" in str(getattr(getattr(block, "proto", None), "id", ""))
        for each in walk(block)
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


@pytest.mark.parametrize(
    "url",
    ["http://localhost:8501/teacher", "http://127.0.0.1:8501/teacher", "http://[::1]:8501/teacher", None],
)
def test_on_localhost_the_code_has_the_computer_s_own_address(url, monkeypatch):
    class Way(socket.socket):
        def connect(self, address):
            """Be in a network, whatever this computer is in."""

        def getsockname(self):
            return ("192.168.7.5", 40000)

    monkeypatch.setattr(server.socket, "socket", Way)
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
    class Way(socket.socket):
        def connect(self, address):
            raise OSError("Network is unreachable")

    monkeypatch.setattr(server.socket, "socket", Way)
    at = teacher("http://localhost:8501/teacher")
    assert qr(at) == []
    assert "network" in at.info[0].value


def test_a_link_that_is_too_long_has_no_code_and_the_way_out():
    values = " ".join(str(0.37 * n**1.5 + 1 / (n + 1)) for n in range(144))
    at = AppTest.from_file("../../app.py", default_timeout=60)
    at.context["url"] = NETWORK
    at.run()
    at.switch_page("pages/lab/playground.py").run()
    at.selectbox(key="kind").set_value("typed").run()
    at.text_area(key="typed_text").set_value(values).run()
    at.switch_page(PAGE).run()
    assert len(link(healthy(at))) > LONGEST
    assert qr(at) == []
    assert str(len(link(at))) in at.warning[0].value
    assert LabState.read(parameters(link(at)))[1] == ()


def test_a_damaged_class_setting_hides_and_locks_all_that_it_can():
    at = opened("no-q.no-tile$")
    assert "damaged" in healthy(at).warning[0].value
    assert keys(at) == keys(opened(CLOSED))
    assert address(at)["k"] == str(CLOSED)


def test_project_this_shows_it_large_and_leads_back():
    at = teacher()
    at.segmented_control(key="teacher_opens").set_value("scenario").run()
    at.selectbox(key="teacher_scenario").set_value("one_cell").run()
    at.button(key="teacher_project").click().run()
    assert address(healthy(at))["k"] == "projector"
    assert address(at)["t"] == opening("one_cell").written()["t"]
    at.button(key="leave_projector").click().run()
    assert "k" not in address(healthy(at))


def test_project_this_leaves_out_what_the_link_does_until_it_is_shown():
    at = teacher()
    at.segmented_control(key="teacher_sees").set_value("parts").run()
    at.pills(key="teacher_hidden_panels").set_value(["q", "error"]).run()
    at.pills(key="teacher_locked").set_value(["scheme"]).run()
    # Typed and pressed at once: both come in one message.
    at.text_input(key="teacher_prompt").set_value("Why?")
    at.button(key="teacher_project").click().run()
    assert titles(healthy(at)) == ["x", "x_hat"]
    assert prompts(at)
    # The teacher's own hand is on it.
    assert address(at)["k"] == "3.projector.no-q.no-error.3"
    at.button(key="project_all").click()
    at.switch_page(session.LAB).run()
    assert titles(healthy(at)) == list(PANEL_PARTS)
    assert not has(at, "project_all")
    at.button(key="leave_projector").click().run()
    assert titles(healthy(at)) == list(PANEL_PARTS)
    assert "k" not in address(at)
    at.switch_page(PAGE).run()
    at.button(key="teacher_project").click().run()
    at.button(key="leave_projector").click().run()
    assert "k" not in address(healthy(at))


def test_everything_that_can_be_left_out_is_offered_once_and_has_its_words():
    offered = list(itertools.chain(*GROUPS.values()))
    assert sorted(offered) == sorted(HIDEABLE)
    for language in languages():
        words = catalogue(language)
        for part in offered:
            assert f"{part}.name" in words or f"teacher.parts.{part}" in words or part == "recipes", part
        assert all(f"teacher.groups.{group}" in words for group in GROUPS)


def test_the_code_is_the_link_s():
    image = qr_image("http://192.168.1.20:8501/lab?k=no-tiles", "a code")
    code = segno.make("http://192.168.1.20:8501/lab?k=no-tiles", error="l", micro=False)
    assert "data:image/svg+xml" in image
    assert 'alt="a code"' in image
    assert code.version <= 4
