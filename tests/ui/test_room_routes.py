"""The addresses of rooms: their answers, and what they refuse."""

import json
import time
from types import SimpleNamespace

import pytest
import streamlit as st
from starlette.applications import Starlette
from starlette.testclient import TestClient

from quantviz.rooms.plan import Plan, Stop
from quantviz.rooms.serving import RoomLimits, Rooms
from quantviz.rooms.stores import RedisStore, SqliteStore
from quantviz.ui.shell.room_routes import KEY, RoomRoutes

PLAN = Plan(
    (
        Stop("choice", "", 3, ask="Which?", options=("left", "right")),
        Stop("lesson", "per_channel.which_axis"),
    )
)
JSON = {"content-type": "application/json"}


@pytest.fixture
def rooms():
    return Rooms(SqliteStore(), RoomLimits())


@pytest.fixture
def client(rooms):
    with TestClient(Starlette(routes=RoomRoutes(lambda: rooms).routes()), follow_redirects=False) as client:
        yield client


@pytest.fixture
def room(rooms):
    return rooms.open(PLAN)


def vote(**more):
    return {"stop": 0, "round": 1, "answer": 1, "sure": True, "device": "d1", **more}


def act(client, room, version, word, **more):
    said = {"act": word, "version": version, **more}
    return client.post(f"/room/{room.code}/act", json=said, headers={KEY: room.key})


def test_a_question_from_its_answers_to_its_counts(client, room):
    at = f"/room/{room.code}"
    for number in range(3):
        answer = client.post(f"{at}/answer", json=vote(device=f"d{number}"))
        assert (answer.status_code, answer.content) == (204, b"")
    news = client.get(f"{at}?v=0&device=d1")
    assert len(news.content) <= 400
    assert news.json() == {
        **{"version": 1, "stop": 0, "phase": "ask", "round": 1, "look": False, "pace": None},
        **{"answers": "withheld", "words": "Which?"},
    }
    unchanged = client.get(f"{at}?v=1&device=d1")
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    mine = client.get(at, headers={KEY: room.key}).json()
    assert (mine["here"], mine["answered"], mine["refused"], mine["rounds"]) == (1, 3, 0, [[]])
    assert act(client, room, 1, "close").json() == {"version": 2}
    assert "counts" not in client.get(f"{at}?v=1").json()
    mine = client.get(at, headers={KEY: room.key}).json()
    assert mine["rounds"] == [[[0, 0, 0, "A · left"], [1, 3, 0, "B · right"]]]
    assert act(client, room, 2, "tell").json() == {"version": 3}
    assert client.get(f"{at}?v=2").json()["counts"] == [[0, 0], [3, 0]]
    late = client.post(f"{at}/answer?lang=zh", json=vote())
    assert (late.status_code, late.json()["error"]) == (409, "rooms.closed")
    assert "投票" in late.json()["says"]
    assert act(client, room, 3, "next").json() == {"version": 4}
    assert "列" in client.get(f"{at}?v=3&lang=zh").json()["words"]
    assert act(client, room, 4, "end").json() == {"version": 0}
    assert client.get(f"{at}?v=4").status_code == 404


def test_join_leads_to_the_stop_that_runs(client, room):
    def leads(address):
        answer = client.get(address)
        assert (answer.status_code, answer.headers["cache-control"]) == (303, "no-store")
        return answer.headers["location"]

    assert leads(f"/join?c={room.code.lower()}") == f"/lab?ask=Which%3F&room={room.code}&lang=en"
    assert act(client, room, 1, "next").status_code == 200
    lesson = f"/lessons?l=per_channel&p=4&room={room.code}"
    assert leads(f"/join?c={room.code}") == f"{lesson}&lang=en"
    assert leads(f"/join?c={room.code}&lang=zh") == f"{lesson}&lang=zh"
    assert 'name="lang" value="zh"' in client.get("/join?lang=zh").text
    asked = client.get("/join", headers={"accept-language": "zh-CN,zh"})
    assert (asked.status_code, 'lang="zh"' in asked.text, 'role="alert"' in asked.text) == (200, True, False)
    wrong = client.get("/join?c=%22%3E%3C0")
    assert wrong.status_code == 404
    assert 'value="&quot;&gt;&lt;0"' in wrong.text
    assert "There is no room" in wrong.text


def test_the_counts_of_all_rounds_are_the_lecturers_alone(client, rooms, room):
    for number in range(3):
        client.post(f"/room/{room.code}/answer", json=vote(device=f"d{number}"))
    rooms.act(room.code, room.key, 1, "close")
    assert client.get(f"/room/{room.code}/table").status_code == 403
    table = client.get(f"/room/{room.code}/table", headers={KEY: room.key}).json()["csv"]
    assert len(table.splitlines()) == 3


#: Bodies that are no vote, with the answer's number.
FORGED = {
    "not JSON": (b"{", 415),
    "deep": (b"[" * 2000, 415),
    "long": (json.dumps(vote(more="x" * 3000)).encode(), 413),
    "a huge number": (b'{"stop": ' + b"9" * 1500 + b"}", 400),
    "another stop": (json.dumps(vote(stop=1)).encode(), 409),
    "no stop": (json.dumps(vote(stop=7)).encode(), 400),
    "another round": (json.dumps(vote(round=2)).encode(), 409),
    "no option": (json.dumps(vote(answer=2)).encode(), 400),
    "no device": (json.dumps(vote(device=None)).encode(), 400),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_answer_is_refused_with_a_sentence(client, rooms, room, name):
    body, status = FORGED[name]
    answer = client.post(f"/room/{room.code}/answer", content=body, headers=JSON)
    assert answer.status_code == status
    assert answer.json()["says"].endswith(".")
    assert rooms.counts(room, 0, 1).answered == 0
    assert rooms.lecturers_news(room, "en")["refused"] == 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({**JSON, "origin": "http://testserver"}, 204),
        ({"content-type": "application/json; charset=utf-8"}, 204),
        ({**JSON, "origin": "https://quant.example", "x-forwarded-host": "quant.example"}, 204),
        ({**JSON, "origin": "http://other.example"}, 403),
        ({**JSON, "origin": "null"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_no_other_site_can_send_an_answer(client, rooms, room, headers, status):
    answer = client.post(f"/room/{room.code}/answer", content=json.dumps(vote()), headers=headers)
    assert answer.status_code == status
    assert rooms.counts(room, 0, 1).answered == (status == 204)
    # A script of another site asks first whether it may, and is never told so.
    asked = client.options(f"/room/{room.code}/answer", headers={"origin": "http://other.example"})
    assert "access-control-allow-origin" not in asked.headers
    assert asked.status_code == 405


def test_acts_need_the_key_and_the_version_that_was_seen(client, room):
    at = f"/room/{room.code}/act"
    assert client.post(at, json={"act": "close", "version": 1}).status_code == 403
    assert client.post(at, json={"act": "close"}, headers={KEY: room.key}).status_code == 400
    assert act(client, room, 1, "rub").status_code == 400
    assert act(client, room, 9, "close").status_code == 409
    assert act(client, room, 1, "go", stop=1).json() == {"version": 2}
    assert client.get(f"/room/{room.code}", headers={KEY: "no"}).status_code == 403


def test_guesses_wait_and_a_class_does_not(client, rooms, room, monkeypatch):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    assert client.get(f"/room/{room.code}?device=d1").status_code == 200
    monkeypatch.setattr("quantviz.ui.shell.room_routes.asyncio.sleep", sleep)
    # The time that passes between two guesses would be taken off a wait.
    now = time.monotonic()
    clock = SimpleNamespace(monotonic=lambda: now, time=time.time)
    monkeypatch.setattr("quantviz.rooms.serving.time", clock)
    guesses = [client.get(f"/room/2{i:03}?device=d2").status_code for i in range(100)]
    assert set(guesses) == {404}
    assert min(slept[-10:]) > 5 * max(slept[:10])
    count = len(slept)
    # Who is in the room notices nothing, and a newcomer waits for a moment.
    assert client.get(f"/room/{room.code}?device=d1").status_code == 200
    assert client.post(f"/room/{room.code}/answer", json=vote()).status_code == 204
    assert len(slept) == count
    assert client.get(f"/room/{room.code}?device=d3").status_code == 200
    assert len(slept) == count + 1


def test_a_store_that_is_away_is_a_sentence_and_refuses_nobody():
    rooms = Rooms(RedisStore("redis://127.0.0.1:1/0"), RoomLimits())
    with TestClient(Starlette(routes=RoomRoutes(lambda: rooms).routes()), follow_redirects=False) as client:
        answer = client.get("/room/K7QF?device=d1", headers={"accept-language": "zh-CN"})
        assert answer.status_code == 503
        assert "存储没有响应：Redis" in answer.json()["says"]
        assert "127.0.0.1" not in answer.json()["says"]
        refused = []
        rooms.refuse = refused.append
        assert client.post("/room/K7QF/answer", json=vote()).status_code == 503
        assert refused == []
        assert client.get("/join?c=K7QF").status_code == 503


def test_rooms_lie_below_the_app_s_own_address(monkeypatch):
    monkeypatch.setattr(st, "get_option", lambda name: "quant/bits" if name == "server.baseUrlPath" else None)
    paths = [route.path for route in RoomRoutes(lambda: None).routes()]
    assert "/quant/bits/room/{code}/answer" in paths
    assert "/quant/bits/join" in paths


def test_the_app_has_these_addresses():
    import app

    assert {"/room/{code}", "/room/{code}/answer", "/join"} <= {route.path for route in app.routes}
