"""What of Streamlit is not public and leaned on all the same: what another release has changed is said by
name.
"""

import ast
import contextlib
import dataclasses
import re
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest
import streamlit
from streamlit import config
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.WidgetStates_pb2 import WidgetState, WidgetStates
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.memory_session_storage import MemorySessionStorage
from streamlit.runtime.pages_manager import PagesManager
from streamlit.runtime.scriptrunner_utils.script_requests import (
    RerunData,
    ScriptRequests,
    ScriptRequestType,
)
from streamlit.runtime.scriptrunner_utils.script_run_context import ScriptRunContext
from streamlit.runtime.session_manager import SessionManager
from streamlit.runtime.state import SafeSessionState
from streamlit.runtime.state.common import WidgetMetadata
from streamlit.runtime.state.query_params import QueryParams
from streamlit.runtime.state.session_state import SessionState
from streamlit.runtime.websocket_session_manager import WebsocketSessionManager
from streamlit.testing.v1 import AppTest

from quantviz.ui.shell import streamlit_private
from tests.helpers.code import nodes, parsed
from tests.helpers.session import APP

ROOT = Path(__file__).parents[2]
#: Streamlit's own, as this module is collected: before any app runs.
USUAL = [
    (kind, name, vars(kind)[name])
    for kind, name in ((SafeSessionState, "on_script_will_rerun"), (AppSession, "request_rerun"))
]


def test_it_was_tried_on_the_release_that_is_installed():
    assert version("streamlit") in streamlit_private.TRIED, (
        "try all of quantviz/ui/shell/streamlit_private.py on the new release, then add it to TRIED"
    )


def test_what_it_leans_on_is_there():
    assert isinstance(PagesManager.uses_pages_directory, bool | None)
    assert callable(SessionManager.list_sessions)
    manager = WebsocketSessionManager(MemorySessionStorage(), None, None, None)
    with getattr(manager, "_storage_lock", contextlib.nullcontext()):
        manager._session_storage._cache.expire()
    assert manager._session_storage.get("left") is None
    assert callable(AppSession.flush_browser_queue)
    assert "_scriptrunner" in AppSession.__init__.__code__.co_names


def test_the_script_that_draws_is_where_it_was():
    scripts = Path(streamlit.__file__).parent / "static" / "static" / "js"
    name = streamlit_private.drawing_script()
    assert name
    assert [path.name for path in scripts.glob("PlotlyChart.*.js")] == [name]
    assert (scripts / name).stat().st_size > 10**6


def page_of_two_steps():
    import streamlit as st
    from streamlit.runtime.scriptrunner import get_script_run_ctx
    from streamlit.runtime.scriptrunner_utils.script_requests import RerunData

    from quantviz.ui.shell.streamlit_private import take_messages_whole

    take_messages_whole()

    def both():
        st.session_state["first"] = 1
        # As if the browser had sent the next message just now.
        get_script_run_ctx().script_requests.request_rerun(RerunData())
        st.session_state["second"] = 2

    st.button("Both", key="both", on_click=both)


@pytest.fixture
def streamlits_own():
    """Messages as Streamlit takes them: an app that ran before in this process has put ours there."""

    def put_back():
        for kind, name, method in USUAL:
            setattr(kind, name, method)
        streamlit_private.take_messages_whole.clear()

    put_back()
    yield
    put_back()


@pytest.mark.usefixtures("streamlits_own")
def test_any_callback_comes_to_its_end_although_another_message_arrives():
    """Of two quick clicks the first was lost, and of a click while the window changed its width: Streamlit
    ends a callback where it next looks into the session's state.
    """
    at = AppTest.from_function(page_of_two_steps, default_timeout=120).run()
    at.button(key="both").click().run()
    assert not at.exception
    assert (at.session_state["first"], at.session_state["second"]) == (1, 2)


def page_with_an_address():
    import streamlit as st

    from quantviz.ui.shell import address

    address.arrive("page")
    bits = st.session_state.setdefault("bits", 4)
    st.selectbox("bits", [4, 8], key="bits")
    address.write({"bits": str(bits)})


@pytest.mark.usefixtures("streamlits_own")
def test_the_address_before_is_written_again_over_the_one_on_its_way(monkeypatch):
    """A choice and its opposite, quickly: the address bar kept the first, which was on its way."""
    at = AppTest.from_function(page_with_an_address, default_timeout=120).run()
    at.selectbox(key="bits").select(8).run()
    sent = []
    monkeypatch.setattr(QueryParams, "_send_query_param_msg", lambda self: sent.append(self.to_dict()))
    at.query_params["bits"] = "4"
    sent.clear()
    at.selectbox(key="bits").select(4).run()
    assert sent == [{"bits": "4"}]
    at.run()
    assert len(sent) == 1


def test_a_large_message_that_the_browser_may_have_dropped_is_sent_again(monkeypatch):
    """Quick hands, an answer late: a run that ended meanwhile dropped one that the next answer only named,
    and the page stood still.
    """
    assert "cached_message_hashes" in {each.name for each in dataclasses.fields(ScriptRunContext)}
    kept = config.get_option("global.maxCachedMessageAge")
    messages = streamlit_private._Messages()
    context = SimpleNamespace()
    monkeypatch.setattr(streamlit_private, "get_script_run_ctx", lambda **_: context)

    def is_only_named(message, *told):
        context.cached_message_hashes = frozenset(told)
        streamlit_private._begin_run(messages)
        return message in context.cached_message_hashes

    assert not is_only_named("panels", "panels"), "nobody has sent it in this session"
    assert is_only_named("panels", "panels")
    assert not is_only_named("panels"), "the browser does not have it"
    for _ in range(kept - 2):
        is_only_named("others")
    assert is_only_named("panels", "panels")
    for _ in range(kept - 1):
        is_only_named("others")
    assert not is_only_named("panels", "panels"), "it goes with the run before"
    assert is_only_named("panels", "panels")


def test_messages_that_wait_are_taken_one_by_one_in_their_order(streamlits_own, monkeypatch):
    """Streamlit made one of a choice and an undo, which then had no order, and took others in threads of
    their own: two quick ones came in the other order.
    """
    taken = []
    monkeypatch.setattr(AppSession, "request_rerun", lambda session, client_state: None)
    monkeypatch.setattr(
        SessionState, "_call_callbacks", lambda state, **_: taken.append((state["bits"], state["undo"]))
    )
    streamlit_private.take_messages_whole()
    session = SessionState()
    for name, kind in (("undo", "trigger_value"), ("bits", "int_value")):
        session._set_widget_metadata(WidgetMetadata(name, lambda said: said, lambda value: value, kind))
    sent = [(8, False), (8, True), (4, False)]
    for bits, undo in sent:
        widgets = [WidgetState(id="undo", trigger_value=undo), WidgetState(id="bits", int_value=bits)]
        message = ClientState(widget_states=WidgetStates(widgets=widgets))
        AppSession.request_rerun(SimpleNamespace(_session_state=session), message)
    for _ in range(2):  # of a message that one thread has taken another takes nothing
        SafeSessionState(session, lambda: None).on_script_will_rerun(WidgetStates())
    assert taken == [*sent, (4, False)]


def test_nothing_private_of_streamlit_is_used_elsewhere():
    for path in [*(ROOT / "quantviz").rglob("*.py"), *(ROOT / "pages").rglob("*.py"), ROOT / "app.py"]:
        if path.name == "streamlit_private.py":
            continue
        for node in nodes(path):
            if isinstance(node, ast.ImportFrom) and re.match(r"streamlit\.(?!testing)", node.module or ""):
                raise AssertionError(f"{path.name} imports {node.module}")
            private = (
                isinstance(node, ast.Attribute)
                and node.attr.startswith("_")
                and not node.attr.startswith("__")
            )
            assert not (private and getattr(node.value, "id", "") in ("st", "runtime")), path.name


@pytest.mark.parametrize(
    ("own", "asked", "ends"),
    [
        (["part"], {"fragment_id": "part"}, True),
        (["part"], {}, True),
        # What another part is asked, what the whole page is at, and a timer's look can wait.
        (["part"], {"fragment_id": "other"}, False),
        (None, {"fragment_id": "part"}, False),
        (["part"], {"fragment_id": "part", "is_auto_rerun": True}, False),
    ],
)
def test_long_work_of_a_part_ends_where_the_part_is_asked_to_run_again(monkeypatch, own, asked, ends):
    requests = ScriptRequests()
    requests.request_rerun(RerunData(**asked))
    answers = []
    state = SimpleNamespace(_yield_callback=lambda: answers.append(requests.on_scriptrunner_yield()))
    context = SimpleNamespace(fragment_ids_this_run=own, script_requests=requests, session_state=state)
    monkeypatch.setattr(streamlit_private, "get_script_run_ctx", lambda **_: context)
    streamlit_private.end_if_asked()
    assert [answer is not None for answer in answers] == [ends]


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ([{"fragment_id": "left"}], None),
        ([{"fragment_id": "here"}], ["here"]),
        ([{"fragment_id": "left"}, {"fragment_id": "here"}], ["here"]),
        # The whole page is to run again.
        ([{"fragment_id": "left"}, {}], []),
    ],
)
def test_a_part_of_a_page_that_was_left_does_not_run(monkeypatch, asked, kept):
    """It asked before the next page had come to its end: of that nothing was shown."""
    requests = ScriptRequests()
    for each in asked:
        requests.request_rerun(RerunData(**each))
    here = SimpleNamespace(snapshot=lambda: {"here"})
    context = SimpleNamespace(shared=SimpleNamespace(new_fragment_ids=here), script_requests=requests)
    monkeypatch.setattr(streamlit_private, "get_script_run_ctx", lambda **_: context)
    streamlit_private.forget_parts_left_behind()
    answer = requests.on_scriptrunner_ready()
    if kept is None:
        assert answer.type is ScriptRequestType.STOP
    else:
        assert answer.rerun_data.fragment_id_queue == kept


def page_of_one_part():
    import streamlit as st
    from streamlit.runtime.scriptrunner import get_script_run_ctx
    from streamlit.runtime.scriptrunner_utils.script_requests import RerunData

    from quantviz.ui.shell.streamlit_private import forget_parts_left_behind

    @st.fragment
    def part():
        st.text("part")

    part()
    context = get_script_run_ctx()
    if "asked" not in st.session_state:
        st.session_state["asked"] = True
        for name in (*context.shared.new_fragment_ids.snapshot(), "left"):
            context.script_requests.request_rerun(RerunData(fragment_id=name))
        forget_parts_left_behind()
        st.session_state["waits"] = len(context.script_requests._rerun_data.fragment_id_queue)


def test_a_part_of_the_page_itself_runs():
    at = AppTest.from_function(page_of_one_part, default_timeout=120).run()
    assert not at.exception
    assert at.session_state["waits"] == 1


def test_every_choice_is_drawn_by_the_browser():
    """Streamlit's own hold words, of a tensor before or of another language: no module goes back to them."""
    widgets = {"selectbox", "radio", "segmented_control", "pills", "multiselect", "menu_button"}
    widgets |= {"select_slider", "slider", "feedback"}
    top = APP.parent
    for path in [APP, *(top / "pages").rglob("*.py"), *(top / "quantviz" / "ui").rglob("*.py")]:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                assert node.func.attr not in widgets, f"{path.name}:{node.lineno}"
