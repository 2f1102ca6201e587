"""The owner of a page's state in a session: reads it from the address, changes it, and writes it there."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.page_state import Codec, History, PageState
from quantviz.ui.shell import address, classroom, errors, run_facts
from quantviz.ui.shell.words import language

S = TypeVar("S", bound=PageState)


class PageOwner(Generic[S]):
    """The one place that changes a page's state: a session has it with its steps under one key."""

    def __init__(self, kind: type[S]) -> None:
        self._kind = kind

    @property
    def page(self) -> str:
        """Return the page's address below the app's."""
        return self._kind.page

    @property
    def key(self) -> str:
        """Return the key of the history in the session."""
        return f"{self._kind.page}_state"

    @property
    def is_begun(self) -> bool:
        """Return whether the session has a state of the page."""
        return self.key in st.session_state

    def history(self) -> History[S]:
        """Return the state with its steps: that of the address where this asks for one."""
        held = self._held()
        params = address.asked_for(self._kind.page, first=held is None)
        if params is not None or held is None:
            held = self.read(params or {}) if held is None else self.follow(held, params or {})
            self.keep(held)
        return held

    def read(self, params: Mapping[str, str]) -> History[S]:
        """Return the history with which a session begins at an address."""
        new, problems = self._kind.read(params, **self.codecs(()))
        return History(new, problems=problems)

    def follow(self, history: History[S], params: Mapping[str, str]) -> History[S]:
        """Return the history at the address to which the browser went back or forward."""
        return history.follow(params, **self.codecs(history.states))

    def codecs(self, states: Iterable[S]) -> dict[str, Codec]:
        """Return the codecs of parameters that a session reads in its own way, from the `states` that it has
        had, the present one last.
        """
        return {}

    @property
    def state(self) -> S:
        """Return the state."""
        return self.history().now

    @property
    def problems(self) -> tuple[QuantVizError, ...]:
        """Return the errors of the address's parts that could not be used, until something is chosen."""
        return self.history().problems

    @property
    def can_undo(self) -> bool:
        """Return whether there is a step to undo."""
        return self.history().can_undo

    @property
    def can_redo(self) -> bool:
        """Return whether there is a step that was undone."""
        return self.history().can_redo

    def change(self, **changes: Any) -> None:
        """Change fields of the state; see `put`."""
        self.put(self.state.replace(**changes))

    def put(self, new: S) -> None:
        """Take another state: a step that can be undone, unless it only differs in what is looked at."""
        history = self.history()
        if history.now.is_step_to(new):
            self.take(history.take(new))
        else:
            self.keep(history.take(new))

    def amend(self, new: S, *problems: QuantVizError) -> None:
        """Take a correction of the present state, which is no step, and the reasons for it."""
        history = self.history()
        self.keep(dataclasses.replace(history, now=new, problems=(*history.problems, *problems)))

    def open(self, new: S) -> None:
        """Take another state, as a step, on another page, whose address says nothing about this one."""
        held = self._held()
        self.take(History(new) if held is None else held.take(new))

    def undo(self) -> None:
        """Undo the last step that is not undone."""
        self.take(self.history().undo())

    def redo(self) -> None:
        """Do the step again that was undone last."""
        self.take(self.history().redo())

    def choose(self, name: str, form: str) -> None:
        """Take a choice of a hand: of a field's value by its form in links, or one of undo and redo."""
        acts = {"undo": self.undo, "redo": self.redo}
        if name in acts:
            acts[name]()
        else:
            self.put(self.state.reached(name, form))

    def show_link(self, shown: S | None = None, more: Mapping[str, str] = MappingProxyType({})) -> None:
        """Write the state to the address, or the part of it that is `shown`; `more` is not of its fields."""
        link = (shown or self.state).written()
        address.write({**more, **link, "lang": language(), **classroom.parameters()})

    def take(self, history: History[S]) -> None:
        """Take another history, and clear the messages about the state before."""
        errors.clear()
        self.keep(history)

    def keep(self, history: History[S]) -> None:
        """Keep another history."""
        run_facts.keep(self.key, history)

    def _held(self) -> History[S] | None:
        return run_facts.kept(self.key, None)
