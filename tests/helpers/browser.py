"""A Chromium, a server of the app, and pages that have come to rest."""

import asyncio
import contextlib
import importlib.resources
import itertools
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.helpers import ROOT
from tests.helpers.ports import free_port

#: Streamlit is waiting for a person.
IDLE = "[data-testid=stApp][data-test-script-state=notRunning]"
#: Chromium by its names: as people have it, and without windows, which has a tenth less to do.
WITH_WINDOWS = ("chromium", "chromium-browser", "google-chrome")
WITHOUT_WINDOWS = "chromium-headless-shell"
NO_CHROMIUM = "no Chromium found; set CHROMIUM to its path, or install Debian's chromium"
#: Set where a browser must be there: then its absence fails instead of skipping.
REQUIRED = "QUANTVIZ_REQUIRE_BROWSER"
#: Of a Chromium for tests.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
#: Of one whose pages are open for seconds, as a test's are: optimizing scripts and clearing up beside them,
#: for the hours to come, took a third of the time.
SHORT_VISITS = (
    "--js-flags=--no-opt --no-maglev --no-script-streaming --single-threaded-gc --min-semi-space-size=16"
)


def chromium_path(names):
    """The path in CHROMIUM, else of the first of these names that is installed; None without any."""
    named = os.environ.get("CHROMIUM")
    found = named or next(filter(None, map(shutil.which, names)), None)
    return found if found and Path(found).exists() else None


def chromium_of_tests():
    """The path of a Chromium; without one the test is skipped, or fails where a browser must be there."""
    path = chromium_path((WITHOUT_WINDOWS, *WITH_WINDOWS))
    if path is None:
        pytest.fail(NO_CHROMIUM) if os.environ.get(REQUIRED) == "1" else pytest.skip(NO_CHROMIUM)
    return path


def chromium_of_benchmarks():
    """The path of a Chromium, preferably as people have it; without one the run ends with that sentence."""
    return chromium_path((*WITH_WINDOWS, WITHOUT_WINDOWS)) or sys.exit(NO_CHROMIUM)


@contextlib.contextmanager
def server(app, log, host="127.0.0.1", base=""):
    """A Streamlit server of its own for an app, below a path where one is given; gives its address."""
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "streamlit",
        "run",
        str(app),
        "--server.port",
        str(port),
        "--server.address",
        host,
        "--server.headless",
        "true",
    ]
    options = [
        "--browser.gatherUsageStats",
        "false",
        "--server.fileWatcherType",
        "none",
        "--runner.magicEnabled",
        "false",
        "--client.toolbarMode",
        "viewer",
        f"--server.baseUrlPath={base}",
    ]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            [*command, *options], cwd=ROOT, env=env, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            address = f"http://127.0.0.1:{port}/{base}".rstrip("/")
            _wait_until_healthy(process, address, log)
            yield address
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=20)
            process.kill()
            process.wait()


def _wait_until_healthy(process, address, log):
    for _ in range(300):
        if process.poll() is not None:
            break
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"{address}/_stcore/health", timeout=1),
        ):
            return
        time.sleep(0.2)
    pytest.fail(f"the server did not start:\n{log.read_text(encoding='utf-8')}")


#: Run before any script of a page: counts the runs that the page asks for, and what becomes of them.
NOTE_RUNS = Path(__file__).with_name("note_runs.js").read_text(encoding="utf-8")
#: Run before any script of a page: what Streamlit shows while a page loads stands still. Drawing its pulse
#: without a graphics card took a third of each load.
STILL_SKELETONS = """{
    const sheet = new CSSStyleSheet();
    sheet.replaceSync("[data-testid^=stSkeleton] { animation: none !important }");
    document.adoptedStyleSheets.push(sheet);
}"""
#: Seconds by which each of the server's answers comes late.
LATE = 0.35
#: Run before any script of a page: has the server answer late.
ANSWER_LATE = f"""{{
    const usual = WebSocket.prototype.addEventListener;
    const late = (act) => act && ((event) => setTimeout(() => act(event), {1000 * LATE}));
    WebSocket.prototype.addEventListener = function (kind, act, ...rest) {{
        return usual.call(this, kind, kind === "message" ? late(act) : act, ...rest);
    }};
    const own = Object.getOwnPropertyDescriptor(WebSocket.prototype, "onmessage");
    const set = function (act) {{ own.set.call(this, late(act)); }};
    Object.defineProperty(WebSocket.prototype, "onmessage", {{ ...own, set }});
}}"""
#: Milliseconds after which what a test waits for does not come. No test asserts a time; a slow machine is
#: busy with other tests and their compilers.
LONGEST = 120_000
#: Milliseconds between two looks whether what a test waits for is there.
BETWEEN_LOOKS = 30
#: Looks for which a page must be still: Streamlit's widgets wait less before they send. Panels send their
#: width 250 ms after it has changed.
LOOKS, LOOKS_AFTER_A_RESIZE = 8, 14
#: Resolves when what was drawn is on the screen.
TWO_FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
_calls = itertools.count()


def wait_idle(page, looks=LOOKS):
    """Until the page has asked for a run, each of its runs has begun and ended, and it asks for none for a
    while.

    The page's context needs `NOTE_RUNS`.
    """
    page.wait_for_function(
        "call => window.qvStill(call)", arg=[next(_calls), IDLE, looks], polling=BETWEEN_LOOKS
    )


#: Whether a part of the address has a value, none where it is null, or has some words in it.
IN_ADDRESS = """([name, value, within]) => {
    const found = new URLSearchParams(location.search).get(name);
    return within ? Boolean(found?.includes(value)) : found === value;
}"""


def wait_link(page, name, value, *, within=False):
    """Until a part of the address has a value, or these words in it where they are `within`."""
    page.wait_for_function(IN_ADDRESS, arg=[name, value, within])


def wait_until(page, holds):
    """Until `holds()`, while this process hears what the page calls of it or sends to its server."""
    for _ in range(LONGEST // BETWEEN_LOOKS):
        if holds():
            return
        page.wait_for_timeout(BETWEEN_LOOKS)
    pytest.fail("what was waited for does not come")


#: Keeps the words of each element that a selector finds, from now on.
NOTE_COMING = """selector => {
    window.qvCame = [];
    const note = () => document.querySelectorAll(selector).forEach((each) => qvCame.push(each.innerText));
    new MutationObserver(note).observe(document, { subtree: true, childList: true, attributes: true });
}"""


@contextlib.contextmanager
def coming(page, selector, words=""):
    """Wait for an element with these words that comes of what is done meanwhile: it may be gone again before
    anybody looks.
    """
    page.evaluate(NOTE_COMING, selector)
    yield
    page.wait_for_function("words => window.qvCame.some((each) => each.includes(words))", arg=words)


def resize(page, width, height):
    """Give the window another size, and wait until the page is laid out anew."""
    page.set_viewport_size({"width": width, "height": height})
    wait_idle(page, LOOKS_AFTER_A_RESIZE)


def choice_of(page, key, words=None):
    """What is pressed for a choice of a control that the browser draws: its button, or the choice with these
    words. A list has the focus, and what its choices lead to is in the browser.
    """
    control = page.locator(f"[data-field={key}]").first
    if words is None:
        return control.locator("button")
    if not control.locator("select").count():
        return control.locator("label").filter(has=page.get_by_text(words, exact=True))
    control.locator("select").focus()
    page.wait_for_function("key => window.__quantviz.answers.names[key]", arg=key)
    return control.locator("select")


def press(choice, words=None):
    """Press a choice; a tooltip may lie over it."""
    if choice.evaluate("each => each.tagName") == "SELECT":
        choice.select_option(label=words)
    else:
        choice.click(force=True)


def click_until(page, x, y, reached, arg=None):
    """Click a place of a table as a person does: once more where nothing came of it, as while a busy page
    draws the table anew.
    """
    from playwright.sync_api import TimeoutError

    for _ in range(4):
        page.mouse.move(x, y, steps=4)  # or the table does not know which line is meant
        page.mouse.click(x, y)
        with contextlib.suppress(TimeoutError):
            page.wait_for_function(reached, arg=arg, timeout=12_000)
            return
    pytest.fail(f"no click on ({x}, {y}) was taken")


#: Findings in parts that Streamlit makes, by rule, and the part: these are its own.
STREAMLITS_OWN = {
    # The sections of its navigation are in one list, between whose items stand their headings.
    "list": "[data-testid=stSidebarNav]",
    "listitem": "[data-testid=stSidebarNav]",
    # The column with which a line of its table is chosen has no name.
    "empty-table-header": "[data-testid=stDataFrame]",
    # Where a file is dropped is no picture, and has a name.
    "presentation-role-conflict": "[data-testid=stFileUploader]",
}
#: The rules that are run: those of WCAG 2.2 AA, and two good practices.
RULES = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
    "rules": {name: {"enabled": True} for name in ("empty-table-header", "presentation-role-conflict")},
}
_FINDINGS = """([options, own]) => axe.run(document, options).then(({ violations }) => violations.flatMap(
    ({ id, nodes }) => nodes.filter(({ element }) => !(own[id] && element.closest(own[id])))
        .map(({ html, any }) => [id, html.slice(0, 160), ...any.map(({ message }) => message)])))"""


def violations(page):
    """What axe finds on a page, but for what is Streamlit's own: each with its rule, element and reasons."""
    if not page.evaluate("'axe' in window"):
        script = importlib.resources.files("axe_playwright_python") / "axe.min.js"
        page.evaluate(script.read_text(encoding="utf-8"))
    # Of what is passed nothing is told, which takes half of the time.
    options = {**RULES, "resultTypes": ["violations"], "elementRef": True}
    return page.evaluate(_FINDINGS, [options, STREAMLITS_OWN])


#: Before anything is loaded: notes what moves on the page by itself, not for a person's hand.
NOTE_SHIFTS = """window.shifts = [];
new PerformanceObserver((list) => {
    for (const { value, hadRecentInput, sources } of list.getEntries())
        if (!hadRecentInput)
            window.shifts.push([value, sources.map(({ node, previousRect: a, currentRect: b }) => [
                node?.parentElement?.closest("[class*=st-key-]")?.className.match(/st-key-\\S+/)?.[0],
                node?.nodeName, (node?.textContent ?? "").slice(0, 40),
                [a.x, a.y, a.width, a.height], [b.x, b.y, b.width, b.height],
            ])]);
}).observe({ type: "layout-shift", buffered: true });"""


def shifts(page):
    """How far a page has moved by itself since it was loaded, in all, and what moved, the farthest first."""
    moved = sorted(page.evaluate("window.shifts"), key=lambda shift: -shift[0])
    return sum(value for value, _ in moved), moved


def mouse(page):
    """Return `act(kind, x, y)` for a mouse: kind is start, move or end of a drag."""

    def act(kind, x, y):
        page.mouse.move(x, y)
        if kind != "move":
            (page.mouse.down if kind == "start" else page.mouse.up)()

    return act


def fingers(page):
    """Return `act(kind, x, y)` for a finger, as `mouse` does."""
    session = page.context.new_cdp_session(page)

    def act(kind, x, y):
        points = [] if kind == "end" else [{"x": x, "y": y}]
        session.send("Input.dispatchTouchEvent", {"type": f"touch{kind.title()}", "touchPoints": points})

    return act


def pulled(mouse, start, end):
    """Press a mouse at a place, and let go of it at another."""
    mouse.move(*start)
    mouse.down()
    mouse.move(*end, steps=6)
    mouse.up()


def held(page, x, y, dx, *, way=mouse, steps=10):
    """Drag from a place to the side: holds still where it is first asked for, and lets go after that."""
    act = way(page)
    act("start", x, y)
    for step in range(1, steps + 1):
        act("move", x + dx * step / steps, y)
        page.evaluate(TWO_FRAMES)
    yield
    act("end", x + dx, y)


class Box(NamedTuple):
    """Where something is on the screen, in pixels."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self):
        return self.right - self.left

    @property
    def height(self):
        return self.bottom - self.top


def box(page, selector=None):
    """The place of the first element that the selector finds in a page, or of a locator."""
    found = (page.locator(selector).first if selector else page).bounding_box()
    x, y = found["x"], found["y"]
    return Box(x, y, x + found["width"], y + found["height"])


@contextlib.contextmanager
def unmoved(page, *selectors, by=1):
    """Hold that what is done meanwhile moves none of these up or down by more than so many pixels."""
    before = [box(page, each).top for each in selectors]
    yield
    assert [box(page, each).top for each in selectors] == pytest.approx(before, abs=by), selectors


def finished(coroutine):
    """Return the result of a coroutine: in a thread of its own, for where a browser is open, its loop is this
    thread's.
    """
    with ThreadPoolExecutor(1) as aside:
        return aside.submit(asyncio.run, coroutine).result()


class Line:
    """The page's line to the server, which can be cut and joined again."""

    def __init__(self, page):
        self.cut = False
        self.sockets = []
        page.route_web_socket("**/_stcore/stream*", self._connect)
        for plain in ("**/_stcore/h*", "**/room/**"):
            page.route(plain, lambda route: route.abort() if self.cut else route.continue_())

    def _connect(self, socket):
        if self.cut:
            socket.close()
            return
        socket.connect_to_server()
        self.sockets.append(socket)

    def lose(self):
        self.cut = True
        self.sockets[-1].close()

    def join(self):
        self.cut = False
