"""The owner of a page's state in a session: reads it from the address, changes it, and writes it there."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar, cast

import streamlit as st

from quantviz.errors import QuantVizError
from quantviz.lab.page_state import Codec, History, PageState
from quantviz.ui.shell import address, classroom, errors
from quantviz.ui.shell.words import language

S = TypeVar("S", bound=PageState)


class PageOwner(Generic[S]):
    """The one place that changes a page's state: a session has it with its steps under one key."""

    def __init__(self, kind: type[S]) -> None:
        self._kind = kind
        self._key = f"{kind.page}_state"

    def history(self) -> History[S]:
        """Return the state with its steps: that of the address where this asks for one."""
        held = cast("History[S] | None", st.session_state.get(self._key))
        params = address.asked_for(first=held is None)
        if params is None and held is not None:
            return held
        if held is None:
            new, problems = self._kind.read(params or {}, **self.codecs())
            held = History(new, problems=problems)
        else:
            held = held.follow(params or {}, **self.codecs())
        self._keep(held)
        return held

    def codecs(self) -> dict[str, Codec]:
        """Return the codecs of parameters that a session reads in its own way."""
        return {}

    @property
    def state(self) -> S:
        """Return the state."""
        return self.history().now

    @property
    def problems(self) -> tuple[QuantVizError, ...]:
        """Return the errors of the address's parts that could not be used, until something is chosen."""
        return self.history().problems

    def change(self, **changes: Any) -> None:
        """Change fields of the state: a step that can be undone, unless they are only what is looked at."""
        self.put(self.state.replace(**changes))

    def put(self, new: S) -> None:
        """Take another state, as a step."""
        self._take(self.history().take(new))

    def amend(self, new: S, *problems: QuantVizError) -> None:
        """Correct the present state, which is no step, and keep the `problems` that it had."""
        history = self.history()
        self._keep(dataclasses.replace(history, now=new, problems=(*history.problems, *problems)))

    def open(self, new: S) -> None:
        """Take the state that another page has chosen: no step leads to it."""
        self._take(History(new))

    def undo(self) -> None:
        """Undo the last step that is not undone."""
        self._take(self.history().undo())

    def redo(self) -> None:
        """Do the step again that was undone last."""
        self._take(self.history().redo())

    def show_link(self, shown: S | None = None, more: Mapping[str, str] = MappingProxyType({})) -> None:
        """Write the state to the address, or the part of it that is `shown`; `more` is not of its fields."""
        link = (shown or self.state).written()
        address.write({**more, **link, "lang": language(), **classroom.parameters()})

    def _take(self, history: History[S]) -> None:
        errors.clear()
        self._keep(history)

    def _keep(self, history: History[S]) -> None:
        st.session_state[self._key] = history
