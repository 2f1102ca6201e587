"""The plan of a class on the teacher's page, its room, and the wall that follows it, through AppTest."""

import json
import re

import pytest

from quantviz.errors import QuantVizError
from quantviz.lab.moves import moved
from quantviz.rooms.plan import PLANS, Plan, Stop
from quantviz.rooms.serving import Rooms, rooms
from quantviz.teaching.golf import HOLES
from quantviz.teaching.lessons import sound_lessons
from quantviz.teaching.lessons.drags import drag_answer
from quantviz.teaching.lessons.formulas import HERE
from quantviz.text import catalogue
from quantviz.ui.components.clipboard import qr_image
from quantviz.ui.shell.room_routes import ON_WALL
from quantviz.ui.shell.shared_cache import shared_fact
from tests.helpers import session
from tests.helpers.controls import choose, controls, header, words_of
from tests.helpers.messages import events_of, send
from tests.helpers.session import act, address, bodies
from tests.helpers.teacher import qr, teacher


def plan_of(at):
    return Plan.parse(address(at)["plan"])


def test_a_plan_is_edited_and_kept_in_the_address_and_a_file():
    at = teacher()
    first = PLANS["single_hour"].stops
    assert "plan" not in address(at)
    choose(at, ("where_stop_1", "phones"), ("minutes_stop_2", "9"), "up_stop_3", "remove_stop_0")
    stops = plan_of(at).stops
    assert [stop.at for stop in stops] == [first[at].at for at in (1, 3, 2, 4, 5)]
    assert (stops[0].where, stops[2].minutes) == ("phones", 9)
    choose(at, ("add_hole", "bell"), ("add_bug", "int8_difference_wraps"), "add_lab")
    at.text_input(key="own_ask").set_value(" Which  row? ").run()
    at.text_input(key="own_options").set_value("one; two ;").run()
    act(at, "own_add")
    added = plan_of(at).stops[5:]
    assert [stop.kind for stop in added] == ["hole", "bug", "lab", "choice"]
    assert (added[3].ask, added[3].options) == ("Which row?", ("one", "two"))
    again = teacher(**address(at))
    assert plan_of(again) == plan_of(at)
    file = plan_of(at).as_file()
    at = teacher()
    at.file_uploader(key="teacher_plan_file").upload("plan.json", file, "application/json").run()
    assert plan_of(at) == plan_of(again)


def test_a_stop_that_cannot_be_is_a_sentence_beside_it():
    at = choose(teacher(), ("minutes_stop_1", "long"))
    assert controls(at)["minutes_stop_1"]["wrong"]
    assert "long" in at.error[0].value
    assert "plan" not in address(at)
    at = teacher(plan=str(Plan(PLANS["single_hour"].stops[:1])))
    choose(at, "remove_stop_0")
    assert len(at.error) == 1
    assert len(words_of(at, "where_stop_0")) == 2


def test_a_second_press_for_a_stop_that_has_gone_does_nothing():
    at = choose(teacher(), "remove_stop_5", "remove_stop_5", ("minutes_stop_5", "9"))
    assert plan_of(at).stops == PLANS["single_hour"].stops[:-1]
    assert not at.warning


def test_a_room_is_opened_with_the_plan_and_its_code_joins():
    at = act(teacher(), "teacher_open")
    code, key = at.session_state["teacher_room"]
    assert rooms().lead(code, key).plan == PLANS["single_hour"]
    join = qr_image(f"http://192.168.1.20:8501/join?c={code}", catalogue("en")["teacher.join_alt"])
    assert qr(at)[-1] == join
    assert at.code[-1].value == "http://192.168.1.20:8501/join"
    # Ended from another device.
    rooms().act(code, key, 1, "end")
    assert code in act(at, "teacher_print").warning[0].value
    assert "teacher_open" in session.keys_of(at, "teacher_open")


def test_paper_has_the_questions_and_the_answers_on_a_page_of_their_own():
    at = act(teacher(), "teacher_print")
    (paper,) = bodies(at, 'class="qv-paper"')
    asked, _, answers = paper.partition("qv-paper-answers")
    assert asked.count("▢ sure") == len(PLANS["single_hour"].stops)
    assert asked.count("qv-line") == asked.count("qv-asked")
    assert asked.count("qv-paper-ruler") > 0
    assert "3.578" in answers
    assert "3.578" not in asked


LESSON = Stop("lesson", "per_channel.which_axis")
OF_SCALE = Stop("lesson", "range_to_grid.scale")
DRAG = Stop("lesson", "rounding_against_clipping.least_error_int4")
OWN_DRAG = Stop("drag", "", ask="Drag it.")
OWN = Stop("choice", "", ask="Which?", options=("left", "right", "neither"))


def led(*stops):
    """A room with its acts."""
    room = rooms().open(Plan(stops))

    def acted(*acts):
        now = rooms().lead(room.code, room.key)
        for word in acts:
            now = rooms().act(now.code, now.key, now.version, word)
        return now

    return room, acted


def vote(room, *answers, stop=0, round=1):
    for number, answer in enumerate(answers):
        said = {"stop": stop, "round": round, "answer": answer, "sure": number % 2 == 0}
        rooms().answer(room.code, {**said, "device": f"d{number}"})


def wall(room):
    page, query = room.plan.stops[room.stop].address
    file = {"lab": "pages/lab/playground.py"}.get(page, f"pages/learn/{page}.py")
    return session.opened(file, **query, k=str(ON_WALL), room=room.code)


def bars(at):
    """The numbers on the bars of a wall, and which bar is marked as right."""
    (html,) = bodies(at, 'class="qv-votes"')
    found = [int(number) for number in re.findall(r"<strong>(\d+)</strong>", html)]
    return found, [bar.startswith(" qv-right") for bar in html.split('class="qv-bar')[1:]]


@pytest.mark.parametrize("stop", [LESSON, OWN], ids=["lesson", "own"])
def test_a_wall_has_no_counts_before_the_class_may_see_them(stop):
    room, acted = led(stop)
    vote(room, 1, 1, 0)
    assert bars(wall(room)) == ([], [False] * 3)
    acted("close")
    assert bars(wall(room)) == ([], [False] * 3)
    acted("again")
    vote(room, 1, 1, 1, 1, round=2)
    assert bars(wall(room))[0] == []
    acted("close")
    at = wall(room)
    assert bars(at)[0] == [0, 4, 0]
    assert bodies(at, "<em ")
    acted("tell")
    assert bars(wall(room)) == ([0, 4, 0], [False, stop is LESSON, False])


def known(at):
    """What a wall's browser is told of its stop and the room's version."""
    sent = next(each.proto for each in at.get("bidi_component") if each.proto.id.endswith("wall_sign"))
    data = json.loads(sent.json)
    return data["stop"], data["version"]


def away(*_, **__):
    raise QuantVizError("rooms.away", reason="Redis")


@pytest.mark.parametrize("ask", ["find", "seen_counts"])
def test_a_wall_whose_store_is_away_tells_nothing_and_looks_again(ask, monkeypatch):
    room, _ = led(OWN)
    monkeypatch.setattr(Rooms, ask, away)
    at = wall(room)
    assert known(at) == (-1, 0)
    assert not at.warning
    assert not bodies(at, 'class="qv-numbers"')


def found(at, room):
    """Tell the teacher's page of the room whose key its browser has."""
    desk = next(each.proto.id for each in at.get("bidi_component") if each.proto.id.endswith("teacher_desk"))
    found = {"event": "found", "value": {"code": room.code, "key": room.key}}
    session.healthy(send(at, events_of(desk, json.dumps([found]))))


def test_a_reload_while_the_store_is_away_keeps_the_lecturer_s_room(monkeypatch):
    room, _ = led(OWN)
    at = teacher()
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(Rooms, "lead", away)
        found(at, room)
        assert "The store of rooms does not answer" in at.warning[0].value
        assert "teacher_open" not in session.keys_of(at)
    found(at, room)
    assert not at.warning
    assert any(room.code in each.value for each in at.code)


def test_a_wall_that_runs_after_the_class_has_left_its_stop_still_hears_of_it():
    """A run that came between, as of a window's new width, would else know the newest version."""
    room, acted = led(LESSON, DRAG)
    at = wall(room)
    assert known(at) == (0, 1)
    acted("next")
    assert known(session.healthy(at.run())) == (0, 0)


def test_a_wall_never_shows_fewer_than_three_answers():
    room, acted = led(LESSON)
    vote(room, 1, 1)
    acted("close", "tell")
    at = wall(room)
    assert bars(at)[0] == []
    few = catalogue("en")["teacher.desk.few"].replace("{answered}", "2").replace("{fewest}", "3")
    assert bodies(at, few)


def votes_of(at, key):
    """The answers on a wall's ruler, as the browser draws them."""
    sent = next(each.proto for each in at.get("bidi_component") if each.proto.id.endswith(key))
    data = header(sent.bytes)
    return (data if "settings" in data else data["picture"])["settings"]["votes"]


def test_numbers_are_dots_on_an_axis_and_drags_on_the_rulers_own_with_the_truth_once_told():
    room, acted = led(OF_SCALE, DRAG)
    step, question = OF_SCALE.step("en")
    mistake = question.mistaken(step.scenes())[1]
    vote(room, 3.58, 3.58, mistake, 9.0)
    acted("close", "show")
    votes = votes_of(wall(room), "class_ruler")
    assert (len(votes["dots"]), votes["lines"]) == (3, [])
    acted("tell")
    assert {"✓ 3.58", "b"} <= {name for name, _ in votes_of(wall(room), "class_ruler")["lines"]}
    now = acted("next")
    start = DRAG.step("en")[0].scenes()[HERE].state
    to = [drag_answer(start, moved(start, {"kind": "range", "lo": -hi, "hi": hi})) for hi in (2.4, 2.5, 3.9)]
    vote(room, *to, "forged=%%", stop=1)
    assert votes_of(wall(now), "lesson_hand") is None
    acted("close", "tell")
    at = wall(now)
    votes = votes_of(at, "lesson_hand")
    # A forged text is nothing that was moved.
    assert sorted(round(place, 2) for place, _, _ in votes["dots"]) == [2.4, 2.5, 3.9, 3.9]
    assert [name for name, _ in votes["lines"]] == ["✓ 2.38"]
    assert bodies(at, "2 of 4 right")


@pytest.mark.parametrize("stop", [OWN, OWN_DRAG], ids=["choice", "drag"])
def test_an_own_question_over_the_lab_leaves_out_its_results_until_the_answer_is_shown(stop):
    def parts(at):
        keys = " ".join(each.proto.id for each in at.get("bidi_component"))
        return bool(bodies(at, 'class="qv-number')), "-hand" in keys

    room, acted = led(stop)
    assert parts(wall(room)) == (False, stop is OWN_DRAG)
    acted("tell")
    assert parts(wall(room)) == (True, True)


def test_the_tries_of_a_class_are_measured_once_for_all_sessions():
    hole, scheme = HOLES["bell"], "int4,symmetric,per_group(size=32),min_max,course"
    room, acted = led(Stop("hole", hole.id))
    vote(room, *[scheme] * 3)
    acted("close", "show")
    (board,) = bodies(wall(room), 'class="qv-board"')
    row = shared_fact((hole.source.key, f"golf {scheme}"), lambda: pytest.fail("measured again"))
    assert f"{row.sqnr_db:.2f} dB" in board


@pytest.mark.parametrize("kind", ["cell", "order"])
def test_clicks_are_heat_and_orders_a_board_with_the_right_one_once_told(kind):
    asked = (
        (Stop("lesson", f"{name}.{question.id}"), step, question)
        for name, lesson in sound_lessons().items()
        for step in lesson.steps
        for question in step.questions
    )
    stop, step, question = next(each for each in asked if each[2].kind == kind)
    truth = question.truth(step.scenes())
    right = [list(min(truth) if kind == "cell" else truth)]
    other = [[5, 5]] if kind == "cell" else [right[0][::-1]]
    room, acted = led(stop)
    vote(room, *right * 3, *other)
    acted("close", "show")
    at = wall(room)
    if kind == "cell":
        assert "<i " not in bodies(at, "qv-clicked")[0]
    else:
        assert "<b>3 ×</b>" in bodies(at, 'class="qv-board"')[0]
    acted("tell")
    at = wall(room)
    if kind == "cell":
        assert bodies(at, "qv-clicked")[0].count("<i ") == len(truth)
    assert any("The answer" in each.value for each in at.markdown)
