"""A lesson on a phone in the room of a class: nothing is told before the lecturer tells it."""

import dataclasses

import pytest
from streamlit.testing.v1 import AppTest

from quantviz.rooms.plan import Plan, Stop
from quantviz.rooms.serving import Rooms, rooms
from quantviz.teaching.lessons.progress import LearnerAnswer
from quantviz.text import text
from quantviz.ui.shell.startup import run_queue
from tests.helpers.controls import controls
from tests.helpers.session import APP

WRONG = LearnerAnswer("fewer_bits", 2, "half_are_left", 0, "s=int3,symmetric,per_tensor,min_max,course", True)


def seen(code, *answers, **params):
    """What a phone in a room shows whose browser has kept these answers: its buttons, and all its words."""
    at = AppTest.from_file(str(APP), default_timeout=120)
    at.query_params.update({"l": "fewer_bits", "p": "3", "room": code, **params})
    at.session_state["lesson_answers"] = list(answers)
    at.switch_page("pages/learn/lessons.py").run()
    assert not at.exception
    keys = set(controls(at))
    said = (node.value for kind in ("markdown", "info", "warning", "error") for node in at.get(kind))
    return keys, " ".join(said)


@pytest.fixture
def room():
    return rooms().open(Plan((Stop("lesson", "fewer_bits.half_are_left"),)))


def act(room, word):
    version = rooms().find(room.code).version
    rooms().act(room.code, room.key, version, word)


def test_an_answer_of_one_s_own_is_none_of_the_class(room):
    assert "commit" in seen(room.code, WRONG)[0]


def test_no_page_waits_while_a_room_is_looked_for(room, monkeypatch):
    held = []
    usual = Rooms.find
    monkeypatch.setattr(Rooms, "find", lambda *args: (held.append(run_queue().held), usual(*args))[1])
    seen(room.code)
    assert held
    assert not any(held)


def test_an_answer_waits_for_the_lecturer_and_may_be_given_once_more(room):
    here = dataclasses.replace(WRONG, room=room.code)
    keys, words = seen(room.code, here)
    assert "commit" not in keys
    assert text("lessons.withheld_in_room", "en") in words
    assert text("lessons.wrong", "en") not in words
    act(room, "again")
    keys, words = seen(room.code, here)
    assert "commit" in keys
    assert "3 bits" in words
    assert text("lessons.wrong", "en") not in words
    assert "commit" not in seen(room.code, here, dataclasses.replace(here, tried=1))[0]
    act(room, "close")
    act(room, "tell")
    assert text("lessons.wrong", "en") in seen(room.code, here)[1]
    # Another address of the session's leads to the stop.
    assert text("lessons.wrong", "en") in seen(room.code, here, p="2")[1]


def test_after_the_class_a_lesson_is_one_s_own(room):
    here = dataclasses.replace(WRONG, room=room.code)
    act(room, "end")
    assert text("lessons.wrong", "en") in seen(room.code, here)[1]


def test_a_lecturer_lets_each_see_the_answers_after_an_own_one_or_at_once(room):
    here = dataclasses.replace(WRONG, room=room.code)
    wrong = text("lessons.wrong", "en")
    act(room, "after")
    assert wrong not in seen(room.code)[1]
    assert wrong in seen(room.code, here)[1]
    act(room, "withheld")
    assert wrong not in seen(room.code, here)[1]
    act(room, "shown")
    assert "commit" not in seen(room.code)[0]
