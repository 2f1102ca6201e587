"""Streamlit's private parts that the app leans on: all of them, in one place.

Tried on the releases of Streamlit in `TRIED`. A test names the parts that another release has changed.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import json
import threading
import time
from collections.abc import Callable, Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import streamlit
import streamlit as st
from streamlit import runtime
from streamlit.navigation.page import StreamlitPage as StreamlitPage
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.WidgetStates_pb2 import WidgetState, WidgetStates
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.pages_manager import PagesManager
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.scriptrunner_utils.script_requests import ScriptRequestType
from streamlit.runtime.state import SafeSessionState
from streamlit.runtime.state.session_state import (
    Serialized,
    SessionState,
    Value,
    WStates,
)

#: Most bytes of a widget's message: as many as any text that is read. And the deepest nesting in it.
MOST_SAID = 2**24
DEEPEST_SAID = 32
#: The releases that all of this was tried on: those that the wheel's requirement spans.
TRIED = ("1.66.1", "1.67.0")
#: Seconds between two looks at a session that comes to rest.
_BETWEEN_LOOKS = 0.02
_MESSAGES = "browser_messages"


def use_navigation() -> None:
    """Have each run show the pages of `st.navigation`, from the first run of the process.

    Until that has run once, Streamlit takes the folder `pages/` for its old kind of multipage app, does not
    find the address `/lab`, and shows "Page not found" over the right page.
    """
    PagesManager.uses_pages_directory = False


def is_asked_for(default: StreamlitPage) -> bool:
    """Return whether this run shows the default page; call it before `st.navigation`."""
    context = get_script_run_ctx(suppress_warning=True)
    if context is None:
        return False
    manager = context.pages_manager
    wanted = manager.intended_page_script_hash
    return wanted == default._script_hash if wanted else not manager.intended_page_name


@cache
def drawing_script() -> str | None:
    """Return the name of the script with which the browser draws charts, beside Streamlit's own; none where
    this release has no such file.
    """
    folder = Path(streamlit.__file__).parent / "static" / "static" / "js"
    return next((path.name for path in folder.glob("PlotlyChart.*.js")), None)


def has_sessions() -> bool:
    """Return whether this process serves sessions; Streamlit's own tests of a page do not."""
    return runtime.exists() and hasattr(runtime.get_instance(), "_session_mgr")


def expire_sessions() -> set[str]:
    """Free sessions that were not resumed in time; return the ids of the remaining ones."""
    manager: Any = runtime.get_instance()._session_mgr
    with getattr(manager, "_storage_lock", contextlib.nullcontext()):  # 1.66 has none
        manager._session_storage._cache.expire()
    return {info.session.id for info in manager.list_sessions()}


async def has_come_to_rest(session: str, longest: float) -> bool:
    """Return whether the last run of a session that its browser has left has ended, or ends within `longest`
    seconds; what it had still to send is dropped.
    """
    manager: Any = runtime.get_instance()._session_mgr
    until = time.monotonic() + longest
    while True:
        left = manager._session_storage.get(session)
        if left is not None and left.session._scriptrunner is None:
            left.session.flush_browser_queue()
            return True
        if time.monotonic() > until or not (left or manager.is_active_session(session)):
            return False
        await asyncio.sleep(_BETWEEN_LOOKS)


def session_id() -> str:
    """Return the id of this run's session; "" outside of a session."""
    context = get_script_run_ctx(suppress_warning=True)
    return "" if context is None else context.session_id


def is_awaited() -> Callable[[], bool]:
    """Return a function that returns whether this run's session is still there and asks for nothing else."""
    context = get_script_run_ctx(suppress_warning=True)
    if context is None or not runtime.exists():
        return lambda: True
    session = context.session_id
    requests = context.script_requests

    def awaited() -> bool:
        waiting = requests is not None and requests._state is not ScriptRequestType.CONTINUE
        return not waiting and (not has_sessions() or runtime.get_instance().is_active_session(session))

    return awaited


def end_if_asked() -> None:
    """End this run where its session has left or asks for something else.

    Streamlit has a part of the page come to its end before it runs again: long work need not.
    """
    context = get_script_run_ctx(suppress_warning=True)
    if context is None:
        return
    requests = context.script_requests
    own = context.fragment_ids_this_run
    if own and requests is not None:
        with requests._lock:
            asked = requests._rerun_data
            waits = requests._state is ScriptRequestType.RERUN and not asked.is_auto_rerun
            if waits and set(own) <= set(asked.fragment_id_queue):
                requests._rerun_data = dataclasses.replace(asked, is_fragment_scoped_rerun=True)
    context.session_state._yield_callback()


def forget_parts_left_behind() -> None:
    """Forget requests for parts that are not on this run's page; call it at the end of a page.

    A part of the page that was left may have asked before that page's end: Streamlit would show nothing of
    either page.
    """
    context = get_script_run_ctx(suppress_warning=True)
    requests = None if context is None else context.script_requests
    if context is None or requests is None:
        return
    here = context.shared.new_fragment_ids.snapshot()
    with requests._lock:
        asked = requests._rerun_data
        if requests._state is ScriptRequestType.RERUN and asked.fragment_id_queue:
            parts = [each for each in asked.fragment_id_queue if each in here]
            requests._rerun_data = dataclasses.replace(asked, fragment_id_queue=parts)
            if not parts:
                requests._state = ScriptRequestType.CONTINUE


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Let the `with` block come to its end although the browser has sent another message meanwhile: Streamlit
    ends a run at its next look into the session's state where another message is waiting.
    """
    context = get_script_run_ctx(suppress_warning=True)
    if context is None:
        yield
        return
    state = context.session_state
    usual = state._yield_callback
    object.__setattr__(state, "_yield_callback", lambda: None)
    try:
        yield
    finally:
        object.__setattr__(state, "_yield_callback", usual)


@dataclasses.dataclass(eq=False)
class _Messages:
    """The messages of a session's browser that wait, in the order in which they came."""

    waiting: collections.deque[WidgetStates] = dataclasses.field(default_factory=collections.deque)
    #: Held while they are taken. Each of Streamlit's threads has a lock of its own.
    lock: threading.RLock = dataclasses.field(default_factory=threading.RLock)
    #: The number of runs that have begun.
    runs: int = 0
    #: The last run that sent or named each large message, by its hash.
    sent: dict[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, eq=False)
class _LargeMessages:
    """The large messages that the browser surely still has when this run's answer comes.

    The browser says which ones it has when it asks for a run, and Streamlit then only names them. Until the
    answer comes, other runs end, and at each end the browser drops old ones: without a named one it stands
    still.
    """

    told: Collection[str]
    messages: _Messages
    #: Runs for which the browser keeps a message.
    kept: int

    def __contains__(self, message: str) -> bool:
        last = self.messages.sent.get(message)
        self.messages.sent[message] = now = self.messages.runs
        return last is not None and now - last < self.kept and message in self.told

    def __iter__(self) -> Iterator[str]:
        return iter(self.told)


def _begin_run(messages: _Messages) -> None:
    """Have this run send large messages again that the browser may drop before they come."""
    context: Any = get_script_run_ctx(suppress_warning=True)
    if context is None:
        return
    kept: int = st.get_option("global.maxCachedMessageAge")
    messages.runs += 1
    messages.sent = {each: run for each, run in messages.sent.items() if messages.runs - run < kept}
    context.cached_message_hashes = _LargeMessages(tuple(context.cached_message_hashes), messages, kept)


def _messages_of(session: SessionState) -> _Messages:
    if _MESSAGES not in session:
        session[_MESSAGES] = _Messages()
    return cast(_Messages, session[_MESSAGES])


@st.cache_resource(show_spinner=False)
def take_messages_whole() -> bool:
    """Have every callback come to its end, whichever widget calls it, and each message of the browser count
    once, as one action of a person, in the order in which they came.

    Streamlit does not run a callback again that it has ended: of two quick clicks, or of a click and a new
    width of the window, the first would be lost, or half of its effect. It makes one message of those that
    wait, in which a choice and an undo have no order, and takes others in threads of their own, of which
    either may come first.
    """
    usual = SafeSessionState.on_script_will_rerun
    usual_request = AppSession.request_rerun

    def noted(session: AppSession, client_state: ClientState | None) -> None:
        if client_state is not None:
            states = WidgetStates()
            states.CopyFrom(client_state.widget_states)
            client_state.widget_states.Clear()
            _messages_of(session._session_state).waiting.append(states)
        usual_request(session, client_state)

    def whole(state: SafeSessionState, fresh: WidgetStates | None, *args: Any, **kwargs: Any) -> None:
        messages = _messages_of(state._state)
        _begin_run(messages)
        with messages.lock, uninterrupted():
            while len(messages.waiting) > 1:
                usual(state, messages.waiting.popleft())
            # Of a message that another thread has taken nothing is left.
            said = messages.waiting.popleft() if messages.waiting else fresh
            usual(state, said, *args, **kwargs)

    setattr(SafeSessionState, "on_script_will_rerun", whole)  # noqa: B010 (a method of theirs)
    setattr(AppSession, "request_rerun", noted)  # noqa: B010 (a method of theirs)
    return True


def _key_of(widget_id: str) -> str:
    """Return the key that the app gave a widget; "" or "None" where it gave none."""
    return widget_id.split("-", 2)[-1]


@st.cache_resource(show_spinner=False)
def read_what_widgets_say(_drop: Callable[[str, str, object], None]) -> bool:
    """Replace an unreadable message of a widget by none, and pass it to `_drop` with its kind and widget.

    Streamlit reads a message where the widget's value is first needed: before the page, where it would show a
    traceback, or in the middle of it.
    """
    usual = WStates.__getitem__

    def readable(states: WStates, widget_id: str) -> Any:
        held = states.states.get(widget_id)
        about = states.widget_metadata.get(widget_id)
        if not isinstance(held, Serialized) or about is None:
            return usual(states, widget_id)
        with contextlib.suppress(Exception):
            if held.value.ByteSize() <= MOST_SAID and (names := _names_of(held.value)) is not None:
                value = usual(states, widget_id)
                if not _is_deeper(value, DEEPEST_SAID):
                    # Streamlit passes over these in silence.
                    if names - set(about.callbacks or ()):
                        with uninterrupted():
                            _drop("unknown name", _key_of(widget_id), held)
                    return value
        with uninterrupted():
            _drop(held.value.WhichOneof("value") or "", _key_of(widget_id), held)
        nothing = about.deserializer(None)
        states.states[widget_id] = Value(nothing)
        return nothing

    setattr(WStates, "__getitem__", readable)  # noqa: B010 (a method of theirs)
    return True


def _names_of(widget: WidgetState) -> set[str] | None:
    """Return the names in a component's message, of the parts of its state or of its events; None where it
    has not Streamlit's form, which ignores others.
    """
    match widget.WhichOneof("value"):
        case "json_value":
            state = json.loads(widget.json_value)
            return set(state) if isinstance(state, dict) else None
        case "json_trigger_value":
            events = json.loads(widget.json_trigger_value)
            if events is None:
                return set()
            names: list[Any] = [each.get("event") if isinstance(each, dict) else None for each in events]
            well_formed = isinstance(events, list) and all(isinstance(name, str) for name in names)
            return set(names) if well_formed else None
        case _:
            return set()


def _is_deeper(value: object, most: int) -> bool:
    """Return whether lists and mappings lie inside one another more than `most` deep."""
    level = [value]
    for _ in range(most + 1):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list | tuple)
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, dict | list | tuple)
        ]
        if not level:
            return False
    return True
