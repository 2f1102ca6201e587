"""From a click on a control of the Lab's scheme until all that it changes was painted, beside an empty page.

    python -m tests.bench.controls [--rounds 5]

Each control is clicked in turn, on 8×8, on a laptop and then at 390 px with the processor slowed four times,
there by a mouse and by a finger. The pointer comes, goes down and is let go, with time between for what
follows each; a finger comes as it goes down. From there a click counts
until the frame was painted in which the scheme, the mean squared error as text, the title of the codes or the
sentence, and the canvas over the panels are those of the choice: the server has not answered by then. Prints
the median for each control, and its ratio to the same on an empty page, where a click writes a word; then how
long the server's answer takes to stand in its place.
"""

import argparse
import statistics
from collections.abc import Callable
from contextlib import ExitStack

from playwright.sync_api import Browser, Locator, Page, sync_playwright

from quantviz.lab.state import opening
from tests.bench.servers import ROOT, serving
from tests.helpers.browser import FLAGS, IDLE, choice_of, chromium_of_benchmarks, fingers

Press = Callable[[Locator], None]

#: The longest time from a click to the paint, by the width of the page and the pointer.
BARS = {(1366, "mouse"): 50, (390, "mouse"): 100, (390, "finger"): 100}
HEIGHTS = {1366: 625, 390: 844}
#: Milliseconds for which the pointer rests before it goes down, and for which it is down.
HOVER_MS, DOWN_MS = 100, 80
#: A control by its key, and two choices of it that are taken in turn; none for a button.
CONTROLS = {
    "bits": ("3", "4"),
    "mode": ("asymmetric", "symmetric"),
    "granularity": ("row", "tensor"),
    "undo": None,
    "redo": None,
    "format": ("FP8 E4M3", "Signed int"),
    "recipe": ("int8 per row", "int8 per column"),
}
LISTS = ("format", "recipe")
#: Notes when a pointer was lifted, and what each frame shows once it was painted.
RECORD = """
(lab) => {
  const text = (selector) => document.querySelector(selector)?.textContent ?? "";
  const shown = () => [
    window.__quantviz.hands.get("panels")?.data.scheme,
    text("[data-qv-metric=mse]"),
    text("[data-qv-sentence]") + text(".st-key-panels .annotation[data-index='1']"),
    Boolean(document.querySelector("canvas.qv-painting")),
  ];
  const look = () => (lab ? shown() : [document.querySelector("p").textContent]);
  // The first frame may be painted after the click.
  const record = (window.__record = { before: look(), frames: [], clicked: null, on: true });
  const painted = () => {
    const at = performance.now();
    record.frames.push({ at, shown: look() });
  };
  const next = () => {
    // Right after the frame, before whatever else waits for the processor.
    scheduler.postTask(painted, { priority: "user-blocking" });
    if (record.on) requestAnimationFrame(next);
  };
  const clicked = (event) => (record.clicked ??= event.timeStamp);
  // A list of the system's own says only what was chosen.
  for (const kind of ["pointerup", "input"])
    addEventListener(kind, clicked, { capture: true, once: true });
  requestAnimationFrame(next);
}
"""


def opened(browser: Browser, url: str, width: int, *, touch: bool) -> Page:
    size = {"width": width, "height": HEIGHTS[width]}
    page = browser.new_page(viewport=size, color_scheme="light", has_touch=touch)
    link = "&".join(f"{name}={value}" for name, value in {**opening().written(), "lang": "en"}.items())
    page.goto(f"{url}/lab?{link}")
    page.wait_for_function("window.__quantviz?.controls && window.__quantviz.hands.get('panels')")
    if width == 390:
        page.locator(".st-key-all_settings label").click()
        page.wait_for_selector(".st-key-scheme_sheet .st-key-scheme")
    rest(page)
    return page


def rest(page: Page) -> None:
    """Until the server has answered, and the choices from there are known."""
    page.wait_for_selector("canvas.qv-painting", state="detached")
    page.wait_for_selector(IDLE)
    page.wait_for_function(
        "window.__quantviz.controls.scheme === window.__quantviz.hands.get('panels').data.scheme"
    )
    page.wait_for_timeout(300)


def presses(page: Page, pointer: str) -> Press:
    """Return what presses and lets go as a hand does; a tooltip may lie over what a mouse presses."""

    def by_mouse(pressed: Locator) -> None:
        pressed.hover(force=True)
        page.wait_for_timeout(HOVER_MS)
        page.mouse.down()
        page.wait_for_timeout(DOWN_MS)
        page.mouse.up()
        page.wait_for_timeout(HOVER_MS)
        page.mouse.move(1, 1)

    def by_finger(pressed: Locator) -> None:
        pressed.scroll_into_view_if_needed()
        page.wait_for_timeout(HOVER_MS)
        box = pressed.bounding_box() or {"x": 0, "y": 0, "width": 0, "height": 0}
        finger("start", box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_timeout(DOWN_MS)
        finger("end", 0, 0)
        page.wait_for_timeout(HOVER_MS)

    finger = fingers(page)
    return by_mouse if pointer == "mouse" else by_finger


def clicked(page: Page, press: Press, key: str, words: str | None) -> tuple[float | None, float]:
    """Milliseconds from a click until all was painted, and until the server's answer stood in its place.

    None where the server was waited for.
    """
    pressed = choice_of(page, key, words)
    page.evaluate(RECORD, True)
    if key in LISTS:
        pressed.select_option(label=words)
    else:
        press(pressed)
    page.wait_for_timeout(100)
    rest(page)
    record = page.evaluate("(window.__record.on = false, window.__record)")
    before = record["before"]
    start = record["clicked"]

    def follows(shown: list[object]) -> bool:
        return shown[3] is True and all(now != then for now, then in zip(shown, before, strict=True))

    at_once = next((frame["at"] - start for frame in record["frames"] if follows(frame["shown"])), None)
    drawn = [frame["at"] - start for frame in record["frames"] if frame["shown"][3]]
    return at_once, max(drawn, default=record["frames"][-1]["at"] - start)


def on_empty_page(browser: Browser, pointer: str, rounds: int, slowed: int) -> float:
    """Milliseconds from a click until a word that it writes was painted."""
    page = browser.new_page(has_touch=pointer == "finger")
    press = presses(page, pointer)
    page.set_content(
        "<!doctype html><title>Empty</title><p>0</p>"
        "<button onclick='document.querySelector(\"p\").textContent++'>More</button>"
    )
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": slowed})
    times = []
    for _ in range(rounds):
        page.evaluate(RECORD, False)
        page.wait_for_timeout(100)
        press(page.get_by_role("button"))
        page.wait_for_timeout(100)
        record = page.evaluate("(window.__record.on = false, window.__record)")
        frames = record["frames"]
        changed = next(frame for frame in frames if frame["shown"] != record["before"])
        times.append(changed["at"] - record["clicked"])
    page.close()
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with ExitStack() as stack:
        url = stack.enter_context(serving(ROOT / "app.py", cwd=ROOT))
        browser = stack.enter_context(sync_playwright()).chromium.launch(
            executable_path=chromium_of_benchmarks(), args=list(FLAGS)
        )
        for (width, pointer), bar in BARS.items():
            slowed = 4 if width == 390 else 1
            page = opened(browser, url, width, touch=pointer == "finger")
            press = presses(page, pointer)
            page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": slowed})
            times: dict[str, list[tuple[float | None, float]]] = {key: [] for key in CONTROLS}
            for turn in range(rounds + 1):
                for key, choices in CONTROLS.items():
                    both = [None] if choices is None else choices
                    took = [clicked(page, press, key, words) for words in both]
                    times[key] += took if turn else []  # the first is a warm-up
            page.close()
            empty = on_empty_page(browser, pointer, rounds, slowed)
            print(f"{width} px, {pointer}, slowed {slowed} ×: empty page {empty:.0f} ms, bar {bar} ms")
            for key, took in times.items():
                known = [at_once for at_once, _ in took if at_once is not None]
                answer = statistics.median(answered for _, answered in took)
                median = statistics.median(known) if known else float("nan")
                print(
                    f"  {key:<10} {median:5.0f} ms, {median / empty:4.1f} × the empty page, in {len(known)} "
                    f"of {len(took)} clicks; the server's answer stands after {answer:.0f} ms"
                )


if __name__ == "__main__":
    main()
