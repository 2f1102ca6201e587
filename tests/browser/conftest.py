"""A browser, a server and pages for the tests that drive the app as a person does."""

import contextlib
import fcntl
import os
import time
from functools import cache, partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from quantviz.sources.local import FOLDER
from tests.helpers import ROOT
from tests.helpers.browser import (
    BETWEEN_LOOKS,
    FLAGS,
    LONGEST,
    NOTE_RUNS,
    SHORT_VISITS,
    STILL_SKELETONS,
    chromium_of_tests,
    server,
)

SHOTS = Path(__file__).parent / "shots"
#: Set to 1 by whoever wants a picture of each page as its test leaves it; the folder is not in git.
WANTED = "QUANTVIZ_SHOTS"


def pytest_collection_modifyitems(items):
    is_here = cache(lambda path: Path(__file__).parent in path.parents)
    for item in items:
        if is_here(item.path):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser():
    """One Chromium for all tests."""
    path = chromium_of_tests()
    from playwright.sync_api import expect, sync_playwright

    # Five seconds, as is usual, are too few for a server beside other tests and their compilers.
    expect.set_options(timeout=LONGEST)

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=path, args=[*FLAGS, SHORT_VISITS, "--process-per-site"]
        )
        yield chromium
        chromium.close()


@pytest.fixture
def new_context(browser):
    """`new_context(**options)` opens a context of its own, whose pages wait as long as all others."""
    with contextlib.ExitStack() as stack:

        def open_context(**options):
            context = stack.enter_context(browser.new_context(**options))
            context.set_default_timeout(LONGEST)
            return context

        yield open_context


#: Run a module's text in a page, as a module is.
LOAD = "source => import(URL.createObjectURL(new Blob([source], { type: 'text/javascript' }))).then(() => 0)"


@pytest.fixture(scope="module")
def blank_with(browser):
    """`blank_with(source)` opens a blank page in which the text of a module has run."""
    pages = []

    def load(source):
        pages.append(page := browser.new_page())
        page.goto("about:blank")
        page.evaluate(LOAD, source)
        return page

    yield load
    for page in pages:
        page.close()


class Shelf:
    """Contexts that are used again: a page in one finds Streamlit's and plotly's scripts compiled, which is
    most of what a page takes.

    Nothing of one test is left for the next: its pages are closed, and what they kept is cleared.
    """

    def __init__(self, browser):
        self._browser, self._contexts, self._keepers = browser, {}, {}

    def new(self, **options):
        context = self._browser.new_context(**options)
        context.set_default_timeout(LONGEST)
        context.add_init_script(NOTE_RUNS)
        context.add_init_script(STILL_SKELETONS)
        return context

    def take(self, **options):
        """A context with nothing in it; the same one again after it was put back."""
        return self._contexts.pop(tuple(options.items()), None) or self.new(**options)

    def put_back(self, context, **options):
        origins = {
            "{0.scheme}://{0.netloc}".format(urlsplit(page.url))
            for page in context.pages
            if page.url.startswith("http")
        }
        keeper = self._keepers.get(context)
        if keeper is None and origins:
            # One page stays open, and with it the process that has the scripts. Its server may be gone by
            # now.
            keeper = self._keepers[context] = context.new_page()
            keeper.route("**/*", lambda route: route.fulfill(body="", content_type="text/html"))
            keeper.goto(min(origins))
        for page in context.pages:
            if page is not keeper:
                page.close()
        if keeper is not None:
            context.clear_cookies()
            context.clear_permissions()
            storage = context.new_cdp_session(keeper)
            for origin in origins:
                storage.send(
                    "Storage.clearDataForOrigin",
                    {"origin": origin, "storageTypes": "local_storage,indexeddb,websql,service_workers"},
                )
            storage.detach()
        self._contexts[tuple(options.items())] = context


@pytest.fixture(scope="session")
def shelf(browser):
    return Shelf(browser)


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    """The address of the app on a server that offers no folder and is reached from a network, as README's
    command has it, and the file in which it writes.

    All processes of a run share it: who asks first starts it, and stops it after the others.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with pytest.MonkeyPatch.context() as patch, (folder / "server").open("a+", encoding="utf-8") as file:
        patch.delenv(FOLDER, raising=False)
        log = folder / "server.log"
        if known := _written(file):
            yield known, log
            return
        with server(ROOT / "app.py", log, host="0.0.0.0") as address:
            file.write(address)
            file.flush()
            fcntl.flock(file, fcntl.LOCK_SH)
            yield address, log
            # Until no other process uses it; who comes later finds none.
            fcntl.flock(file, fcntl.LOCK_EX)
            file.truncate(0)


@pytest.fixture(scope="session")
def url(served):
    """The address of the app."""
    return served[0]


@pytest.fixture
def new_page(shelf, request):
    """`new_page(width, height, theme, language=None, touch=False)` opens an empty page in a context of its
    own.

    What the page writes to the console as an error, and every exception in it, fails the test at its end.
    """
    taken, contexts, complaints, opened = {}, [], [], []

    def open_page(width=1366, height=625, theme="light", language=None, touch=False):
        options = {"locale": language or "en-US", "has_touch": touch}
        if tuple(options.values()) in taken:
            contexts.append(context := shelf.new(**options))
        else:
            taken[tuple(options.values())] = context = shelf.take(**options)
        opened.append(page := context.new_page())
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=theme)
        # At each frame, as is usual, a page that is waited for takes ten times as much of a processor.
        page.wait_for_function = partial(page.wait_for_function, polling=BETWEEN_LOOKS)
        page.on(
            "console",
            lambda message: (
                complaints.append(message.text)
                if message.type == "error" and not _streamlits_own(message)
                else None
            ),
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        return page

    yield open_page
    for number, page in enumerate(opened if os.environ.get(WANTED) == "1" else ()):
        if not page.is_closed():
            page.screenshot(path=SHOTS / f"{request.node.path.stem}_{request.node.name}_{number}.png")
    for context in contexts:
        context.close()
    for (locale, touch), context in taken.items():
        shelf.put_back(context, locale=locale, has_touch=touch)
    assert not complaints, complaints


def _streamlits_own(message):
    """A server that was stopped or cut off by a test is missed.

    A look for the server below a page's address is none of these: see `ProbeAnswers`.
    """
    # It is said where a server is stopped before its page is closed, or not yet connected to.
    missing = ("when disconnected from server", "reaching server endpoint", "server is not responding")
    cut_off = any(words in message.text for words in missing)
    address = message.location["url"]
    missed = "_stcore" in address and "404" not in message.text
    unanswered = "/room/" in address and ("net::ERR_" in message.text or "503" in message.text)
    return missed or unanswered or cut_off


def _written(file):
    """What another process has written of its server, once it runs; "" where this one is to start it.

    Users share the lock, and only who starts the server or stops it has it alone: whoever waited to be alone
    would wait until all others are done.
    """
    while True:
        fcntl.flock(file, fcntl.LOCK_SH)
        file.seek(0)
        if known := file.read():
            return known
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.seek(0)
            if not file.read():
                return ""
        time.sleep(0.05)
