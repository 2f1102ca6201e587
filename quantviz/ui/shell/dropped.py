"""Messages of the browser that do not fit: dropped, and counted for the server's operator.

The page shows nothing of it. A browser with our pages sends no such message, so it is either damaged or an
attack.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import cast

import streamlit as st

_KEY = "dropped_messages"
#: Most places whose last message is kept.
_MOST_PLACES = 8


@dataclass(eq=False)
class Dropped:
    """The messages of a session that were dropped."""

    count: int = 0
    #: The last one of each kind and widget: it is looked at several times in a run.
    last: dict[tuple[str, str], object] = field(default_factory=dict)


def begin() -> None:
    """Have the session count dropped messages. Call it before any message of the browser is read: in the
    midst of that nothing can be put into a session.
    """
    st.session_state.setdefault(_KEY, Dropped())


def drop(what: str, key: str, said: object) -> None:
    """Count a message that is dropped, once however often it is looked at.

    `what` is its kind, `key` its widget. The server's log has a line for the first of a session, the
    second, the fourth and so on: it does not grow with an attack.
    """
    counts = dropped()
    place = (what, key)
    if counts.last.get(place) is said:
        return
    counts.last.pop(place, None)
    counts.last[place] = said
    if len(counts.last) > _MOST_PLACES:
        del counts.last[next(iter(counts.last))]
    counts.count += 1
    if counts.count & (counts.count - 1) == 0:
        logging.getLogger("quantviz").warning(
            "a message of the browser was dropped, for it does not fit: %s (%d in this session)",
            what,
            counts.count,
        )


def dropped() -> Dropped:
    """Return this session's counts of dropped messages."""
    return cast(Dropped, st.session_state.get(_KEY) or Dropped())
