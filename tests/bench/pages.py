"""Benchmarks of pages in Chromium and of their runs on the server: `python -m tests.bench.pages CASE`."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from playwright.sync_api import Browser, Locator, Page

import quantviz as qv
from quantviz.figures.numbers import number
from quantviz.figures.theme import THEMES, rgb
from quantviz.lab.state import LabState, opening
from quantviz.sources import Normal
from tests.bench.runner import case, head, in_turns, judged, main, row
from tests.bench.servers import LAPTOP, PHONE, bare_page, chromium, link, new_page, server_process, slow
from tests.helpers.browser import IDLE, choice_of, fingers

#: Notes what a hand does, and after each frame was painted, before whatever else waits, what the page shows.
RECORD = """
(look) => {
  const record = (window.record = { frames: [], events: [], before: look(), changed: Infinity, on: true });
  for (const kind of ["pointerdown", "pointermove", "pointerup", "keydown", "input"])
    addEventListener(kind, (event) => {
      record.events.push({ kind, x: event.clientX, down: event.buttons, at: event.timeStamp });
    }, { capture: true });
  let last = "";
  const painted = () => {
    const frame = { shown: look(), events: record.events.length };
    const key = JSON.stringify(frame.shown);
    const at = performance.now();
    if (last && key !== last) record.changed = at;
    last = key;
    record.frames.push({ at, ...frame });
  };
  const next = () => {
    scheduler.postTask(painted, { priority: "user-blocking" });
    if (record.on) requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
}
"""
PIXEL = """
const pixel = (canvas, x, y) => {
  const sharp = window.devicePixelRatio;
  return [...canvas.getContext("2d").getImageData(Math.round(x * sharp), Math.round(y * sharp), 1, 1).data];
};"""
#: The cell whose colour is read, and how near a colour must be: the browser has more shades than these.
LAB_CELL, NEAR = (0, 0), 6
NOTHING = "() => null"
LOOK_AT_LAB = f"""(() => {{ {PIXEL}
  const {{ ruler, painting, bridge }} = window.__quantviz.hands.get("panels");
  const [row, col] = {list(LAB_CELL)};
  return () => {{
    const {{ axis, bands, picture }} = ruler;
    const value = Number(ruler.elementOf("hi").getAttribute("aria-valuenow"));
    const {{ xaxis4, yaxis4, xaxis, yaxis }} = bridge.gd._fullLayout;
    const [x, y] = bridge.meta.arrangement === "single" ? [xaxis, yaxis] : [xaxis4, yaxis4];
    const {{ edges, counts }} = picture.histogram;
    const fullest = counts.indexOf(Math.max(...counts));
    const tooth = picture.levels[Math.floor(picture.levels.length * 0.75)];
    return {{
      value,
      mse: document.querySelector("[data-qv-metric=mse]").textContent,
      error: painting.canvas.isConnected
        ? pixel(painting.canvas, x._offset + x.l2p(col - 0.5) + 2, y._offset + y.l2p(row + 0.5) - 2) : null,
      inked: [[axis.inside(value), bands.tips - 4], [axis.at(tooth), bands.line - 3],
        [axis.at((edges[fullest] + edges[fullest + 1]) / 2), bands.tips - 2]]
        .every(([x, y]) => pixel(ruler.canvas, x, y)[3] > 0),
      teeth: [...picture.levels],
    }};
  }};
}})()"""
LAB_AXIS = """(() => {
  const { ruler } = window.__quantviz.hands.get("panels");
  const { lo, left, perValue } = ruler.axis;
  const at = ruler.root.getBoundingClientRect().left;
  return { lo, left: left + at, perValue, unit: 10 ** Math.floor(Math.log10(1 / perValue)),
    end: window.__quantviz.bridges.get("panels").cells.scales.error.hi,
    inside: ruler.axis.inside(Number(ruler.elementOf("hi").getAttribute("aria-valuenow"))) + at };
})()"""


def recorded(page: Page, look: str, act: Callable[[], object]) -> dict[str, Any]:
    """Return what was noted while a hand did something."""
    page.evaluate(f"({RECORD})({look})")
    page.wait_for_timeout(100)
    act()
    return dict(page.evaluate("(window.record.on = false, window.record)"))


def dragged(page: Page, look: str, start: tuple[float, float], seconds: float) -> dict[str, Any]:
    """Return what was noted while the mouse was down and moved a pixel a frame, to and fro by 100."""
    x, y = start
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 1, y)
    page.wait_for_timeout(300)

    def move() -> None:
        begin = page.evaluate("performance.now()")
        # The clock is not asked each time, which would take a part of each frame.
        for step in itertools.count(1):
            page.mouse.move(x - 1 - (100 - abs(100 - step % 200)), y)
            if step % 30 == 0 and page.evaluate("performance.now()") - begin > 1000 * seconds:
                return

    record = recorded(page, look, move)
    page.mouse.up()
    frames = record["frames"]
    return {**record, "rate": (len(frames) - 1) / (frames[-1]["at"] - frames[0]["at"]) * 1000}


def shade(value: float, end: float) -> list[int]:
    found: list[int] = rgb(THEMES["light"].errors, 1025)[
        min(max(round((value / end + 1) * 512), 0), 1024)
    ].tolist()
    return found


def alike(one: list[int], other: list[int]) -> bool:
    return all(abs(a - b) <= NEAR for a, b in zip(one, other, strict=False))


def lab_page(browser: Browser, app: str, state: LabState, size: tuple[int, int], touch: bool = False) -> Page:
    page = new_page(browser, size, touch=touch)
    page.goto(f"{app}/lab?{link(**state.written())}")
    page.wait_for_selector("[data-handle=hi]", timeout=120_000)
    page.wait_for_timeout(2500)
    page.wait_for_selector(IDLE)
    return page


def drag_in_lab(page: Page, state: LabState, seconds: float) -> tuple[dict[str, Any], list[Any]]:
    """Return what was noted, and the frames in which everything shows the pointer's value."""
    box = page.locator("[data-handle=hi]").bounding_box()
    assert box is not None
    start, axis = box["x"] + box["width"] / 2, page.evaluate(LAB_AXIS)
    record = dragged(page, LOOK_AT_LAB, (start, box["y"] + 12), seconds)

    @cache
    def wanted(hi: float) -> tuple[str, list[int], float]:
        r = qv.quantize(state.source.tensor(), state.scheme.replace(calibration=qv.ManualRange(-hi, hi)))
        colour = shade(r.error[LAB_CELL].item(), axis["end"])
        return number(qv.metrics(r)["mse"]), colour, float(r.qparams.scale)

    def agrees(frame: dict[str, Any]) -> bool:
        shown = frame["shown"]
        if not frame["events"] or shown["error"] is None:
            return False
        offset, x = start - axis["inside"], record["events"][frame["events"] - 1]["x"]
        moved = axis["lo"] + (x - offset - axis["left"]) / axis["perValue"]
        if not math.isclose(shown["value"], moved, abs_tol=1.01 * axis["unit"]):
            return False
        mse, colour, scale = wanted(shown["value"])
        comb = (math.isclose(each / scale, round(each / scale), abs_tol=1e-3) for each in shown["teeth"][:4])
        return shown["mse"] == mse and alike(shown["error"], colour) and shown["inked"] and all(comb)

    return record, [frame for frame in record["frames"] if agrees(frame)]


def empty_rate(browser: Browser, seconds: float) -> float:
    """Return the frames a second of an empty page with the same moves."""
    page = new_page(browser)
    page.set_content("<!doctype html><title>Empty</title><p>Nothing here")
    rate = dragged(page, NOTHING, (700, 300), seconds)["rate"]
    page.close()
    return float(rate)


@case
def frames(seconds: float = 3.0) -> None:
    """Frames while a hand drags the range in the Lab in which everything shows the pointer's value, against
    an empty page's frames (bar 0.8).

    The handle's value, the mean squared error as text, a pixel of the error's panel, the teeth, and on the
    ruler a pixel of the bracket, of a tooth and of the histogram are compared with what the reference gives.
    Then on 8×8 at 390 px with the processor slowed four times the time from a pointer's event until a frame
    with its value was painted (50 ms, 95 %).
    """
    wide = opening().with_source(Normal(32, 32)).with_scheme(qv.Scheme("int4"))
    with server_process() as (app, _), chromium() as browser:
        head("what is dragged", "frames a second", "of them right", "empty page", "ratio")
        for name, state in {"the Lab, 8×8": opening(), "the Lab, 32×32": wide}.items():
            page = lab_page(browser, app, state, LAPTOP)
            record, good = drag_in_lab(page, state, seconds)
            page.close()
            rate, empty = record["rate"] * len(good) / len(record["frames"]), empty_rate(browser, seconds)
            cells = (f"{each:.1f}" for each in (record["rate"], rate, empty))
            row(name, *cells, judged(rate / empty, 0.8, least=True))
        page = lab_page(browser, app, opening(), PHONE)
        # A phone shows one panel, and x̂ at first.
        page.locator("button[value=error]").click()
        page.wait_for_function("window.__quantviz.bridges.get('panels').panel === 'error'")
        slow(page, 4)
        record, good = drag_in_lab(page, opening(), seconds)
    shown = [
        next((frame["at"] - event["at"] for frame in good if frame["events"] > at), None)
        for at, event in enumerate(record["events"])
    ]
    times = [each for each in shown if each is not None]
    late = judged(statistics.quantiles(times, n=20)[-1], 50, 0)
    print(f"390 px, slowed 4 ×: to the paint median {statistics.median(times):.0f} ms, 95 % within {late} ms")


#: A control by its key, and two choices of it that are taken in turn; none for a button.
CONTROLS = {
    "bits": ("3", "4"),
    "mode": ("asymmetric", "symmetric"),
    "granularity": ("row", "tensor"),
    "undo": (None,),
    "redo": (None,),
    "format": ("FP8 E4M3", "Signed int"),
    "recipe": ("int8 per row", "int8 per column"),
}
LOOK_AT_CONTROLS = """(() => {
  const text = (selector) => document.querySelector(selector)?.textContent ?? "";
  return () => [
    window.__quantviz.hands.get("panels")?.data.scheme,
    text("[data-qv-metric=mse]"),
    text("[data-qv-sentence]") + text(".st-key-panels .annotation[data-index='1']"),
    Boolean(document.querySelector("canvas.qv-painting")),
  ];
})()"""
LOOK_AT_WORD = "() => [document.querySelector('p').textContent]"


def press(page: Page, by_finger: bool, pressed: Locator) -> None:
    """Press and let go as a hand does; a tooltip may lie over what a mouse presses."""
    if by_finger:
        pressed.scroll_into_view_if_needed()
        page.wait_for_timeout(100)
        box = pressed.bounding_box() or {"x": 0, "y": 0, "width": 0, "height": 0}
        finger = fingers(page)
        finger("start", box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_timeout(80)
        finger("end", 0, 0)
    else:
        pressed.hover(force=True)
        page.wait_for_timeout(100)
        page.mouse.down()
        page.wait_for_timeout(80)
        page.mouse.up()
    page.wait_for_timeout(100)
    if not by_finger:
        page.mouse.move(1, 1)


def rest(page: Page) -> None:
    """Until the server has answered, and the choices from there are known."""
    page.wait_for_selector("canvas.qv-painting", state="detached")
    page.wait_for_selector(IDLE)
    page.wait_for_function(
        "window.__quantviz.answers.scheme === window.__quantviz.hands.get('panels').data.scheme"
    )
    page.wait_for_timeout(300)


def controls_page(browser: Browser, app: str, slowed: int, touch: bool) -> Page:
    page = lab_page(browser, app, opening(), PHONE if slowed > 1 else LAPTOP, touch)
    page.wait_for_function("window.__quantviz?.answers && window.__quantviz.hands.get('panels')")
    if slowed > 1:
        page.locator("[data-field=settings] button").click()
    rest(page)
    slow(page, slowed)
    return page


def clicked(page: Page, by_finger: bool, key: str, words: str | None) -> tuple[float | None, float]:
    """Milliseconds from a click until all was painted, and until the server's answer stood in its place.

    None where the server was waited for.
    """
    pressed = choice_of(page, key, words)
    is_list = pressed.evaluate("each => each.tagName") == "SELECT"

    def act() -> None:
        if is_list:
            pressed.select_option(label=words)
        else:
            press(page, by_finger, pressed)
        page.wait_for_timeout(100)
        rest(page)

    record = recorded(page, LOOK_AT_CONTROLS, act)
    # A list of the system's own says only what was chosen.
    kind = "input" if is_list else "pointerup"
    start = next(each["at"] for each in record["events"] if each["kind"] == kind)
    after = [(frame["at"] - start, frame["shown"]) for frame in record["frames"]]
    changed = (
        at
        for at, shown in after
        if shown[3] and all(now != then for now, then in zip(shown, record["before"], strict=True))
    )
    return next(changed, None), max((at for at, shown in after if shown[3]), default=after[-1][0])


def on_empty_page(browser: Browser, by_finger: bool, rounds: int, slowed: int) -> float:
    """Milliseconds from a click until a word that it writes was painted."""
    page = new_page(browser, slowed=slowed, touch=by_finger)
    page.set_content(
        "<!doctype html><title>Empty</title><p>0</p>"
        "<button onclick='document.querySelector(\"p\").textContent++'>More</button>"
    )
    times = []
    for _ in range(rounds):
        record = recorded(page, LOOK_AT_WORD, partial(press, page, by_finger, page.get_by_role("button")))
        start = next(each["at"] for each in record["events"] if each["kind"] == "pointerup")
        times.append(
            next(each["at"] for each in record["frames"] if each["shown"] != record["before"]) - start
        )
    page.close()
    return statistics.median(times)


@case
def controls(rounds: int = 5) -> None:
    """From a click on a control of the Lab's scheme until all that it changes was painted, beside an empty
    page.

    On 8×8, on a laptop (bar 50 ms) and at 390 px with the processor slowed four times (100), there by a mouse
    and by a finger. The pointer comes, goes down and is let go, with time between. From there a click counts
    until a frame in which the scheme, the mean squared error, the title of the codes or the sentence, and the
    canvas over the panels are those of the choice: the server has not answered by then.
    """
    with server_process() as (app, _), chromium() as browser:
        head("way", "control", "ms", "× empty page", "clicks", "the server's answer, ms")
        for slowed, by_finger, bar in ((1, False, 50), (4, False, 100), (4, True, 100)):
            page = controls_page(browser, app, slowed, by_finger)
            # A phone's bits are a slider.
            pressed = {key: CONTROLS[key] for key in CONTROLS if slowed == 1 or key != "bits"}
            times: dict[str, list[tuple[float | None, float]]] = {key: [] for key in pressed}
            for turn in range(rounds + 1):
                for key, choices in pressed.items():
                    took = [clicked(page, by_finger, key, words) for words in choices]
                    times[key] += took if turn else []  # the first is a warm-up
            page.close()
            empty, way = on_empty_page(browser, by_finger, rounds, slowed), "finger" if by_finger else "mouse"
            for key, taken in times.items():
                known = [at_once for at_once, _ in taken if at_once is not None]
                answer, median = (
                    statistics.median(each or [math.nan]) for each in ([b for _, b in taken], known)
                )
                told = judged(median, bar, 0), f"{median / empty:.1f}", f"{len(known)} of {len(taken)}"
                row(f"{way}, slowed {slowed} ×", key, *told, f"{answer:.0f}")


PANELS = "() => document.querySelectorAll('.st-key-panels .hm image').length === 4"


@case
def first_visit(rounds: int = 5) -> None:
    """The first visitor of `quantviz serve` until the four panels are there (bar 2 s), beside a bare page.

    Each round has a fresh server and a browser that knows nothing of it. The server answers once it is ready:
    so many seconds after its start.
    """
    drawn = "() => document.querySelector('.js-plotly-plot .main-svg')"
    with chromium() as browser, bare_page() as bare:

        def visit(address: str, wanted: str) -> float:
            page = new_page(browser)
            page.goto("about:blank")
            start = time.monotonic()
            page.goto(address, wait_until="commit")
            page.wait_for_function(wanted, polling="raf", timeout=60_000)
            took = time.monotonic() - start
            page.context.close()
            return took

        def served() -> tuple[float, float]:
            start = time.monotonic()
            with server_process(by_command=True) as (address, _):
                ready = time.monotonic() - start
                return ready, visit(f"{address}/lab", PANELS)

        visit(bare, drawn)
        took = in_turns({"lab": served, "bare": lambda: visit(bare, drawn)}, rounds)
    ready, panels = map(statistics.median, zip(*took["lab"], strict=True))
    beside = statistics.median(took["bare"])
    print(f"answers {ready:.1f} s after its start")
    print(f"first panels: {judged(panels, 2)} s, a bare page {beside:.2f} s")


NOTE_TASKS = """window.lastTask = 0;
new PerformanceObserver((list) => {
    for (const { startTime, duration } of list.getEntries()) window.lastTask = startTime + duration;
}).observe({ type: "longtask", buffered: true });"""
QUIET = "([idle, ms]) => document.querySelector(idle) && performance.now() - Math.max(lastTask, 1) > ms"
IDLE_PAGES = "", "lab", "checkpoints", "layers", "lessons", "lessons?l=range_to_grid&p=3"


@case
def first_idle(rounds: int = 3, slowed: float = 4.0, page: tuple[str, ...] = IDLE_PAGES) -> None:
    """How long a slowed phone is busy with each page (bar 5 s), against a bare page with one Plotly figure.

    From the navigation to the end of the last task of over 50 ms, in a browser that has nothing of the page;
    the servers are warm. Beside it the time of the processor that the page's thread has taken by then. The
    least counts.
    """

    def until_idle(address: str, times: float) -> tuple[float, float]:
        opened = new_page(browser, PHONE, times, touch=True)
        opened.add_init_script(NOTE_TASKS)
        driven = opened.context.new_cdp_session(opened)
        driven.send("Performance.enable", {"timeDomain": "threadTicks"})
        opened.goto(address, wait_until="commit")
        opened.wait_for_function(QUIET, arg=[IDLE, 2500], polling=200, timeout=60_000)
        told = {each["name"]: each["value"] for each in driven.send("Performance.getMetrics")["metrics"]}
        idle = opened.evaluate("window.lastTask") / 1000
        opened.context.close()
        return idle, told["TaskDuration"]

    with bare_page() as bare, server_process() as (app, _), chromium() as browser:
        addresses = {"a bare page": bare} | {f"/{each}": f"{app}/{each}" for each in page}
        for address in addresses.values():
            until_idle(address, 1)
        works = {name: partial(until_idle, address, slowed) for name, address in addresses.items()}
        took = in_turns(works, rounds, warm=0)
    least = {name: [min(each) for each in zip(*pairs, strict=True)] for name, pairs in took.items()}
    head("page", "idle, s", "× bare", "of the processor, s", "× bare")
    for name, (clock, own) in least.items():
        ratios = [f"{one / two:.2f}" for one, two in zip((clock, own), least["a bare page"], strict=True)]
        row(name, judged(clock, 5, 1), ratios[0], f"{own:.1f}", ratios[1])


if __name__ == "__main__":
    main()
