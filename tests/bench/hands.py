"""Benchmarks of a person's hand, frame by frame: `python -m tests.bench.hands CASE`."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from playwright.sync_api import Browser, Locator, Page

import quantviz as qv
from quantviz.figures.numbers import number
from quantviz.figures.theme import THEMES, rgb
from quantviz.lab.layer_moves import moved_layer
from quantviz.lab.layer_sources import parse_layer
from quantviz.lab.layer_state import LayerState, SchemePair
from quantviz.lab.state import LabState, opening
from quantviz.layers.layer_result import layer
from quantviz.sources import Normal
from quantviz.ui.layers.words import percent
from tests.bench.runner import case, head, judged, main, row
from tests.bench.servers import LAPTOP, PHONE, chromium, link, new_page, serving, slow
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
LAB_CELL, LAYER_CELL, NEAR = (0, 0), (1, 2), 6
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
LOOK_AT_LAYER = f"""(() => {{ {PIXEL}
  const hand = window.__quantviz.hands.get("layers_picture");
  const {{ xaxis3: x, yaxis3: y }} = hand.picture.gd._fullLayout;
  const [token, output] = {list(LAYER_CELL)};
  const at = [x._offset + x.l2p(output - 0.5) + 2, y._offset + y.l2p(token + 0.5) - 2];
  return () => ({{
    value: Number(hand.knobs.knobs.get("weight").input.value),
    error: document.querySelector("[data-qv-layer=rel_out] b").textContent,
    pixel: pixel(hand.live.context.canvas, at[0] / devicePixelRatio, at[1] / devicePixelRatio),
  }});
}})()"""
LAB_AXIS = """(() => {
  const { ruler } = window.__quantviz.hands.get("panels");
  const { lo, left, perValue } = ruler.axis;
  const at = ruler.root.getBoundingClientRect().left;
  return { lo, left: left + at, perValue, unit: 10 ** Math.floor(Math.log10(1 / perValue)),
    end: window.__quantviz.bridges.get("panels").cells.scales.error.hi,
    inside: ruler.axis.inside(Number(ruler.elementOf("hi").getAttribute("aria-valuenow"))) + at };
})()"""
LAYER_KNOB = """(() => {
  const { knobs, data } = window.__quantviz.hands.get("layers_picture");
  const knob = knobs.knobs.get("weight");
  const track = knob.input.getBoundingClientRect();
  const { least, most, unit, value } = knob;
  return { least, most, unit, output: data.cell[1], channel: data.cell[2], left: track.left + 10,
    width: track.width - 20, top: track.top + track.height / 2, share: (value - least) / (most - least) };
})()"""


def recorded(page: Page, look: str, act: Callable[[], object]) -> dict[str, Any]:
    """Return what was noted while a hand did something."""
    page.evaluate(f"({RECORD})({look})")
    page.wait_for_timeout(100)
    act()
    return dict(page.evaluate("(window.record.on = false, window.record)"))


def dragged(
    page: Page, look: str, start: tuple[float, float], seconds: float, way: int = 100
) -> dict[str, Any]:
    """Return what was noted while the mouse was down and moved a pixel a frame, to and fro by `way`."""
    x, y = start
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 1, y)
    page.wait_for_timeout(300)

    def move() -> None:
        begin = page.evaluate("performance.now()")
        # The clock is not asked each time, which would take a part of each frame.
        for step in itertools.count(1):
            page.mouse.move(x - 1 - (way - abs(way - step % (2 * way))), y)
            if step % 30 == 0 and page.evaluate("performance.now()") - begin > 1000 * seconds:
                return

    record = recorded(page, look, move)
    page.mouse.up()
    frames = record["frames"]
    record["moves"] = [each for each in record["events"] if each["kind"] == "pointermove"]
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


def drag_of_layer(browser: Browser, app: str, state: LayerState, seconds: float) -> float:
    """Return the rate of frames in which picture and number show the pointer's value."""
    page = new_page(browser)
    page.goto(f"{app}/layers?{link(**state.written())}")
    page.wait_for_selector(".qv-knob", timeout=120_000)
    page.wait_for_timeout(2500)
    page.wait_for_selector(IDLE)
    knob = page.evaluate(LAYER_KNOB)
    start = knob["left"] + knob["share"] * knob["width"], knob["top"]
    record, wide = dragged(page, LOOK_AT_LAYER, start, seconds, 60), knob["most"] - knob["least"]
    page.close()

    @cache
    def wanted(value: float) -> tuple[str, list[int]]:
        place = {name: knob[name] for name in ("output", "channel")}
        moved = moved_layer(state, {"kind": "weight", "value": value, **place})
        opened = moved.source.open()
        result = layer(opened.weight, opened.inputs, *moved.pair.schemes())
        end = state.held[2] if state.held else 1.0
        return percent(result.rel_out.held_back), shade(float(result.cells().error[LAYER_CELL]), end)

    def agrees(frame: dict[str, Any]) -> bool:
        places = [each["x"] for each in record["events"][: frame["events"]] if each["x"] is not None]
        if not places:
            return False
        x, value = places[-1], frame["shown"]["value"]
        # The browser moves its own slider, in steps.
        if not math.isclose(
            value, knob["least"] + (x - knob["left"]) / knob["width"] * wide, abs_tol=wide / 50
        ):
            return False
        text, colour = wanted(float(f"{round(value / knob['unit']) * knob['unit']:.12g}"))
        return frame["shown"]["error"] == text and alike(frame["shown"]["pixel"], colour)

    return sum(map(agrees, record["frames"])) / len(record["frames"]) * record["rate"]


def empty_rate(browser: Browser, seconds: float) -> float:
    """Return the frames a second of an empty page with the same moves."""
    page = new_page(browser)
    page.set_content("<!doctype html><title>Empty</title><p>Nothing here")
    rate = dragged(page, NOTHING, (700, 300), seconds)["rate"]
    page.close()
    return float(rate)


@case
def frames(seconds: float = 3.0) -> None:
    """Frames while a hand drags the range in the Lab, and a weight of a layer, in which everything shows the
    pointer's value, against an empty page's frames (bar 0.8).

    In the Lab the handle's value, the mean squared error as text, a pixel of the error's panel, the teeth,
    and on the ruler a pixel of the bracket, of a tooth and of the histogram; of a layer the output error as
    text and a pixel of Y. They are compared with what the reference gives. Then on 8×8 at 390 px with the
    processor slowed four times the time from a pointer's event until a frame with its value was painted (50
    ms, 95 %).
    """
    wide = opening().with_source(Normal(32, 32)).with_scheme(qv.Scheme("int4"))
    random = "layer(normal(rows=64,cols=64,seed=1),normal(rows=64,cols=64,seed=2))"
    pair = SchemePair("int8_per_row", "int4_per_tensor")
    with serving() as app, chromium() as browser:
        head("what is dragged", "frames a second", "of them right", "empty page", "ratio")
        for name, state in {"the Lab, 8×8": opening(), "the Lab, 32×32": wide}.items():
            page = lab_page(browser, app, state, LAPTOP)
            record, good = drag_in_lab(page, state, seconds)
            page.close()
            rate, empty = record["rate"] * len(good) / len(record["frames"]), empty_rate(browser, seconds)
            cells = (f"{each:.1f}" for each in (record["rate"], rate, empty))
            row(name, *cells, judged(rate / empty, 0.8, least=True))
        for name, form in {"4×4×4": "builtin(name=loud_input)", "64×64×64": random}.items():
            held = (1.0, 1.0, 2.0)
            state = LayerState(parse_layer(form), pair, cell=LAYER_CELL, shown="error", held=held)
            rate, empty = drag_of_layer(browser, app, state, seconds), empty_rate(browser, seconds)
            row(f"a layer, {name}", "", f"{rate:.1f}", f"{empty:.1f}", judged(rate / empty, 0.8, least=True))
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
    with serving() as app, chromium() as browser:
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


if __name__ == "__main__":
    main()
