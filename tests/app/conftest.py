"""For tests that open pages without a browser."""

import io
import pickle
from functools import cache, partial

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


@pytest.fixture(scope="session", autouse=True)
def runs_awaited_without_looks():
    """Streamlit's own tests look a thousand times a second whether a run has ended, and take its turn from it
    each time.
    """
    from streamlit.testing.v1 import local_script_runner

    usual = local_script_runner.require_widgets_deltas

    def waited(runner, timeout=3):
        runner._script_thread.join(timeout)
        usual(runner, 0.1 if runner.script_stopped() else 0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_script_runner, "require_widgets_deltas", waited)
        yield


@pytest.fixture(autouse=True)
def long_work_done_here():
    """A process of its own would know nothing of what a test sets, and each worker would start one. What is
    sent and what comes back is pickled all the same.
    """
    from quantviz import jobs
    from quantviz.budget import TimeBudget

    def answered(runner, job):
        work = pickle.loads(pickle.dumps(job.work, protocol=5))
        # A job's thread is its own, and so is this.
        jobs._ASK.set(partial(jobs._answered, job) if job.cost.confined else None)
        stream = io.BytesIO()
        jobs._Pickler(stream, protocol=5).dump(jobs._done(work, jobs.Cost(), TimeBudget(1e9)))
        read = jobs._TypedData if job.cost.confined else pickle.Unpickler
        return read(io.BytesIO(stream.getvalue())).load()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs.Jobs, "_answer", answered)
        yield
