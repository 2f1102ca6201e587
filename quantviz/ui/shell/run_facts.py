"""Facts of a session that stay while a run goes on: looked up once a run, however many parts ask."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar

import streamlit as st

T = TypeVar("T")

#: The facts of the run, or of the callback, of this thread; None where none has begun yet.
_FACTS: ContextVar[dict[str, Any] | None] = ContextVar("facts", default=None)


def begin() -> None:
    """Look for the facts anew, at the start of a run or a callback."""
    _FACTS.set({})


def fact(key: str, find: Callable[[], T]) -> T:
    """Return the run's fact `key`, found by `find` once a run."""
    facts = _FACTS.get()
    if facts is None:
        return find()
    if key not in facts:
        facts[key] = find()
    found: T = facts[key]
    return found


def kept(key: str, usual: T) -> T:
    """Return the value that the session keeps under `key`; else the usual one."""
    facts = _FACTS.get()
    if facts is None:
        facts = {}  # of this question alone
    if key not in facts:
        facts[key] = st.session_state.get(key, usual)
    value: T = facts[key]
    return value


def keep(key: str, value: object) -> None:
    """Keep a value in the session, for this run and later ones."""
    st.session_state[key] = value
    facts = _FACTS.get()
    if facts is not None:
        facts[key] = value


def forget(key: str) -> None:
    """Find the run's fact `key` anew when it is asked for."""
    (_FACTS.get() or {}).pop(key, None)
