"""The room of a class that a phone is in: the stop that its page shows, and when lessons show their answers.

The one place of a session that owns it. The room's code stands in each address (`classroom.parameters`). The
browser asks for the room's news and sends votes itself (`quantviz/browser/room.js`): a page follows the class
by one run, and no vote waits for one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qsl

import streamlit as st

from quantviz.browser.messages import Unfit, decoded
from quantviz.errors import QuantVizError
from quantviz.lab.classroom import RESULTS
from quantviz.lab.state import LabState
from quantviz.ui.components.component import component, last_message
from quantviz.ui.shell import session
from quantviz.ui.shell.address import WENT, go_on, page_shown, turn_to
from quantviz.ui.shell.classroom import PROMPT, classroom, enter, parameters, withhold
from quantviz.ui.shell.startup import run_queue
from quantviz.ui.shell.words import language, say

if TYPE_CHECKING:
    from quantviz.rooms.room import Room

_SEEN = "room_seen"
#: How the page answers the stop's question, once it has said so in its run.
_OFFERED = "room_offered"
_RUN = "room_run"
_SCRIPT = "room"
#: The scripts of the pages that stops are on.
_PAGES: Mapping[str, str] = MappingProxyType(
    {
        "lessons": "pages/learn/lessons.py",
        "lab": "pages/lab/playground.py",
        "layers": "pages/explore/layers.py",
        "bugs": "pages/learn/bugs.py",
        "golf": "pages/learn/golf.py",
    }
)
#: Pages whose address changes with each move of a hand: a phone at the page is at the stop.
_MOVED = ("lab", "layers")
#: The height of the bar in pixels, and the last sign that is as wide as a Latin letter.
_BAR = 48
_NARROW = 0x2E80


@dataclass(frozen=True)
class Seen:
    """The room as the session saw it last."""

    #: None where its store did not answer yet.
    room: Room | None = None
    #: The stop that the page shows.
    stop: int = 0
    #: Whether there is no such room any more: the page is one as any other.
    ended: bool = False

    @property
    def is_told(self) -> bool:
        """Return whether the lecturer shows the answer to the stop."""
        return self.room is not None and self.room.tells(self.stop)

    def is_at(self, lesson: str | None, step: int) -> bool:
        """Return whether the stop is a step of a lesson, counted from 0."""
        at = ("lessons", {"l": lesson, "p": str(step + 1)})
        return self.room is not None and self.room.plan.stops[self.stop].address == at


def _seen() -> Seen | None:
    """Return the room of the session; None where it is in none, as on the wall, or where it has ended."""
    seen: Seen | None = st.session_state.get(_SEEN)
    return None if seen is None or seen.ended or classroom().projector else seen


def answers(lesson: str | None = None, step: int = 0) -> str:
    """Return when lessons show their answers, of `quantviz.lab.classroom.ANSWERS`; here at a step, if given.

    In a room the lecturer shows them, stop by stop, or lets each see them after an own answer.
    """
    seen = _seen()
    usual = classroom().answers
    if seen is None or seen.room is None or usual == "shown":
        return usual
    return "shown" if seen.is_told and seen.is_at(lesson, step) else seen.room.answers


def round_of(lesson: str | None, step: int, question: int | str) -> int | None:
    """Return the round, from 0, in which the class is asked a question, and 0 once the answer is shown; None
    where it is not the stop's.
    """
    seen = _seen()
    if seen is None or seen.room is None or not seen.is_at(lesson, step):
        return None
    if seen.room.plan.stops[seen.stop].at != f"{lesson}.{question}":
        return None
    return 0 if seen.is_told else seen.room.turns[seen.stop].round - 1


def offer(**answer: Any) -> None:
    """Tell the browser how the page answers the stop's question: its `kind`, the `key` of its control, its
    `place` in its step, the answer that was `read` of it, and the `vote` that was committed in a `round` from
    0: an answer, and whether it was sure.
    """
    st.session_state[_OFFERED] = answer


def voted() -> tuple[int, Any, bool] | None:
    """Return the vote on its stop that the phone has sent and the session has lost, as by a restart of the
    server: the round from 0, the answer, and whether it was sure. None where there is no such vote.
    """
    from quantviz.rooms.room import frozen

    seen, said = _seen(), last_message(_SCRIPT, _SCRIPT, "voted")
    if said is None or seen is None or seen.room is None or said["stop"] != seen.stop:
        return None
    shape = seen.room.asked[seen.stop].answers
    with contextlib.suppress(Unfit):
        if shape is not None:
            return said["round"] - 1, frozen(decoded(shape, said["answer"])), said["sure"]
    return None


def withhold_results(room: Room, stop: int) -> None:
    """Leave out the Lab's results of a question of the lecturer's own until the answer is shown; a drag keeps
    its ruler.
    """
    kind = room.plan.stops[stop].kind
    left_out = RESULTS - {"number_line"} if kind == "drag" else RESULTS
    asks = kind in ("choice", "number", "drag") and not room.tells(stop)
    withhold(left_out if asks else frozenset())


def golf_hole() -> str | None:
    """Return the hole that the class plays; None where it does something else."""
    seen = _seen()
    stop = seen.room.plan.stops[seen.stop] if seen and seen.room else None
    return stop.at if stop and stop.kind == "hole" else None


# ---- following the class ---------------------------------------------------------------------------


def begin() -> None:
    """Look for the room of a session's first address, and turn to the class's stop from any other place."""
    st.session_state[_OFFERED] = {}
    room = classroom()
    if not room.room or room.projector or _SEEN in st.session_state:
        return
    seen = _look(None, Seen(), stranger=True)
    st.session_state[_SEEN] = seen
    enter(dataclasses.replace(room, prompt=""))  # the question stands above the page
    if seen.room is not None:
        here = next((i for i in (seen.stop, *range(len(seen.room.turns))) if is_shown(seen.room, i)), None)
        st.session_state[_SEEN] = dataclasses.replace(seen, stop=seen.stop if here is None else here)
        if here is None:
            _turn(seen.room, seen.stop)
            go_on()


def is_shown(room: Room, stop: int) -> bool:
    """Return whether the class may be at a stop, and the page is the stop's."""
    page, query = room.plan.stops[stop].address
    wanted = {name: value for name, value in query.items() if name != PROMPT and page not in _MOVED}
    there = page == page_shown() and wanted.items() <= st.query_params.to_dict().items()
    return there and room.is_reached(stop)


def _look(wanted: int | None, before: Seen, *, stranger: bool = False) -> Seen:
    """Return the room as it is now, at the stop that is wanted where a phone may be there."""
    from quantviz.rooms.serving import rooms  # needs all lessons

    try:
        with run_queue().leave():  # others run meanwhile: a store may be away
            if stranger and (seconds := rooms().gate.wait()):
                time.sleep(seconds)
            room = rooms().find(classroom().room)
    except QuantVizError as problem:
        return dataclasses.replace(before, ended=problem.key in ("rooms.unknown", "rooms.damaged"))
    reached = wanted is not None and wanted < len(room.turns) and room.is_reached(wanted)
    return Seen(room, wanted if reached and wanted is not None else room.stop)


def _turn(room: Room, stop: int) -> None:
    page, query = room.plan.stops[stop].address
    query.pop(PROMPT, None)
    turn_to(_PAGES[page], {**query, **parameters(), "lang": language(), WENT: "1"})


def _follow(message: Mapping[str, Any]) -> None:
    """Show the stop that the phone asks for, else that of the class, as the room has it now."""
    before: Seen | None = st.session_state.get(_SEEN)
    if before is None:
        return
    wanted = message["stop"]
    now = _look(wanted, before)
    st.session_state[_SEEN] = now
    if now.room and (wanted is not None or now.stop != before.stop or not is_shown(now.room, now.stop)):
        _turn(now.room, now.stop)


# ---- on the page -----------------------------------------------------------------------------------


@contextlib.contextmanager
def shown() -> Iterator[None]:
    """Show the room's bar above the page that is run meanwhile."""
    seen: Seen | None = st.session_state.get(_SEEN)
    if seen is None or classroom().projector:
        yield
        return
    st.html(Path(__file__).with_name("in_room.css"))
    if seen.room is None or seen.ended:
        withhold(frozenset() if seen.ended else RESULTS)
    else:
        withhold_results(seen.room, seen.stop)
    # At once: a page may take its time.
    with st.container(key="class_room"):
        _mount(_SCRIPT, _facts(seen), _height(seen))
        offered = st.container(key="class_offered")
    yield
    with offered:
        # With the number of the run, or a browser would not hear of one that changes nothing.
        run = st.session_state[_RUN] = st.session_state.get(_RUN, 0) + 1
        _mount(f"{_SCRIPT}_offered", {"offered": [seen.stop, st.session_state[_OFFERED], run]})


def _height(seen: Seen) -> int | Literal["content"]:
    """Return the height in pixels of the bar, with a question of the lecturer's own that no browser has drawn
    yet; the browser's own where the store is away, and only the browser knows of one.
    """
    if seen.room is None:
        return "content"
    stop = seen.room.plan.stops[seen.stop]
    if not stop.ask:
        return _BAR
    lines = [
        -(-sum(2 if ord(sign) > _NARROW else 1 for sign in each) // 38) for each in (stop.ask, *stop.options)
    ]
    form = 68 + 28 * lines[0] + sum(max(44, 24 * count) for count in lines[1:])
    return _BAR + form + {"number": 52, "drag": 28}.get(stop.kind, 0)


def _mount(key: str, data: Mapping[str, Any], height: int | Literal["content"] = "content") -> None:
    mount = component("quantviz_room", _SCRIPT, isolated=False)
    mount(key=key, data=data, height=height, on_follow_change=_follow)


def _facts(seen: Seen) -> dict[str, Any]:
    """Return the facts of the room that `room.js` shows."""
    data: dict[str, Any] = {
        "code": classroom().room,
        "language": language(),
        "ended": seen.ended,
        "stop": None,
        "own": None,
        "hand": None,
        "words": {name: say(f"room.phone.{name}") for name in _WORDS}
        | {"sure": say("lessons.commit"), "guess": say("lessons.commit_guess")},
    }
    if seen.room is not None:
        turn, stop = seen.room.turns[seen.stop], seen.room.plan.stops[seen.stop]
        data |= {"version": seen.room.version, "stop": seen.stop, "stops": len(seen.room.turns)}
        data |= {"round": turn.round, "phase": turn.phase, "answers": seen.room.answers}
        if stop.ask:
            data["own"] = {"kind": stop.kind, "words": stop.ask, "options": stop.options}
        if stop.kind == "drag":
            data["hand"] = _dragged(stop.at)
    return data


def _dragged(at: str) -> str | None:
    """Return the drag in the Lab, from the state at the link's query `at`, as an answer; None before it."""
    from quantviz.teaching.lessons.drags import drag_answer

    start, now = LabState.read(dict(parse_qsl(at)))[0], session.state()
    answer = drag_answer(start, now)
    return answer if answer != drag_answer(start, start) else None


#: Words of `room.js`.
_WORDS = (
    *("stop", "back", "onward", "look", "next", "away", "ended", "sending", "unsent", "counted", "closed"),
    *("counted_closed", "told", "again", "first", "missing", "number", "drag"),
)
