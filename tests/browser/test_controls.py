"""The Lab's controls of the scheme: the browser answers them, and the server's answer changes nothing."""

import io
from contextlib import contextmanager

import numpy as np
import pytest
from PIL import Image

from quantviz.lab.state import opening
from quantviz.schemes.calibration import Percentile
from quantviz.sources.typed import Typed
from tests.helpers.browser import ANSWER_LATE, TWO_FRAMES, choice_of, press, wait_idle, wait_link
from tests.helpers.picture import middle, opened

#: A control by its key, and the choice in a list or a row; none for a button.
CHOICES = (
    ("bits", "3"),
    ("mode", "asymmetric"),
    ("granularity", "row"),
    ("undo", None),
    ("redo", None),
    ("format", "FP8 E4M3"),
    ("granularity", "group"),
    ("group_size", "2"),
    ("format", "BF16"),
    ("granularity", "row"),
    ("format", "FP16"),
)
#: All that a choice changes: the numbers with their second lines, the sentence, the title of the codes, the
#: ruler's handles and picture, what the controls show as chosen, and the range and a note in words.
SHOWN = """() => {
    const texts = (selector) => [...document.querySelectorAll(selector)].map((each) => each.innerText);
    const { data, ruler } = window.__quantviz.hands.get("panels");
    return {
        scheme: data.scheme,
        numbers: texts("[data-qv-metric], [data-qv-line]"),
        sentence: texts("[data-qv-sentence]"),
        title: document.querySelector(".st-key-panels .annotation[data-index='1']").textContent,
        handles: [...document.querySelectorAll("[data-handle]")]
            .map(({ dataset, ariaValueText, style }) => [dataset.handle, ariaValueText, style.cssText]),
        ruler: ruler.canvas.toDataURL(),
        chosen: ["mode", "granularity", "bits", "nonfinite"].map((field) =>
            [...document.querySelectorAll(`[data-field=${field}] :checked`)].map(({ value }) => value)),
        lists: ["recipe", "format", "calibration"]
            .map((field) => document.querySelector(`[data-field=${field}] select`).selectedOptions[0].text),
        looks: [...document.querySelectorAll("[data-field=granularity] .qv-segments span")]
            .map((each) => getComputedStyle(each).backgroundColor),
        inputs: ["cell_row", "cell_col"]
            .map((key) => document.querySelector(`[data-field=${key}] input`).value),
        block: texts(".qv-block"),
        told: texts(".st-key-range_expander summary, .st-key-nonfinite_note"),
        colours: [...document.querySelectorAll(".st-key-panels [class*=xcbcoloraxis] text")]
            .map((each) => each.textContent),
        frames: [...document.querySelectorAll(".qv-mark")].map((each) => each.outerHTML),
    };
}"""
#: The panels on the screen with all pixels that they have a share in.
PANELS = """() => {
    const { gd } = window.__quantviz.bridges.get("panels"), { left, top } = gd.getBoundingClientRect();
    return [1, 2, 3, 4].map((n) => {
        const [x, y] = ["xaxis", "yaxis"].map((axis) => gd._fullLayout[n > 1 ? `${axis}${n}` : axis]);
        const [from, down] = [Math.floor(left + x._offset), Math.floor(top + y._offset)];
        const [to, foot] = [Math.ceil(left + x._offset + x._length), Math.ceil(top + y._offset + y._length)];
        return { x: from, y: down, width: to - from, height: foot - down };
    });
}"""
#: Notes in each frame in which one of them changes whether the stage is dimmed, the tab of the ruler, and the
#: sentence.
NOTE_TABS = """() => {
    window.noteTabs = true;
    window.tabs = [];
    const note = () => {
        const sentence = document.querySelector(".st-key-sentence");
        const parts = [sentence, ...sentence.querySelectorAll("[data-stale=true]")];
        const now = [
            parts.some((each) => getComputedStyle(each).opacity !== "1"),
            window.__quantviz.hands.get("panels")?.data.tab ?? null,
            sentence.innerText,
        ];
        if (`${now}` !== `${window.tabs.at(-1)}`) window.tabs.push(now);
        if (window.noteTabs) requestAnimationFrame(note);
    };
    note();
}"""
#: 8×8, with a NaN and an Inf.
WITH_NAN = Typed((*np.linspace(-1, 1, 62).round(3), np.nan, np.inf), (8, 8))
#: How far two pixels of one colour may lie apart: plotly rounds its colours in another way.
NEAR = 4


LINK_AND_MESSAGE = """() => {
  const { bridges, answers } = window.__quantviz;
  document.querySelector("[data-testid=stSidebarNavLink][href*=bugs]").click();
  answers.send("opened", "format");
  setTimeout(() => bridges.get("panels").keep("width", 700));
}"""


#: Whether the choices from the present scheme have come, the last of a run.
ALL_CHOICES = """() => {
    const { data } = window.__quantviz.hands.get("panels") ?? {};
    return data && window.__quantviz.answers?.scheme === data.scheme;
}"""


class HeldServer:
    """The server's messages to a page, which can be held back for a while."""

    def __init__(self, page):
        self._holds, self._held = False, []
        page.route_web_socket("**/_stcore/stream", self._connect)

    def _connect(self, browser):
        server = browser.connect_to_server()
        browser.on_message(server.send)
        server.on_message(lambda message: self._pass(browser, message))

    def _pass(self, browser, message):
        if self._holds:
            self._held.append((browser, message))
        else:
            browser.send(message)

    @contextmanager
    def silent(self):
        self._holds = True
        yield
        self._holds = False
        for browser, message in self._held:
            browser.send(message)
        self._held.clear()


def panels(page):
    """The pixels of each panel."""
    pictures = (page.screenshot(clip=box) for box in page.evaluate(PANELS))
    return [np.array(Image.open(io.BytesIO(each)).convert("RGB")).astype(int) for each in pictures]


def choose(page, server, key, words):
    """What is shown right after a choice, and the pixels of the panels, while the server is silent."""
    choice = choice_of(page, key, words)
    if key == "nonfinite":
        choice = page.locator("[data-field=nonfinite] .qv-segments label", has_text=words)
    with server.silent():
        press(choice, words)
        page.mouse.move(2, 2)
        page.wait_for_selector("canvas.qv-painting")
        page.evaluate(TWO_FRAMES)
        return page.evaluate(SHOWN), panels(page)


def select(page, server, row, col):
    """What is shown right after a click on a cell, while the server is silent."""
    x, y = middle(page, 0, row, col)
    with server.silent():
        page.mouse.click(x, y)
        page.mouse.move(2, 2)
        page.evaluate(TWO_FRAMES)
        return page.evaluate(SHOWN)


@pytest.mark.parametrize("choices", [CHOICES[:6], pytest.param(CHOICES[6:], marks=pytest.mark.nightly)])
def test_the_server_answers_what_the_browser_has_shown(url, new_page, choices):
    page = new_page()
    server = HeldServer(page)
    opened(page, url, **{**opening().written(), "lang": "en"})
    try_controls(page, server, choices)
    # In another block, and in that block.
    for row, col in ((5, 2), (5, 3)):
        before = page.evaluate(SHOWN)
        at_once = select(page, server, row, col)
        assert at_once["sentence"] != before["sentence"]
        assert at_once["inputs"][-2:] == [str(row), str(col)]
        page.wait_for_function("!window.__quantviz.hands.get('panels').pageChoice.waits")
        wait_idle(page)
        assert page.evaluate(SHOWN) == at_once, (row, col)
    a_number_that_is_typed_is_shown_at_once(page, server, "cell_row", "2")
    a_range_is_told_while_a_hand_moves_it(page, server)
    for tab, key in (("Range", None), ("Blame", "Space"), ("Cell", "Space")):
        a_tab_is_shown_whole(page, tab, key)
    # The focus of a key stays where it is.
    page.locator("[data-field=granularity] input[value=row]").press("ArrowRight")
    page.wait_for_function("location.search.includes('per_channel%28axis%3D1%29')")
    wait_idle(page)
    assert page.evaluate("document.activeElement.value") == "column"
    # A link leads to its page although a part of the one that is left has something to say yet.
    page.evaluate(LINK_AND_MESSAGE)
    page.wait_for_function("location.pathname.endsWith('/bugs')")
    page.locator("h1", has_text="Common bugs").wait_for()
    wait_idle(page)
    assert "/bugs" in page.url
    assert page.locator("h1", has_text="Common bugs").is_visible()


@pytest.mark.nightly
def test_the_server_answers_the_same_for_nan_colours_and_rules(url, new_page):
    page = new_page()
    server = HeldServer(page)
    # Colours that follow the error say so, and follow it before the server answers.
    clipped = opening().scheme.replace(calibration=Percentile(99.9), nonfinite="clip")
    fitting = opening().with_source(WITH_NAN).replace(error_range="fit", scheme=clipped)
    opened(page, url, **{**fitting.written(), "lang": "en"})
    before = page.evaluate(SHOWN)["colours"]
    try_controls(page, server, (("bits", "3"),))
    after = page.evaluate(SHOWN)["colours"]
    assert before[-1] != after[-1]
    assert all("fits this error" in colours[-2] for colours in (before, after))
    page.locator(".st-key-range_expander summary").click()
    a_number_that_is_typed_is_shown_at_once(page, server, "range_p", "75")
    assert page.evaluate(SHOWN)["told"][0].endswith("Range: percentile 75 · NaN/Inf: clip")
    told = page.evaluate(SHOWN)["told"]
    try_controls(page, server, (("nonfinite", "as the engine"),))
    assert told[0] == page.evaluate(SHOWN)["told"][0].replace("as the engine", "clip")
    assert "NaN became 0" in told[1]
    assert "are left out" in page.evaluate(SHOWN)["told"][1]
    page.locator(".st-key-rules button").first.click()
    page.wait_for_selector("[data-field=rule_ties]")
    # Its list lies over the panels.
    at_once, _ = choose(page, server, "rule_ties", "cut off toward zero")
    the_server_agrees(page, at_once)
    assert "course(ties=truncate)" in at_once["scheme"]


def a_number_that_is_typed_is_shown_at_once(page, server, key, number):
    """The server's answer changes nothing; it alone has a name for a scheme of other numbers."""
    before = page.evaluate(SHOWN)
    field = page.locator(f"[data-field={key}] input")
    field.fill(number)
    with server.silent():
        field.press("Enter")
        page.wait_for_function("window.__quantviz.hands.get('panels').pageChoice.waits")
        page.evaluate(TWO_FRAMES)
        at_once = page.evaluate(SHOWN)
    assert at_once["sentence"] != before["sentence"]
    page.wait_for_function("!window.__quantviz.hands.get('panels').pageChoice.waits")
    the_server_agrees(page, at_once | {"scheme": page.evaluate(SHOWN)["scheme"]})


#: The range in words, and its two numbers in their fields.
TOLD_RANGE = """[document.querySelector(".st-key-range_expander summary").innerText, ...["lo", "hi"].map(
    (name) => document.querySelector(`[data-field=range_${name}] input`)?.value ?? "")]"""


def a_range_is_told_while_a_hand_moves_it(page, server):
    """In words, and in the fields of a range that was set before: the server's answer changes nothing; where
    the hand gives up the old one is told again.
    """
    for way in (-50, -20):
        before = page.evaluate(TOLD_RANGE)
        hand = page.locator("[data-handle=hi]").bounding_box()
        x, y = hand["x"] + hand["width"] / 2, hand["y"] + 12
        for key in ("Escape", None):
            page.mouse.move(x, y)
            page.mouse.down()
            page.mouse.move(x + way, y)
            page.wait_for_function(f"before => String({TOLD_RANGE}) !== before", arg=",".join(before))
            if key:
                page.keyboard.press(key)
                page.wait_for_function(f"before => String({TOLD_RANGE}) === before", arg=",".join(before))
                page.mouse.up()
        form = page.evaluate("window.__quantviz.hands.get('panels').data.scheme")
        with server.silent():
            page.mouse.up()
            page.evaluate(TWO_FRAMES)
            at_once = page.evaluate(TOLD_RANGE)
        assert "−" in at_once[0]
        assert way == -50 or float(at_once[2]) < float(before[2])
        page.wait_for_function("form => window.__quantviz.hands.get('panels').data.scheme !== form", arg=form)
        wait_idle(page)
        assert page.evaluate(TOLD_RANGE)[0] == at_once[0]
        assert way == -50 or page.evaluate(TOLD_RANGE) == at_once


def a_tab_is_shown_whole(page, tab, key=None):
    """No frame has the sentence of one tab and the ruler of another, unless both are dimmed: of one that is
    chosen by a click, and by a key.
    """
    page.evaluate(NOTE_TABS)
    chosen = page.locator("[data-field=stage_tab] label", has_text=tab)
    chosen.locator("input").press(key) if key else chosen.click()
    page.wait_for_function("tab => window.__quantviz.hands.get('panels')?.data.tab === tab", arg=tab.lower())
    page.locator(".st-key-stage:not([data-qv-turned])").wait_for()
    wait_idle(page)
    frames = page.evaluate("(window.noteTabs = false, window.tabs)")
    before, *after = [shown for dimmed, *shown in frames if not dimmed]
    assert after
    assert all(ruler == tab.lower() and words != before[1] for ruler, words in after), frames


def test_a_choice_that_no_answer_knew_outlives_a_reload(url, new_page):
    """And every bar of controls is drawn that comes while the hand is ahead: part of the page is answered by
    itself.
    """
    page = new_page(1366, 768)
    page.goto(f"{url}/checkpoints?f=model:adder&lang=en")
    weights = page.locator("[data-field=models_shared] select")
    weights.wait_for()
    wait_idle(page)
    page.add_init_script(ANSWER_LATE)
    page.reload()
    weights.wait_for()
    wait_idle(page)
    fields = "[...document.querySelectorAll('[data-field]')].map(({ dataset }) => dataset.field).sort()"
    before = page.evaluate(fields)
    weights.select_option("tensor")
    page.locator("[data-field=models_order] input[value=carries]").click()
    page.reload(wait_until="commit")
    weights.wait_for()
    wait_idle(page)
    assert weights.input_value() == "tensor"
    assert page.locator("[data-field=models_order] :checked").input_value() == "carries"
    assert page.evaluate(fields) == before
    assert "g=tensor" in page.url


def test_a_page_loaded_anew_goes_on_with_its_session(url, new_page, tmp_path):
    """What was dropped is there, and the steps; an undo that no answer knew counts once."""
    page = new_page(1366, 768)
    page.add_init_script(ANSWER_LATE)
    page.goto(f"{url}/lab?lang=en")
    shown = "[...document.querySelectorAll('[data-field=bits] :checked')].map(({ value }) => value).join()"
    wait_idle(page)
    matrix = tmp_path / "brought.npy"
    np.save(matrix, np.eye(3, 5, dtype=np.float32))
    page.set_input_files("input[type=file] >> nth=0", matrix)
    page.wait_for_function("location.search.includes('upload')")
    wait_idle(page)
    for bits in ("5", "6", "7"):
        page.locator(f"[data-field=bits] label:has(input[value='{bits}'])").click()
        page.wait_for_function(f"{shown} === '{bits}'")
    wait_link(page, "s", "int7", within=True)
    undo = page.locator("[data-field=undo] button:enabled")
    for answered in (False, True):
        undo.click()
        if answered:
            wait_link(page, "s", "int5", within=True)
        page.reload(wait_until="commit")
        wait_link(page, "s", "int5" if answered else "int6", within=True)
        undo.wait_for()
        wait_idle(page)
        assert page.evaluate(shown) == ("5" if answered else "6")
        assert "brought.npy" in page.title()


def test_controls_do_without_the_tabs_storage(url, new_page):
    """A browser refuses it to a frame in a page of another site, where cookies of others are blocked."""
    page = new_page(1366, 768)
    page.add_init_script("""Object.defineProperty(window, "sessionStorage", {
        get() { throw new DOMException("Access is denied", "SecurityError"); }
    })""")
    page.goto(f"{url}/formats?lang=en")
    ties = page.locator("[data-field=ties] select")
    ties.select_option("up")
    wait_link(page, "t", "up")
    page.reload()
    ties.wait_for()
    assert ties.input_value() == "up"


def the_server_agrees(page, at_once):
    page.wait_for_selector("canvas.qv-painting", state="detached")
    wait_idle(page)
    assert page.evaluate(SHOWN) == at_once


def try_controls(page, server, choices):
    """Make each choice; what is shown at once is what the server answers."""
    for key, words in choices:
        page.wait_for_function(ALL_CHOICES)
        known = page.evaluate("window.__quantviz.hands.get('panels').data.scheme")
        at_once, pixels = choose(page, server, key, words)
        assert at_once["scheme"] != known, key
        the_server_agrees(page, at_once)
        apart = [np.abs(now - then).max() for now, then in zip(panels(page), pixels, strict=True)]
        assert max(apart) <= NEAR, (key, apart)
