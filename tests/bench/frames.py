"""Frames while a hand drags the range's upper end in the Lab, against an empty page in the same run.

    python -m tests.bench.frames [--seconds 3]

The mouse moves one pixel a frame, on 8×8 and on 32×32. Of each frame is kept what it showed: the handle's
value, the ruler's pixels, a pixel of the error's panel, and the mean squared error as text. A frame counts if
all of them show the value of that frame: text and pixel are compared with what the reference quantizer gives
for the handle's value, after the drag. Prints the rate of such frames over the frame rate of an empty page.

Then the same at 390 px with the processor slowed four times: the time from a pointer's event until the frame
with its value was painted, its 95th percentile.
"""

from typing import Any

from playwright.sync_api import Page

#: The least rate, as a share of an empty page's, and the longest time from the pointer to the paint.
BAR, PAINT_MS = 0.8, 50
LINKS = {
    "8×8": "/lab",
    "32×32": "/lab?v=1&t=normal(rows=32,cols=32)",
}

#: Keeps what each frame showed, read after it was painted.
_RECORD = """
() => {
  const record = (window.__frames = { frames: [], events: [], on: true });
  window.addEventListener("pointermove", (event) => {
    record.events.push({ x: event.clientX, at: event.timeStamp });
  }, { capture: true });
  const after = new MessageChannel();
  const handle = () => document.querySelector("[data-qv-handle=hi]");
  const panel = () => document.querySelector("canvas.qv-painting");
  after.port1.onmessage = () => {
    const painting = panel();
    const pixel = painting && window.__probe
      ? [...painting.getContext("2d").getImageData(window.__probe[0], window.__probe[1], 1, 1).data] : null;
    record.frames.push({
      at: performance.now(),
      events: record.events.length,
      value: handle()?.getAttribute("aria-valuenow") ?? null,
      place: handle()?.getBoundingClientRect().left ?? null,
      mse: document.querySelector("[data-qv-metric=mse]")?.textContent ?? null,
      drawn: Number(document.querySelector("canvas.qv-ruler")?.dataset.qvDrawn ?? -1),
      pixel,
    });
    if (record.on) requestAnimationFrame(next);
  };
  const next = () => after.port2.postMessage(0);
  requestAnimationFrame(next);
}
"""


def drag(page: Page, seconds: float, *, frames_of: int = 60) -> dict[str, Any]:
    """Return what was recorded while the upper end was dragged to the left and back, a pixel a frame."""
    box = page.locator("[data-qv-handle=hi]").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + min(box["height"] / 2, 20)
    page.mouse.move(x, y)
    page.mouse.down()
    page.evaluate(_RECORD)
    steps = round(seconds * frames_of)
    for i in range(steps):
        # There and back again, within what the ruler shows.
        page.mouse.move(x - 100 + abs(100 - i % 200), y)
        page.wait_for_timeout(0)
    recorded: dict[str, Any] = page.evaluate("(window.__frames.on = false, window.__frames)")
    page.mouse.up()
    return recorded
