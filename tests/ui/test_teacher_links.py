"""A teacher's links without the app: what they open, hide and lock, and the code to scan for a class."""

import socket
from types import SimpleNamespace
from urllib.parse import parse_qsl, urlsplit

import pytest
import segno
import streamlit as st

from quantviz.lab.classroom import ANSWERS, GROUPS, HIDEABLE, LOCKABLE, Classroom, read_prompt
from quantviz.lab.page_state import History
from quantviz.lab.scenarios import SCENARIOS
from quantviz.lab.share_links import LONGEST, write_address
from quantviz.lab.state import LabState, opening
from quantviz.sources.typed import Typed
from quantviz.teaching.lessons import lessons
from quantviz.text import catalogue
from quantviz.ui.components.clipboard import app_for_all, qr_image, show_code
from quantviz.ui.shell import server
from quantviz.ui.teacher import state
from quantviz.ui.teacher.page import link
from quantviz.ui.teacher.state import TeacherState

APP = "http://192.168.1.20:8501/"


def parameters(address):
    return dict(parse_qsl(urlsplit(address).query))


@pytest.fixture
def lab(session):
    """The Lab's state in the session."""
    session["lab_state"] = History(opening("one_cell").replace(error_range="fit"))
    return session["lab_state"].now


def test_the_link_opens_the_lab_as_it_is_or_an_example(lab):
    opened = link(TeacherState(), APP)
    assert urlsplit(opened)[:3] == ("http", "192.168.1.20:8501", "/lab")
    assert LabState.read(parameters(opened)) == (lab, ())
    name = list(SCENARIOS)[-1]
    opened = link(TeacherState(opens="scenario", scenario=name), APP)
    assert LabState.read(parameters(opened)) == (opening(name), ())


@pytest.mark.parametrize("answers", ANSWERS)
def test_the_link_opens_a_lesson_at_a_step(session, answers):
    name = list(lessons())[1]
    choice = TeacherState(opens="lesson", lesson=name, step=2, room=Classroom(answers=answers))
    opened = link(choice, APP)
    assert urlsplit(opened).path == "/lessons"
    assert parameters(opened) == {"l": name, "p": "2", **({"k": answers} if answers != "after" else {})}
    assert link(TeacherState.read(choice.written())[0], APP) == opened


def test_the_link_carries_what_is_chosen(said, session):
    session.update(lab_state=History(opening()), teacher_state=History(TeacherState(by_parts=True)))
    for parts in GROUPS.values():
        state.hide(parts, parts)
    state.change_room(locked=frozenset(LOCKABLE), prompt=read_prompt(" Why  row *2*? "))
    state.OWNER.change(language="zh")
    choice = state.OWNER.state
    opened = link(choice, APP)
    asked = parameters(opened)
    assert Classroom.parse(asked["k"]) == Classroom(frozenset(HIDEABLE), frozenset(LOCKABLE))
    assert (asked["lang"], asked["ask"]) == ("zh", "Why row *2*?")
    # What the whole error comes to is not in it either; cut off behind them it opens nothing that was closed.
    assert "h" not in asked
    assert next(iter(asked)) == "k"
    assert len(opened) <= LONGEST
    show_code(opened)
    assert said[0] == ("html", qr_image(opened, catalogue("en")["teacher.qr_alt"]))
    # Everything that was chosen is in the page's address.
    assert link(TeacherState.read(choice.written())[0], APP) == opened


# ---- the code to scan ------------------------------------------------------------------------------


@pytest.fixture
def shown(monkeypatch, said):
    """`shown(url, network)` shows the code of the Lab to a reader at `url`, on a computer that has the
    address `network`: the address, and all that is said.
    """

    def show(url, network="192.168.7.5", query=()):
        class Way(socket.socket):
            def connect(self, to):
                if not network:
                    raise OSError("Network is unreachable")

            def getsockname(self):
                return (network, 40000)

        monkeypatch.setattr(server.socket, "socket", Way)
        monkeypatch.setattr(st, "context", SimpleNamespace(url=url))
        opened = write_address(app_for_all(), "lab", dict(query))
        show_code(opened)
        return opened

    return show


@pytest.mark.parametrize(
    "url",
    ["http://localhost:8501/teacher", "http://127.0.0.1:8501/teacher", "http://[::1]:8501/teacher", None],
)
def test_on_localhost_the_code_has_the_computer_s_own_address(shown, said, url):
    assert shown(url) == "http://192.168.7.5:8501/lab"
    assert [kind for kind, _ in said] == ["html", "caption"]
    assert "192.168.7.5" in said[1][1]


def test_where_others_cannot_come_there_is_no_code_and_the_reason(shown, said, monkeypatch):
    assert shown("http://localhost:8501/teacher", network=None) == "http://localhost:8501/lab"
    ((kind, words),) = said
    assert (kind, "network" in words) == ("info", True)
    # A server for this computer alone is started anew with its own command.
    used = ["/venv/bin/python", "-m", "streamlit", "run", "app.py", "--server.address", "localhost", "--x=1"]
    monkeypatch.setattr(server.sys, "orig_argv", used)
    monkeypatch.setattr(server.st, "get_option", {"server.address": "localhost"}.get)
    assert shown("http://localhost:8501/teacher") == "http://localhost:8501/lab"
    assert "localhost" in said[1][1]
    anew = "/venv/bin/python -m streamlit run app.py --x=1 --server.address 0.0.0.0"
    assert said[2:] == [("code", anew)]


def test_a_link_that_is_too_long_has_no_code_and_the_way_out(shown, said):
    values = [0.37 * n**1.5 + 1 / (n + 1) for n in range(144)]
    opened = shown(APP, query={"t": f"typed.{Typed.of(values).to_payload()}"}.items())
    assert len(opened) > LONGEST
    ((kind, words),) = said
    assert (kind, str(len(opened)) in words) == ("warning", True)
    assert LabState.read(parameters(opened))[1] == ()


def test_the_code_is_the_link_s():
    image = qr_image("http://192.168.1.20:8501/lab?k=no-tiles", "a code")
    code = segno.make("http://192.168.1.20:8501/lab?k=no-tiles", error="l", micro=False)
    assert "data:image/svg+xml" in image
    assert 'alt="a code"' in image
    assert code.version <= 4
