"""Rooms as a server keeps them: any order of messages, guessed codes, news, counts, two lecturers."""

import contextlib
import dataclasses
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from quantviz.errors import QuantVizError
from quantviz.rooms.plan import PLANS, Plan, Stop
from quantviz.rooms.room import SIGNS, RoomCounts
from quantviz.rooms.serving import LONGEST_NEWS, RoomGate, RoomLimits, Rooms
from quantviz.rooms.stores import SqliteStore
from quantviz.text import languages
from tests.helpers.room_plan import PLAN


def vote(stop=0, round=1, answer=0, sure=True, device="d1"):
    return {"stop": stop, "round": round, "answer": answer, "sure": sure, "device": device}


def acted(rooms, room, *acts):
    for act in acts:
        room = rooms.act(room.code, room.key, room.version, *(act if isinstance(act, tuple) else (act,)))
    return room


def test_a_room_has_a_code_that_can_be_read_aloud(rooms, room):
    assert len(room.code) == 4
    assert set(room.code) <= set(SIGNS)
    assert not set("01ILOU") & set(SIGNS)
    assert rooms.find(room.code.lower()) == room
    with pytest.raises(QuantVizError) as caught:
        rooms.find("000000")
    assert caught.value.key == "rooms.unknown"


DEVICES = ("a", "b", "c", "d")
MESSAGES = some.lists(
    some.one_of(
        some.builds(
            vote,
            stop=some.integers(0, 2),
            round=some.integers(1, 2),
            answer=some.integers(0, 3),
            sure=some.booleans(),
            device=some.sampled_from(DEVICES),
        ),
        some.sampled_from(("close", "again", "tell", "next", ("go", 0), ("pace", 1), "gather")),
    ),
    max_size=40,
)


@settings(max_examples=60)
@given(MESSAGES)
def test_in_any_order_of_messages_the_last_answer_before_closing_counts(messages):
    """Whatever a device sends, when and how often."""
    rooms = Rooms(SqliteStore(), RoomLimits())
    room = rooms.open(PLAN)
    last = {}
    for each in messages:
        if not isinstance(each, dict):
            with contextlib.suppress(QuantVizError):  # not now
                room = acted(rooms, room, each)
            continue
        turn = room.turns[each["stop"]]
        reached = each["stop"] == room.stop or (room.pace is not None and each["stop"] <= room.pace)
        counted = reached and turn.phase in ("ask", "again") and each["round"] == turn.round
        # The first has three options, the second takes any number, the third no number at all.
        if counted and (each["stop"], each["answer"]) != (0, 3) and each["stop"] < 2:
            rooms.answer(room.code, each)
            rooms.answer(room.code, each)  # sent again, for its acknowledgement was lost
            last[each["stop"], each["round"], each["device"]] = (float(each["answer"]), each["sure"])
        else:
            with pytest.raises(QuantVizError):
                rooms.answer(room.code, each)
    for stop in range(2):
        for round in (1, 2):
            given_now = [value for place, value in last.items() if place[:2] == (stop, round)]
            counts = rooms.counts(room, stop, round)
            assert counts.answered == len(given_now)
            if len(given_now) >= 3:
                rows = {(float(a), True): sure for a, sure, _ in counts.rows}
                rows |= {(float(a), False): guessed for a, _, guessed in counts.rows}
                assert {row: count for row, count in rows.items() if count} == {
                    value: given_now.count(value) for value in given_now
                }


def test_counts_are_seen_when_they_may_be(rooms, room):
    for number in range(4):
        rooms.answer(room.code, vote(answer=number % 2, sure=number > 0, device=f"d{number}"))
    assert rooms.seen_counts(room, 0, to_lecturer=True) == [RoomCounts(4)], "nothing while it is open"
    closed = acted(rooms, room, "close")
    hidden, seen = (rooms.seen_counts(closed, 0, to_lecturer=each) for each in (False, True))
    assert (hidden, seen[0].rows) == ([RoomCounts(4)], ((0, 1, 1), (1, 2, 0), (2, 0, 0)))
    again = acted(rooms, closed, "again")
    for number in range(2):
        rooms.answer(room.code, vote(round=2, answer=2, device=f"d{number}"))
    over = acted(rooms, again, "close")
    first, second = rooms.seen_counts(over, 0, to_lecturer=False)
    assert (first, second) == (seen[0], RoomCounts(2)), "two could find out each other"
    assert rooms.table(over).splitlines()[1:] == [
        "1,choice,,choice,1,4,0,A · left,1,1",
        "1,choice,,choice,1,4,1,B · right,2,0",
        "1,choice,,choice,1,4,2,C · neither,0,0",
        "1,choice,,choice,2,2,,,,",
    ]


@pytest.mark.parametrize("language", languages())
def test_news_are_short_and_have_the_words_of_the_question(rooms, language):
    room = rooms.open(PLANS["double_hour"])
    for _ in PLANS["double_hour"].stops[1:]:
        room = acted(rooms, room, "tell", "next")
        for number in range(200):
            device = f"{number}-{room.stop}"
            answers = {"choice": 0, "number": 1.5, "drag": "s=int4", "scheme": "int4"}
            if room.asked[room.stop].kind:
                said = vote(room.stop, 1, answers[room.asked[room.stop].kind], device=device)
                rooms.answer(room.code, said)
        shown = acted(rooms, room, "tell", ("pace", 11))
        room = shown
        news = rooms.news(shown, language)
        assert len(news) <= LONGEST_NEWS
        said = json.loads(news)
        assert (said["version"], said["stop"], said["phase"]) == (shown.version, shown.stop, "told")
        assert said["words"] == dict(shown.asked[shown.stop].words)[language]
        if shown.asked[shown.stop].kind == "choice":
            assert said["counts"][0] == [200, 0]


def test_long_words_are_cut(rooms, room):
    asked = with_words(room, "很长的问题" * 60)
    news = rooms.news(asked, "zh")
    assert LONGEST_NEWS - 8 < len(news) <= LONGEST_NEWS
    assert json.loads(news)["words"].endswith("…")


def with_words(room, words):
    first = dataclasses.replace(room.asked[0], words=(("zh", words),))
    return dataclasses.replace(room, asked=(first, *room.asked[1:]))


def test_two_devices_that_lead_never_act_twice_on_one_sight(rooms, room):
    acted(rooms, room, "next")
    for act in ("next", "close"):
        with pytest.raises(QuantVizError) as caught:
            acted(rooms, room, act)
        assert caught.value.key == "rooms.moved_on"
    assert rooms.find(room.code).stop == 1
    with pytest.raises(QuantVizError) as caught:
        rooms.act(room.code, "not the key", 2, "close")
    assert caught.value.key == "rooms.key"


def test_a_room_that_ended_is_gone_with_its_votes(rooms, room):
    rooms.answer(room.code, vote())
    assert acted(rooms, room, "end") is None
    for ask in (lambda: rooms.find(room.code), lambda: rooms.answer(room.code, vote())):
        with pytest.raises(QuantVizError) as caught:
            ask()
        assert caught.value.key == "rooms.unknown"
    assert rooms.store.votes(room.code, "0.1") == {}


def test_who_is_there_and_refused_is_counted(rooms, room, monkeypatch):
    for device in ("d1", "d2", "d2", "d3"):
        rooms.find(room.code, device)
    rooms.lead(room.code, room.key)
    rooms.answer(room.code, vote())
    for code in (room.code, room.code.lower(), "2222"):
        rooms.refuse(code)
    news = {"here": 3, "answered": 1, "refused": 2, "rounds": [[]]}
    assert rooms.lecturers_news(room, "en") == news
    assert rooms.knows(room.code, "d1")
    assert not rooms.knows("2222", "d1")
    later = time.time() + 20
    monkeypatch.setattr(time, "time", lambda: later)
    rooms.find(room.code, "d3")
    assert rooms.lecturers_news(room, "en")["here"] == 1


def test_another_server_goes_on_with_the_room(tmp_path):
    one, other = (Rooms(SqliteStore(tmp_path / "rooms.sqlite"), RoomLimits()) for _ in range(2))
    room = one.open(PLAN)
    one.answer(room.code, vote())
    other.answer(room.code, vote(device="d2"))
    after = acted(other, room, "close")
    assert one.find(room.code) == after
    assert one.counts(after, 0, 1).answered == 2


def test_codes_that_are_guessed_slow_down_strangers_and_lock_out_nobody(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    gate = RoomGate()
    for _ in range(30):
        gate.wrong()
    assert gate.wait() == 0, "people mistype"
    gaps = []
    for _ in range(6):
        for _ in range(20):
            gate.wrong()
        clock[0] += 30
        gaps.append(gate.wait())
    assert gaps == sorted(gaps)
    assert gaps[-1] > 0
    for _ in range(200):
        gate.wrong()
    waits = [gate.wait() for _ in range(79)]
    assert waits == sorted(waits), "one after the other"
    assert 7.5 < waits[-1] <= 8
    with pytest.raises(QuantVizError) as caught:
        gate.wait()
    assert caught.value.key == "rooms.wait"
    clock[0] += 600
    assert gate.wait() == 0, "forgiven"


def test_the_settings_are_the_operators(monkeypatch, tmp_path):
    from quantviz.rooms import serving

    monkeypatch.setenv("QUANTVIZ_ROOM_ROOMS", "1")
    monkeypatch.setenv("QUANTVIZ_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("QUANTVIZ_REDIS_URL", raising=False)
    found = serving.rooms.__wrapped__()
    found.open(PLAN)
    with pytest.raises(QuantVizError) as caught:
        found.open(PLAN)
    assert caught.value.key == "rooms.full"
    assert (tmp_path / "rooms" / "rooms.sqlite").is_file()
    monkeypatch.setenv("QUANTVIZ_ROOM_ROOMS", "many")
    with pytest.raises(QuantVizError, match="QUANTVIZ_ROOM_ROOMS"):
        serving.rooms.__wrapped__()


def test_a_plan_with_a_stop_that_is_none_opens_no_room(rooms):
    with pytest.raises(QuantVizError, match="Stop 2"):
        rooms.open(Plan((PLAN.stops[0], Stop("lesson", "no.such"))))


LEAVES = some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=5)
SAID = some.recursive(LEAVES, lambda inner: some.lists(inner, max_size=3), max_leaves=5)


@settings(max_examples=60)
@given(some.fixed_dictionaries(dict.fromkeys(("stop", "round", "answer", "sure", "device"), SAID)))
def test_whatever_a_browser_sends_is_a_vote_or_a_sentence(said):
    rooms = Rooms(SqliteStore(), RoomLimits())
    room = rooms.act(*(lambda room: (room.code, room.key, 1, "pace", 4))(rooms.open(PLAN)))
    for stop in range(5):
        for parts in (said, {**vote(stop), "answer": said["answer"]}, {**vote(stop), "stop": said["stop"]}):
            with contextlib.suppress(QuantVizError):
                rooms.answer(room.code, parts)
        assert rooms.counts(room, stop, 1).answered <= 1
