"""A script of the program is served until its process ends."""

from types import SimpleNamespace

from streamlit import runtime
from streamlit.runtime.media_file_manager import MediaFileManager
from streamlit.runtime.memory_media_file_storage import MemoryMediaFileStorage
from streamlit.runtime.scriptrunner_utils import script_run_context

from quantviz.ui.shell import streamlit_private
from quantviz.ui.shell.streamlit_private import serve_file


def test_a_run_that_ends_before_it_comes_to_a_script_keeps_it(monkeypatch):
    """A browser that still fetched it got a 404, and the component never came."""
    storage = MemoryMediaFileStorage("/media")
    manager = MediaFileManager(storage)
    session = SimpleNamespace(session_id="one")
    monkeypatch.setattr(runtime, "exists", lambda: True)
    monkeypatch.setattr(runtime, "get_instance", lambda: SimpleNamespace(media_file_mgr=manager))
    for module in (streamlit_private, script_run_context):
        monkeypatch.setattr(module, "get_script_run_ctx", lambda suppress_warning=False: session)
    address = serve_file(b"export default 1", "text/javascript", "script one")
    # As Streamlit begins a run, and ends it.
    manager.clear_session_refs("one")
    manager.remove_orphaned_files()
    assert storage.get_file(address.rsplit("/", 1)[1]).content == b"export default 1"
    manager.add(b"a person's own", "text/plain", "upload")
    manager.clear_session_refs("one")
    manager.remove_orphaned_files()
    assert len(manager._file_metadata) == 1, "what a session uses goes with it"
