"""Streamlit's private parts that the app leans on: all of them, in one place.

Tried on Streamlit `TRIED`. A test names what another release has changed.
"""

from __future__ import annotations

from typing import Any

from streamlit import runtime
from streamlit.runtime.pages_manager import PagesManager

#: The release that all of this was tried on.
TRIED = "1.67.0"


def pages_are_unknown() -> bool:
    """Return whether Streamlit still takes the folder `pages/` for its old kind of multipage app: until `st.navigation` has run once."""
    return bool(PagesManager.uses_pages_directory)


def has_sessions() -> bool:
    """Return whether this process serves sessions; Streamlit's own tests of a page do not."""
    return runtime.exists() and hasattr(runtime.get_instance(), "_session_mgr")


def expire_sessions() -> set[str]:
    """Let go of sessions that nobody came back to in time; return the ids of those that are left."""
    manager: Any = runtime.get_instance()._session_mgr
    with manager._storage_lock:
        manager._session_storage._cache.expire()
    return {info.session.id for info in manager.list_sessions()}
