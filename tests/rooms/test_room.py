"""The room as a value: its acts, the votes that it takes, and what may be seen of them."""

import dataclasses

import pytest

from quantviz.errors import QuantVizError
from quantviz.rooms.plan import Asked, Plan, Stop
from quantviz.rooms.room import ACTS, FEWEST, PHASES, RoomCounts, new_room, read_room, write_table
from tests.helpers.room_plan import PLAN


@pytest.fixture
def room():
    return new_room("K7QF", "key", PLAN, 2e9)


def acted(room, *acts):
    for act in acts:
        room = room.acted(*act) if isinstance(act, tuple) else room.acted(act)
    return room


def test_peer_instruction(room):
    """Two rounds: nobody sees counts of one that goes on, and the class none before the second is over."""
    assert (room.turn.phase, room.turn.round, room.open) == ("ask", 1, ("here", "0.1"))
    assert not room.shows(0, 1, to_lecturer=True)
    closed = acted(room, "close")
    assert closed.open == ("here",)
    assert closed.shows(0, 1, to_lecturer=True)
    assert not closed.shows(0, 1)
    again = acted(closed, "again")
    assert (again.turn.phase, again.turn.round, again.open) == ("again", 2, ("here", "0.2"))
    assert not again.shows(0, 1)
    assert not again.shows(0, 2, to_lecturer=True)
    over = acted(again, "close")
    assert over.shows(0, 1)
    assert over.shows(0, 2)
    assert acted(over, "tell").turn.phase == "told"


def test_counts_are_shown_without_a_second_round_and_hidden_again_for_one(room):
    assert acted(room, "close", "show").shows(0, 1)
    assert acted(room, "tell").shows(0, 1)
    assert not acted(room, "close", "show", "again").shows(0, 1)


def test_the_class_goes_on_and_votes_that_are_left_close(room):
    further = acted(room, "next")
    assert (further.stop, further.open) == (1, ("here", "1.1"))
    assert further.turns[0].phase == "closed"
    back = acted(further, ("go", 0))
    assert back.open == ("here",)
    assert acted(room, ("go", 0)).open == room.open, "to where it is"
    assert acted(room, "look").looking
    assert not acted(room, "look", "next").looking


def test_an_own_pace_opens_the_stops_up_to_one(room):
    free = acted(room, ("pace", 2))
    assert free.open == ("here", "0.1", "1.1", "2.1")
    # The lecturer may look around meanwhile, and close a vote.
    assert acted(free, ("go", 1)).open == free.open
    assert acted(free, ("go", 1), "close").open == ("here", "0.1", "2.1")
    together = acted(free, ("go", 2), "gather")
    assert together.open == ("here", "2.1")
    assert [turn.phase for turn in together.turns] == ["closed", "closed", "ask", "ask", "ask"]


@pytest.mark.parametrize(
    ("before", "act", "key"),
    [
        (["close"], "close", "not_now"),
        (["again", "close"], "again", None),
        (["tell"], "again", "not_now"),
        ([], "show", "not_now"),
        ([("go", 4)], "next", "no_stop"),
        ([], ("go", 5), "no_stop"),
        ([], ("pace", -1), "no_stop"),
        ([], "erase", "act"),
    ],
)
def test_an_act_at_the_wrong_time_is_refused(room, before, act, key):
    ready = acted(room, *before)
    if key is None:
        assert acted(ready, act).turn.round == 2
        return
    with pytest.raises(QuantVizError) as caught:
        acted(ready, act)
    assert caught.value.key == f"rooms.{key}"
    assert caught.value.message("zh")


def test_each_act_is_one_version_and_a_record_comes_back(room):
    for act in ACTS:
        ready = acted(room, "close") if act == "show" else room
        after = acted(ready, act)
        assert after.version == ready.version + 1
        assert read_room(after.record()) == after
    assert {turn.phase for turn in room.turns} < set(PHASES)


@pytest.mark.parametrize("record", ["", "{}", "[1]", "[" * 9000])
def test_a_damaged_record_is_a_sentence(record):
    with pytest.raises(QuantVizError, match="damaged"):
        read_room(record)


SAID = {"stop": 0, "round": 1, "answer": 2, "sure": True, "device": "d1"}
FORGED = [
    *([], None, "x", 7, {}, {"stop": 0}),
    *({**SAID, "stop": each} for each in (-1, 1, 5, 10**30, "0", 0.0, True, None)),
    *({**SAID, "round": each} for each in (0, 2, 3, "1")),
    *({**SAID, "answer": each} for each in (-1, 3, 1.0, True, "1", None, [1], {}, float("nan"))),
    *({**SAID, "sure": each} for each in (1, "true", None)),
    *({**SAID, "device": each} for each in ("", "x" * 41, 1, None)),
    *({**SAID, "stop": 4, "answer": each} for each in (0, "", None)),
]


@pytest.mark.parametrize("said", FORGED, ids=range(len(FORGED)))
def test_a_forged_vote_is_refused(room, said):
    assert room.vote(SAID).place == "0.1"
    with pytest.raises(QuantVizError):
        room.vote(said)
    with pytest.raises(QuantVizError):
        acted(room, ("pace", 4)).vote(said if said != {**SAID, "stop": 1} else None)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("number", [2, -0.5], [float("inf"), 10**400, "2"]),
        ("cell", [[1, 2]], [[], [1.5], [-1, 0], [0] * 5, "12"]),
        ("order", [[2, 0, 1]], [[0, 1], [0, 1, 8]]),
        ("drag", ["s=int4"], ["x" * 301, 4]),
        ("scheme", ["int4"], [None]),
    ],
)
def test_an_answer_has_the_shape_of_its_question(room, kind, good, bad):
    asked = (Asked(kind, 3), *room.asked[1:])
    asking = dataclasses.replace(room, asked=asked)
    for answer in good:
        vote = asking.vote({**SAID, "answer": answer})
        assert RoomCounts.of([vote.stored] * FEWEST, asked[0]).rows == ((vote.answer, FEWEST, 0),)
    for answer in bad:
        with pytest.raises(QuantVizError):
            asking.vote({**SAID, "answer": answer})


def test_no_cell_of_the_table_is_a_formula():
    plan = Plan((Stop("hole", "bell"),))
    counts = {(0, 1): RoomCounts(3, (("=1+1", 2, 0), ("-2", 1, 0)))}
    table = write_table(new_room("K7QF", "key", plan, 2e9), counts, "en")
    assert [line.split(",")[6:8] for line in table.splitlines()[1:]] == [["'=1+1"] * 2, ["'-2"] * 2]


def test_the_table_has_a_row_for_each_answer(room):
    counts = {
        (0, 1): RoomCounts.of(["[0, true]", "[2, false]", "[2, true]"], room.asked[0]),
        (1, 1): RoomCounts(2),
    }
    assert write_table(room, counts, "en").splitlines() == [
        "stop,kind,at,question,round,answered,answer,words,sure,guessed",
        "1,choice,,choice,1,3,0,A · left,1,0",
        "1,choice,,choice,1,3,1,B · right,0,0",
        "1,choice,,choice,1,3,2,C · neither,1,1",
        "2,number,,number,1,2,,,,",
    ]
