"""Frames while a hand drags a knob of a small layer, against an empty page in the same run.

    python -m tests.bench.layer_frames [--seconds 3]

The mouse moves the range of X one pixel a frame, on 4×4×4 and on 64×64×64. After each frame was painted,
what it shows is read: the output error as text, and a pixel of Y. A frame counts if both show the value that
the pointer has come to: they are compared with what the reference gives for it, after the drag. Prints the
rate of such frames over the frame rate of an empty page with the same moves.
"""

import argparse
import math
from contextlib import ExitStack
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from quantviz.figures.theme import THEMES, rgb
from quantviz.lab.layer_moves import moved_layer
from quantviz.lab.layer_sources import parse_layer
from quantviz.lab.layer_state import LayerState, Pair
from quantviz.layers.layer_result import layer
from quantviz.ui.layers.words import percent
from tests.bench.frames import BAR, NEAR, empty_rate
from tests.bench.servers import ROOT, serving
from tests.helpers.browser import FLAGS, IDLE, chromium_of_benchmarks

LAYERS = {
    "4×4×4": "builtin(name=loud_input)",
    "64×64×64": "layer(normal(rows=64,cols=64,seed=1),normal(rows=64,cols=64,seed=2))",
}
PAIR = Pair("int8_per_row", "int4_per_tensor")
#: The output whose pixel is read: a token, and an output.
CELL = (1, 2)
#: Notes each move of the pointer, and what each frame shows, once it was painted.
_RECORD = """
([token, output]) => {
  const hand = window.__quantviz.hands.get("layers_picture");
  const knob = hand.knobs.knobs.get("range");
  const track = knob.input.getBoundingClientRect();
  const record = (window.__record = { frames: [], moves: [], on: true });
  Object.assign(record, { least: knob.least, most: knob.most, unit: knob.unit, left: track.left + 10 });
  record.width = track.width - 20;
  addEventListener("pointermove", ({ clientX }) => record.moves.push(clientX), { capture: true });
  const { xaxis3, yaxis3 } = hand.picture.gd._fullLayout;
  const at = [xaxis3._offset + xaxis3.l2p(output - 0.5) + 2, yaxis3._offset + yaxis3.l2p(token + 0.5) - 2];
  const painted = new MessageChannel();
  painted.port1.onmessage = () =>
    record.frames.push({
      at: performance.now(),
      moves: record.moves.length,
      value: Number(knob.input.value),
      error: document.querySelector("[data-qv-layer=rel_out] b").textContent,
      pixel: [...hand.live.context.getImageData(Math.round(at[0]), Math.round(at[1]), 1, 1).data],
    });
  const next = () => {
    painted.port2.postMessage(0);
    if (record.on) requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
}
"""
_START = """
(() => {
  const knob = window.__quantviz.hands.get("layers_picture").knobs.knobs.get("range");
  const track = knob.input.getBoundingClientRect();
  const share = (knob.value - knob.least) / (knob.most - knob.least);
  return [track.left + 10 + share * (track.width - 20), track.top + track.height / 2];
})()
"""


def dragged(browser: Browser, url: str, state: LayerState, seconds: float) -> dict[str, Any]:
    """Return what was noted while the mouse moved the knob a pixel a frame to and fro."""
    page = browser.new_page(viewport={"width": 1366, "height": 625}, color_scheme="light")
    page.goto(f"{url}/layers?" + "&".join(f"{name}={value}" for name, value in state.written().items()))
    page.wait_for_selector(".qv-knob", timeout=120_000)
    page.wait_for_timeout(2500)
    page.wait_for_selector(IDLE)
    x, y = page.evaluate(_START)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 1, y)
    page.wait_for_timeout(300)
    page.evaluate(_RECORD, CELL)
    begin = page.evaluate("performance.now()")
    step = 0
    # The clock is not asked each time, which would take a part of each frame.
    while step % 30 or page.evaluate("performance.now()") - begin < 1000 * seconds:
        step += 1
        page.mouse.move(x - 1 - (60 - abs(60 - step % 120)), y)
    record: dict[str, Any] = page.evaluate("(window.__record.on = false, window.__record)")
    page.mouse.up()
    page.close()
    return record


def agrees(frame: dict[str, Any], record: dict[str, Any], state: LayerState, kept: dict[float, Any]) -> bool:
    """Whether the text and the colour in a frame are those of the value that the pointer has come to."""
    if not frame["moves"]:
        return False
    share = (record["moves"][frame["moves"] - 1] - record["left"]) / record["width"]
    wanted = record["least"] + share * (record["most"] - record["least"])
    # The browser moves its own slider, in steps.
    if not math.isclose(frame["value"], wanted, abs_tol=2 * (record["most"] - record["least"]) / 100):
        return False
    hi = round(frame["value"] / record["unit"]) * record["unit"]
    hi = float(f"{hi:.12g}")
    if hi not in kept:
        moved = moved_layer(state, {"kind": "range", "lo": -hi, "hi": hi, "channel": 0})
        opened = moved.source.open()
        result = layer(opened.weight, opened.inputs, *moved.pair.schemes())
        error = float(result.cells().error[CELL])
        end = state.held[2] if state.held else 1.0
        shade = rgb(THEMES["light"].errors, 1025)[min(max(round((error / end + 1) * 512), 0), 1024)].tolist()
        kept[hi] = percent(result.rel_out.held_back), shade
    text, shade = kept[hi]
    return frame["error"] == text and all(
        abs(a - b) <= NEAR for a, b in zip(frame["pixel"], shade, strict=False)
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=3)
    seconds = parser.parse_args().seconds
    with ExitStack() as stack:
        url = stack.enter_context(serving(ROOT / "app.py", cwd=ROOT))
        browser = stack.enter_context(sync_playwright()).chromium.launch(
            executable_path=chromium_of_benchmarks(), args=list(FLAGS)
        )
        for name, form in LAYERS.items():
            state = LayerState(parse_layer(form), PAIR, cell=CELL, held=(1.0, 1.0, 2.0))
            record = dragged(browser, url, state, seconds)
            rate = empty_rate(browser, seconds)
            kept: dict[float, Any] = {}
            frames = record["frames"]
            held = (frames[-1]["at"] - frames[0]["at"]) / 1000
            good = sum(agrees(frame, record, state, kept) for frame in frames) / held
            print(
                f"{name}: {good:.1f} of {len(frames) / held:.1f} frames a second show the pointer's value, "
                f"empty page {rate:.1f}; ratio {good / rate:.2f}, bar {BAR}"
            )


if __name__ == "__main__":
    main()
