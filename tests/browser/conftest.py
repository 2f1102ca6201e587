"""A browser, a server and pages for the tests that drive the app as a person does."""

import contextlib
import os
from pathlib import Path

import pytest

from tests.helpers.browser import FLAGS, chromium_path, server

SHOTS = Path(__file__).parent / "shots"
#: Set where a browser must be there: then its absence fails instead of skipping.
REQUIRED = "QUANTVIZ_REQUIRE_BROWSER"


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser():
    """One Chromium for all tests."""
    path = chromium_path()
    if path is None:
        reason = "no Chromium found; set CHROMIUM to its path, or install Debian's chromium"
        pytest.fail(reason) if os.environ.get(REQUIRED) == "1" else pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
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
                running[app] = stack.enter_context(server(app, tmp_path_factory.mktemp("server") / "log"))
            return running[app]

        yield start


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
