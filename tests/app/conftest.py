"""For tests that open pages without a browser."""

from functools import cache

import pytest


@pytest.fixture(scope="session", autouse=True)
def components_looked_for_once():
    """Streamlit reads what every installed package says of itself, in search of components, each time the app
    is opened: that was two thirds of these tests. The answer is the same for all of a process.
    """
    from streamlit.components.v2 import manifest_scanner

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            manifest_scanner, "scan_component_manifests", cache(manifest_scanner.scan_component_manifests)
        )
        yield


@pytest.fixture(scope="session", autouse=True)
def scripts_compiled_once():
    """A server compiles the app's scripts once for all of its sessions; a session under test would do so in
    each of its runs.
    """
    from streamlit.runtime.scriptrunner.script_cache import ScriptCache
    from streamlit.testing.v1 import app_test, local_script_runner

    kept = ScriptCache()
    with pytest.MonkeyPatch.context() as patch:
        for module in (app_test, local_script_runner):
            patch.setattr(module, "ScriptCache", lambda: kept)
        yield
