"""Frames while a hand drags the range's upper end in the Lab, against an empty page in the same run.

    python -m tests.bench.frames [--seconds 3]

The mouse moves one pixel a frame, on 8×8 and on 32×32. After each frame was painted, what it shows is read:
the handle's value, the mean squared error as text, a pixel of the error's panel, and on the ruler a pixel of
the bracket, of a tooth and of the histogram. A frame counts if all of them show the value that the pointer
has come to: text and colour are compared with what the reference quantizer gives for it, after the drag.
Prints the rate of such frames over the frame rate of an empty page with the same moves.

Then the same on 8×8 at 390 px, where the error's panel is chosen, with the processor slowed four times: the
time from a pointer's event until a frame with its value was painted, its 95th percentile.
"""

import argparse
import math
import statistics
from contextlib import ExitStack
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

import quantviz as qv
from quantviz.figures.numbers import number
from quantviz.figures.theme import THEMES, rgb
from quantviz.lab.state import LabState, opening
from quantviz.sources import Normal
from tests.bench.servers import ROOT, serving
from tests.helpers.browser import FLAGS, IDLE, chromium_of_benchmarks

#: The least rate, as a share of an empty page's, and the longest time from the pointer to the paint.
BAR, PAINT_MS = 0.8, 50
#: The cell whose colour is read in the error's panel: one that an error changes in, whatever the range.
CELL = (0, 0)
#: How near a colour must be: the browser has more shades than the test works out.
NEAR = 6

#: Notes each move of the pointer, and what each frame shows, once it was painted.
_RECORD = """
([row, col, lab]) => {
  const record = (window.__record = { frames: [], moves: [], on: true });
  addEventListener("pointermove", (event) => {
    record.moves.push({ x: event.clientX, at: event.timeStamp });
  }, { capture: true });
  const hand = lab && window.__quantviz.hands.get("panels");
  if (hand) {
    const { lo, left, perValue } = hand.ruler.axis;
    const at = hand.ruler.root.getBoundingClientRect().left;
    record.axis = { lo, left: left + at, perValue, unit: 10 ** Math.floor(Math.log10(1 / perValue)) };
  }
  const pixel = (canvas, x, y) => {
    const sharp = window.devicePixelRatio;
    return [...canvas.getContext("2d").getImageData(Math.round(x * sharp), Math.round(y * sharp), 1, 1).data];
  };
  const shown = () => {
    const { ruler, painting, bridge } = hand;
    const { axis, bands, handles, picture } = ruler;
    const value = Number(ruler.elementOf("hi").getAttribute("aria-valuenow"));
    const { xaxis4, yaxis4, xaxis, yaxis } = bridge.gd._fullLayout;
    const single = bridge.meta.arrangement === "single";
    const [x, y] = single ? [xaxis, yaxis] : [xaxis4, yaxis4];
    const tooth = picture.levels[Math.floor(picture.levels.length * 0.75)];
    const { edges, counts } = picture.histogram;
    const fullest = counts.indexOf(Math.max(...counts));
    return {
      value,
      mse: document.querySelector("[data-qv-metric=mse]").textContent,
      error: painting.canvas.isConnected
        ? pixel(painting.canvas, x._offset + x.l2p(col - 0.5) + 2, y._offset + y.l2p(row + 0.5) - 2) : null,
      bracket: pixel(ruler.canvas, axis.inside(value), bands.tips - 4),
      tooth: pixel(ruler.canvas, axis.at(tooth), bands.line - 3),
      bars: pixel(ruler.canvas, axis.at((edges[fullest] + edges[fullest + 1]) / 2), bands.tips - 2),
      teeth: [...picture.levels],
    };
  };
  const painted = new MessageChannel();
  painted.port1.onmessage = () => {
    record.frames.push({ at: performance.now(), moves: record.moves.length, ...(hand ? shown() : {}) });
  };
  const next = () => {
    painted.port2.postMessage(0);
    if (record.on) requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
}
"""


def recorded(page: Page, start: tuple[float, float], seconds: float, *, lab: bool) -> dict[str, Any]:
    """Return what was noted while the mouse moved a pixel a frame to and fro; in the Lab it is down."""
    x, y = start
    page.mouse.move(x, y)
    if lab:
        page.mouse.down()
        page.mouse.move(x - 1, y)
        page.wait_for_timeout(300)
    page.evaluate(_RECORD, [*CELL, lab])
    begin = page.evaluate("performance.now()")
    step = 0
    # The clock is not asked each time, which would take a part of each frame.
    while step % 30 or page.evaluate("performance.now()") - begin < 1000 * seconds:
        step += 1
        # There and back again, over a hundred pixels.
        page.mouse.move(x - 1 - (100 - abs(100 - step % 200)), y)
    record: dict[str, Any] = page.evaluate("(window.__record.on = false, window.__record)")
    seconds = (record["frames"][-1]["at"] - record["frames"][0]["at"]) / 1000
    if lab:
        page.mouse.up()
    return {**record, "seconds": seconds, "grip": x}


def agrees(frame: dict[str, Any], record: dict[str, Any], state: LabState, cache: dict[float, Any]) -> bool:
    """Whether everything in a frame shows the value that the pointer has come to."""
    if not frame["moves"] or frame["error"] is None:
        return False
    axis, x = record["axis"], record["moves"][frame["moves"] - 1]["x"]
    moved = axis["lo"] + (x - record["offset"] - axis["left"]) / axis["perValue"]
    wanted = round(moved / axis["unit"]) * axis["unit"]
    if not math.isclose(frame["value"], wanted, abs_tol=0.51 * axis["unit"]):
        return False
    hi = frame["value"]
    if hi not in cache:
        scheme = state.scheme.replace(calibration=qv.ManualRange(-hi, hi))
        r = qv.quantize(state.source.tensor(), scheme)
        cache[hi] = number(qv.metrics(r)["mse"]), r.error[CELL].item(), float(r.qparams.scale)
    mse, error, scale = cache[hi]
    end = record["error_end"]
    shades = rgb(THEMES["light"].errors, 1025)
    colour = shades[min(max(round((error + end) / (2 * end) * 1024), 0), 1024)].tolist()
    comb = all(
        math.isclose(tooth / scale, round(tooth / scale), abs_tol=1e-3) for tooth in frame["teeth"][:4]
    )
    return (
        frame["mse"] == mse
        and all(abs(a - b) <= NEAR for a, b in zip(frame["error"], colour, strict=False))
        and frame["bracket"][3] > 0
        and frame["tooth"][3] > 0
        and frame["bars"][3] > 0
        and comb
    )


def opened(browser: Browser, url: str, state: LabState, width: int, height: int) -> Page:
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme="light")
    link = "&".join(f"{name}={value}" for name, value in {**state.written(), "lang": "en"}.items())
    page.goto(f"{url}/lab?{link}")
    page.wait_for_selector("[data-handle=hi]", timeout=120_000)
    page.wait_for_timeout(2500)
    page.wait_for_selector(IDLE)
    return page


def dragged(page: Page, seconds: float) -> dict[str, Any]:
    box = page.locator("[data-handle=hi]").bounding_box()
    assert box is not None
    start = box["x"] + box["width"] / 2, box["y"] + 12
    at = page.evaluate(
        "(() => { const { ruler } = window.__quantviz.hands.get('panels'); "
        "return ruler.axis.inside(Number(ruler.elementOf('hi').getAttribute('aria-valuenow')))"
        " + ruler.root.getBoundingClientRect().left })()"
    )
    end = page.evaluate("window.__quantviz.bridges.get('panels').cells.scales.error.hi")
    return {**recorded(page, start, seconds, lab=True), "offset": start[0] - at, "error_end": end}


def empty_rate(browser: Browser, seconds: float) -> float:
    page = browser.new_page(viewport={"width": 1366, "height": 625})
    page.set_content("<!doctype html><title>Empty</title><p>Nothing here")
    record = recorded(page, (700, 300), seconds, lab=False)
    page.close()
    return len(record["frames"]) / record["seconds"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=3)
    seconds = parser.parse_args().seconds
    states = {
        "8×8": opening(),
        "32×32": opening().with_source(Normal(32, 32)).with_scheme(qv.Scheme("int4")),
    }
    with ExitStack() as stack:
        url = stack.enter_context(serving(ROOT / "app.py", cwd=ROOT))
        browser = stack.enter_context(sync_playwright()).chromium.launch(
            executable_path=chromium_of_benchmarks(), args=list(FLAGS)
        )
        for name, state in states.items():
            page = opened(browser, url, state, 1366, 625)
            record = dragged(page, seconds)
            page.close()
            rate = empty_rate(browser, seconds)
            cache: dict[float, Any] = {}
            good = [frame for frame in record["frames"] if agrees(frame, record, state, cache)]
            held = record["seconds"]
            frames = len(record["frames"]) / held
            print(
                f"{name}: {len(good) / held:.1f} of {frames:.1f} frames a second show the pointer's "
                f"value in everything, empty page {rate:.1f}; "
                f"ratio {len(good) / held / rate:.2f}, bar {BAR}"
            )
        page = opened(browser, url, states["8×8"], 390, 664)
        # A phone shows one panel, and x̂ at first.
        page.locator("button[value=error]").click()
        page.wait_for_function("window.__quantviz.bridges.get('panels').panel === 'error'")
        slow = page.context.new_cdp_session(page)
        slow.send("Emulation.setCPUThrottlingRate", {"rate": 4})
        record = dragged(page, seconds)
        page.close()
        times = painted_after(record, states["8×8"])
        print(
            "390 px, processor slowed 4 ×: from the pointer to the paint median "
            f"{statistics.median(times):.0f} ms, 95 % within {statistics.quantiles(times, n=20)[-1]:.0f} ms; "
            f"bar {PAINT_MS}"
        )


def painted_after(record: dict[str, Any], state: LabState) -> list[float]:
    """Milliseconds from each move until the first frame that shows it or a later one in everything."""
    cache: dict[float, Any] = {}
    times = []
    good = [frame for frame in record["frames"] if agrees(frame, record, state, cache)]
    for i, move in enumerate(record["moves"]):
        shown = next((frame for frame in good if frame["moves"] > i), None)
        if shown:
            times.append(shown["at"] - move["at"])
    return times


if __name__ == "__main__":
    main()
