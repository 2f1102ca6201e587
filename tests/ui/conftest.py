"""Pages without the app: what their functions keep, say, and offer, in a session that is a dict."""

from types import SimpleNamespace

import pytest
import streamlit as st

from quantviz.lab.classroom import Classroom
from quantviz.ui.shell import run_facts


@pytest.fixture
def session(monkeypatch):
    """What the session of somebody keeps who speaks English."""
    monkeypatch.setattr(st, "session_state", kept := {"language": "en", "classroom": Classroom()})
    # A run looks its facts up once; what a test changes here is seen at once.
    monkeypatch.setattr(run_facts, "_FACTS", SimpleNamespace(get=lambda: None, set=lambda _: None))
    return kept


@pytest.fixture
def said(monkeypatch, session):
    """All words on the page, each with what has them."""
    found = []
    for kind in ("caption", "code", "error", "html", "info", "markdown", "success", "warning"):
        monkeypatch.setattr(st, kind, lambda words, *_, kind=kind, **__: found.append((kind, words)))
    return found


@pytest.fixture
def pressed(monkeypatch, session):
    """The buttons of a page by their keys, each with its label and what a press does; a grey one does
    nothing.
    """
    found = {}

    def note(label, *, key, on_click=None, args=(), disabled=False, **_):
        found[key] = label, None if disabled else lambda: on_click(*args)

    monkeypatch.setattr(st, "button", note)
    return found
