"""A page's state: its link, its steps, and what stays where one is undone."""

from dataclasses import dataclass

import pytest

from quantviz.errors import QuantVizError
from quantviz.lab import page_state
from quantviz.lab.page_state import (
    LONGEST,
    SWITCH,
    History,
    PageState,
    codec,
    field,
    one_of,
    parts_of,
    whole_number,
)


@dataclass(frozen=True)
class Seen(PageState):
    page = "seen"

    name: str = field("a", link="n", codec=one_of(lambda: ("a", "b")), always=True)
    bits: int = field(4, link="b", codec=whole_number(16, 1))
    wide: bool = field(False, link="w", codec=SWITCH)
    #: Two parameters carry it.
    pair: tuple[int, int] = field(
        (0, 0),
        link={"x": codec(int, lambda pair: str(pair[0])), "y": codec(int, lambda pair: str(pair[1]))},
    )
    cell: int | None = field(None, link="c", codec=whole_number(99), looks=True, of="n")
    solved: tuple[int, ...] = field((), looks=True)


def test_a_link_has_what_differs_and_what_is_always_there():
    assert Seen().written() == {"n": "a"}
    assert Seen("b", 8, True, cell=0).written() == {"n": "b", "b": "8", "w": "1", "c": "0"}
    for state in (Seen(), Seen("b", 8, True, cell=0)):
        assert Seen.read(state.written()) == (state, ())


@pytest.mark.parametrize(
    ("params", "state", "reasons"),
    [
        ({"n": "c", "b": "8"}, Seen(bits=8), ["link.choice"]),
        ({"b": "17", "n": "b"}, Seen("b"), ["link.place"]),
        ({"b": "0"}, Seen(), ["link.place"]),
        ({"b": "²"}, Seen(), ["link.place"]),
        # What means nothing without another part goes with it, and is no problem of its own.
        ({"n": "c", "c": "5"}, Seen(), ["link.choice"]),
        ({"n": "c", "b": "x"}, Seen(), ["link.choice", "link.place"]),
        ({"lang": "en", "unknown": "1"}, Seen(), []),
    ],
)
def test_parts_that_cannot_be_used_are_named_and_left_out(params, state, reasons):
    found, problems = Seen.read(params)
    assert found == state
    assert [problem.params["reason"].key for problem in problems] == reasons
    assert {problem.key for problem in problems} <= {"link.part"}


def test_a_link_longer_than_any_of_ours_is_not_read():
    state, problems = Seen.read({"n": "b", "b": "8" * LONGEST})
    assert (state, [problem.key for problem in problems]) == (Seen(), ["link.too_long"])


def test_a_look_is_no_step_and_stays_where_a_step_is_undone():
    history = History(Seen()).take(Seen(cell=3))
    assert not history.can_undo
    history = history.take(history.now.replace(bits=8)).take(Seen(bits=8, cell=7))
    assert history.undo().now == Seen(cell=7)
    assert history.undo().redo().now == Seen(bits=8, cell=7)


def test_a_look_that_came_with_a_step_goes_with_it():
    history = History(Seen("a", cell=3)).take(Seen("b", cell=5))
    assert history.undo().now == Seen("a", cell=3)
    assert history.undo().redo().now == Seen("b", cell=5)


def test_a_step_after_an_undo_leaves_nothing_to_do_again():
    history = History(Seen()).take(Seen("b")).undo().take(Seen(bits=8))
    assert history.can_undo
    assert not history.can_redo
    assert history.redo() is history


def test_the_browsers_back_is_an_undo_and_forward_a_redo():
    history = History(Seen()).take(Seen("b")).take(Seen("b", 8))
    back = history.follow(Seen("b").written())
    assert (back.now, back.done, back.can_redo) == (Seen("b"), 1, True)
    assert back.follow(Seen("b", 8).written()) == history
    far = history.follow({"n": "a", "b": "9"})
    assert (far.now, far.done) == (Seen(bits=9), 3)
    # Where it cannot be had any more, the state stays, and the reason is said.
    gone = history.follow({"n": "a", "b": "0"})
    assert (gone.now, gone.steps, [each.key for each in gone.problems]) == (
        history.now,
        history.steps,
        ["link.part"],
    )


def test_what_no_link_carries_stays_where_the_browser_goes_back():
    history = History(Seen()).take(Seen("b")).take(Seen("b", solved=(1,)))
    assert history.follow({"b": "9"}).now == Seen(bits=9, solved=(1,))


def test_problems_of_a_link_are_there_until_something_is_chosen():
    history = History(Seen(), problems=(QuantVizError("link.choice", got="c", known=""),))
    assert history.take(Seen(cell=1)).problems
    assert not history.take(Seen("b")).problems
    assert not history.take(Seen("b")).undo().problems


def test_undo_reaches_back_to_the_first_state_that_is_gone():
    history = History(Seen())
    for bits in (1, 2, 3, 5):
        history = history.take(Seen(bits=bits))
    history = history.undo().reaching(lambda state: state.bits != 1)
    assert [step[0].bits for step in history.steps] == [2, 3]
    assert (history.undo().now.bits, history.undo().can_undo, history.redo().now.bits) == (2, False, 5)
    assert history.has_undone(Seen(bits=5))
    assert not history.has_undone(Seen(bits=3))


def test_a_step_to_a_refused_state_is_none():
    history = History(Seen()).take(Seen(bits=8))
    assert not history.without_step_to(Seen(bits=8)).can_undo
    assert history.without_step_to(Seen(bits=9)) is history


@dataclass(frozen=True)
class Around(PageState):
    page = "around"

    inner: Seen = field(Seen(), link=parts_of("inner", Seen))
    order: str = field("up", link="o", codec=one_of(lambda: ("up", "down")))


def test_a_state_within_a_state_has_links_steps_and_looks_of_its_own():
    state = Around(Seen("b", 8, cell=3), "down")
    assert state.written() == {"n": "b", "b": "8", "c": "3", "o": "down"}
    assert Around.read(state.written()) == (state, ())
    history = History(Around()).take(Around(Seen(cell=2)))
    assert not history.can_undo
    history = history.take(Around(Seen(bits=8, cell=2))).take(Around(Seen(bits=8, cell=9)))
    assert history.undo().now == Around(Seen(cell=9))


def test_undo_reaches_back_as_many_steps_as_are_kept(monkeypatch):
    monkeypatch.setattr(page_state, "MOST_STEPS", 4)
    history = History(Seen())
    for bits in range(1, 7):
        history = history.take(Seen(bits))
    while history.can_undo:
        history = history.undo()
    assert (history.now, len(history.steps)) == (Seen(2), 4)
