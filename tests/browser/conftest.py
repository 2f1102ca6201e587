"""A browser, a server and pages for the tests that drive the app as a person does."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHOTS = Path(__file__).parent / "shots"
#: Set where a browser must be there: then its absence fails instead of skipping.
REQUIRED = "QUANTVIZ_REQUIRE_BROWSER"
#: Streamlit is waiting for a person.
IDLE = "[data-testid=stApp][data-test-script-state=notRunning]"
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


def chromium_path():
    named = os.environ.get("CHROMIUM")
    found = named or next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    return found if found and Path(found).exists() else None


@pytest.fixture(scope="session")
def browser():
    """One Chromium for all tests."""
    path = chromium_path()
    if path is None:
        reason = "no Chromium found; set CHROMIUM to its path, or install Debian's chromium"
        pytest.fail(reason) if os.environ.get(REQUIRED) == "1" else pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=list(_FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def serve(tmp_path_factory):
    """`serve(path_to_app)` starts a Streamlit server for it, once, and gives its address."""
    running = {}
    with contextlib.ExitStack() as stack:

        def start(app):
            app = Path(app).resolve()
            if app not in running:
                running[app] = stack.enter_context(_server(app, tmp_path_factory.mktemp("server") / "log"))
            return running[app]

        yield start


@contextlib.contextmanager
def _server(app, log, host="127.0.0.1"):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", str(app), "--server.port", str(port), "--server.address", host, "--server.headless", "true"]
    options = ["--browser.gatherUsageStats", "false", "--server.fileWatcherType", "none", "--runner.magicEnabled", "false", "--client.toolbarMode", "viewer"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen([*command, *options], cwd=ROOT, env=env, stdout=output, stderr=subprocess.STDOUT)
        try:
            _wait_until_healthy(process, port, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(timeout=20)


def _wait_until_healthy(process, port, log):
    for _ in range(300):
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=1):
            return
        time.sleep(0.2)
    pytest.fail(f"the server did not start:\n{log.read_text(encoding='utf-8')}")


@pytest.fixture
def new_page(browser):
    """`new_page(width, height, theme, language=None, touch=False)` opens an empty page in a context of its own.

    What the page writes to the console as an error, and every exception in it, fails the test at its end.
    """
    contexts, complaints = [], []

    def open_page(width=1366, height=625, theme="light", language=None, touch=False):
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme, locale=language or "en-US", has_touch=touch)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(45_000)
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" and not _streamlits_own(message) else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not complaints, complaints


def _streamlits_own(message):
    """Below /lab Streamlit asks for its own files in two places, one of which is not there; for the other see cold_start.py."""
    return "_stcore" in message.location["url"] or "Running the app's main page" in message.text


@pytest.fixture
def shot(request):
    """`shot(page, name)` saves a screenshot where it can be looked at; the folder is not in git."""

    def save(page, name):
        SHOTS.mkdir(exist_ok=True)
        page.screenshot(path=SHOTS / f"{request.node.path.stem}_{name}.png")

    return save


def wait_idle(page):
    """Until the script has run and stays still."""
    page.wait_for_selector(IDLE)
    page.wait_for_timeout(250)
    page.wait_for_selector(IDLE)
