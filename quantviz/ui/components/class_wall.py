"""The wall of a room: the stop that this window shows, and the class's answers as far as it may see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.figures.numbers import number
from quantviz.lab.classroom import RESULTS
from quantviz.lab.share_links import only_here, write_address
from quantviz.text import templates
from quantviz.ui.components.clipboard import app_for_all, qr_source
from quantviz.ui.components.component import component
from quantviz.ui.components.in_room import is_shown, withhold_results
from quantviz.ui.shell.classroom import wall, withhold
from quantviz.ui.shell.startup import run_queue
from quantviz.ui.shell.words import language, say, say_error

if TYPE_CHECKING:
    from quantviz.rooms.plan import Stop
    from quantviz.rooms.room import Answer, Room, RoomCounts

#: In the session: the stop that the window was opened at, and how it stands.
_STOP = "wall_stop"
_RUNNING = "wall_running"


@dataclass(frozen=True)
class Running:
    """A room's stop on the wall."""

    room: Room
    #: The counts of its rounds; without rows those that the class may not see.
    rounds: tuple[RoomCounts, ...]
    #: The answers that the page's ruler shows, as `ruler/votes.js` draws them.
    on_ruler: Mapping[str, Any] | None = None

    @property
    def told(self) -> bool:
        """Return whether the answer is shown."""
        return self.room.tells(self.room.stop)

    @property
    def rows(self) -> tuple[tuple[Answer, int, int], ...]:
        """Return each answer of the last round with how many were sure of it and how many guessed."""
        return self.rounds[-1].rows

    @property
    def before(self) -> tuple[tuple[Answer, int, int], ...]:
        """Return the same of the first round, where there was a second one that is over."""
        return self.rounds[0].rows if len(self.rounds) > 1 and self.rows else ()

    @property
    def stands_over(self) -> bool:
        """Return whether its question stands over the Lab or on golf, not in a step of a lesson."""
        return bool(self.room.asked[self.room.stop].kind) and self.stop.kind != "lesson"

    @property
    def stop(self) -> Stop:
        """Return the stop of the plan."""
        return self.room.plan.stops[self.room.stop]

    @property
    def few(self) -> bool:
        """Return whether counts would be shown, but are of too few answers."""
        return self.room.shows(self.room.stop, self.room.turn.round) and not self.rows


def running() -> Running | None:
    """Return the stop that this window shows on the wall; None where it follows no room."""
    return cast("Running | None", st.session_state.get(_RUNNING)) if wall() else None


def votes_on_ruler() -> Mapping[str, Any] | None:
    """Return the answers of the class that rulers show; None where there are none."""
    there = running()
    return there.on_ruler if there else None


def ruler_votes(
    now: Running,
    places: Mapping[Answer, float],
    on: str,
    truth: float | None = None,
    mistakes: Mapping[str, float] = MappingProxyType({}),
) -> Mapping[str, Any] | None:
    """Return the answers with a place for `ruler/votes.js`, with the signs of mistakes; None without any."""
    dots, before = (
        [(places[answer], *counts) for answer, *counts in part if answer in places]
        for part in (now.rows, now.before)
    )
    told = [] if truth is None else [(f"✓ {number(truth, 3)}", truth)]
    lines = [*mistakes.items(), *told]
    return {"on": on, "dots": dots, "before": before, "lines": lines, "told": truth} if dots else None


def put_on_ruler(places: Mapping[Answer, float], on: str, truth: float | None = None) -> None:
    """Have rulers show the dragged answers of the stop by their places, and the true one: on the `axis`, or
    below the slider `bits` or `group`.
    """
    there = cast("Running", running())
    st.session_state[_RUNNING] = replace(there, on_ruler=ruler_votes(there, places, on, truth))


def show_wall() -> None:
    """Show the room's code in the corner, and follow it."""
    from quantviz.rooms.serving import rooms

    st.html(Path(__file__).with_name("class_wall.css"))
    code, version, stop = wall(), 0, -1
    try:
        with run_queue().leave():
            room = rooms().find(code)
        # Each stop is a page of its own: one that the class has left stays as it was until the browser goes.
        if _STOP not in st.session_state and is_shown(room, room.stop):
            st.session_state[_STOP] = room.stop
        stop = st.session_state.get(_STOP, -1)
        if stop == room.stop:
            with run_queue().leave():
                rounds = rooms().seen_counts(room, stop, to_lecturer=False)
            st.session_state[_RUNNING] = Running(room, tuple(rounds))
            withhold_results(room, stop)
            version = room.version
    except QuantVizError as problem:
        if problem.key != "rooms.away":
            st.warning(say_error(problem))
            return
        # The browser says so, and turns to the class's stop once the store answers.
        withhold(RESULTS)
        stop = -1
    join = write_address(app_for_all(), "join", {"c": code})
    with st.container(key="class_corner"):
        component("quantviz_wall", "wall_component")(
            key="wall_sign",
            data={
                "code": code,
                # A run after the class has left the stop: the browser has still to hear of it.
                "version": version,
                "stop": stop,
                "language": language(),
                "words": dict(templates("teacher.desk", language())),
                "source": "" if only_here(join) else qr_source(join),
                "alt": say("teacher.join_alt"),
            },
            height="content",
        )
